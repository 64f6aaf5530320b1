//! Ordered maps: nodes, whose items are found by an order of their slots.

use super::{Budget, Step, entry, nothing};
use crate::heap::check::rule::{Pointer, Tree, array, number, pointer, pointer_at};
use crate::heap::inspect::part::{Part, in_slot, strange};
use crate::layout::TypeLayout;
use crate::layout::desc::Prim;

/// No tree is higher.
const MAX_HEIGHT: usize = 16;

#[derive(Clone)]
pub(super) struct TreeWalk<'v> {
    leaf: Node<'v>,
    inner: Node<'v>,
    to_leaf: u32,
    to_inner: u32,
    /// Nodes on the way, and the place of the next item of each.
    frames: Vec<(Part<'v>, Kind, u64)>,
    budget: Budget,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Leaf,
    Inner,
}

/// How a kind of nodes is laid out.
#[derive(Clone, Copy)]
struct Node<'v> {
    len: u64,
    order: u64,
    count: u64,
    slots: u64,
    slot: &'v TypeLayout,
    /// In inner nodes: where the pointers to leaves begin, and where in a slot the one to an inner node is.
    branch: Option<(u64, u64)>,
}

impl<'v> TreeWalk<'v> {
    pub(super) fn new(tree: &Tree, map: Part<'v>) -> Result<TreeWalk<'v>, String> {
        let child = &tree.child;
        let layout = |to| map.layout(to).and_then(Node::of).ok_or_else(strange);
        let (to_leaf, to_inner) = (child.leaf.1.to, child.inner.1.to);
        let (leaf, inner) = (layout(to_leaf)?, layout(to_inner)?);
        let budget = Budget::of(map);
        let mut walk = TreeWalk { leaf, inner, to_leaf, to_inner, frames: Vec::new(), budget };
        let tag = map.tag(tree.top, child.tag);
        if tag == child.leaf.0 {
            walk.enter(map.at(tree.top), child.leaf.1, Kind::Leaf)?;
        } else if tag == child.inner.0 {
            walk.enter(map.at(tree.top), child.inner.1, Kind::Inner)?;
        } else if tag != child.none {
            return Err(nothing());
        }
        Ok(walk)
    }

    /// Goes to the node that a pointer leads to.
    fn enter(&mut self, part: Part<'v>, pointer: Pointer, kind: Kind) -> Result<(), String> {
        if self.frames.len() > MAX_HEIGHT {
            return Err(format!("is higher than {MAX_HEIGHT} nodes"));
        }
        self.budget.spend()?;
        let node = part.follow(pointer)?.ok_or_else(nothing)?;
        let layout = if kind == Kind::Leaf { &self.leaf } else { &self.inner };
        let (len, count) = (node.word(layout.len), layout.count);
        if len > count {
            return Err(format!("has a node of {len} items, with room for {count}"));
        }
        self.frames.push((node, kind, 0));
        Ok(())
    }

    pub(super) fn step(&mut self) -> Step<'v> {
        while let Some((node, kind, next)) = self.frames.last_mut() {
            let layout = if *kind == Kind::Leaf { &self.leaf } else { &self.inner };
            if *next >= node.word(layout.len) {
                self.frames.pop();
                continue;
            }
            let slot = node.number(layout.order + *next, 1);
            *next += 1;
            if slot >= layout.count {
                return Err("has a node whose order is not one of its slots".to_owned());
            }
            let (node, at) = (*node, layout.slots + slot * layout.slot.size);
            let Some((leaves, inner)) = layout.branch.filter(|_| *kind == Kind::Inner) else {
                return entry(node.at(at).is(in_slot(layout.slot))).map(Some);
            };
            let leaf = leaves + 8 * slot;
            if node.word(leaf) != 0 {
                self.enter(node, Pointer { at: leaf, to: self.to_leaf }, Kind::Leaf)?;
            } else {
                self.enter(node, Pointer { at: at + inner, to: self.to_inner }, Kind::Inner)?;
            }
        }
        Ok(None)
    }
}

impl<'v> Node<'v> {
    fn of(ty: &'v TypeLayout) -> Option<Node<'v>> {
        let (slots, slot, count) = array(ty, &["slots"])?;
        let (order, number_of_slot, in_order) = array(ty, &["head", "order", "slots"])?;
        let branch = || {
            let (leaves, leaf, near) = array(ty, &["near"])?;
            pointer_at(0, leaf).filter(|_| near == count)?;
            Some((leaves, pointer(in_slot(slot), &["inner"])?.at))
        };
        let len = number(ty, &["head", "order", "len"], Prim::U64)?;
        let node = Node { len, order, count, slots, slot, branch: branch() };
        (in_order == count && number_of_slot.size == 1).then_some(node)
    }
}
