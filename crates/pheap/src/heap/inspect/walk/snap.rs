//! Maps with versions: nodes, whose items are sorted.

use super::{Budget, Step, nothing};
use crate::heap::check::rule::{Tree, TreeChild, array, number};
use crate::heap::inspect::part::{Part, strange};
use crate::layout::TypeLayout;
use crate::layout::desc::Prim;

/// No tree is higher.
const MAX_HEIGHT: usize = 24;

#[derive(Clone)]
pub(super) struct SnapWalk<'v> {
    child: TreeChild,
    /// Nodes on the way, and the place of the next item of each.
    frames: Vec<(Part<'v>, Node<'v>, u64)>,
    budget: Budget,
}

/// How a kind of nodes is laid out.
#[derive(Clone, Copy)]
struct Node<'v> {
    len: u64,
    keys: (u64, &'v TypeLayout),
    items: (u64, &'v TypeLayout),
    count: u64,
    is_leaf: bool,
}

impl<'v> SnapWalk<'v> {
    pub(super) fn new(tree: &Tree, map: Part<'v>) -> Result<SnapWalk<'v>, String> {
        let mut walk = SnapWalk { child: tree.child, frames: Vec::new(), budget: Budget::of(map) };
        if map.tag(tree.top, tree.child.tag) != tree.child.none {
            walk.enter(map.at(tree.top))?;
        }
        Ok(walk)
    }

    /// Goes to the node that a child leads to.
    fn enter(&mut self, child: Part<'v>) -> Result<(), String> {
        if self.frames.len() > MAX_HEIGHT {
            return Err(format!("is higher than {MAX_HEIGHT} nodes"));
        }
        self.budget.spend()?;
        let tag = child.tag(0, self.child.tag);
        let kind = [self.child.leaf, self.child.inner].into_iter().find(|kind| kind.0 == tag);
        let (_, pointer) = kind.ok_or_else(nothing)?;
        let is_leaf = tag == self.child.leaf.0;
        let layout = child.layout(pointer.to).and_then(|ty| Node::of(ty, is_leaf)).ok_or_else(strange)?;
        let node = child.follow(pointer)?.ok_or_else(nothing)?;
        let (len, count) = (node.word(layout.len), layout.count);
        if len == 0 || len > count {
            return Err(format!("has a node of {len} items, with room for {count}"));
        }
        self.frames.push((node, layout, 0));
        Ok(())
    }

    pub(super) fn step(&mut self) -> Step<'v> {
        while let Some((node, layout, next)) = self.frames.last_mut() {
            if *next >= node.word(layout.len) {
                self.frames.pop();
                continue;
            }
            let (i, node, layout) = (*next, *node, *layout);
            *next += 1;
            let spot = |(first, ty): (u64, &'v TypeLayout)| node.at(first + i * ty.size).is(ty);
            if layout.is_leaf {
                return Ok(Some((spot(layout.keys), spot(layout.items))));
            }
            self.enter(spot(layout.items).part)?;
        }
        Ok(None)
    }
}

impl<'v> Node<'v> {
    fn of(ty: &'v TypeLayout, is_leaf: bool) -> Option<Node<'v>> {
        let (keys, key, count) = array(ty, &["keys"])?;
        let (items, item, as_many) = array(ty, &["items"])?;
        let len = number(ty, &["len"], Prim::U64)?;
        (count == as_many).then_some(Node { len, keys: (keys, key), items: (items, item), count, is_leaf })
    }
}
