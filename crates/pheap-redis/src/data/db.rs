//! The part of a database that is in one shard: keys, values, deadlines.

use pheap::{P, PHashMap, Persist, Txn, View, field};

use super::lookups::Lookups;
use super::value::{Str, Value};

/// The data of a key.
#[derive(Persist, Clone, Copy, Debug)]
#[repr(C)]
pub struct Entry<'r> {
    /// The value of the key.
    pub value: Value<'r>,
}

/// The part of a database that is in one shard.
#[derive(Persist, Default)]
#[repr(C)]
pub struct Db<'r> {
    keys: PHashMap<'r, Str<'r>, Entry<'r>>,
    /// Expiry times, in milliseconds since 1970, of the keys that have a deadline. A field next to each value
    /// would take more memory for all keys without a deadline.
    deadlines: PHashMap<'r, Str<'r>, i64>,
}

/// Methods that read a database.
impl<'r> Db<'r> {
    /// Returns the number of keys. Expired keys count until they are removed.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns all keys and their entries, including those that have expired.
    pub fn keys(&self) -> &PHashMap<'r, Str<'r>, Entry<'r>> {
        &self.keys
    }

    /// Returns the keys that have a deadline, and when they expire.
    pub fn deadlines(&self) -> &PHashMap<'r, Str<'r>, i64> {
        &self.deadlines
    }

    /// Returns the value of a key, unless the key has expired at `now`. Counts the lookup.
    pub fn get(&self, view: &View<'r>, key: &[u8], now: i64) -> Option<Value<'r>> {
        self.entry(view, key, now).map(|entry| entry.value)
    }

    /// Returns the entry of a key, unless the key has expired at `now`. Counts the lookup.
    pub fn entry(&self, view: &View<'r>, key: &[u8], now: i64) -> Option<Entry<'r>> {
        let is_there = |_: &Entry<'r>| self.deadline(view, key).is_none_or(|at| now < at);
        let entry = self.keys.get(view, key).copied().filter(is_there);
        Lookups::add(entry.is_some());
        entry
    }

    /// Returns when a key expires or has expired; None if it has no deadline.
    pub fn deadline(&self, view: &View<'r>, key: &[u8]) -> Option<i64> {
        if self.deadlines.is_empty() { None } else { self.deadlines.get(view, key).copied() }
    }
}

/// Changes to a database. The methods do not check deadlines. A caller to which an expired key counts as
/// absent can check with [`Db::get`] first.
pub trait Change<'r>: Copy {
    /// Sets the value of a key, and removes its deadline.
    ///
    /// # Errors
    /// If the heap cannot allocate memory.
    fn set(self, tx: &mut Txn<'r>, key: &[u8], value: Value<'r>) -> pheap::Result<()>;

    /// Sets the value of a key. If the key has a deadline, the deadline stays.
    ///
    /// # Errors
    /// If the heap cannot allocate memory.
    fn put(self, tx: &mut Txn<'r>, key: &[u8], value: Value<'r>) -> pheap::Result<()>;

    /// Removes a key. Returns its value and its deadline; None if there was no such key.
    fn remove(self, tx: &mut Txn<'r>, key: &[u8]) -> Option<(Value<'r>, Option<i64>)>;

    /// Sets or removes the deadline of a key that exists.
    ///
    /// # Errors
    /// If the heap cannot allocate memory.
    fn set_deadline(self, tx: &mut Txn<'r>, key: &[u8], at: Option<i64>) -> pheap::Result<()>;

    /// Removes all keys and their deadlines.
    fn clear(self, tx: &mut Txn<'r>);
}

impl<'r> Change<'r> for P<'r, Db<'r>> {
    fn set(self, tx: &mut Txn<'r>, key: &[u8], value: Value<'r>) -> pheap::Result<()> {
        let had_one = field!(self.keys).insert(tx, key, Entry { value })?.is_some();
        if had_one {
            remove_deadline(self, tx, key);
        }
        Ok(())
    }

    fn put(self, tx: &mut Txn<'r>, key: &[u8], value: Value<'r>) -> pheap::Result<()> {
        if let Some(entry) = field!(self.keys).get_mut(tx, key) {
            entry.value = value;
            return Ok(());
        }
        self.set(tx, key, value)
    }

    fn remove(self, tx: &mut Txn<'r>, key: &[u8]) -> Option<(Value<'r>, Option<i64>)> {
        let entry = field!(self.keys).remove(tx, key)?;
        Some((entry.value, remove_deadline(self, tx, key)))
    }

    fn set_deadline(self, tx: &mut Txn<'r>, key: &[u8], at: Option<i64>) -> pheap::Result<()> {
        match at {
            Some(at) => field!(self.deadlines).insert(tx, key, at).map(drop),
            None => {
                remove_deadline(self, tx, key);
                Ok(())
            }
        }
    }

    fn clear(self, tx: &mut Txn<'r>) {
        field!(self.keys).clear(tx);
        field!(self.deadlines).clear(tx);
    }
}

fn remove_deadline<'r>(db: P<'r, Db<'r>>, tx: &mut Txn<'r>, key: &[u8]) -> Option<i64> {
    if tx[db].deadlines.is_empty() { None } else { field!(db.deadlines).remove(tx, key) }
}
