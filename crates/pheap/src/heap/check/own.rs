//! What collections promise beyond their types: their code believes it, so a file from elsewhere has to keep
//! it.
//!
//! What they own is looked at together with them; nothing else may point to it, for it is freed when they
//! give it up.

use super::plan::{Look, Op};
use super::rule::Rule;
use super::trace::{DEEPEST, Tracer};
use crate::heap::check::decode::part::{Part, shared};
use crate::heap::check::decode::{Kind, Node, Walk};

impl<'m, L: Fn(u64) -> Option<bool>> Tracer<'m, L> {
    /// Looks at all that a collection owns.
    pub(super) fn collection(&mut self, rule: &Rule, collection: Part<'m>) -> Result<(), String> {
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
        match walk.len {
            len if len == entries => Ok(()),
            len => Err(format!("has {entries} entries, and says that it has {len}")),
        }
    }

    fn node(&mut self, node: &Node<'m>) -> Result<(), String> {
        self.take(node.part)?;
        if self.depth == DEEPEST {
            self.deeper.push(*node);
        } else {
            self.depth += 1;
            self.slots(node);
            self.depth -= 1;
        }
        Ok(())
    }

    /// Checks the values in the slots of a node.
    pub(super) fn slots(&mut self, node: &Node<'m>) {
        let map = self.map;
        let plan = map.plan(&map.spans[node.part.span as usize]);
        for slots in [Some(node.slots), node.values].into_iter().flatten() {
            let is_it = |at, stride: &u64| at == slots.first && *stride == slots.ty.size;
            let ops = match plan.stride {
                Some(_) => plan.ops.as_slice(),
                // What is to be looked at in the slots is there as often as there are slots.
                None => within(&plan.ops, |op| match &op.look {
                    Look::Repeat { stride, ops, .. } if is_it(op.at, stride) => Some(ops),
                    _ => None,
                }),
            };
            let (free, used, first, by) = match (node.kind, ops) {
                (_, []) => continue,
                (Kind::Separators(by), [Op { look: Look::Slot { ops, .. }, .. }]) => {
                    let used = within(ops, |op| match &op.look {
                        Look::Slot { ops, .. } if op.at == by => Some(ops),
                        _ => None,
                    });
                    (&[][..], used, 1, by)
                }
                (_, [Op { look: Look::Slot { ops: used, .. }, .. }]) => (ops, used.as_slice(), 0, 0),
                _ => (ops, ops, 0, 0),
            };
            for place in first..slots.count {
                let (slot, is_used) = node.slot(place);
                self.run(if is_used { used } else { free }, node.part.at(slots.offset(slot) + by));
            }
        }
    }

    /// Notes an object to which a pointer leads that is the only one.
    pub(super) fn take(&mut self, object: Part<'m>) -> Result<(), String> {
        if !self.own(object) {
            return Err(shared());
        }
        self.must_be_live(object);
        Ok(())
    }
}

/// What is to be looked at within the first of these for which there is something.
fn within(ops: &[Op], of: impl Fn(&Op) -> Option<&Vec<Op>>) -> &[Op] {
    ops.iter().find_map(of).map_or(&[], Vec::as_slice)
}
