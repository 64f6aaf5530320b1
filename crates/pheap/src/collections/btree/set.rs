//! `PBTreeSet`, an ordered set.

use std::iter::FusedIterator;

use super::{KeyRange, PBTreeMap};
use crate::Persist;
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::collections::key::OrdKey;
use crate::error::Result;
use crate::ptr::P;

/// An ordered set: `BTreeSet` for a heap. A [`PBTreeMap`] without values.
///
/// ```
/// # use pheap::{Heap, P, Root};
/// # use pheap::collections::PBTreeSet;
/// # fn main() -> pheap::Result<()> {
/// # let heap = Heap::in_memory()?;
/// let names: Root<PBTreeSet<P<str>>> = heap.root("names")?;
/// names.txn(|tx, names| {
///     names.extend(tx, ["Grace", "Ada", "Edsger"])?;
///     assert!(!names.insert(tx, "Ada")?);
///     names.remove(tx, "Grace");
///     assert!(names.iter(tx).eq(["Ada", "Edsger"]));
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::PBTreeSet", crate = "crate")]
pub struct PBTreeSet<'r, K> {
    map: PBTreeMap<'r, K, ()>,
}

impl<K> Default for PBTreeSet<'_, K> {
    fn default() -> Self {
        PBTreeSet::new()
    }
}

impl<K> PBTreeSet<'_, K> {
    /// Without elements, and without nodes.
    pub const fn new() -> Self {
        PBTreeSet { map: PBTreeMap::new() }
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

/// Reading. Elements are seen in the form that they are looked up by.
impl<'r, K: OrdKey<'r>> PBTreeSet<'r, K> {
    /// Whether an element is there. O(log n).
    #[inline]
    pub fn contains(&self, view: &View<'r>, key: &K::Query) -> bool {
        self.map.contains_key(view, key)
    }

    /// The element that equals this one. O(log n).
    pub fn get<'v>(&self, view: &'v View<'r>, key: &K::Query) -> Option<&'v K::Query>
    where
        K: 'v,
    {
        self.map.get_key_value(view, key).map(|(key, ())| key)
    }

    /// The least element. O(log n).
    pub fn first<'v>(&self, view: &'v View<'r>) -> Option<&'v K::Query>
    where
        K: 'v,
    {
        self.iter(view).next()
    }

    /// The greatest element. O(log n).
    pub fn last<'v>(&self, view: &'v View<'r>) -> Option<&'v K::Query>
    where
        K: 'v,
    {
        self.iter(view).next_back()
    }

    /// The elements in order, from both ends.
    #[inline]
    pub fn iter<'v>(&self, view: &'v View<'r>) -> Iter<'v, 'r, K> {
        Iter(self.map.keys(view))
    }

    /// The elements in a range, in order, from both ends.
    ///
    /// # Panics
    /// As [`PBTreeMap::range`].
    #[track_caller]
    pub fn range<'v>(&self, view: &'v View<'r>, range: impl KeyRange<K::Query>) -> Range<'v, 'r, K> {
        Range(self.map.range(view, range))
    }
}

/// Reading a set by its pointer: short for `view[set].contains(view, …)`.
impl<'r, K: OrdKey<'r>> P<'r, PBTreeSet<'r, K>> {
    #[inline(always)]
    #[allow(unsafe_code)] // of `field!`
    fn map(self) -> P<'r, PBTreeMap<'r, K, ()>> {
        crate::field!(self.map)
    }

    /// [`PBTreeSet::len`].
    #[inline]
    #[allow(clippy::len_without_is_empty)] // it is there; clippy does not see through the `impl` blocks
    pub fn len(self, view: &View<'r>) -> usize {
        view[self].len()
    }

    /// [`PBTreeSet::is_empty`].
    #[inline]
    pub fn is_empty(self, view: &View<'r>) -> bool {
        view[self].is_empty()
    }

    /// [`PBTreeSet::contains`].
    #[inline]
    pub fn contains(self, view: &View<'r>, key: &K::Query) -> bool {
        view[self].contains(view, key)
    }

    /// [`PBTreeSet::iter`].
    #[inline]
    pub fn iter<'v>(self, view: &'v View<'r>) -> Iter<'v, 'r, K> {
        view[self].iter(view)
    }

    /// [`PBTreeSet::range`].
    ///
    /// # Panics
    /// As there.
    #[track_caller]
    pub fn range<'v>(self, view: &'v View<'r>, range: impl KeyRange<K::Query>) -> Range<'v, 'r, K> {
        view[self].range(view, range)
    }
}

