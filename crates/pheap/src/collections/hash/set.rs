//! `PHashSet`, a hash set.

use std::borrow::Borrow;

use super::{HashCursor, HashKey, KeyArg, Keys, PHashMap};
use crate::Persist;
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::collections::common::{by_pointer, not_in_place, set_of, sized};
use crate::error::Result;
use crate::ptr::P;

/// A hash set: `HashSet` for a heap. It is a [`PHashMap`] without values, and shares its properties.
///
/// ```
/// # use pheap::{Heap, P, PHashSet, Root};
/// # fn main() -> pheap::Result<()> {
/// # let heap = Heap::in_memory()?;
/// let seen: Root<PHashSet<P<str>>> = heap.root("seen")?;
/// seen.txn(|tx, seen| {
///     assert!(seen.insert(tx, "a page")?);
///     assert!(!seen.insert(tx, "a page")?);
///     Ok(())
/// })?;
/// assert!(seen.read(|view, seen| view[seen].contains(view, "a page"))?);
/// # Ok(())
/// # }
/// ```
///
#[doc = include_str!("phashset.md")]
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::PHashSet", crate = "crate")]
pub struct PHashSet<'r, K> {
    map: PHashMap<'r, K, ()>,
}

/// The iterator over the elements of a set.
type Elements<'v, 'r, K> = Keys<'v, 'r, K, ()>;

set_of! {
    PHashSet, PHashMap of HashKey, "a buffer", "O(1).", Elements;
    fn scan(from: u64) -> (Elements<'v, 'r, K>, u64);
    fn choose(random: impl FnMut() -> u64) -> Option<&'v K::Query>;
}

impl<'r, K: HashKey<'r>> PHashSet<'r, K> {
    /// Iterates over the elements in arbitrary order, which stays the same while the set is not changed.
    #[inline]
    pub fn iter<'v>(&self, view: &'v View<'r>) -> Keys<'v, 'r, K, ()> {
        self.map.keys(view)
    }

    /// Returns some of the elements, and a number with which the next call continues; see [`PHashMap::scan`].
    pub fn scan<'v>(&self, view: &'v View<'r>, from: u64) -> (Keys<'v, 'r, K, ()>, u64) {
        let (cursor, next) = HashCursor::of_chain(&self.map, view, from);
        (Keys(cursor), next)
    }

    /// Returns an element at random, each with the same probability; `None` if the set is empty. See
    /// [`PHashMap::choose`].
    pub fn choose<'v>(&self, view: &'v View<'r>, random: impl FnMut() -> u64) -> Option<&'v K::Query> {
        self.map.choose(view, random).map(|(element, ())| element)
    }

    /// Iterates over the elements that are in both sets.
    pub fn intersection<'v>(
        &'v self,
        view: &'v View<'r>,
        other: &'v PHashSet<'r, K>,
    ) -> impl Iterator<Item = &'v K::Query> + Clone {
        let (less, more) = if self.len() <= other.len() { (self, other) } else { (other, self) };
        less.iter(view).filter(move |element| more.contains(view, *element))
    }

    /// Iterates over the elements that are not in the other set.
    pub fn difference<'v>(
        &'v self,
        view: &'v View<'r>,
        other: &'v PHashSet<'r, K>,
    ) -> impl Iterator<Item = &'v K::Query> + Clone {
        self.iter(view).filter(move |element| !other.contains(view, *element))
    }

    /// Iterates over the elements that are in one of the sets, but not in both.
    pub fn symmetric_difference<'v>(
        &'v self,
        view: &'v View<'r>,
        other: &'v PHashSet<'r, K>,
    ) -> impl Iterator<Item = &'v K::Query> + Clone {
        self.difference(view, other).chain(other.difference(view, self))
    }

    /// Iterates over the elements that are in one of the sets or in both, each once.
    pub fn union<'v>(
        &'v self,
        view: &'v View<'r>,
        other: &'v PHashSet<'r, K>,
    ) -> impl Iterator<Item = &'v K::Query> + Clone {
        self.iter(view).chain(other.difference(view, self))
    }

    /// Whether no element is in both sets.
    pub fn is_disjoint(&self, view: &View<'r>, other: &PHashSet<'r, K>) -> bool {
        self.intersection(view, other).next().is_none()
    }

    /// Whether all elements are in the other set, too.
    pub fn is_subset(&self, view: &View<'r>, other: &PHashSet<'r, K>) -> bool {
        self.len() <= other.len() && self.iter(view).all(|element| other.contains(view, element))
    }

    /// Whether all elements of the other set are in this one.
    pub fn is_superset(&self, view: &View<'r>, other: &PHashSet<'r, K>) -> bool {
        other.is_subset(view, self)
    }
}

/// <a id="change-PHashSet-more"></a>More methods that change a set.
impl<'r, K: HashKey<'r>> P<'r, PHashSet<'r, K>> {
    /// Inserts the items of an iterator. The waits for memory overlap, as in `extend` of a [`PHashMap`].
    ///
    /// # Errors
    /// As for [`insert`](Self::insert). Then the earlier items stay inserted, unless the transaction is
    /// rolled back.
    pub fn extend<Q: Borrow<K::Query>>(
        self,
        tx: &mut Txn<'r>,
        elements: impl IntoIterator<Item = Q>,
    ) -> Result<()> {
        self.map().extend(tx, elements.into_iter().map(|element| (element, ())))
    }

    /// Moves all elements of `other` to this set, as [`append`](P::append) of maps does, at the same cost.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert). Then some elements have moved, and all others are still in `other`.
    ///
    /// # Panics
    /// If `other` is this set.
    pub fn append(self, tx: &mut Txn<'r>, other: P<'r, PHashSet<'r, K>>) -> Result<()> {
        self.map().append(tx, other.map())
    }

    /// Removes all elements and returns them, in no particular order. O(n).
    pub fn drain(self, tx: &mut Txn<'r>) -> impl ExactSizeIterator<Item = K> {
        self.map().drain(tx).map(|(element, ())| element)
    }

    /// Frees unused memory: all elements move to a new table. O(n).
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn shrink_to_fit(self, tx: &mut Txn<'r>) -> Result<()> {
        self.map().shrink_to_fit(tx)
    }
}
