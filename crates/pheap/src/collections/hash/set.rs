//! `PHashSet`, a hash set.

use std::borrow::Borrow;

use super::{HashKey, Keys, PHashMap};
use crate::Persist;
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::error::Result;
use crate::ptr::P;

/// A hash set: `HashSet` for a heap. It is a [`PHashMap`] without values, and all that is said there holds here.
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
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::PHashSet", crate = "crate")]
pub struct PHashSet<'r, K> {
    map: PHashMap<'r, K, ()>,
}

impl<K> Default for PHashSet<'_, K> {
    fn default() -> Self {
        PHashSet::new()
    }
}

impl<K> PHashSet<'_, K> {
    /// Without elements, and without a buffer.
    pub const fn new() -> Self {
        PHashSet { map: PHashMap::new() }
    }

    /// Number of elements.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there are no elements.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }
}

/// Reading.
impl<'r, K: HashKey<'r>> PHashSet<'r, K> {
    /// Whether there is such an element. O(1).
    #[inline]
    pub fn contains(&self, view: &View<'r>, element: &K::Query) -> bool {
        self.map.contains_key(view, element)
    }

    /// The elements, in an order that means nothing, and stays the same while the set is not changed.
    #[inline]
    pub fn iter<'v>(&self, view: &'v View<'r>) -> Keys<'v, 'r, K, ()> {
        self.map.keys(view)
    }

    /// The elements that are in both sets.
    pub fn intersection<'v>(
        &'v self,
        view: &'v View<'r>,
        other: &'v PHashSet<'r, K>,
    ) -> impl Iterator<Item = &'v K::Query> + Clone {
        let (less, more) = if self.len() <= other.len() { (self, other) } else { (other, self) };
        less.iter(view).filter(move |element| more.contains(view, element))
    }

    /// The elements that are not in the other set.
    pub fn difference<'v>(
        &'v self,
        view: &'v View<'r>,
        other: &'v PHashSet<'r, K>,
    ) -> impl Iterator<Item = &'v K::Query> + Clone {
        self.iter(view).filter(move |element| !other.contains(view, element))
    }

    /// The elements that are in one of the sets, but not in both.
    pub fn symmetric_difference<'v>(
        &'v self,
        view: &'v View<'r>,
        other: &'v PHashSet<'r, K>,
    ) -> impl Iterator<Item = &'v K::Query> + Clone {
        self.difference(view, other).chain(other.difference(view, self))
    }

    /// The elements that are in one of the sets or in both, each once.
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

/// Reading a set by its pointer: short for `view[set].contains(view, …)`.
impl<'r, K: HashKey<'r>> P<'r, PHashSet<'r, K>> {
    /// [`PHashSet::len`].
    #[inline]
    #[allow(clippy::len_without_is_empty)] // it is there; clippy does not see through the `impl` blocks
    pub fn len(self, view: &View<'r>) -> usize {
        view[self].len()
    }

    /// [`PHashSet::is_empty`].
    #[inline]
    pub fn is_empty(self, view: &View<'r>) -> bool {
        view[self].is_empty()
    }

    /// [`PHashSet::contains`].
    #[inline]
    pub fn contains(self, view: &View<'r>, element: &K::Query) -> bool {
        view[self].contains(view, element)
    }

    /// [`PHashSet::iter`].
    #[inline]
    pub fn iter<'v>(self, view: &'v View<'r>) -> Keys<'v, 'r, K, ()> {
        view[self].iter(view)
    }
}

/// Changing a set.
impl<'r, K: HashKey<'r>> P<'r, PHashSet<'r, K>> {
    /// The map of a set.
    #[inline(always)]
    #[allow(unsafe_code)] // of `field!`
    fn map(self) -> P<'r, PHashMap<'r, K, ()>> {
        crate::field!(self.map)
    }

    /// Inserts an element. Returns whether it was not there. O(1).
    ///
    /// # Errors
    /// If there is no memory for it, as for [`PHashMap`].
    #[inline]
    pub fn insert(self, tx: &mut Txn<'r>, element: &K::Query) -> Result<bool> {
        let map = self.map();
        match tx[map].find(tx, element) {
            Ok(_) => Ok(false),
            Err(absence) => map.add(tx, absence, element, ()).map(|_| true),
        }
    }

    /// Removes an element. Returns whether it was there. O(1).
    #[inline]
    pub fn remove(self, tx: &mut Txn<'r>, element: &K::Query) -> bool {
        self.map().remove(tx, element).is_some()
    }

    /// Inserts what an iterator yields. Faster than one [`insert`](Self::insert) after the other.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert). What came before is inserted then; an `Err` that leaves the transaction undoes it.
    pub fn extend<Q: Borrow<K::Query>>(
        self,
        tx: &mut Txn<'r>,
        elements: impl IntoIterator<Item = Q>,
    ) -> Result<()> {
        self.map().extend(tx, elements.into_iter().map(|element| (element, ())))
    }

    /// Keeps the elements for which `keep` is true. O(n).
    pub fn retain(self, tx: &mut Txn<'r>, mut keep: impl FnMut(&K::Query) -> bool) {
        self.map().retain(tx, |element, ()| keep(element));
    }

    /// Removes all elements and returns them, in no particular order. O(n).
    pub fn drain(self, tx: &mut Txn<'r>) -> impl ExactSizeIterator<Item = K> {
        self.map().drain(tx).map(|(element, ())| element)
    }

    /// Removes all elements, and gives up all memory. O(n).
    pub fn clear(self, tx: &mut Txn<'r>) {
        self.map().clear(tx);
    }

    /// Gives up memory that is not in use: all elements move. O(n).
    ///
    /// # Errors
    /// As for [`insert`](Self::insert).
    pub fn shrink_to_fit(self, tx: &mut Txn<'r>) -> Result<()> {
        self.map().shrink_to_fit(tx)
    }
}
