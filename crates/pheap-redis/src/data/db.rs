//! A database's part of a shard: keys, values, deadlines.

use pheap::{P, PHashMap, Persist, Txn, View, field};

use super::lookups::Lookups;
use super::value::{Str, Value};

/// What a key has.
#[derive(Persist, Clone, Copy, Debug)]
#[repr(C)]
pub struct Entry<'r> {
    /// What it stands for.
    pub value: Value<'r>,
}

/// A database's part of a shard.
#[derive(Persist, Default)]
#[repr(C)]
pub struct Db<'r> {
    keys: PHashMap<'r, Str<'r>, Entry<'r>>,
    /// When keys expire, in milliseconds since 1970: of those that do, for a note beside each value would take more than all other keys need.
    deadlines: PHashMap<'r, Str<'r>, i64>,
}

/// Reading.
impl<'r> Db<'r> {
    /// Number of keys, those included that have expired and are still to be removed.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// All keys, and what they have; also those that have expired.
    pub fn keys(&self) -> &PHashMap<'r, Str<'r>, Entry<'r>> {
        &self.keys
    }

    /// The keys that have a deadline, and when they expire.
    pub fn deadlines(&self) -> &PHashMap<'r, Str<'r>, i64> {
        &self.deadlines
    }

    /// What a key stands for, unless it has expired at `now`.
    pub fn get(&self, view: &View<'r>, key: &[u8], now: i64) -> Option<Value<'r>> {
        self.entry(view, key, now).map(|entry| entry.value)
    }

    /// All that a key has, unless it has expired at `now`.
    pub fn entry(&self, view: &View<'r>, key: &[u8], now: i64) -> Option<Entry<'r>> {
        let is_there = |_: &Entry<'r>| self.deadline(view, key).is_none_or(|at| now < at);
        let entry = self.keys.get(view, key).copied().filter(is_there);
        Lookups::add(entry.is_some());
        entry
    }

    /// When a key expires, or has expired.
    pub fn deadline(&self, view: &View<'r>, key: &[u8]) -> Option<i64> {
        if self.deadlines.is_empty() { None } else { self.deadlines.get(view, key).copied() }
    }
}

/// Writing. Keys that have expired are as good as absent, and removed on the way.
pub trait Change<'r>: Copy {
    /// Gives a key a value, and no deadline.
    ///
    /// # Errors
    /// If there is no memory for it.
    fn set(self, tx: &mut Txn<'r>, key: &[u8], value: Value<'r>) -> pheap::Result<()>;

    /// Gives a key another value. Its deadline stays, if it has one.
    ///
    /// # Errors
    /// If there is no memory for it.
    fn put(self, tx: &mut Txn<'r>, key: &[u8], value: Value<'r>) -> pheap::Result<()>;

    /// Removes a key. What it stood for, and when it would have expired.
    fn remove(self, tx: &mut Txn<'r>, key: &[u8]) -> Option<(Value<'r>, Option<i64>)>;

    /// Gives a key that exists a deadline, or takes it away.
    ///
    /// # Errors
    /// If there is no memory for it.
    fn set_deadline(self, tx: &mut Txn<'r>, key: &[u8], at: Option<i64>) -> pheap::Result<()>;

    /// Removes all keys.
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
