//! `KeySpace`: reads and writes of one key space.

use crate::batch::Batch;
use crate::keys::MAX_VALUE;
use crate::part::{self, Part};
use crate::range;
use crate::reader::Reader;
use crate::spaces::RemovedFlag;
use crate::stats::WriteCounts;
use crate::{Error, Result};
use pheap::{Commit, P, Txn};
use std::ops::Deref;
use std::time::Duration;

/// A key space of a store ("column family", "table"). Its entries are separate from those of other key
/// spaces; transactions and snapshots span all key spaces. Made by [`Store::space`](crate::Store::space). The
/// [`Store`](crate::Store) itself dereferences to the default key space, which has no name.
///
/// It dereferences to a [`Reader`], which has the methods to read. Each write (except [`load`](Self::load))
/// is a transaction: it happens entirely or not at all, and, unless it is deferred, is durable when it
/// returns, as the store's [`Durability`](crate::Durability) and [`SyncPolicy`](crate::SyncPolicy) say. A
/// handle is cheap to clone, and many threads may use it.
///
/// After the key space is [removed](crate::Store::remove_space), writes through its handles return
/// [`Error::SpaceRemoved`], and reads find nothing once its entries are removed. The handles never reach a
/// key space that is made later, even if it has the same name.
#[derive(Clone, Debug)]
pub struct KeySpace {
    reader: Reader,
    removed: RemovedFlag,
}

impl Deref for KeySpace {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        &self.reader
    }
}

pub(crate) fn check_value(value: &[u8]) -> Result<()> {
    if value.len() > MAX_VALUE { Err(Error::ValueTooLong { len: value.len() }) } else { Ok(()) }
}

/// Returns the time of expiry of a value that is set now, in milliseconds since 1970, rounded up.
pub(crate) fn expiry(ttl: Duration) -> u64 {
    let millis = ttl.as_nanos().div_ceil(1_000_000);
    part::now().saturating_add(u64::try_from(millis).unwrap_or(u64::MAX))
}

impl KeySpace {
    pub(crate) fn new(reader: Reader, removed: RemovedFlag) -> KeySpace {
        KeySpace { reader, removed }
    }

    pub(crate) fn removed(&self) -> &RemovedFlag {
        &self.removed
    }

    /// Runs a transaction by [`Shards::write`](crate::shards::Shards::write). Writes nothing and fails if the
    /// key space was removed.
    #[inline]
    fn write<R>(
        &self,
        key: &[u8],
        deferred: bool,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, Part<'r>>, &WriteCounts) -> pheap::Result<R>,
    ) -> Result<(R, Option<Commit>)> {
        let (result, commit) = self.shards.write(key, deferred, |tx, part, counts| {
            if self.removed.get() { Ok(None) } else { f(tx, part, counts).map(Some) }
        })?;
        Ok((result.ok_or(Error::SpaceRemoved)?, commit))
    }

