//! Iterates over items in order, or backwards, from a rank on.

use pheap::{P, PVec, View};

use super::branch::{self, Node};
use super::leaf::Leaf;
use super::{Item, LeafPath, Order, Top};

/// An iterator over items in order, or backwards.
pub struct Items<'v, 'r> {
    view: &'v View<'r>,
    way: LeafPath<'r>,
    run: Source<'v, 'r>,
    at: usize,
    remaining: usize,
    is_reverse: bool,
}

/// The vector or the leaf that has the next item.
#[derive(Clone, Copy)]
enum Source<'v, 'r> {
    Few(P<'r, PVec<'r, Item<'r>>>),
    Leaf(&'v Leaf<'r>),
}

impl<'r> Source<'_, 'r> {
    fn len(self, view: &View<'r>) -> usize {
        match self {
            Source::Few(items) => view[items].len(),
            Source::Leaf(leaf) => leaf.len(),
        }
    }

    fn get(self, view: &View<'r>, at: usize) -> Option<Item<'r>> {
        match self {
            Source::Few(items) => items.get(view, at).copied(),
            Source::Leaf(leaf) => leaf.get(at),
        }
    }
}

impl<'r> Order<'r> {
    /// Returns at most `count` items from `rank` on, which counts from 0. If `is_reverse`, the iterator goes
    /// backwards from that rank. Returns none if no item has that rank.
    pub(in crate::data) fn iter<'v>(
        &self,
        view: &'v View<'r>,
        rank: usize,
        count: usize,
        is_reverse: bool,
    ) -> Items<'v, 'r> {
        let (mut rest, mut way) = (rank, LeafPath::new());
        let run = match self.root {
            Top::Few(items) => Source::Few(items),
            Top::Many(mut branch) => loop {
                let counts = branch::counts(view, branch);
                let mut at = 0;
                // If the rank is too high, the search ends in the last leaf.
                while at + 1 < counts.len() && rest >= counts[at] as usize {
                    rest -= counts[at] as usize;
                    at += 1;
                }
                way.push((branch, at));
                match branch::node(view, branch, at).expect("a branch has children") {
                    Node::Leaf(leaf) => break Source::Leaf(&view[leaf]),
                    Node::Branch(below) => branch = below,
                }
            },
        };
        let remaining = if rest < run.len(view) { count } else { 0 };
        Items { view, way, run, at: rest, remaining, is_reverse }
    }
}

impl Items<'_, '_> {
    /// Moves to the next leaf in the direction of the iteration. Returns whether there is one.
    fn turn_over(&mut self) -> bool {
        let Self { view, way, is_reverse, .. } = self;
        let step = |at: usize| if *is_reverse { at.wrapping_sub(1) } else { at + 1 };
        let mut node = loop {
            let Some((branch, at)) = way.pop() else { return false };
            if let Some(node) = branch::node(view, branch, step(at)) {
                way.push((branch, step(at)));
                break node;
            }
        };
        loop {
            match node {
                Node::Leaf(leaf) => {
                    self.run = Source::Leaf(&view[leaf]);
                    self.at = if *is_reverse { view[leaf].len().wrapping_sub(1) } else { 0 };
                    return true;
                }
                Node::Branch(branch) => {
                    let at = if *is_reverse { branch::len(view, branch) - 1 } else { 0 };
                    way.push((branch, at));
                    node = branch::node(view, branch, at).expect("a branch has children");
                }
            }
        }
    }
}

impl<'r> Iterator for Items<'_, 'r> {
    type Item = Item<'r>;

    fn next(&mut self) -> Option<Item<'r>> {
        if self.remaining == 0 {
            return None;
        }
        loop {
            if let Some(item) = self.run.get(self.view, self.at) {
                self.remaining -= 1;
                self.at = if self.is_reverse { self.at.wrapping_sub(1) } else { self.at + 1 };
                return Some(item);
            }
            if !self.turn_over() {
                self.remaining = 0;
                return None;
            }
        }
    }
}
