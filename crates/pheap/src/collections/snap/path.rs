//! The way from the top of a tree to an entry.

use super::frozen::Frozen;
use super::node::{Child, Inner, Leaf, MAX_HEIGHT};
use crate::api::view::View;
use crate::collections::common::copied;
use crate::layout::Persist;
use crate::ptr::P;

/// An inner node on the way to a leaf, and the place of the next child on the way.
pub(super) type SnapPathStep<'r, K, V> = (P<'r, Inner<'r, K, V>>, usize);

/// The inner nodes above a leaf, from the top down.
pub(super) struct SnapPath<'r, K, V> {
    steps: [Option<SnapPathStep<'r, K, V>>; MAX_HEIGHT],
    len: usize,
}

copied! { [K, V] SnapPath<'_, K, V>; }

impl<'r, K: Persist, V: Persist> SnapPath<'r, K, V> {
    #[inline]
    pub(super) fn new() -> Self {
        SnapPath { steps: [None; MAX_HEIGHT], len: 0 }
    }

    #[inline]
    fn push(&mut self, step: SnapPathStep<'r, K, V>) {
        self.steps[self.len] = Some(step);
        self.len += 1;
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<SnapPathStep<'r, K, V>> {
        self.len = self.len.checked_sub(1)?;
        self.steps[self.len]
    }

    fn steps(&self) -> impl Iterator<Item = SnapPathStep<'r, K, V>> + '_ {
        self.steps[..self.len].iter().flatten().copied()
    }

    /// Whether the path leads to the last leaf of the tree.
    pub(super) fn is_last(&self, view: &View<'r>) -> bool {
        self.steps().all(|(inner, place)| place + 1 == view[inner].len())
    }

    /// Goes down from a child to a leaf, adds the inner nodes on the way to the path, and returns the leaf.
    /// `choose` returns the place of the next child in each inner node. Returns `None` in an empty tree.
    #[inline]
    pub(super) fn descend(
        &mut self,
        view: &View<'r>,
        mut child: Child<'r, K, V>,
        mut choose: impl FnMut(&Inner<'r, K, V>) -> usize,
    ) -> Option<P<'r, Leaf<K, V>>> {
        loop {
            match child {
                Child::None(_) => return None,
                Child::Leaf(leaf) => return Some(leaf),
                // A valid tree is not that high.
                Child::Inner(_) if self.len == MAX_HEIGHT => return None,
                Child::Inner(inner) => {
                    let node = &view[inner];
                    let place = choose(node);
                    self.push((inner, place));
                    child = node.items()[place];
                }
            }
        }
    }
}

/// A position between two entries: before an entry of a leaf, or after all entries.
pub(super) struct SnapPosition<'r, K, V> {
    path: SnapPath<'r, K, V>,
    /// The leaf with the entry; `None` for the position after all entries.
    pub(super) leaf: Option<P<'r, Leaf<K, V>>>,
    pub(super) place: usize,
}

copied! { [K, V] SnapPosition<'_, K, V>; }

impl<'r, K: Persist, V: Persist> SnapPosition<'r, K, V> {
    pub(super) fn behind_all() -> Self {
        SnapPosition { path: SnapPath::new(), leaf: None, place: 0 }
    }

    /// Returns the position before the first entry below a child, or, if `last`, before the last one.
    fn at_end_of(view: &View<'r>, mut path: SnapPath<'r, K, V>, child: Child<'r, K, V>, last: bool) -> Self {
        let leaf = path.descend(view, child, |node| if last { node.len() - 1 } else { 0 });
        let place = leaf.filter(|_| last).map_or(0, |leaf| view[leaf].len() - 1);
        SnapPosition { path, leaf, place }
    }

    /// Returns the position before the first entry of a tree, or, if `last`, before the last one.
    pub(super) fn at_end(view: &View<'r>, top: Child<'r, K, V>, last: bool) -> Self {
        SnapPosition::at_end_of(view, SnapPath::new(), top, last)
    }

    /// Returns the position before the first entry that is not less than a key, or, if `greater`, before the
    /// first one that is greater.
    pub(super) fn seek_from(view: &View<'r>, top: Child<'r, K, V>, key: &K::Shown, greater: bool) -> Self
    where
        K: Frozen<'r, Shown: Ord>,
    {
        let mut path = SnapPath::new();
        let Some(leaf) = path.descend(view, top, |node| node.child_for(view, key)) else {
            return SnapPosition::behind_all();
        };
        let node = &view[leaf];
        let place = match node.search_key(view, key) {
            Ok(place) => place + usize::from(greater),
            Err(place) => place,
        };
        let at = SnapPosition { path, leaf: Some(leaf), place };
        if place < node.len() { at } else { at.neighbour(view, false) }
    }

    /// Returns the position before the first entry of the next leaf, or, if `back`, before the last entry of
    /// the previous leaf. If there is no such leaf, returns the position after all entries of the tree.
    #[inline(never)]
    fn neighbour(&self, view: &View<'r>, back: bool) -> Self {
        let mut path = self.path;
        while let Some((inner, place)) = path.pop() {
            let node = &view[inner];
            let place = if back { place.wrapping_sub(1) } else { place + 1 };
            if let Some(&child) = node.items().get(place) {
                path.push((inner, place));
                return SnapPosition::at_end_of(view, path, child, back);
            }
        }
        SnapPosition::behind_all()
    }

    /// Moves the position past the entry after it, which must exist. `len` is the number of entries in the
    /// leaf of that entry.
    #[inline(always)]
    pub(super) fn next(&mut self, view: &View<'r>, len: usize) {
        self.place += 1;
        if self.place >= len {
            *self = self.neighbour(view, false);
        }
    }

    /// Moves the position back by one entry.
    #[inline(always)]
    pub(super) fn previous(&mut self, view: &View<'r>, top: Child<'r, K, V>) {
        if self.leaf.is_none() {
            *self = SnapPosition::at_end(view, top, true);
        } else if self.place > 0 {
            self.place -= 1;
        } else {
            *self = self.neighbour(view, true);
        }
    }

    /// Whether both positions are the same.
    #[inline(always)]
    pub(super) fn is_same_position(&self, other: &Self) -> bool {
        self.place == other.place && self.leaf == other.leaf
    }

    /// Whether this position is before the other one.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        let places =
            |at: &Self| at.path.steps().map(|(_, place)| place).chain([at.place]).collect::<Vec<_>>();
        match (self.leaf, other.leaf) {
            (Some(_), None) => true,
            (None, _) => false,
            _ => places(self) < places(other),
        }
    }
}
