//! `Store`: opening one, key spaces, and what concerns all of it.

use crate::batch::Batch;
use crate::eras::Eras;
use crate::keys::SpaceId;
use crate::meta;
use crate::options::Options;
use crate::part;
use crate::reader::Reader;
use crate::shards::Shards;
use crate::snapshot::Snapshot;
use crate::space::KeySpace;
use crate::stats::Stats;
use crate::{Error, Result};
use pheap::{Commit, Durability, Heap, SyncPolicy};
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::ErrorKind;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempPath;

/// An ordered map of byte strings in a file. See the [crate's documentation](crate).
///
/// It dereferences to its default [`KeySpace`], so it is read and written to directly. It is cheap to clone; threads share it. When the last handle is dropped (key spaces,
/// snapshots, iterators, and batches with writes are handles, too), the store is closed.
#[derive(Clone)]
pub struct Store {
    space: KeySpace,
}

impl Deref for Store {
    type Target = KeySpace;

    fn deref(&self) -> &KeySpace {
        &self.space
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.shards.heap.path()).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the store in this file, or creates it, with the default [`Options`]. After a crash it is recovered.
    ///
    /// ```no_run
    /// let store = pheap_kv::Store::open("data.kv")?;
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Store> {
        Options::new().open(path)
    }

    /// A store without a file, for tests.
    ///
    /// ```
    /// let store = pheap_kv::Store::in_memory()?;
    /// assert!(store.iter().next().is_none());
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is no memory.
    pub fn in_memory() -> Result<Store> {
        Store::of(Heap::in_memory()?, SyncPolicy::default())
    }

    /// The store in a heap.
    pub(crate) fn of(heap: Heap, policy: SyncPolicy) -> Result<Store> {
        let eras = Eras::behind_block(meta::open(&heap)?);
        let shards = Arc::new(Shards::open(heap, eras, policy)?);
        let space = KeySpace::new(Reader { shards, id: SpaceId::DEFAULT, pin: None });
        Ok(Store { space })
    }

    fn with(&self, id: SpaceId) -> Reader {
        Reader { id, ..Reader::clone(self) }
    }

