//! The entry of a key in a map, existing or vacant.

use super::PBTreeMap;
use super::node::Leaf;
use super::path::TreePath;
use super::range::TreePosition;
use super::search::{self, SearchKey, TreeLookup};
use super::{grow, node, shrink};
use crate::api::tx::Txn;
use crate::collections::common::entries;
use crate::collections::key::{OrdKey, OwnKey};
use crate::error::Result;
use crate::layout::Persist;
use crate::ptr::P;

/// The entry of a key in a [`PBTreeMap`]; made by [`P::entry`](P#method.entry).
///
/// ```
/// # use pheap::{Heap, P, PBTreeMap, Root};
/// # fn main() -> pheap::Result<()> {
/// # let heap = Heap::in_memory()?;
/// let words: Root<PBTreeMap<P<str>, u64>> = heap.root("words")?;
/// words.txn(|tx, words| {
///     for word in "a rose is a rose".split(' ') {
///         *words.entry(tx, word).or_insert(0)? += 1;
///     }
///     assert_eq!(words.get(tx, "rose"), Some(&2));
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
pub enum Entry<'t, 'q, 'r, K: OrdKey<'r>, V> {
    /// The map has the key.
    Occupied(OccupiedEntry<'t, 'r, K, V>),
    /// The map does not have the key.
    Vacant(VacantEntry<'t, 'q, 'r, K, V>),
}

/// The entry of a key that a map has.
pub struct OccupiedEntry<'t, 'r, K, V> {
    map: P<'r, PBTreeMap<'r, K, V>>,
    tx: &'t mut Txn<'r>,
    leaf: P<'r, Leaf<K, V>>,
    path: TreePath<'r, K, V>,
    place: usize,
}

/// The vacant entry of a key that a map does not have.
pub struct VacantEntry<'t, 'q, 'r, K: OrdKey<'r>, V> {
    map: P<'r, PBTreeMap<'r, K, V>>,
    tx: &'t mut Txn<'r>,
    found: Option<TreeLookup<'r, K, V>>,
    path: TreePath<'r, K, V>,
    wanted: SearchKey<'q, K::Query>,
}

impl<'t, 'q, 'r, K: OrdKey<'r>, V: Persist<At<'r> = V>> Entry<'t, 'q, 'r, K, V> {
    pub(super) fn new(map: P<'r, PBTreeMap<'r, K, V>>, tx: &'t mut Txn<'r>, key: &'q K::Query) -> Self {
        let wanted = SearchKey::new::<K>(key);
        let mut path = TreePath::new();
        match search::find_to_insert(tx, tx[map].top.child(), wanted, &mut path) {
            Some(TreeLookup { leaf, place: Ok(place) }) => {
                Entry::Occupied(OccupiedEntry { map, tx, leaf, path, place })
            }
            found => Entry::Vacant(VacantEntry { map, tx, found, path, wanted }),
        }
    }
}

entries!(OrdKey);

impl<'t, 'r, K: OrdKey<'r>, V: Persist<At<'r> = V>> OccupiedEntry<'t, 'r, K, V> {
    /// Returns the first entry of a map, or the last one if `last`; `None` if the map is empty.
    pub(super) fn at_end(map: P<'r, PBTreeMap<'r, K, V>>, tx: &'t mut Txn<'r>, last: bool) -> Option<Self> {
        let mut path = TreePath::new();
        let TreeLookup { leaf, place } = TreePosition::at_end(tx, tx[map].top.child(), last, &mut path)?;
        Some(OccupiedEntry { map, tx, leaf, path, place: place.ok()? })
    }

    /// Returns the key in its borrowed form.
    pub fn key(&self) -> &K::Query {
        self.leaf.node_view(self.tx).query(self.place)
    }

    /// Returns the value of the entry.
    pub fn get(&self) -> &V {
        self.leaf.node_view(self.tx).value(self.place)
    }

    /// Returns the value of the entry, to write.
    pub fn get_mut(&mut self) -> &mut V {
        self.leaf.value_mut(self.tx, self.place)
    }

    /// Returns the value of the entry, to write, for as long as the transaction is borrowed.
    pub fn into_mut(self) -> &'t mut V {
        self.leaf.value_mut(self.tx, self.place)
    }

    /// Replaces the value, and returns the old one.
    pub fn insert(&mut self, value: V) -> V {
        std::mem::replace(self.get_mut(), value)
    }

    /// Removes the entry, and returns its value.
    pub fn remove(mut self) -> V {
        let entry = shrink::remove(self.map, self.tx, self.leaf, &mut self.path, self.place);
        entry.key.free_key(self.tx);
        entry.value
    }

    /// Removes the entry, and returns its key and value.
    pub fn remove_entry(mut self) -> (K, V) {
        let entry = shrink::remove(self.map, self.tx, self.leaf, &mut self.path, self.place);
        (entry.key.into_inner(), entry.value)
    }
}

impl<'t, 'q, 'r, K: OrdKey<'r>, V: Persist<At<'r> = V>> VacantEntry<'t, 'q, 'r, K, V> {
    /// Returns the key in its borrowed form.
    pub fn key(&self) -> &'q K::Query {
        self.wanted.query
    }

    /// Inserts the key with `value`, and returns the value in the map, to write.
    ///
    /// # Errors
    /// As for [`P::insert`](P#method.insert).
    pub fn insert(mut self, value: V) -> Result<&'t mut V> {
        let key = OwnKey::new(self.tx, self.wanted.query)?;
        let entry = node::Entry { key, value };
        let (leaf, place) = grow::insert(self.map, self.tx, self.found, &mut self.path, self.wanted, entry)?;
        Ok(leaf.value_mut(self.tx, place))
    }
}

impl<'r, K: OrdKey<'r, Query: std::fmt::Debug>, V: Persist<At<'r> = V> + std::fmt::Debug> std::fmt::Debug
    for Entry<'_, '_, 'r, K, V>
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Entry::Occupied(entry) => f.debug_tuple("Occupied").field(entry).finish(),
            Entry::Vacant(entry) => f.debug_tuple("Vacant").field(entry).finish(),
        }
    }
}

impl<'r, K: OrdKey<'r, Query: std::fmt::Debug>, V: Persist<At<'r> = V> + std::fmt::Debug> std::fmt::Debug
    for OccupiedEntry<'_, 'r, K, V>
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OccupiedEntry").field("key", &self.key()).field("value", self.get()).finish()
    }
}

impl<'r, K: OrdKey<'r, Query: std::fmt::Debug>, V> std::fmt::Debug for VacantEntry<'_, '_, 'r, K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VacantEntry").field("key", &self.wanted.query).finish()
    }
}
