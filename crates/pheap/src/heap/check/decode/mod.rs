//! Decodes collections by the type table alone, without the program's types: finds the nodes of a collection,
//! and the slots of each node that have values.
//!
//! [`trace`](super::trace) and [`inspect`](crate::heap::inspect) both use it. Objects are not trusted: each
//! pointer, length and tag is checked before it is used. (Behind a view of the program, pointers and lengths
//! are valid.) A damaged collection may lead to a node twice, or in a circle; the caller must detect that.

mod hash;
pub(in crate::heap) mod part;
mod tree;

use super::rule::{CollectionRule, Vector, field};
use hash::HashWalk;
use part::{ObjectPart, SlotRun, TypedPart, as_text, in_slot, strange};
use tree::TreeWalk;

/// A key and its value.
pub(in crate::heap) type KeyValue<'v> = (TypedPart<'v>, TypedPart<'v>);

/// A node of a collection, or its buffer.
#[derive(Clone, Copy)]
pub(in crate::heap) struct DecodedNode<'v> {
    /// The node's object.
    pub(in crate::heap) part: ObjectPart<'v>,
    pub(in crate::heap) kind: NodeKind,
    /// The node's slots: for values, entries, branches or keys.
    pub(in crate::heap) slots: SlotRun<'v>,
    /// The slots for the values of keys, if they are separate from the keys.
    pub(in crate::heap) values: Option<SlotRun<'v>>,
    order: SlotOrder,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::heap) enum NodeKind {
    /// The node's slots have values: elements or entries.
    Values,
    /// The node leads to other nodes, and its slots have keys.
    Keys,
    /// The node leads to other nodes. Its slots are branches, each with a separator at this byte. The
    /// separator at the first place is unused.
    Separators(u64),
}

/// The slots of a node that have values.
#[derive(Clone, Copy)]
enum SlotOrder {
    /// `len` slots, from the slot `head` on, wrapping around.
    Ring { head: u64, len: u64 },
    /// The slots whose tag has at least one of these bits. The tags begin at byte `at`.
    Tags { at: u64, bits: u16 },
    /// The first `len` slots of a list of slot numbers, which begins at byte `at`.
    List { at: u64, len: u64 },
}

impl<'v> DecodedNode<'v> {
    /// Returns a node whose slots all have values.
    pub(in crate::heap) fn array(part: ObjectPart<'v>, slots: SlotRun<'v>) -> DecodedNode<'v> {
        let order = SlotOrder::Ring { head: 0, len: slots.count };
        DecodedNode { part, kind: NodeKind::Values, slots, values: None, order }
    }

    /// Returns the buffer of a vector, a text or a queue, and whether there is one. If there is none, the
    /// node is a part of the owner, without elements.
    pub(in crate::heap) fn buffer(
        vector: &Vector,
        owner: ObjectPart<'v>,
    ) -> Result<(DecodedNode<'v>, bool), String> {
        let head = vector.head.map_or(0, |at| owner.read_word(at));
        let len = owner.read_word(vector.len);
        let (buffer, slots) = owner.follow_slice(vector.buffer)?;
        let capacity = slots.count;
        if len > capacity || (head >= capacity && head > 0) {
            return Err(format!("has {len} elements from place {head} on, in a buffer for {capacity}"));
        }
        let node = DecodedNode::array(buffer.unwrap_or(owner), slots);
        Ok((DecodedNode { order: SlotOrder::Ring { head, len }, ..node }, buffer.is_some()))
    }

    /// Returns the number of the node's first places that may have values. All later places have none.
    pub(in crate::heap) fn places(&self) -> u64 {
        match self.order {
            SlotOrder::Ring { len, .. } | SlotOrder::List { len, .. } => len,
            SlotOrder::Tags { .. } => self.slots.count,
        }
    }

    /// Returns the number of the node's slots that have values.
    pub(in crate::heap) fn len(&self) -> u64 {
        match self.order {
            SlotOrder::Ring { len, .. } | SlotOrder::List { len, .. } => len,
            SlotOrder::Tags { .. } => {
                (0..self.slots.count).filter(|&slot| self.slot_at_place(slot).1).count() as u64
            }
        }
    }

    /// Returns the slot at a place, and whether it has a value. Each slot is at exactly one place.
    #[inline]
    pub(in crate::heap) fn slot_at_place(&self, place: u64) -> (u64, bool) {
        match self.order {
            SlotOrder::Ring { head, len } => {
                // The slot is computed without `head + place`, which could overflow: a ring of elements
                // without bytes may have up to 2^64 - 1 slots.
                let before_end = self.slots.count - head;
                let slot = if place < before_end { head + place } else { place - before_end };
                (slot, place < len)
            }
            SlotOrder::Tags { at, bits } => {
                (place, u16::from_ne_bytes(self.part.array(at + 2 * place)) & bits != 0)
            }
            SlotOrder::List { at, len } => {
                let [slot] = self.part.array(at + place);
                (slot.into(), place < len)
            }
        }
    }

    /// Returns the value at a place that has one.
    pub(in crate::heap) fn value(&self, place: u64) -> TypedPart<'v> {
        self.part.offset_by(self.slots.offset(self.slot_at_place(place).0)).typed_as(self.slots.ty)
    }

    /// Returns the entry at a place, if it has one.
    pub(in crate::heap) fn entry(&self, place: u64) -> Result<Option<KeyValue<'v>>, String> {
        let (slot, true) = self.slot_at_place(place) else { return Ok(None) };
        let TypedPart { part, ty } = self.value(place);
        let spot = part.typed_as(in_slot(ty));
        if let Some(values) = &self.values {
            return Ok(Some((spot, self.part.offset_by(values.offset(slot)).typed_as(values.ty))));
        }
        let part = |name| field(spot.ty, &[name]).map(|(at, ty)| spot.part.offset_by(at).typed_as(ty));
        Option::zip(part("key"), part("value")).ok_or_else(strange).map(Some)
    }

    /// Returns all values of the node as bytes, if each has one byte and they lie one behind the other.
    pub(in crate::heap) fn bytes(&self) -> Option<&'v [u8]> {
        match self.order {
            SlotOrder::Ring { head: 0, len } if self.slots.ty.size == 1 => {
                Some(self.part.bytes(self.slots.first, len))
            }
            _ => None,
        }
    }

    /// Returns all values of the node as text.
    pub(in crate::heap) fn text(&self) -> Result<&'v str, String> {
        as_text(self.bytes().ok_or_else(strange)?)
    }
}

