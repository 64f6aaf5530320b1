//! Leaves: items stay in the slots to which they were written until the leaf is split or merged, and a
//! separate permutation has their order. Adding or removing an item therefore takes two small stores.
//!
//! Invariants: The `places` are a permutation of the slots. The slots with items come first, in the order of
//! the items. The other slots have no member and the score NaN, so that a search compares all slots without
//! checking which ones are in use.

use pheap::{P, Persist, Txn, View, txn};

use super::{Item, LeafItems};
use crate::data::value::Str;

/// The most items of a leaf. With them a leaf takes 512 bytes.
pub(super) const LEAF: usize = 30;

#[derive(Persist, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Leaf<'r> {
    places: Places,
    slots: [Slot<'r>; LEAF],
}

/// The slots with items, in the order of the items; behind them, the free slots.
#[derive(Persist, Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Places {
    slots: [u8; LEAF],
    unused: u8,
    len: u8,
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Slot<'r> {
    score: f64,
    member: Option<Str<'r>>,
}

impl Slot<'_> {
    const FREE: Self = Slot { score: f64::NAN, member: None };
}

impl Places {
    pub(super) fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Takes a free slot for a new item at place `at`. Returns the slot.
    fn insert(&mut self, at: usize) -> usize {
        let len = self.len();
        let slot = self.slots[len];
        self.slots.copy_within(at..len, at + 1);
        self.slots[at] = slot;
        self.len += 1;
        usize::from(slot)
    }

    /// Frees the slot of the item at place `at`. Returns the slot.
    fn remove(&mut self, at: usize) -> usize {
        let last = self.len() - 1;
        let slot = self.slots[at];
        self.slots.copy_within(at + 1..=last, at);
        self.slots[last] = slot;
        self.len -= 1;
        usize::from(slot)
    }
}

impl<'r> Leaf<'r> {
    /// Makes a leaf with these sorted items, at most [`LEAF`].
    pub(super) fn from_items(items: &[Item<'r>]) -> Leaf<'r> {
        let places =
            Places { slots: std::array::from_fn(|slot| slot as u8), unused: 0, len: items.len() as u8 };
        let mut slots = [Slot::FREE; LEAF];
        for (slot, item) in slots.iter_mut().zip(items) {
            *slot = Slot { score: item.score, member: Some(item.member) };
        }
        Leaf { places, slots }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn places(&self) -> &Places {
        &self.places
    }

    /// Returns the slots with items, in the order of the items.
    fn in_use(&self) -> &[u8] {
        &self.places.slots[..self.len()]
    }

    fn item_in(&self, slot: u8) -> Option<Item<'r>> {
        let Slot { score, member } = self.slots[usize::from(slot)];
        Some(Item { score, member: member? })
    }

    /// Returns the item at place `at`, if there is one.
    pub(super) fn get(&self, at: usize) -> Option<Item<'r>> {
        self.item_in(*self.in_use().get(at)?)
    }

    pub(super) fn items(&self) -> LeafItems<'r> {
        self.in_use().iter().filter_map(|&slot| self.item_in(slot)).collect()
    }

    /// Returns the number of items for which `is_before` is true. `is_before` must be true of the first items
    /// up to some place, and false of all others.
    pub(super) fn count_before(&self, is_before: impl Fn(&Item<'r>) -> bool) -> usize {
        self.in_use().partition_point(|&slot| self.item_in(slot).is_some_and(|item| is_before(&item)))
    }

    /// Returns the number of items with a lower score, and the number with this score.
    fn count(&self, score: f64) -> (usize, usize) {
        self.slots.iter().fold((0, 0), |(lower, same), slot| {
            (lower + usize::from(slot.score < score), same + usize::from(slot.score == score))
        })
    }

    /// Returns the place for a new member.
    pub(super) fn place_for(&self, view: &View<'r>, score: f64, member: &[u8]) -> usize {
        let (lower, same) = self.count(score);
        let same = &self.in_use()[lower..lower + same];
        lower
            + same.partition_point(|&slot| self.item_in(slot).is_some_and(|item| view[item.member] < *member))
    }

    /// Returns the place of a member with this score. Compares members only if several items have the score.
    /// If one item has the score, the caller must know that it is this member.
    pub(super) fn place_of(&self, view: &View<'r>, score: f64, member: &[u8]) -> Option<usize> {
        match self.count(score) {
            (_, 0) => None,
            (lower, 1) => Some(lower),
            (lower, same) => {
                let of = |slot: u8| self.item_in(slot).map(|item| view[item.member].cmp(member));
                let same = &self.in_use()[lower..lower + same];
                let at = same.partition_point(|&slot| of(slot).is_some_and(|order| order.is_lt()));
                same.get(at).filter(|&&slot| of(slot).is_some_and(|order| order.is_eq()))?;
                Some(lower + at)
            }
        }
    }
}

/// Adds an item at place `at` to a leaf that is not full. `places` is the leaf's present permutation.
pub(super) fn insert<'r>(
    tx: &mut Txn<'r>,
    leaf: P<'r, Leaf<'r>>,
    mut places: Places,
    at: usize,
    item: Item<'r>,
) {
    let slot = places.insert(at);
    put(tx, leaf, places, slot, Slot { score: item.score, member: Some(item.member) });
}

/// Removes the item at place `at`. `places` is the leaf's present permutation.
pub(super) fn remove<'r>(tx: &mut Txn<'r>, leaf: P<'r, Leaf<'r>>, mut places: Places, at: usize) {
    let slot = places.remove(at);
    put(tx, leaf, places, slot, Slot::FREE);
}

#[txn]
fn put<'r>(tx: &mut Txn<'r>, leaf: P<'r, Leaf<'r>>, places: Places, slot: usize, to: Slot<'r>) {
    tx[leaf].places = places;
    tx[leaf].slots[slot] = to;
}

#[cfg(test)]
mod tests {
    use super::*;

    impl<'r> Leaf<'r> {
        /// Checks the invariants of the leaf.
        pub(in crate::data::order) fn check(&self, view: &View<'r>) {
            let mut slots = self.places.slots;
            slots.sort_unstable();
            assert!(slots.iter().enumerate().all(|(i, &slot)| i == usize::from(slot)));
            let items = self.items();
            assert_eq!(items.len(), self.len());
            assert!(items.is_sorted_by(|one, two| one.compare(view, two.score, &view[two.member]).is_lt()));
            let is_free = |&slot: &u8| {
                let Slot { score, member } = self.slots[usize::from(slot)];
                score.is_nan() && member.is_none()
            };
            assert!(self.places.slots[self.len()..].iter().all(is_free));
        }
    }
}