    /// The key space of this name, which is created if there is none.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// let users = store.space("users")?;
    /// users.put("1", "Ann")?;
    /// assert_eq!(store.get("1")?, None);
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidName`], [`Error::TooManySpaces`], and as for [`KeySpace::put`].
    pub fn space(&self, name: &str) -> Result<KeySpace> {
        if name.is_empty() || name.len() > 255 {
            return Err(Error::InvalidName { len: name.len() });
        }
        if let Some(number) = self.number(name)? {
            return Ok(KeySpace::new(self.with(number)));
        }
        let (key, span) = (SpaceId::CATALOGUE.key(name.as_bytes())?, SpaceId::CATALOGUE.span::<[u8]>(&..));
        let shards = &self.shards;
        let (number, _) = shards.write(&key, false, |tx, part, _| {
            // Somebody else may have been faster.
            if let Some(number) = part::get(tx, part, &key, None).and_then(number_in) {
                return Ok(Some(number));
            }
            // The catalogue is never split, so this is all of it.
            let mut taken = HashSet::new();
            part::scan(tx, part, &span, None, false, |_, number, _| {
                taken.extend(number_in(number));
                true
            });
            let free = (SpaceId::FIRST..=u16::MAX).find(|number| !taken.contains(number));
            if let Some(number) = free {
                part::put(tx, part, &key, &number.to_be_bytes(), None, &shards.eras)?;
            }
            Ok(free)
        })?;
        let number = number.ok_or(Error::TooManySpaces)?;
        Ok(KeySpace::new(self.with(SpaceId::new(number))))
    }

    fn number(&self, name: &str) -> Result<Option<SpaceId>> {
        let number = self.with(SpaceId::CATALOGUE).get_with(name, number_in)?;
        Ok(number.flatten().map(SpaceId::new))
    }

    /// The names of the key spaces, in order. The default one has none.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// store.space("users")?;
    /// assert_eq!(store.spaces()?, ["users"]);
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the store has failed.
    pub fn spaces(&self) -> Result<Vec<String>> {
        let names = self.with(SpaceId::CATALOGUE).iter();
        names.map(|entry| Ok(String::from_utf8_lossy(&entry?.0).into_owned())).collect()
    }

    /// Removes a key space, and all that is in it. Returns whether there was one. Handles of it, and snapshots, must not be used any more: its keys may become those of another one.
    ///
    /// It takes one transaction for every few hundred entries. If it is interrupted, the key space is still there, with what is left. In the end it does what [`purge`](Self::purge) does.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// store.space("users")?.put("1", "Ann")?;
    /// assert!(store.remove_space("users")?);
    /// assert!(!store.space("users")?.contains_key("1")?);
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`KeySpace::put`].
    pub fn remove_space(&self, name: &str) -> Result<bool> {
        let Some(number) = self.number(name)? else { return Ok(false) };
        let space = KeySpace::new(self.with(number));
        let mut batch = Batch::new();
        loop {
            for entry in space.iter().take(256) {
                batch.delete(&space, entry?.0)?;
            }
            if batch.is_empty() {
                break;
            }
            self.write_deferred(&batch)?;
            batch.clear();
        }
        // What has expired was not shown.
        self.purge()?;
        KeySpace::new(self.with(SpaceId::CATALOGUE)).delete(name)
    }

    /// Carries out a batch as one transaction. It is not used up, and can be written again.
    ///
    /// One of 64 MiB or more [folds the log](pheap::Heap::fold_log), too, before this returns: whoever writes next does not wait for that.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// let mut batch = pheap_kv::Batch::new();
    /// batch.put(&store, "a", "1")?;
    /// batch.put(&store, "b", "2")?;
    /// store.write(&batch)?;
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OtherStore`], and as for [`KeySpace::put`].
    pub fn write(&self, batch: &Batch) -> Result<()> {
        self.check(batch)?.write(false).map(drop)
    }

    /// [`write`](Self::write) that does not wait until it is durable: the [`Commit`] tells when it is. There is none if the batch is empty. It waits where
    /// [`KeySpace::put_deferred`] does.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// let mut batch = pheap_kv::Batch::new();
    /// batch.put(&store, "a", "1")?;
    /// if let Some(commit) = store.write_deferred(&batch)? {
    ///     commit.wait()?;
    /// }
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`write`](Self::write). The `Commit` says whether the disk has failed since.
    pub fn write_deferred(&self, batch: &Batch) -> Result<Option<Commit>> {
        self.check(batch)?.write(true)
    }

    fn check<'b>(&self, batch: &'b Batch) -> Result<&'b Batch> {
        if batch.is_for(&self.shards) { Ok(batch) } else { Err(Error::OtherStore) }
    }

    /// The store as it is now, in all key spaces. Writers wait for a moment, and then go on.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// let empty = store.snapshot()?;
    /// store.put("a", "1")?;
    /// assert!(empty.iter().next().is_none());
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Heap`] if the store has failed or is closed, or the disk is full: the first snapshot after a store was opened, and then one of many thousands, notes something in it.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Snapshot::take(&self.shards)
    }

    /// Syncs what was written with a [`SyncPolicy`](crate::SyncPolicy) that does not do so.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// store.put("a", "1")?;
    /// store.sync()?;
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the disk fails.
    pub fn sync(&self) -> Result<()> {
        Ok(self.shards.heap.sync()?)
    }

    /// Removes what has expired, and versions that no snapshot needs any more. Writes do that, too, each a little.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// store.put_for("session", "Ann", std::time::Duration::ZERO)?;
    /// store.purge()?;
    /// assert_eq!(store.stats()?.entries, 0);
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`KeySpace::put`].
    pub fn purge(&self) -> Result<()> {
        let mut index = 0;
        // What is split off meanwhile comes next.
        while let Some(shard) = self.shards.map().shards.get(index) {
            let mut from = Some(Vec::new());
            while let Some(next) = from {
                from = shard.root.txn(|tx, part| part::tidy(tx, part, &self.shards.eras, &next, 256))?;
            }
            index += 1;
        }
        Ok(())
    }

    /// Copies the store to a new file while it is in use. With [`Durability::Wal`](crate::Durability::Wal), writers go on meanwhile, otherwise they wait. See [`pheap::Heap::backup`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = pheap_kv::Store::open(dir.path().join("data.kv"))?;
    /// store.put("a", "1")?;
    /// store.backup(dir.path().join("monday.kv"))?;
    /// let copy = pheap_kv::Store::open(dir.path().join("monday.kv"))?;
    /// assert!(copy.contains_key("a")?);
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Heap`].
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<()> {
        Ok(self.shards.heap.backup(path)?)
    }

    /// Writes the entries of a snapshot, in order, to a new store, which takes as little space as there can be. (Objects do not move within a file, so space that was freed is used again, and
    /// not given back.) What is written meanwhile is not in it: to replace this store, keep writers away. A store that is open to be read only can be written out, too: a
    /// [follower](pheap::Options::follower) writes out the store of another process, as it was when it was opened.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = pheap_kv::Store::in_memory()?;
    /// store.put("a", "1")?;
    /// let small = store.compact_to(dir.path().join("small.kv"), pheap_kv::Options::new())?;
    /// assert!(small.contains_key("a")?);
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Heap`] of the kind [`AlreadyExists`](std::io::ErrorKind::AlreadyExists) if there is a file at `path`, which is left as it is, and as for [`Options::open`] and [`KeySpace::put`].
    /// There is a file at `path` only once it is complete and durable. (It is made beside it, without a log, whatever `options` say, in a folder called `.NAME.….partial`; if the program is killed meanwhile, that remains, and may be removed.)
    pub fn compact_to(&self, path: impl AsRef<Path>, options: Options) -> Result<Store> {
        let path = path.as_ref();
        let failed = |source| {
            let context = format!("making the store {}", path.display());
            Error::from(pheap::Error::Io { context, source })
        };
        if path.symlink_metadata().is_ok() {
            return Err(failed(ErrorKind::AlreadyExists.into()));
        }
        let snapshot = self.snapshot()?;
        let name = path.file_name().ok_or_else(|| failed(ErrorKind::InvalidFilename.into()))?;
        let mut prefix = OsString::from(".");
        prefix.push(name);
        prefix.push(".");
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = tempfile::Builder::new().prefix(&prefix).suffix(".partial").tempdir_in(parent);
        let folder = folder.map_err(failed)?;
        let partial = folder.path().join(name);
        // Nobody sees it before it is complete, so it needs no log: closing it makes all of it durable.
        let to = options.clone().durability(Durability::Process).open(&partial)?;
        for name in snapshot.number(SpaceId::CATALOGUE).iter() {
            let (name, number) = name?;
            let Some(number) = number_in(&number) else { continue };
            to.space(&String::from_utf8_lossy(&name))?.load_from(&snapshot.number(SpaceId::new(number)))?;
        }
        to.load_from(&snapshot)?;
        to.close()?;
        // It replaces no file that somebody has made meanwhile.
        let partial = TempPath::try_from_path(partial).map_err(failed)?;
        partial.persist_noclobber(path).map_err(|refused| failed(refused.error))?;
        folder.close().and_then(|()| File::open(parent)?.sync_all()).map_err(failed)?;
        options.open(path)
    }

    /// Sizes, and counters since the store was opened.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// store.put("key", "value")?;
    /// let stats = store.stats()?;
    /// assert_eq!((stats.entries, stats.puts, stats.shards), (1, 1, 1));
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the store has failed or is closed.
    pub fn stats(&self) -> Result<Stats> {
        let map = self.shards.map();
        let (entries, heap) = (self.shards.len()?, self.shards.heap.stats());
        let mut stats = Stats { entries, shards: map.shards.len(), heap, ..Stats::default() };
        map.shards.iter().for_each(|shard| shard.counts.add_to(&mut stats));
        Ok(stats)
    }

    /// Closes the store: all that was written is in the file, which can then be copied and moved. Other handles are of no use any more. (Dropping the last handle closes it, too, and ignores errors.)
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// store.close()?;
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Heap`] if the disk fails.
    pub fn close(self) -> Result<()> {
        Ok(self.shards.heap.clone().close()?)
    }
}

/// The number of a key space, as the catalogue has it.
fn number_in(value: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(value.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MAX_SPACES;

    #[test]
    fn there_are_as_many_key_spaces_as_is_promised() {
        let store = Store::in_memory().unwrap();
        let catalogue = KeySpace::new(store.with(SpaceId::CATALOGUE));
        let mut batch = Batch::new();
        for number in SpaceId::FIRST..=u16::MAX {
            batch.put(&catalogue, format!("{number:05}"), number.to_be_bytes()).unwrap();
        }
        store.write(&batch).unwrap();
        assert_eq!(store.spaces().unwrap().len(), MAX_SPACES);
        assert!(matches!(store.space("one more"), Err(Error::TooManySpaces)));
        assert!(store.remove_space("00300").unwrap());
        assert_eq!(store.space("one more").unwrap().id.number(), 300);
    }
}
