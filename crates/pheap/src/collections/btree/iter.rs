//! Iterators over all entries of an ordered map.

use super::node::Entry;
use super::range::Between;
use crate::api::view::View;
use crate::collections::common::iterators;
use crate::collections::key::OrdKey;
use crate::layout::Persist;

iterators! {
    /// The entries of a [`PBTreeMap`](super::PBTreeMap) in the order of their keys; made by [`PBTreeMap::iter`](super::PBTreeMap::iter).
    [K: OrdKey<'r>, V: Persist] Iter<K, V>(Entries<'v, 'r, K, V>) => (&'v K::Query, &'v V),
    |(view, entry)| (entry.key.query(view), &entry.value);
    debug_map of [K::Query, V] exact both_ends;

    /// The keys of a [`PBTreeMap`](super::PBTreeMap) in order; made by [`PBTreeMap::keys`](super::PBTreeMap::keys).
    [K: OrdKey<'r>, V: Persist] Keys<K, V>(Entries<'v, 'r, K, V>) => &'v K::Query, |(view, entry)| entry.key.query(view);
    debug_list of [K::Query] exact both_ends;

    /// The values of a [`PBTreeMap`](super::PBTreeMap) in the order of their keys; made by [`PBTreeMap::values`](super::PBTreeMap::values).
    [K: OrdKey<'r>, V: Persist] Values<K, V>(Entries<'v, 'r, K, V>) => &'v V, |(_, entry)| &entry.value;
    debug_list of [V] exact both_ends;
}

/// All entries, each with the view that shows its key, and how many there are.
pub(super) struct Entries<'v, 'r, K, V> {
    pub(super) between: Between<'v, 'r, K, V>,
    pub(super) left: usize,
}

impl<K, V> Clone for Entries<'_, '_, K, V> {
    fn clone(&self) -> Self {
        Entries { between: self.between.clone(), left: self.left }
    }
}

impl<'v, 'r, K: OrdKey<'r>, V: Persist> Iterator for Entries<'v, 'r, K, V> {
    type Item = (&'v View<'r>, &'v Entry<K, V>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.between.next()?;
        self.left = self.left.saturating_sub(1);
        Some(entry)
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }

    #[inline]
    fn count(self) -> usize {
        self.left
    }
}

impl<'r, K: OrdKey<'r>, V: Persist> DoubleEndedIterator for Entries<'_, 'r, K, V> {
    #[inline(always)]
    fn next_back(&mut self) -> Option<Self::Item> {
        let entry = self.between.next_back()?;
        self.left = self.left.saturating_sub(1);
        Some(entry)
    }
}
