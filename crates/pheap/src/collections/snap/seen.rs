//! `SnapRef`, a version of a map, to read.

use std::fmt;
use std::marker::PhantomData;

use super::frozen::Frozen;
use super::node::Child;
use super::path::{SnapPath, SnapPosition};
use super::range::{Entries, Iter, Keys, Range, SnapEntries, Values};
use crate::api::view::View;
use crate::collections::btree::KeyRange;
use crate::collections::common::copied;

/// A version of a [`PSnapMap`](super::PSnapMap), to read: that of a [`Snapshot`](super::Snapshot), or [that
/// of a view](super::PSnapMap::seen).
pub struct SnapRef<'v, 'r, K, V> {
    view: &'v View<'r>,
    top: Child<'r, K, V>,
    len: usize,
    entries: PhantomData<&'v (K, V)>,
}

copied! { [K, V] SnapRef<'_, '_, K, V>; }

impl<'v, 'r, K: Frozen<'r>, V: Frozen<'r>> SnapRef<'v, 'r, K, V> {
    #[inline(always)]
    pub(super) fn new(view: &'v View<'r>, top: Child<'r, K, V>, len: usize) -> Self {
        SnapRef { view, top, len, entries: PhantomData }
    }

    /// Returns the number of entries.
    #[inline(always)]
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are no entries.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns the key and its value, if the map has the key. O(log n).
    #[inline]
    pub fn get_key_value(self, key: &K::Shown) -> Option<(&'v K::Shown, &'v V::Shown)>
    where
        K: Frozen<'r, Shown: Ord>,
    {
        let leaf = SnapPath::new().descend(self.view, self.top, |node| node.child_for(self.view, key))?;
        let leaf = &self.view[leaf];
        let place = leaf.search_key(self.view, key).ok()?;
        Some((leaf.keys()[place].shown(self.view), leaf.items()[place].shown(self.view)))
    }

    /// Returns the value of a key, if the map has the key. O(log n).
    #[inline]
    pub fn get(self, key: &K::Shown) -> Option<&'v V::Shown>
    where
        K: Frozen<'r, Shown: Ord>,
    {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// Whether the map has a key. O(log n).
    #[inline]
    pub fn contains_key(self, key: &K::Shown) -> bool
    where
        K: Frozen<'r, Shown: Ord>,
    {
        self.get(key).is_some()
    }

    /// Returns the entry after a position; `None` if the position is after all entries.
    fn entry(self, at: SnapPosition<'r, K, V>) -> Option<(&'v K::Shown, &'v V::Shown)> {
        let leaf = &self.view[at.leaf?];
        Some((leaf.keys()[at.place].shown(self.view), leaf.items()[at.place].shown(self.view)))
    }

    /// Returns the entry with the least key. O(log n).
    pub fn first_key_value(self) -> Option<(&'v K::Shown, &'v V::Shown)> {
        self.entry(SnapPosition::at_end(self.view, self.top, false))
    }

    /// Returns the entry with the greatest key. O(log n).
    pub fn last_key_value(self) -> Option<(&'v K::Shown, &'v V::Shown)> {
        self.entry(SnapPosition::at_end(self.view, self.top, true))
    }

    fn entries(self) -> Entries<'v, 'r, K, V> {
        Entries::new(SnapEntries::all(self.view, self.top), self.len)
    }

    /// Iterates over the entries in the order of their keys; the iterator is double-ended.
    pub fn iter(self) -> Iter<'v, 'r, K, V> {
        Iter(self.entries())
    }

    /// Iterates over the keys in order.
    pub fn keys(self) -> Keys<'v, 'r, K, V> {
        Keys(self.entries())
    }

    /// Iterates over the values in the order of their keys.
    pub fn values(self) -> Values<'v, 'r, K, V> {
        Values(self.entries())
    }

    /// Iterates over the entries whose keys are in a range, in order; the iterator is double-ended.
    ///
    /// # Panics
    /// If the range ends before it starts, or starts and ends at a key that both exclude.
    #[track_caller]
    pub fn range(self, range: impl KeyRange<K::Shown>) -> Range<'v, 'r, K, V>
    where
        K: Frozen<'r, Shown: Ord>,
    {
        Range(SnapEntries::new(self.view, self.top, range))
    }
}

impl<'r, K: Frozen<'r, Shown: fmt::Debug>, V: Frozen<'r, Shown: fmt::Debug>> fmt::Debug
    for SnapRef<'_, 'r, K, V>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().fmt(f)
    }
}
