//! `KeySpace`: writing to one.

use crate::batch::Batch;
use crate::keys::MAX_VALUE;
use crate::part::{self, Part};
use crate::range;
use crate::reader::Reader;
use crate::spaces::Removed;
use crate::stats::Counts;
use crate::{Error, Result};
use pheap::{Commit, P, Txn};
use std::ops::Deref;
use std::time::Duration;

/// A key space of a store: entries of its own, which it shares transactions and snapshots for with all others ("column family", "table"). Made by [`Store::space`](crate::Store::space); the
/// [`Store`](crate::Store) itself dereferences to the default one, which has no name.
///
/// It dereferences to a [`Reader`], whose methods look things up. Each write is a transaction: it is durable when it returns (as the store's [`Durability`](crate::Durability) and
/// [`SyncPolicy`](crate::SyncPolicy) say), and happens entirely or not at all. It is cheap to clone, and can be used by many threads.
///
/// When the key space is [removed](crate::Store::remove_space), all its handles stay without one: writes
/// through them are [`Error::SpaceRemoved`], and reads find nothing. They never reach a key space that is
/// made later, also of the same name.
#[derive(Clone, Debug)]
pub struct KeySpace {
    reader: Reader,
    removed: Removed,
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

/// When something expires that is to live for so long. Parts of a millisecond count as a whole one.
pub(crate) fn expiry(ttl: Duration) -> u64 {
    let millis = ttl.as_nanos().div_ceil(1_000_000);
    part::now().saturating_add(u64::try_from(millis).unwrap_or(u64::MAX))
}

impl KeySpace {
    pub(crate) fn new(reader: Reader, removed: Removed) -> KeySpace {
        KeySpace { reader, removed }
    }

    pub(crate) fn removed(&self) -> &Removed {
        &self.removed
    }

    /// See [`Shards::write`](crate::shards::Shards::write). Writes nothing if the key space was removed.
    #[inline]
    fn write<R>(
        &self,
        key: &[u8],
        deferred: bool,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, Part<'r>>, &Counts) -> pheap::Result<R>,
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
    /// [`Error::Heap`] if the disk is full or has failed.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.set(key.as_ref(), value.as_ref(), None, false).map(drop)
    }

    /// Sets the value of a key that is not there any more after a time.
    ///
    /// It is not shown then, and later writes remove it, or [`Store::purge`](crate::Store::purge). The time
    /// is that of the system's clock, and counts in whole milliseconds, rounded up.
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

    /// See [`write`](Self::write) for what it returns.
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

    /// [`put`](Self::put) that does not wait until it is durable: the [`Commit`] tells when it is. It can be waited for, asked, or awaited.
    ///
    /// Now and then a store that grows gets another shard. That takes some milliseconds, and waits for the disk.
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
    /// As for [`put`](Self::put). The `Commit` says whether the disk has failed since.
    pub fn put_deferred(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Commit> {
        let commit = self.set(key.as_ref(), value.as_ref(), None, true)?;
        Ok(commit.expect("that of a deferred transaction"))
    }

    /// Removes a key. Returns whether it was there.
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
    /// As for [`put`](Self::put).
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

    /// Sets the value of a key to what `f` makes of it, or removes the key if that is `None`. Returns whether there is a value now.
    ///
    /// Nobody else writes to the key in between. `f` must not use the store. A value that expires does not expire any more when it is set.
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
            Some(value) => (Change::Set(value), true),
            None => (Change::Delete, false),
        })
    }

    /// Sets the value of a key, or removes it, if it is what is expected. `None` is that there is none. Returns whether it was so.
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
                return (Change::Nothing, false);
            }
            (new.map_or(Change::Delete, Change::Set), true)
        })
    }

    fn change<V: AsRef<[u8]>, R>(
        &self,
        key: &[u8],
        f: impl FnOnce(Option<&[u8]>) -> (Change<V>, R),
    ) -> Result<R> {
        let key = self.id.key(key)?;
        let shards = &self.shards;
        let (result, _) = self.write(&key, false, |tx, part, counts| {
            let (change, result) = f(part::get(tx, part, &key, None));
            let mut is_new = false;
            match change {
                Change::Nothing => {}
                Change::Set(value) => {
                    let value = value.as_ref();
                    if let Err(error) = check_value(value) {
                        return Ok(Err(error));
                    }
                    counts.put(key.len() + value.len());
                    is_new = part::put(tx, part, &key, value, None, &shards.eras)?;
                }
                Change::Delete => {
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

    /// Puts in entries that come in ascending order of their keys, many in one transaction: the fast way to fill a store. It is durable when this returns.
    ///
    /// Keys that are there already get the new value. It is not atomic: after a crash or an error, some of the entries are there, the first ones.
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

    /// Puts in all that a reader has, with the times at which it expires.
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

/// Bytes that [`KeySpace::load`] puts in at a time.
const LOADED: usize = 64 << 10;

/// What becomes of a value.
enum Change<V> {
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
