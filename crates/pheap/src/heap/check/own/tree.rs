//! Ordered maps: nodes, whose items are found by an order of their slots.

use std::cell::Cell;

use super::{SlotOps, strange, whole};
use crate::heap::check::plan::{Op, Parts};
use crate::heap::check::rule::{Tree, TreeChild, array, field, number, pointer, pointer_at};
use crate::heap::check::trace::{Reached, Tracer};
use crate::layout::Shape;
use crate::layout::desc::Prim;

/// No tree is higher.
const MAX_HEIGHT: u32 = 16;

/// How a kind of nodes is laid out.
#[derive(Clone, Copy)]
struct Node<'m> {
    len: u64,
    order: u64,
    count: u64,
    slots: u64,
    stride: u64,
    ops: SlotOps<'m>,
    /// In inner nodes.
    branch: Option<Branch<'m>>,
}

/// What an inner node knows of its children. Those that are leaves have pointers side by side in the node, the others in the branches.
#[derive(Clone, Copy)]
struct Branch<'m> {
    /// Where the pointers to leaves begin in a node.
    leaves: u64,
    /// In a branch.
    inner: u64,
    separator: u64,
    /// What is to be looked at in a separator.
    ops: &'m [Op],
}

/// How the nodes of a tree are laid out.
struct Layouts<'m> {
    child: TreeChild,
    leaf: Node<'m>,
    inner: Node<'m>,
    /// Entries that were found.
    entries: Cell<u64>,
}

impl<'m, L: Fn(u64) -> Option<bool>> Tracer<'m, L> {
    pub(super) fn tree(&mut self, tree: Tree, object: &Reached, base: u64) -> Result<(), String> {
        let node = |ty| self.node_type(ty).ok_or_else(strange);
        let (leaf, inner) = (node(tree.child.leaf.1.to)?, node(tree.child.inner.1.to)?);
        if inner.branch.is_none() || leaf.branch.is_some() {
            return Err(strange());
        }
        let layouts = Layouts { child: tree.child, leaf, inner, entries: Cell::new(0) };
        let child = &layouts.child;
        let top = base + tree.top;
        let tag = self.tag(object, top, child.tag);
        let height = &mut None;
        if tag == child.leaf.0 {
            self.leaf_node(&layouts, self.word(object, top + child.leaf.1.at), (0, height))?;
        } else if tag == child.inner.0 {
            self.inner_node(&layouts, self.word(object, top + child.inner.1.at), (0, height))?;
        } else if tag != child.none {
            return Err(nothing());
        }
        whole(layouts.entries.get(), self.word(object, base + tree.len))
    }

    fn node_type(&self, ty: u32) -> Option<Node<'m>> {
        let layout = self.layout(ty);
        let (slots, slot, count) = array(layout, &["slots"])?;
        let (order, number_of_slot, in_order) = array(layout, &["head", "order", "slots"])?;
        let Parts::Sized(ops) = &self.map.plans[ty as usize].as_ref()?.parts else { return None };
        let ops = ops.iter().find_map(|op| match op {
            Op::Repeat { at, ops, .. } if *at == slots => Some(ops.as_slice()),
            _ => None,
        });
        let ops = SlotOps::of(ops.unwrap_or_default());
        let branch = match &slot.shape {
            Shape::Slot(item) if field(item, &["separator"]).is_some() => {
                let (separator, _) = field(item, &["separator"])?;
                let of_separator = ops.value.iter().find_map(|op| match op {
                    Op::Slot { at, ops, .. } if *at == separator => Some(ops.as_slice()),
                    _ => None,
                });
                let (leaves, leaf, near) = array(layout, &["near"])?;
                pointer_at(0, leaf).filter(|_| near == count)?;
                let inner = pointer(item, &["inner"])?.at;
                Some(Branch { leaves, inner, separator, ops: of_separator.unwrap_or_default() })
            }
            _ => None,
        };
        let len = number(layout, &["head", "order", "len"], Prim::U64)?;
        (in_order == count && count < 256 && number_of_slot.size == 1).then_some(Node {
            len,
            order,
            count,
            slots,
            stride: slot.size,
            ops,
            branch,
        })
    }

    /// Looks at a leaf, `depth` nodes below the map. All leaves are at one `height`.
    fn leaf_node(
        &mut self,
        layouts: &Layouts<'m>,
        addr: u64,
        (depth, height): (u32, &mut Option<u32>),
    ) -> Result<(), String> {
        let leaf = self.take(addr, layouts.child.leaf.1.to)?.ok_or_else(nothing)?;
        if *height.get_or_insert(depth) != depth {
            return Err("has leaves at different heights".to_owned());
        }
        self.items(&layouts.leaf, &leaf, |this, place, slot| {
            let ops = if place.is_some() { layouts.leaf.ops.value } else { layouts.leaf.ops.any };
            layouts.entries.update(|entries| entries + u64::from(place.is_some()));
            this.run(ops, &leaf, layouts.leaf.slots + slot * layouts.leaf.stride);
            Ok(())
        })
    }

    /// Looks at an inner node, and at all below it.
    fn inner_node(
        &mut self,
        layouts: &Layouts<'m>,
        addr: u64,
        (depth, height): (u32, &mut Option<u32>),
    ) -> Result<(), String> {
        if depth >= MAX_HEIGHT {
            return Err(format!("is higher than {MAX_HEIGHT} nodes"));
        }
        let layout = &layouts.inner;
        let branch = layout.branch.ok_or_else(strange)?;
        let node = self.take(addr, layouts.child.inner.1.to)?.ok_or_else(nothing)?;
        if self.word(&node, layout.len) == 0 {
            return Err("has a node without children".to_owned());
        }
        self.items(layout, &node, |this, place, slot| {
            let at = layout.slots + slot * layout.stride;
            let leaf = this.word(&node, branch.leaves + 8 * slot);
            let inner = this.word(&node, at + branch.inner);
            if place.is_some_and(|place| place > 0) {
                this.run(branch.ops, &node, at + branch.separator);
            }
            match (place, leaf, inner) {
                (Some(_), leaf, 0) => this.leaf_node(layouts, leaf, (depth + 1, height)),
                (Some(_), 0, inner) => this.inner_node(layouts, inner, (depth + 1, height)),
                (None, 0, 0) => Ok(()),
                _ => {
                    Err("has a branch that leads to two children, or a free one that leads to one".to_owned())
                }
            }
        })
    }

    /// Calls `look` with each slot of a node, and the place of its item, if it has one.
    fn items(
        &mut self,
        layout: &Node<'m>,
        node: &Reached,
        mut look: impl FnMut(&mut Self, Option<u64>, u64) -> Result<(), String>,
    ) -> Result<(), String> {
        let (len, count) = (self.word(node, layout.len), layout.count);
        let mut seen = [false; 256];
        for place in 0..count {
            let slot = self.number(node, layout.order + place, 1);
            if slot >= count || std::mem::replace(&mut seen[slot as usize], true) {
                return Err("has a node whose order is not one of its slots".to_owned());
            }
        }
        if len > count {
            return Err(format!("has a node of {len} items, with room for {count}"));
        }
        (0..count).try_for_each(|place| {
            let slot = self.number(node, layout.order + place, 1);
            look(self, (place < len).then_some(place), slot)
        })
    }
}

fn nothing() -> String {
    "has a branch that leads nowhere".to_owned()
}
