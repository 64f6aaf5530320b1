//! Iterators over the entries of a version of a map, in the order of their keys.

use std::marker::PhantomData;
use std::ops::Bound;

use super::frozen::Frozen;
use super::node::Child;
use super::path::SnapPosition;
use crate::api::view::View;
use crate::collections::btree::{KeyRange, ends};
use crate::collections::common::{CountedEntries, iterators};
use crate::layout::Persist;

iterators! {
    /// The entries of a [`PSnapMap`](super::PSnapMap) in the order of their keys; made by
    /// [`SnapRef::iter`](super::SnapRef::iter).
    [K: Frozen<'r>, V: Frozen<'r>] Iter<K, V>(Entries<'v, 'r, K, V>) => (&'v K::Shown, &'v V::Shown),
    |(view, key, value)| (key.shown(view), value.shown(view));
    debug_map of [K::Shown, V::Shown] exact both_ends;

    /// The keys of a [`PSnapMap`](super::PSnapMap) in order; made by [`SnapRef::keys`](super::SnapRef::keys).
    [K: Frozen<'r>, V: Frozen<'r>] Keys<K, V>(Entries<'v, 'r, K, V>) => &'v K::Shown,
    |(view, key, _)| key.shown(view);
    debug_list of [K::Shown] exact both_ends;

    /// The values of a [`PSnapMap`](super::PSnapMap) in the order of their keys; made by
    /// [`SnapRef::values`](super::SnapRef::values).
    [K: Frozen<'r>, V: Frozen<'r>] Values<K, V>(Entries<'v, 'r, K, V>) => &'v V::Shown,
    |(view, _, value)| value.shown(view);
    debug_list of [V::Shown] exact both_ends;

    /// The entries of a [`PSnapMap`](super::PSnapMap) in a range of keys, in order; made by
    /// [`SnapRef::range`](super::SnapRef::range).
    [K: Frozen<'r>, V: Frozen<'r>] Range<K, V>(SnapEntries<'v, 'r, K, V>) => (&'v K::Shown, &'v V::Shown),
    |(view, key, value)| (key.shown(view), value.shown(view));
    debug_map of [K::Shown, V::Shown] both_ends;
}

/// An iterator over the entries between two positions, each with the view that shows it.
pub(super) struct SnapEntries<'v, 'r, K, V> {
    view: &'v View<'r>,
    top: Child<'r, K, V>,
    /// `front` is before the first entry, and `back` before the entry that follows the last one.
    front: SnapPosition<'r, K, V>,
    back: SnapPosition<'r, K, V>,
    entries: PhantomData<&'v (K, V)>,
}

impl<K, V> Clone for SnapEntries<'_, '_, K, V> {
    fn clone(&self) -> Self {
        SnapEntries { ..*self }
    }
}

impl<'v, 'r, K: Persist, V: Persist> SnapEntries<'v, 'r, K, V> {
    /// Returns an iterator over all entries.
    pub(super) fn all(view: &'v View<'r>, top: Child<'r, K, V>) -> Self {
        let (front, back) = (SnapPosition::at_end(view, top, false), SnapPosition::behind_all());
        SnapEntries { view, top, front, back, entries: PhantomData }
    }

    #[track_caller]
    pub(super) fn new(view: &'v View<'r>, top: Child<'r, K, V>, range: impl KeyRange<K::Shown>) -> Self
    where
        K: Frozen<'r, Shown: Ord>,
    {
        let (start, end) = ends(&range, "PSnapMap");
        let all = SnapEntries::all(view, top);
        let front = match start {
            Bound::Unbounded => all.front,
            Bound::Included(key) => SnapPosition::seek_from(view, top, key, false),
            Bound::Excluded(key) => SnapPosition::seek_from(view, top, key, true),
        };
        let back = match end {
            Bound::Unbounded => all.back,
            Bound::Included(key) => SnapPosition::seek_from(view, top, key, true),
            Bound::Excluded(key) => SnapPosition::seek_from(view, top, key, false),
        };
        // If the order of the keys contradicts itself, `back` may be before `front`. The two must meet in any
        // case.
        let back = if back.is_before(&front) { front } else { back };
        SnapEntries { front, back, ..all }
    }
}

impl<'v, 'r, K: Persist, V: Persist> Iterator for SnapEntries<'v, 'r, K, V> {
    type Item = (&'v View<'r>, &'v K, &'v V);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.front.is_same_position(&self.back) {
            return None;
        }
        let (leaf, place) = (&self.view[self.front.leaf?], self.front.place);
        self.front.next(self.view, leaf.len());
        Some((self.view, &leaf.keys()[place], &leaf.items()[place]))
    }
}

impl<'v, 'r, K: Persist, V: Persist> DoubleEndedIterator for SnapEntries<'v, 'r, K, V> {
    #[inline(always)]
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.front.is_same_position(&self.back) {
            return None;
        }
        self.back.previous(self.view, self.top);
        let (leaf, place) = (&self.view[self.back.leaf?], self.back.place);
        Some((self.view, &leaf.keys()[place], &leaf.items()[place]))
    }
}

/// An iterator over all entries of a version, each with the view that shows it.
pub(super) type Entries<'v, 'r, K, V> = CountedEntries<SnapEntries<'v, 'r, K, V>>;