    /// Sets the value of a key.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// store.put("tea", "green")?;
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`]; [`Error::SpaceRemoved`] if the key space was removed;
    /// [`Error::Heap`], for instance if the disk is full or has failed.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.set(key.as_ref(), value.as_ref(), None, false).map(drop)
    }

    /// Sets the value of a key and lets it expire after `ttl`.
    ///
    /// Readers do not see an expired value. Later writes or [`Store::purge`](crate::Store::purge) remove it.
    /// The time is that of the system's clock, in whole milliseconds, rounded up.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// use std::time::Duration;
    ///
    /// store.put_for("session", "Ann", Duration::ZERO)?;
    /// assert_eq!(store.get("session")?, None);
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn put_for(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl: Duration) -> Result<()> {
        self.set(key.as_ref(), value.as_ref(), Some(expiry(ttl)), false).map(drop)
    }

    /// Sets the value of a key. Returns a `Commit` if `deferred` is set.
    fn set(&self, key: &[u8], value: &[u8], expires: Option<u64>, deferred: bool) -> Result<Option<Commit>> {
        let key = self.id.key(key)?;
        check_value(value)?;
        let shards = &self.shards;
        let (len, commit) = self.write(&key, deferred, |tx, part, counts| {
            counts.put(key.len() + value.len());
            let is_new = part::put(tx, part, &key, value, expires, &shards.eras)?;
            part::tidy_a_little(tx, part, &shards.eras, &key)?;
            Ok(is_new.then(|| part::len(tx, part)))
        })?;
        shards.consider_split(&key, len);
        Ok(commit)
    }

    /// Sets the value of a key as [`put`](Self::put) does, without waiting until it is durable. The program
    /// can wait for the returned [`Commit`], poll it, or await it.
    ///
    /// From time to time a growing store adds a shard. Such a call takes longer, and may wait for the disk.
    ///
    /// ```
    /// # async fn answer(store: pheap_kv::Store) -> pheap_kv::Result<()> {
    /// let commit = store.put_deferred("tea", "green")?;
    /// commit.await?; // other tasks go on
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`put`](Self::put). If the disk fails later, the `Commit` returns the error.
    pub fn put_deferred(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Commit> {
        let commit = self.set(key.as_ref(), value.as_ref(), None, true)?;
        Ok(commit.expect("that of a deferred transaction"))
    }

    /// Removes a key. Returns whether it existed.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// store.put("tea", "green")?;
    /// assert!(store.delete("tea")?);
    /// assert!(!store.delete("tea")?);
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::KeyTooLong`]; [`Error::SpaceRemoved`] if the key space was removed; [`Error::Heap`], for
    /// instance if the disk is full or has failed.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = self.id.key(key.as_ref())?;
        let shards = &self.shards;
        let (was_there, _) = self.write(&key, false, |tx, part, counts| {
            counts.delete(key.len());
            let was_there = part::delete(tx, part, &key, &shards.eras)?;
            part::tidy_a_little(tx, part, &shards.eras, &key)?;
            Ok(was_there)
        })?;
        Ok(was_there)
    }

    /// Replaces the value of a key by the result of `f`, or removes the key if `f` returns `None`. Returns
    /// whether the key has a value now.
    ///
    /// No other thread writes to the key between the read and the write. `f` must not use the store. The new
    /// value never expires, even if the old one would have.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// let add = |old: Option<&[u8]>| {
    ///     let count = old.map_or(0, |old| u64::from_le_bytes(old.try_into().unwrap()));
    ///     Some((count + 1).to_le_bytes())
    /// };
    /// store.update("hits", add)?;
    /// store.update("hits", add)?;
    /// assert_eq!(store.get("hits")?.unwrap(), 2u64.to_le_bytes());
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn update<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        f: impl FnOnce(Option<&[u8]>) -> Option<V>,
    ) -> Result<bool> {
        self.change(key.as_ref(), |old| match f(old) {
            Some(value) => (KeyChange::Set(value), true),
            None => (KeyChange::Delete, false),
        })
    }

    /// Replaces the value of a key by `new` if it equals `expected`. In both, `None` stands for a missing
    /// key. Returns whether the value was equal.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// assert!(store.compare_and_swap("leader", None, Some(b"a"))?);
    /// assert!(!store.compare_and_swap("leader", None, Some(b"b"))?);
    /// assert!(store.compare_and_swap("leader", Some(b"a"), None)?);
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        self.change(key.as_ref(), |old| {
            if old != expected {
                return (KeyChange::Nothing, false);
            }
            (new.map_or(KeyChange::Delete, KeyChange::Set), true)
        })
    }

    fn change<V: AsRef<[u8]>, R>(
        &self,
        key: &[u8],
        f: impl FnOnce(Option<&[u8]>) -> (KeyChange<V>, R),
    ) -> Result<R> {
        let key = self.id.key(key)?;
        let shards = &self.shards;
        let (result, _) = self.write(&key, false, |tx, part, counts| {
            let (change, result) = f(part::get(tx, part, &key, None));
            let mut is_new = false;
            match change {
                KeyChange::Nothing => {}
                KeyChange::Set(value) => {
                    let value = value.as_ref();
                    if let Err(error) = check_value(value) {
                        return Ok(Err(error));
                    }
                    counts.put(key.len() + value.len());
                    is_new = part::put(tx, part, &key, value, None, &shards.eras)?;
                }
                KeyChange::Delete => {
                    counts.delete(key.len());
                    part::delete(tx, part, &key, &shards.eras)?;
                }
            }
            part::tidy_a_little(tx, part, &shards.eras, &key)?;
            Ok(Ok((result, is_new.then(|| part::len(tx, part)))))
        })?;
        let (result, len) = result?;
        shards.consider_split(&key, len);
        Ok(result)
    }

    /// Stores entries that come in strictly ascending order of their keys, many in one transaction, to
    /// fill a store fast. All of them are durable when this returns. Returns their number.
    ///
    /// Existing keys get the new value. The load is not atomic: after a crash or an error, the store has the
    /// entries up to some point of the input.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// let loaded = store.load((0..1000u32).map(|i| (i.to_be_bytes(), "value")))?;
    /// assert_eq!(loaded, 1000);
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NotSorted`], and as for [`put`](Self::put).
    pub fn load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        let (mut batch, mut index, mut last) = (Batch::new(), 0, None::<Vec<u8>>);
        let mut end = Ok(());
        for (key, value) in entries {
            if last.as_ref().is_some_and(|last| last.as_slice() >= key.as_ref()) {
                end = Err(Error::NotSorted { index });
                break;
            }
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key.as_ref());
            index += 1;
            batch.put(self, key, value)?;
            if batch.bytes() >= LOADED {
                batch.write(true)?;
                batch.clear();
            }
        }
        batch.write(true)?;
        self.shards.heap.sync()?;
        end.map(|()| index)
    }

    /// Stores all entries of a reader, with their times of expiry.
    pub(crate) fn load_from(&self, from: &Reader) -> Result<()> {
        let (mut cursor, mut batch) = (from.cursor(from.id.span::<[u8]>(&..)), Batch::new());
        let mut is_more = true;
        while is_more {
            let mut taken = Ok(());
            is_more = cursor.step(false, range::MOST, &mut |key, value, expires| {
                taken = batch.set(self, key, value, expires);
                taken.is_ok()
            })?;
            taken?;
            batch.write(true)?;
            batch.clear();
        }
        Ok(())
    }
}

/// Bytes of keys and values after which [`KeySpace::load`] ends a transaction.
const LOADED: usize = 64 << 10;

/// What [`KeySpace::change`] does with a key.
enum KeyChange<V> {
    Nothing,
    Set(V),
    Delete,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_to_live_are_rounded_up() {
        let now = part::now();
        assert!(expiry(Duration::from_nanos(1)) > now);
        assert!(expiry(Duration::from_micros(1001)) > now + 1);
        assert_eq!(expiry(Duration::MAX), u64::MAX);
    }
}
