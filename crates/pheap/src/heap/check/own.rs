//! What collections promise beyond their types: their code believes it, so a file from elsewhere has to keep it.
//!
//! What they own is looked at together with them; nothing else may point to it, for it is freed when they give it up.

use super::plan::{Op, Parts};
use super::rule::Rule;
use super::trace::{Reached, Tracer};
use crate::heap::decode::part::{Ground, Part, shared};
use crate::heap::decode::{Kind, Node, Walk};

impl<'m, L: Fn(u64) -> Option<bool>> Tracer<'m, L> {
    /// A part of an object, `at` so many bytes.
    pub(super) fn part(&self, object: &Reached, at: u64) -> Part<'m> {
        let Reached { span, start } = *object;
        Part { ground: Ground::Heap(self.map), at: start + at, span, region: self.root.region }
    }

    /// Looks at a collection, `base` bytes inside of an object, and at all that it owns.
    pub(super) fn collection(&mut self, rule: &Rule, object: &Reached, base: u64) {
        if let Err(what) = self.nodes(rule, self.part(object, base)) {
            self.complain(object, base, || what);
        }
    }

    fn nodes(&mut self, rule: &Rule, collection: Part<'m>) -> Result<(), String> {
        let mut walk = Walk::of(rule, collection)?;
        let mut entries = 0;
        while let Some(node) = walk.next()? {
            self.node(&node)?;
            if node.kind == Kind::Values {
                // No overflow, although elements without bytes may be said to be many.
                entries = u64::saturating_add(entries, node.len());
            }
            if matches!(rule, Rule::Vector(vector) if vector.is_text) {
                node.text()?;
            }
        }
        let len = match rule {
            // It says so of the buffer, too.
            Rule::Vector(_) => return Ok(()),
            Rule::Hash(hash) => hash.len,
            Rule::Tree(tree) | Rule::Snap(tree) => tree.len,
        };
        match collection.word(len) {
            len if len == entries => Ok(()),
            len => Err(format!("has {entries} entries, and says that it has {len}")),
        }
    }

    fn node(&mut self, node: &Node<'m>) -> Result<(), String> {
        let object = self.take(node.part)?;
        let map = self.map;
        let parts = &map.plan(&map.spans[object.span as usize]).parts;
        for slots in [Some(node.slots), node.values].into_iter().flatten() {
            let ops = match parts {
                Parts::Slice { ops, .. } => Some(ops),
                // What is to be looked at in the slots is there as often as there are slots.
                Parts::Sized(ops) => ops.iter().find_map(|op| match op {
                    Op::Repeat { at, stride, ops, .. } => {
                        ((*at, *stride) == (slots.first, slots.ty.size)).then_some(ops)
                    }
                    _ => None,
                }),
                Parts::Str => None,
            };
            let (free, used, first, by) = match (node.kind, ops.map_or(&[][..], Vec::as_slice)) {
                (_, []) => continue,
                (Kind::Separators(separator), [Op::Slot { ops, .. }]) => {
                    let used = ops.iter().find_map(|op| match op {
                        Op::Slot { at, ops, .. } => (*at == separator).then_some(ops.as_slice()),
                        _ => None,
                    });
                    (&[][..], used.unwrap_or_default(), 1, separator)
                }
                (_, free @ [Op::Slot { ops: used, .. }]) => (free, used.as_slice(), 0, 0),
                (_, ops) => (ops, ops, 0, 0),
            };
            for place in first..slots.count {
                let (slot, is_used) = node.slot(place);
                self.run(if is_used { used } else { free }, &object, slots.offset(slot) + by);
            }
        }
        Ok(())
    }

    /// What a pointer leads to that is the only one to it.
    pub(super) fn take(&mut self, part: Part<'m>) -> Result<Reached, String> {
        let object = Reached { span: part.span, start: part.at };
        if !self.own(&object) {
            return Err(shared());
        }
        self.must_be_live(&object);
        Ok(object)
    }
}
