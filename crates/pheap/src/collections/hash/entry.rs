//! The entry of a key, existing or vacant.

use super::bucket::{EntryMut, Pair};
use super::map::{FoundEntry, MissingKey};
use super::{HashKey, PHashMap};
use crate::api::tx::Txn;
use crate::collections::common::entries;
use crate::collections::key::OwnKey;
use crate::error::Result;
use crate::layout::Persist;
use crate::ptr::P;

/// The entry of a key, existing or vacant; made by [`entry`](P::entry).
pub enum Entry<'t, 'q, 'r, K: HashKey<'r>, V> {
    /// The map has the key.
    Occupied(OccupiedEntry<'t, 'q, 'r, K, V>),
    /// The map does not have the key.
    Vacant(VacantEntry<'t, 'q, 'r, K, V>),
}

/// The entry of a key that a map has.
pub struct OccupiedEntry<'t, 'q, 'r, K: HashKey<'r>, V> {
    found: FoundEntry<'t, 'r, K, V>,
    key: &'q K::Query,
}

/// The vacant entry of a key that a map does not have.
pub struct VacantEntry<'t, 'q, 'r, K: HashKey<'r>, V> {
    map: P<'r, PHashMap<'r, K, V>>,
    tx: &'t mut Txn<'r>,
    key: &'q K::Query,
    absence: MissingKey<'r, K, V>,
}

impl<'t, 'q, 'r, K: HashKey<'r>, V: Persist<At<'r> = V>> Entry<'t, 'q, 'r, K, V> {
    #[inline]
    pub(super) fn new(map: P<'r, PHashMap<'r, K, V>>, tx: &'t mut Txn<'r>, key: &'q K::Query) -> Self {
        match map.find_entry_mut(tx, key, None) {
            Ok(found) => Entry::Occupied(OccupiedEntry { found, key }),
            Err((tx, absence)) => Entry::Vacant(VacantEntry { map, tx, key, absence }),
        }
    }
}

entries!(HashKey);

impl<'t, 'r, K: HashKey<'r>, V: Persist<At<'r> = V>> OccupiedEntry<'t, '_, 'r, K, V> {
    /// Returns the key in its borrowed form, as the program has passed it.
    pub fn key(&self) -> &K::Query {
        self.key
    }

    /// Returns the value of the entry.
    #[inline]
    pub fn get(&self) -> &V {
        self.found.place.value()
    }

    /// Returns the value of the entry, to write.
    #[inline]
    pub fn get_mut(&mut self) -> &mut V {
        self.found.place.value_mut()
    }

    /// Returns the value of the entry, to write, for as long as the transaction is borrowed.
    #[inline]
    pub fn into_mut(self) -> &'t mut V {
        self.found.place.into_mut()
    }

    /// Sets the value, and returns the old one.
    #[inline]
    pub fn insert(&mut self, value: V) -> V {
        std::mem::replace(self.get_mut(), value)
    }

    /// Removes the entry, and returns its value.
    #[inline]
    pub fn remove(self) -> V {
        self.found.take_value()
    }

    /// Removes the entry, and returns its key and value.
    pub fn remove_entry(self) -> (K, V) {
        self.found.take_pair()
    }
}

impl<'t, 'r, K: HashKey<'r>, V: Persist<At<'r> = V>> VacantEntry<'t, '_, 'r, K, V> {
    /// Returns the key in its borrowed form, as the program has passed it.
    pub fn key(&self) -> &K::Query {
        self.key
    }

    /// Inserts the key with `value`, and returns the value in the map, to write.
    ///
    /// # Errors
    /// As for [`insert`](P::insert).
    #[inline]
    pub fn insert(self, value: V) -> Result<&'t mut V> {
        let key = OwnKey::new(self.tx, self.key)?;
        self.map.add(self.tx, self.absence, Pair { key, value }).map(EntryMut::into_mut)
    }
}
