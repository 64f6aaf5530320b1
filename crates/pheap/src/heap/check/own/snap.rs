//! Maps with versions: nodes, whose items are sorted.

use super::{strange, whole};
use crate::heap::check::plan::{Op, Parts};
use crate::heap::check::rule::{Tree, TreeChild, array, number};
use crate::heap::check::trace::{Reached, Tracer};
use crate::layout::desc::Prim;

/// No tree is higher.
const MAX_HEIGHT: u32 = 24;

/// How a kind of nodes is laid out.
struct Node {
    len: u64,
    keys: u64,
    items: u64,
    count: u64,
    stride: u64,
}

impl<'m, L: Fn(u64) -> Option<bool>> Tracer<'m, L> {
    pub(super) fn snap(&mut self, tree: Tree, object: &Reached, base: u64) -> Result<(), String> {
        let (at, child, entries) = (base + tree.top, &tree.child, &mut 0);
        if self.tag(object, at, child.tag) != child.none {
            self.version(child, object, at, 0, entries)?;
        }
        whole(*entries, self.word(object, base + tree.len))
    }

    /// Looks at a node below `depth` others, and at all below it. Returns how high that is.
    fn version(
        &mut self,
        child: &TreeChild,
        parent: &Reached,
        at: u64,
        depth: u32,
        entries: &mut u64,
    ) -> Result<u32, String> {
        let tag = self.tag(parent, at, child.tag);
        let kind = [child.leaf, child.inner].into_iter().find(|kind| kind.0 == tag);
        let (_, pointer) = kind.ok_or("has a branch that leads nowhere")?;
        let layout = self.layout_of_node(pointer.to).ok_or_else(strange)?;
        if depth > MAX_HEIGHT {
            return Err(format!("is higher than {MAX_HEIGHT} nodes"));
        }
        let node = self.take(self.word(parent, at + pointer.at), pointer.to)?;
        let node = node.ok_or("has a branch that leads nowhere")?;
        let (len, count) = (self.word(&node, layout.len), layout.count);
        if len == 0 || len > count {
            return Err(format!("has a node of {len} items, with room for {count}"));
        }
        let Parts::Sized(ops) = self.parts(&node) else { return Err(strange()) };
        if tag == child.leaf.0 {
            // Behind the last entry are keys and values, too.
            self.run(ops, &node, 0);
            *entries += len;
            return Ok(1);
        }
        let of_keys = |op: &&Op| matches!(op, Op::Repeat { at, .. } if *at == layout.keys);
        self.run(ops.iter().find(of_keys).map_or(&[], std::slice::from_ref), &node, 0);
        let place = |i: u64| layout.items + i * layout.stride;
        let last = self.bytes(&node, place(len - 1), layout.stride);
        if (len..count).any(|i| self.bytes(&node, place(i), layout.stride) != last) {
            return Err("has a node with something behind its children".to_owned());
        }
        let mut height = None;
        for i in 0..len {
            let below = self.version(child, &node, place(i), depth + 1, entries)?;
            if *height.get_or_insert(below) != below {
                return Err("has leaves at different heights".to_owned());
            }
        }
        Ok(1 + height.unwrap_or_default())
    }

    fn layout_of_node(&self, ty: u32) -> Option<Node> {
        let layout = self.layout(ty);
        let (keys, _, count) = array(layout, &["keys"])?;
        let (items, item, as_many) = array(layout, &["items"])?;
        let len = number(layout, &["len"], Prim::U64)?;
        (count == as_many).then_some(Node { len, keys, items, count, stride: item.size })
    }
}
