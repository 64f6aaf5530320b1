//! The methods of `PBTreeMap` that change it.

use super::PBTreeMap;
use super::entry::{Entry, OccupiedEntry};
use super::grow;
use super::node::{self, Child};
use super::path::TreePath;
use super::range::TreePosition;
use super::search::{self, SearchKey, TreeLookup};
use super::shrink;
use crate::api::tx::Txn;
use crate::collections::key::{KeyArg, OrdKey, OwnKey};
use crate::error::Result;
use crate::layout::Persist;
use crate::ptr::P;

/// <a id="change-PBTreeMap"></a>Changing a map.
///
/// If a transaction ends in an error or a panic, it leaves the map as it was, whatever its methods have
/// returned. Operations that may allocate fail as [`Txn::alloc_slice`] does: for instance with
/// [`Error::OutOfSpace`](crate::Error::OutOfSpace) or
/// [`Error::ReservationFull`](crate::Error::ReservationFull) if the heap cannot grow. Then the map has the
/// same entries as before, except that `extend` and `append` keep the entries that they have inserted or
/// moved. Removal needs no memory (except for the log, like any change). If a key's `Ord` panics and the
/// program catches the panic within the transaction, the map can still be used.
impl<'r, K: OrdKey<'r>, V: Persist<At<'r> = V>> P<'r, PBTreeMap<'r, K, V>> {
    /// Inserts an entry, or replaces the value of an existing key and returns the old value. O(log n). If the
    /// key is new, the owned key is made from `key`.
    ///
    /// # Errors
    /// As for [`Txn::alloc_slice`]; see [Changing a map](P#change-PBTreeMap).
    pub fn insert(self, tx: &mut Txn<'r>, key: impl KeyArg<'r, K>, value: V) -> Result<Option<V>> {
        let query = key.apart(tx);
        let wanted = SearchKey::new::<K>(&query);
        let mut path = TreePath::new();
        let found = search::find_to_insert(tx, tx[self].top.child(), wanted, &mut path);
        if let Some(TreeLookup { leaf, place: Ok(place) }) = found {
            return Ok(Some(std::mem::replace(leaf.value_mut(tx, place), value)));
        }
        let key = OwnKey::from_argument(tx, &key, &query)?;
        grow::insert(self, tx, found, &mut path, wanted, node::Entry { key, value })?;
        Ok(None)
    }

    /// Adds a key of a set. Returns whether it is new.
    pub(super) fn insert_key(self, tx: &mut Txn<'r>, key: impl KeyArg<'r, K>) -> Result<bool>
    where
        V: Default,
    {
        Ok(self.insert(tx, key, V::default())?.is_none())
    }

    /// Returns the value of a key, to write, if the map has the key. O(log n).
    pub fn get_mut<'t>(self, tx: &'t mut Txn<'r>, key: impl KeyArg<'r, K>) -> Option<&'t mut V> {
        let query = key.apart(tx);
        let wanted = SearchKey::new::<K>(&query);
        let (leaf, place) = search::get(tx, tx[self].top.child(), wanted)?;
        Some(leaf.node().value_mut(tx, place))
    }

    /// Removes a key, and returns its value. O(log n). Memory that the key in the map owns is freed when the
    /// transaction commits.
    pub fn remove(self, tx: &mut Txn<'r>, key: impl KeyArg<'r, K>) -> Option<V> {
        let query = key.apart(tx);
        let entry = self.remove_found(tx, |tx, top, path| {
            search::seek_with_path(tx, top, SearchKey::new::<K>(&query), path)
        })?;
        entry.key.free_key(tx);
        Some(entry.value)
    }

    /// Removes a key, and returns the key and its value. O(log n).
    pub fn remove_entry(self, tx: &mut Txn<'r>, key: impl KeyArg<'r, K>) -> Option<(K, V)> {
        let query = key.apart(tx);
        let entry = self.remove_found(tx, |tx, top, path| {
            search::seek_with_path(tx, top, SearchKey::new::<K>(&query), path)
        })?;
        Some((entry.key.into_inner(), entry.value))
    }

    /// Removes the entry with the least key. O(log n).
    pub fn pop_first(self, tx: &mut Txn<'r>) -> Option<(K, V)> {
        let entry = self.remove_found(tx, |tx, top, path| TreePosition::at_end(tx, top, false, path))?;
        Some((entry.key.into_inner(), entry.value))
    }

    /// Removes the entry with the greatest key. O(log n).
    pub fn pop_last(self, tx: &mut Txn<'r>) -> Option<(K, V)> {
        let entry = self.remove_found(tx, |tx, top, path| TreePosition::at_end(tx, top, true, path))?;
        Some((entry.key.into_inner(), entry.value))
    }

    /// Removes the entry that `find` finds, if any.
    #[inline]
    pub(super) fn remove_found(
        self,
        tx: &mut Txn<'r>,
        find: impl FnOnce(&Txn<'r>, Child<'r, K, V>, &mut TreePath<'r, K, V>) -> Option<TreeLookup<'r, K, V>>,
    ) -> Option<node::Entry<K, V>> {
        let mut path = TreePath::new();
        let TreeLookup { leaf, place } = find(tx, tx[self].top.child(), &mut path)?;
        Some(shrink::remove(self, tx, leaf, &mut path, place.ok()?))
    }

    /// Returns the entry with the least key, to read and change. O(log n).
    pub fn first_entry<'t>(self, tx: &'t mut Txn<'r>) -> Option<OccupiedEntry<'t, 'r, K, V>> {
        OccupiedEntry::at_end(self, tx, false)
    }

    /// Returns the entry with the greatest key, to read and change. O(log n).
    pub fn last_entry<'t>(self, tx: &'t mut Txn<'r>) -> Option<OccupiedEntry<'t, 'r, K, V>> {
        OccupiedEntry::at_end(self, tx, true)
    }

    /// Returns the entry of a key, existing or vacant, to read and change with one search. O(log n).
    pub fn entry<'t, 'q>(self, tx: &'t mut Txn<'r>, key: &'q K::Query) -> Entry<'t, 'q, 'r, K, V> {
        Entry::new(self, tx, key)
    }
}
