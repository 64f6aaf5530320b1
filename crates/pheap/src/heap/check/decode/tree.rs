//! Decodes ordered maps, with and without versions. Nodes of maps with versions have their keys and items in
//! order; nodes of maps without versions list their slots in order.

use super::part::{ObjectPart, SlotRun};
use super::{DecodedNode, NodeKind, SlotOrder, nothing};
use crate::heap::check::rule::{PointerRule, Tree, TreeChild, field, number, pointer, pointer_at};
use crate::layout::desc::Prim;
use crate::layout::{Shape, TypeLayout};

#[derive(Clone)]
pub(super) struct TreeWalk<'v> {
    child: TreeChild,
    leaf: TreeNodeLayout<'v>,
    inner: TreeNodeLayout<'v>,
    max_height: usize,
    /// The reference to the first node; `None` once that node was visited, and for an empty map.
    top: Option<ObjectPart<'v>>,
    /// The inner nodes on the path to the place that the walk has reached, and the place of each node's next
    /// item.
    frames: Vec<(DecodedNode<'v>, u64)>,
    /// The number of inner nodes above each leaf, once a leaf was visited.
    height: Option<usize>,
}

/// The layout of a map's leaves, or of its inner nodes.
#[derive(Clone, Copy)]
struct TreeNodeLayout<'v> {
    len: u64,
    /// Offset of the list of slot numbers; `None` if the slots are in order themselves.
    order: Option<u64>,
    slots: SlotRun<'v>,
    /// The second array of the node, with an element for each slot.
    beside: SlotRun<'v>,
    /// In an inner node with a list of slots: the offsets of a branch's separator, and of its pointer to an
    /// inner node. (Pointers to leaves are in `beside`.)
    branch: Option<(u64, PointerRule)>,
}