/// The nodes of a collection that are still to come. Each node comes before the nodes that it leads to, and
/// entries come in the collection's order.
#[derive(Clone)]
pub(in crate::heap) struct NodeWalk<'v> {
    /// The number of values or entries, by the collection's own length.
    pub(in crate::heap) len: u64,
    first: Option<DecodedNode<'v>>,
    rest: WalkRest<'v>,
}

#[derive(Clone)]
enum WalkRest<'v> {
    None,
    Hash(Box<HashWalk<'v>>),
    Tree(Box<TreeWalk<'v>>),
}

impl<'v> NodeWalk<'v> {
    /// Begins a walk at the first node of a collection.
    pub(in crate::heap) fn from_owner(
        rule: &CollectionRule,
        owner: ObjectPart<'v>,
    ) -> Result<NodeWalk<'v>, String> {
        let (len, first, rest) = match rule {
            CollectionRule::Vector(vector) => (vector.len, NodeWalk::buffer(vector, owner)?, WalkRest::None),
            CollectionRule::Hash(hash) => match owner.follow(hash.root)? {
                Some(_) if owner.read_word(hash.few.at) != 0 => {
                    return Err("has its entries in two places".to_owned());
                }
                Some(root) => {
                    let walk = HashWalk::new(hash, root).ok_or_else(strange)?;
                    (hash.len, Some(walk.node(root)), WalkRest::Hash(Box::new(walk)))
                }
                None => {
                    let few = NodeWalk::buffer(&Vector::entries(hash.len, hash.few), owner)?;
                    let (len, most) = (owner.read_word(hash.len), hash.most_few);
                    if len > most {
                        return Err(format!("has {len} entries where {most} can be"));
                    }
                    (hash.len, few, WalkRest::None)
                }
            },
            CollectionRule::Tree(tree) | CollectionRule::Snap(tree) => {
                (tree.len, None, WalkRest::Tree(Box::new(TreeWalk::new(tree, owner).ok_or_else(strange)?)))
            }
        };
        Ok(NodeWalk { len: owner.read_word(len), first, rest })
    }

    fn buffer(vector: &Vector, owner: ObjectPart<'v>) -> Result<Option<DecodedNode<'v>>, String> {
        let (buffer, is_there) = DecodedNode::buffer(vector, owner)?;
        Ok(is_there.then_some(buffer))
    }

    /// Returns the next node. After an error, the walk must not be continued.
    pub(in crate::heap) fn next(&mut self) -> Result<Option<DecodedNode<'v>>, String> {
        match &mut self.rest {
            _ if self.first.is_some() => Ok(self.first.take()),
            WalkRest::None => Ok(None),
            WalkRest::Hash(walk) => walk.next(),
            WalkRest::Tree(walk) => walk.next(),
        }
    }
}

fn nothing() -> String {
    "has a part that leads nowhere".to_owned()
}