/// Changing a set.
impl<'r, K: OrdKey<'r>> P<'r, PBTreeSet<'r, K>> {
    /// Adds an element. Returns whether it was not there before. O(log n).
    ///
    /// # Errors
    /// As for a map's `insert`.
    pub fn insert(self, tx: &mut Txn<'r>, key: &K::Query) -> Result<bool> {
        Ok(self.map().insert(tx, key, ())?.is_none())
    }

    /// Removes an element. Returns whether it was there. O(log n).
    pub fn remove(self, tx: &mut Txn<'r>, key: &K::Query) -> bool {
        self.map().remove(tx, key).is_some()
    }

    /// Removes an element, and returns it. O(log n).
    pub fn take(self, tx: &mut Txn<'r>, key: &K::Query) -> Option<K> {
        self.map().remove_entry(tx, key).map(|(key, ())| key)
    }

    /// Removes the least element. O(log n).
    pub fn pop_first(self, tx: &mut Txn<'r>) -> Option<K> {
        self.map().pop_first(tx).map(|(key, ())| key)
    }

    /// Removes the greatest element. O(log n).
    pub fn pop_last(self, tx: &mut Txn<'r>) -> Option<K> {
        self.map().pop_last(tx).map(|(key, ())| key)
    }

    /// Keeps the elements for which `keep` is true. O(n).
    pub fn retain(self, tx: &mut Txn<'r>, mut keep: impl FnMut(&K::Query) -> bool) {
        self.map().retain(tx, |key, ()| keep(key));
    }

    /// Removes all elements. O(n).
    pub fn clear(self, tx: &mut Txn<'r>) {
        self.map().clear(tx);
    }

    /// Adds what an iterator yields.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert). What came before is there then; an `Err` that leaves the transaction undoes it.
    pub fn extend<'q>(self, tx: &mut Txn<'r>, keys: impl IntoIterator<Item = &'q K::Query>) -> Result<()>
    where
        K::Query: 'q,
    {
        keys.into_iter().try_for_each(|key| self.insert(tx, key).map(drop))
    }
}

/// The elements of a [`PBTreeSet`] in order; made by [`PBTreeSet::iter`].
pub struct Iter<'v, 'r, K>(super::Keys<'v, 'r, K, ()>);

/// The elements of a [`PBTreeSet`] in a range, in order; made by [`PBTreeSet::range`].
pub struct Range<'v, 'r, K>(super::Range<'v, 'r, K, ()>);

impl<'v, 'r, K: OrdKey<'r>> Iterator for Iter<'v, 'r, K> {
    type Item = &'v K::Query;

    #[inline]
    fn next(&mut self) -> Option<&'v K::Query> {
        self.0.next()
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }

    #[inline]
    fn count(self) -> usize {
        self.0.count()
    }
}

impl<'r, K: OrdKey<'r>> DoubleEndedIterator for Iter<'_, 'r, K> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back()
    }
}

impl<'r, K: OrdKey<'r>> ExactSizeIterator for Iter<'_, 'r, K> {}
impl<'r, K: OrdKey<'r>> FusedIterator for Iter<'_, 'r, K> {}

impl<'v, 'r, K: OrdKey<'r>> Iterator for Range<'v, 'r, K> {
    type Item = &'v K::Query;

    #[inline]
    fn next(&mut self) -> Option<&'v K::Query> {
        self.0.next().map(|(key, ())| key)
    }
}

impl<'r, K: OrdKey<'r>> DoubleEndedIterator for Range<'_, 'r, K> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|(key, ())| key)
    }
}

impl<'r, K: OrdKey<'r>> FusedIterator for Range<'_, 'r, K> {}

impl<K> Clone for Iter<'_, '_, K> {
    fn clone(&self) -> Self {
        Iter(self.0.clone())
    }
}

impl<K> Clone for Range<'_, '_, K> {
    fn clone(&self) -> Self {
        Range(self.0.clone())
    }
}

impl<'r, K: OrdKey<'r, Query: std::fmt::Debug>> std::fmt::Debug for Iter<'_, 'r, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.clone()).finish()
    }
}

impl<'r, K: OrdKey<'r, Query: std::fmt::Debug>> std::fmt::Debug for Range<'_, 'r, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.clone()).finish()
    }
}