impl<'v> TreeNodeLayout<'v> {
    fn from_layout(ty: &'v TypeLayout, is_inner: bool) -> Option<TreeNodeLayout<'v>> {
        let layout = if let Some(slots) = SlotRun::from_field(ty, &["keys"]) {
            let (len, beside) = (number(ty, &["len"], Prim::U64)?, SlotRun::from_field(ty, &["items"])?);
            TreeNodeLayout { len, order: None, slots, beside, branch: None }
        } else {
            let (slots, beside) = (SlotRun::from_field(ty, &["slots"])?, SlotRun::from_field(ty, &["near"])?);
            let order = SlotRun::from_field(ty, &["head", "order", "slots"])?;
            if order.count != slots.count || slots.count > 256 || order.ty.size != 1 {
                return None;
            }
            let branch = if is_inner {
                pointer_at(0, beside.ty)?;
                let Shape::Slot(item) = &slots.ty.shape else { return None };
                Some((field(item, &["separator"])?.0, pointer(item, &["inner"])?))
            } else {
                None
            };
            let len = number(ty, &["head", "order", "len"], Prim::U64)?;
            TreeNodeLayout { len, order: Some(order.first), slots, beside, branch }
        };
        (layout.slots.count == layout.beside.count).then_some(layout)
    }

    fn node(&self, part: ObjectPart<'v>, is_inner: bool) -> Result<DecodedNode<'v>, String> {
        let TreeNodeLayout { slots, beside, .. } = *self;
        let (len, count) = (part.read_word(self.len), slots.count);
        // In a map without versions, a panic may have left an empty leaf.
        if len > count || (len == 0 && (is_inner || self.order.is_none())) {
            return Err(format!("has a node of {len} items, with room for {count}"));
        }
        let (kind, order) = match self.order {
            None => {
                (if is_inner { NodeKind::Keys } else { NodeKind::Values }, SlotOrder::Ring { head: 0, len })
            }
            Some(at) => {
                let mut seen = [false; 256];
                for slot in part.bytes(at, count) {
                    let is_again = std::mem::replace(&mut seen[usize::from(*slot)], true);
                    if is_again || u64::from(*slot) >= count {
                        return Err("has a node whose order is not one of its slots".to_owned());
                    }
                }
                let kind =
                    self.branch.map_or(NodeKind::Values, |(separator, _)| NodeKind::Separators(separator));
                (kind, SlotOrder::List { at, len })
            }
        };
        let values = (kind == NodeKind::Values && self.order.is_none()).then_some(beside);
        if kind == NodeKind::Keys {
            let child = |place| part.bytes(beside.offset(place), beside.ty.size);
            if (len..count).any(|place| child(place) != child(len - 1)) {
                return Err("has a node with something behind its children".to_owned());
            }
        }
        Ok(DecodedNode { part, kind, slots, values, order })
    }
}

impl<'v> TreeWalk<'v> {
    pub(super) fn new(tree: &Tree, map: ObjectPart<'v>) -> Option<TreeWalk<'v>> {
        let (child, top) = (tree.child, map.offset_by(tree.top));
        let leaf = TreeNodeLayout::from_layout(map.layout(child.leaf.1.to)?, false)?;
        let inner = TreeNodeLayout::from_layout(map.layout(child.inner.1.to)?, true)?;
        // In the map of a heap, pointers name equal types by equal numbers, so the two layouts can be
        // compared. The types of a view need no check.
        let is_heap = map.ground.map().is_some();
        if is_heap && inner.branch.is_none() && TreeChild::from_layout(inner.beside.ty)? != child {
            return None;
        }
        Some(TreeWalk {
            child,
            leaf,
            inner,
            max_height: tree.max_height,
            top: (top.integer(0, child.tag) != child.none).then_some(top),
            frames: Vec::new(),
            height: None,
        })
    }

    pub(super) fn next(&mut self) -> Result<Option<DecodedNode<'v>>, String> {
        if let Some(top) = self.top.take() {
            return self.enter_child(top).map(Some);
        }
        while let Some((node, next)) = self.frames.last_mut() {
            let (node, place) = (*node, *next);
            *next += 1;
            let TreeNodeLayout { slots, beside, branch, .. } = self.inner;
            if place == slots.count {
                self.frames.pop();
                continue;
            }
            let (slot, is_child) = node.slot_at_place(place);
            let beside = node.part.offset_by(beside.offset(slot));
            let Some((_, inner)) = branch else {
                if is_child {
                    return self.enter_child(beside).map(Some);
                }
                continue;
            };
            let item = node.part.offset_by(slots.offset(slot));
            match (is_child, beside.read_word(0), item.read_word(inner.at)) {
                (true, _, 0) => {
                    return self.descend(beside, PointerRule { at: 0, ..self.child.leaf.1 }, false).map(Some);
                }
                (true, 0, _) => {
                    return self
                        .descend(item, PointerRule { at: inner.at, ..self.child.inner.1 }, true)
                        .map(Some);
                }
                (false, 0, 0) => {}
                _ => {
                    return Err(
                        "has a branch that leads to two children, or a free one that leads to one".to_owned()
                    );
                }
            }
        }
        Ok(None)
    }

    /// Returns the node to which a reference leads.
    fn enter_child(&mut self, child: ObjectPart<'v>) -> Result<DecodedNode<'v>, String> {
        let TreeChild { tag, leaf, inner, .. } = self.child;
        match child.integer(0, tag) {
            tag if tag == leaf.0 => self.descend(child, leaf.1, false),
            tag if tag == inner.0 => self.descend(child, inner.1, true),
            _ => Err(nothing()),
        }
    }

    /// Returns the node to which a pointer leads, and adds an inner node to the path.
    fn descend(
        &mut self,
        part: ObjectPart<'v>,
        pointer: PointerRule,
        is_inner: bool,
    ) -> Result<DecodedNode<'v>, String> {
        let (depth, most) = (self.frames.len(), self.max_height);
        if is_inner && depth >= most {
            return Err(format!("is higher than {most} nodes"));
        }
        let part = part.follow(pointer)?.ok_or_else(nothing)?;
        let node = if is_inner { self.inner } else { self.leaf }.node(part, is_inner)?;
        if is_inner {
            self.frames.push((node, 0));
        } else if *self.height.get_or_insert(depth) != depth {
            return Err("has leaves at different heights".to_owned());
        }
        Ok(node)
    }
}
