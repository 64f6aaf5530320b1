//! Checks the promises of collections beyond their types. The collections' code relies on these promises, so
//! an untrusted file must keep them.
//!
//! The nodes that a collection owns are checked together with the collection. No other pointer may lead to a
//! node, because the node is freed when the collection gives it up.

use super::plan::{CheckKind, PartCheck};
use super::rule::CollectionRule;
use super::trace::{CheckTracer, DEEPEST};
use crate::heap::check::decode::part::{ObjectPart, shared};
use crate::heap::check::decode::{DecodedNode, NodeKind, NodeWalk};

impl<'m, L: Fn(u64) -> Option<bool>> CheckTracer<'m, L> {
    /// Checks all nodes that a collection owns, and the number of its entries.
    pub(super) fn collection(
        &mut self,
        rule: &CollectionRule,
        collection: ObjectPart<'m>,
    ) -> Result<(), String> {
        let mut walk = NodeWalk::from_owner(rule, collection)?;
        let mut entries = 0;
        while let Some(node) = walk.next()? {
            self.node(&node)?;
            if node.kind == NodeKind::Values {
                // The sum saturates, because a forged collection may claim any number of elements without
                // bytes.
                entries = u64::saturating_add(entries, node.len());
            }
            if matches!(rule, CollectionRule::Vector(vector) if vector.is_text) {
                node.text()?;
            }
        }
        match walk.len {
            len if len == entries => Ok(()),
            len => Err(format!("has {entries} entries, but its length is {len}")),
        }
    }

    fn node(&mut self, node: &DecodedNode<'m>) -> Result<(), String> {
        self.claim_object(node.part)?;
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
    pub(super) fn slots(&mut self, node: &DecodedNode<'m>) {
        let map = self.map;
        let plan = map.plan(&map.spans[node.part.span as usize]);
        for slots in [Some(node.slots), node.values].into_iter().flatten() {
            let is_it = |at, stride: &u64| at == slots.first && *stride == slots.ty.size;
            let ops = match plan.stride {
                Some(_) => plan.ops.as_slice(),
                // The node's plan has a `Repeat` for the array of slots. The inner ops of the `Repeat` check
                // one slot.
                None => within(&plan.ops, |op| match &op.look {
                    CheckKind::Repeat { stride, ops, .. } if is_it(op.at, stride) => Some(ops),
                    _ => None,
                }),
            };
            let (free, used, first, by) = match (node.kind, ops) {
                (_, []) => continue,
                (NodeKind::Separators(by), [PartCheck { look: CheckKind::Slot { ops, .. }, .. }]) => {
                    let used = within(ops, |op| match &op.look {
                        CheckKind::Slot { ops, .. } if op.at == by => Some(ops),
                        _ => None,
                    });
                    (&[][..], used, 1, by)
                }
                (_, [PartCheck { look: CheckKind::Slot { ops: used, .. }, .. }]) => {
                    (ops, used.as_slice(), 0, 0)
                }
                _ => (ops, ops, 0, 0),
            };
            for place in first..slots.count {
                let (slot, is_used) = node.slot_at_place(place);
                self.run(if is_used { used } else { free }, node.part.offset_by(slots.offset(slot) + by));
            }
        }
    }

    /// Notes an object to which only one pointer may lead. Fails if a pointer to the object was found before.
    pub(super) fn claim_object(&mut self, object: ObjectPart<'m>) -> Result<(), String> {
        if !self.own(object) {
            return Err(shared());
        }
        self.must_be_live(object);
        Ok(())
    }
}

/// Returns the inner ops that `of` returns for the first of `ops` for which it returns any; an empty slice if
/// there is none.
fn within(ops: &[PartCheck], of: impl Fn(&PartCheck) -> Option<&Vec<PartCheck>>) -> &[PartCheck] {
    ops.iter().find_map(of).map_or(&[], Vec::as_slice)
}
