//! `PBTreeSet`, an ordered set.

use super::{KeyRange, PBTreeMap};
use crate::Persist;
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::collections::common::{by_pointer, iterators, not_in_place, set_of, sized};
use crate::collections::key::{KeyArg, OrdKey};
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
///
#[doc = include_str!("pbtreeset.md")]
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::PBTreeSet", crate = "crate")]
pub struct PBTreeSet<'r, K> {
    map: PBTreeMap<'r, K, ()>,
}

set_of!(PBTreeSet, PBTreeMap of OrdKey, "nodes", "O(log n).", Iter);

impl<'r, K: OrdKey<'r>> PBTreeSet<'r, K> {
    /// Returns the element that equals `key`. O(log n).
    pub fn get<'v>(&self, view: &'v View<'r>, key: impl KeyArg<'r, K>) -> Option<&'v K::Query>
    where
        K: 'v,
    {
        self.map.get_key_value(view, key).map(|(key, ())| key)
    }

    /// Returns the least element. O(log n).
    pub fn first<'v>(&self, view: &'v View<'r>) -> Option<&'v K::Query>
    where
        K: 'v,
    {
        self.iter(view).next()
    }

    /// Returns the greatest element. O(log n).
    pub fn last<'v>(&self, view: &'v View<'r>) -> Option<&'v K::Query>
    where
        K: 'v,
    {
        self.iter(view).next_back()
    }

    /// Returns how many elements are less than `key`; see [`PBTreeMap::rank`].
    pub fn rank(&self, view: &View<'r>, key: impl KeyArg<'r, K>) -> usize {
        self.map.rank(view, key)
    }

    /// Returns the element at place `n` in order, counted from 0; see [`PBTreeMap::nth`].
    pub fn nth<'v>(&self, view: &'v View<'r>, n: usize) -> Option<&'v K::Query>
    where
        K: 'v,
    {
        self.map.nth(view, n).map(|(key, ())| key)
    }

    /// Iterates over the elements in order; the iterator is double-ended.
    #[inline]
    pub fn iter<'v>(&self, view: &'v View<'r>) -> Iter<'v, 'r, K> {
        Iter(self.map.keys(view))
    }

    /// Iterates over the elements in a range, in order; the iterator is double-ended.
    ///
    /// # Panics
    /// As [`PBTreeMap::range`].
    #[track_caller]
    pub fn range<'v>(&self, view: &'v View<'r>, range: impl KeyRange<K::Query>) -> Range<'v, 'r, K> {
        Range(self.map.range(view, range))
    }
}

/// <a id="change-PBTreeSet-more"></a>More methods that change a set.
impl<'r, K: OrdKey<'r>> P<'r, PBTreeSet<'r, K>> {
    /// Iterates over the elements in a range, in order; see [`PBTreeSet::range`].
    ///
    /// # Panics
    /// As [`PBTreeSet::range`].
    #[track_caller]
    pub fn range<'v>(self, view: &'v View<'r>, range: impl KeyRange<K::Query>) -> Range<'v, 'r, K> {
        view[self].range(view, range)
    }

    /// Removes an element, and returns it. O(log n).
    pub fn take(self, tx: &mut Txn<'r>, key: impl KeyArg<'r, K>) -> Option<K> {
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

    /// Moves all elements of `other` to this set, as [`append`](P::append) of maps does, at the same cost.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert). Then some elements have moved, and all others are still in `other`.
    ///
    /// # Panics
    /// If `other` is this set.
    pub fn append(self, tx: &mut Txn<'r>, other: P<'r, PBTreeSet<'r, K>>) -> Result<()> {
        self.map().append(tx, other.map())
    }

    /// Moves the elements that are not less than `key` to another set, as `split_off` of maps does, at the
    /// same cost.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert); then nothing has changed. If the program does not store the returned
    /// set, its nodes are garbage.
    pub fn split_off(self, tx: &mut Txn<'r>, key: impl KeyArg<'r, K>) -> Result<PBTreeSet<'r, K>> {
        self.map().split_off(tx, key).map(|map| PBTreeSet { map })
    }

    /// Inserts the items of an iterator.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert). Then the earlier items stay inserted, unless the transaction is
    /// rolled back.
    pub fn extend<'q>(self, tx: &mut Txn<'r>, keys: impl IntoIterator<Item = &'q K::Query>) -> Result<()>
    where
        K::Query: 'q,
    {
        keys.into_iter().try_for_each(|key| self.insert(tx, key).map(drop))
    }
}

iterators! {
    /// The elements of a [`PBTreeSet`] in order; made by [`PBTreeSet::iter`].
    [K: OrdKey<'r>] Iter<K>(super::Keys<'v, 'r, K, ()>) => &'v K::Query, |key| key;
    debug_set of [K::Query] exact both_ends;

    /// The elements of a [`PBTreeSet`] in a range, in order; made by [`PBTreeSet::range`].
    [K: OrdKey<'r>] Range<K>(super::Range<'v, 'r, K, ()>) => &'v K::Query, |(key, ())| key;
    debug_set of [K::Query] both_ends;
}
