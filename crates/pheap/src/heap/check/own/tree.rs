//! Ordered maps: nodes, whose items are found by an order of their slots.

use super::{Pointer, SlotOps, array, field, named, number, pointer_at, strange};
use crate::heap::check::plan::{Op, Parts};
use crate::heap::check::trace::{Reached, Tracer, read_integer};
use crate::layout::desc::Prim;
use crate::layout::{Shape, TypeLayout};

/// No tree is higher.
const MAX_HEIGHT: u32 = 16;

/// Where in the map the pointer to its uppermost node is, and the number of its type.
#[derive(Debug, Clone, Copy)]
pub(in crate::heap::check) struct Tree {
    top: u64,
    child: Child,
}

/// What leads to a node. Offsets are in bytes from its start.
#[derive(Debug, Clone, Copy)]
struct Child {
    tag: Prim,
    none: i128,
    leaf: (i128, Pointer),
    inner: (i128, Pointer),
}

impl Child {
    fn of(ty: &TypeLayout) -> Option<Child> {
        let Shape::Enum { tag, variants } = &ty.shape else { return None };
        let variant = |name: &str| {
            let variant = variants.iter().find(|variant| variant.name == name)?;
            Some((variant.tag, named(&variant.fields, "0")?))
        };
        let pointer = |name: &str| {
            let (tag, field) = variant(name)?;
            Some((tag, pointer_at(field.offset, &field.ty)?))
        };
        Some(Child { tag: *tag, none: variant("None")?.0, leaf: pointer("Leaf")?, inner: pointer("Inner")? })
    }
}

impl Tree {
    pub(super) fn of(ty: &TypeLayout) -> Option<Tree> {
        let (top, child) = field(ty, &["top"])?;
        Some(Tree { top, child: Child::of(child)? })
    }
}

/// How a kind of nodes is laid out.
#[derive(Clone, Copy)]
struct Node<'m> {
    len: u64,
    order: u64,
    count: u64,
    slots: u64,
    stride: u64,
    ops: SlotOps<'m>,
    /// In inner nodes, of a branch: its separator, and what leads to the child.
    branch: Option<Branch<'m>>,
}

#[derive(Clone, Copy)]
struct Branch<'m> {
    separator: u64,
    ops: SlotOps<'m>,
    child: u64,
}

/// How the nodes of a tree are laid out.
struct Layouts<'m> {
    child: Child,
    leaf: Node<'m>,
    inner: Node<'m>,
}

impl<'m, L: Fn(u64) -> Option<bool>> Tracer<'m, L> {
    pub(super) fn tree(&mut self, tree: Tree, object: &Reached, base: u64) -> Result<(), String> {
        let node = |ty| self.node_type(ty).ok_or_else(strange);
        let (leaf, inner) = (node(tree.child.leaf.1.to)?, node(tree.child.inner.1.to)?);
        if inner.branch.is_none() || leaf.branch.is_some() {
            return Err(strange());
        }
        let layouts = Layouts { child: tree.child, leaf, inner };
        let mut height = None;
        self.child_node(&layouts, object, base + tree.top, (0, &mut height), true)
    }

    fn node_type(&self, ty: u32) -> Option<Node<'m>> {
        let layout = self.layout(ty);
        let (slots, slot, count) = array(layout, &["slots"])?;
        let (order, _, in_order) = array(layout, &["head", "order", "slots"])?;
        let Parts::Sized(ops) = &self.map.plans[ty as usize].as_ref()?.parts else { return None };
        let ops = ops.iter().find_map(|op| match op {
            Op::Repeat { at, ops, .. } if *at == slots => Some(ops.as_slice()),
            _ => None,
        });
        let ops = SlotOps::of(ops.unwrap_or_default());
        let branch = match &slot.shape {
            Shape::Slot(item) if super::own_name(item) == Some("BTreeBranch") => {
                let (separator, _) = field(item, &["separator"])?;
                let of_separator = ops.value.iter().find_map(|op| match op {
                    Op::Slot { at, ops, .. } if *at == separator => Some(ops.as_slice()),
                    _ => None,
                });
                let value = of_separator.unwrap_or_default();
                Some(Branch {
                    separator,
                    ops: SlotOps { any: value, value },
                    child: field(item, &["child"])?.0,
                })
            }
            _ => None,
        };
        let len = number(layout, &["head", "order", "len"], Prim::U64)?;
        (in_order == count && count < 256).then_some(Node {
            len,
            order,
            count,
            slots,
            stride: slot.size,
            ops,
            branch,
        })
    }

    /// Looks at the node that a child leads to, `depth` nodes below the map. All leaves are at one `height`.
    fn child_node(
        &mut self,
        layouts: &Layouts<'m>,
        object: &Reached,
        at: u64,
        (depth, height): (u32, &mut Option<u32>),
        is_top: bool,
    ) -> Result<(), String> {
        let child = &layouts.child;
        // SAFETY: a tag in a live object, hence aligned.
        let tag = unsafe { read_integer(self.map.addr(object.start + at), child.tag) };
        if tag == child.leaf.0 {
            let leaf = self.take(self.word(object, at + child.leaf.1.at), child.leaf.1.to)?;
            let leaf = leaf.ok_or_else(nothing)?;
            if *height.get_or_insert(depth) != depth {
                return Err("has leaves at different heights".to_owned());
            }
            self.items(&layouts.leaf, &leaf, |this, layout, _, at| {
                this.run(layout.ops.value, &leaf, at);
                Ok(())
            })
        } else if tag == child.inner.0 {
            if depth >= MAX_HEIGHT {
                return Err(format!("is higher than {MAX_HEIGHT} nodes"));
            }
            let inner = self.take(self.word(object, at + child.inner.1.at), child.inner.1.to)?;
            let inner = inner.ok_or_else(nothing)?;
            if self.word(&inner, layouts.inner.len) == 0 {
                return Err("has a node without children".to_owned());
            }
            self.items(&layouts.inner, &inner, |this, layout, place, at| {
                let branch = layout.branch.expect("an inner node has branches");
                if place > 0 {
                    this.run(branch.ops.value, &inner, at + branch.separator);
                }
                this.child_node(layouts, &inner, at + branch.child, (depth + 1, height), false)
            })
        } else if tag == child.none && is_top {
            Ok(())
        } else {
            Err(nothing())
        }
    }

    /// Calls `look` with the place and the offset of each item of a node, in their order; looks at the free slots by itself.
    fn items(
        &mut self,
        layout: &Node<'m>,
        node: &Reached,
        mut look: impl FnMut(&mut Self, &Node<'m>, u64, u64) -> Result<(), String>,
    ) -> Result<(), String> {
        let (len, count) = (self.word(node, layout.len), layout.count);
        let mut seen = [false; 256];
        for place in 0..count {
            let slot = self.byte(node, layout.order + place);
            if u64::from(slot) >= count || std::mem::replace(&mut seen[slot as usize], true) {
                return Err("has a node whose order is not one of its slots".to_owned());
            }
        }
        if len > count {
            return Err(format!("has a node of {len} items, with room for {count}"));
        }
        for place in 0..count {
            let at = layout.slots + u64::from(self.byte(node, layout.order + place)) * layout.stride;
            if place < len {
                look(self, layout, place, at)?;
            } else {
                self.run(layout.ops.any, node, at);
            }
        }
        Ok(())
    }
}

fn nothing() -> String {
    "has a branch that leads nowhere".to_owned()
}
