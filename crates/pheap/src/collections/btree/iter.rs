//! Iterators over all entries of an ordered map.

use super::range::SpanEntries;
use crate::collections::common::{CountedEntries, iterators};
use crate::collections::key::OrdKey;
use crate::layout::Persist;

iterators! {
    /// The entries of a [`PBTreeMap`](super::PBTreeMap) in the order of their keys; made by
    /// [`PBTreeMap::iter`](super::PBTreeMap::iter).
    [K: OrdKey<'r>, V: Persist] Iter<K, V>(Entries<'v, 'r, K, V>) => (&'v K::Query, &'v V),
    |(view, entry)| (entry.key.query(view), &entry.value);
    debug_map of [K::Query, V] exact both_ends;

    /// The keys of a [`PBTreeMap`](super::PBTreeMap) in order; made by
    /// [`PBTreeMap::keys`](super::PBTreeMap::keys).
    [K: OrdKey<'r>, V: Persist] Keys<K, V>(Entries<'v, 'r, K, V>) => &'v K::Query,
    |(view, entry)| entry.key.query(view);
    debug_list of [K::Query] exact both_ends;

    /// The values of a [`PBTreeMap`](super::PBTreeMap) in the order of their keys; made by
    /// [`PBTreeMap::values`](super::PBTreeMap::values).
    [K: OrdKey<'r>, V: Persist] Values<K, V>(Entries<'v, 'r, K, V>) => &'v V, |(_, entry)| &entry.value;
    debug_list of [V] exact both_ends;
}

/// An iterator over all entries of a map, each with the view that shows its key.
pub(super) type Entries<'v, 'r, K, V> = CountedEntries<SpanEntries<'v, 'r, K, V>>;
