//! `Store`: opening a store, its key spaces, and operations on the whole store.

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
use crate::spaces::{self, MARK, RemovedFlag};
use crate::stats::Stats;
use crate::{Error, Result};
use pheap::{Commit, Durability, Heap, SyncPolicy};
use std::ffi::OsString;
use std::fs::File;
use std::io::ErrorKind;
use std::ops::{ControlFlow, Deref};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempPath;

/// An ordered map of byte strings in a file. See the [crate's documentation](crate).
///
/// It dereferences to its default [`KeySpace`], so programs read and write it directly. It is cheap to clone,
/// and threads share it. Key spaces, snapshots, iterators, and batches with writes are handles of the store,
/// too. When the last handle is dropped, the store is closed.
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
    /// Opens the store in this file with the default [`Options`]. Creates the file if there is none, and
    /// recovers the store after a crash.
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

    /// Returns a store without a file, for tests.
    ///
    /// ```
    /// let store = pheap_kv::Store::in_memory()?;
    /// assert!(store.iter().next().is_none());
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Heap`], for instance if there is no memory.
    pub fn in_memory() -> Result<Store> {
        Store::of(Heap::in_memory()?, SyncPolicy::default())
    }

    /// Opens the store in a heap.
    pub(crate) fn of(heap: Heap, policy: SyncPolicy) -> Result<Store> {
        let eras = Eras::behind_block(meta::open(&heap)?);
        let shards = Arc::new(Shards::open(heap, eras, policy)?);
        let reader = Reader { shards, id: SpaceId::DEFAULT, pin: None };
        let store = Store { space: KeySpace::new(reader, RemovedFlag::default()) };
        // Errors are ignored: a store that is open to be read only, or on a full disk, is usable. `purge`
        // tries again to finish the removals.
        let _ = store.finish_removals();
        Ok(store)
    }

    fn with(&self, id: SpaceId) -> Reader {
        Reader { id, ..Reader::clone(self) }
    }

    /// Returns the key space with this name. Creates it if there is none.
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
    /// [`Error::InvalidName`], and [`Error::Heap`], for instance if the disk is full or has failed.
    pub fn space(&self, name: &str) -> Result<KeySpace> {
        if name.is_empty() || name.len() > 255 {
            return Err(Error::InvalidName { len: name.len() });
        }
        let catalogue = self.with(SpaceId::CATALOGUE);
        let there = catalogue.get_with(name, |value| Some(self.handle(SpaceId::from_value(value)?)))?;
        if let Some(space) = there.flatten() {
            return Ok(space);
        }
        let shards = &self.shards;
        let new = shards.spaces.new_number(|| self.first_number())?;
        let key = SpaceId::CATALOGUE.key(name.as_bytes())?;
        let (space, _) = shards.write(&key, false, |tx, part, _| {
            // Another thread may have created the key space in the meantime.
            let there = part::get(tx, part, &key, None).and_then(SpaceId::from_value);
            if there.is_none() {
                part::put(tx, part, &key, &new.to_value(), None, &shards.eras)?;
            }
            Ok(self.handle(there.unwrap_or(new)))
        })?;
        Ok(space)
    }

    /// Returns a handle of a key space. See [`Spaces::handle`](crate::spaces::Spaces::handle) for the lock
    /// that the caller must hold.
    fn handle(&self, id: SpaceId) -> KeySpace {
        KeySpace::new(self.with(id), self.shards.spaces.handle(id))
    }

    /// Returns the least number greater than those of all key spaces, marks and entries. (Files of earlier
    /// versions may have entries without a key space.)
    fn first_number(&self) -> Result<u64> {
        let mut last = SpaceId::DEFAULT.number();
        let mut see = |id: Option<SpaceId>| last = last.max(id.map_or(0, SpaceId::number));
        see(self.shards.last_key()?.and_then(|key| SpaceId::of(&key)));
        self.with(SpaceId::CATALOGUE).for_each::<[u8]>(.., |_, value| {
            see(SpaceId::from_value(value));
            ControlFlow::Continue(())
        })?;
        Ok(last.saturating_add(1))
    }

    /// Returns the names of the key spaces, in order. The default key space has no name.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// store.space("users")?;
    /// assert_eq!(store.spaces()?, ["users"]);
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Heap`], for instance if the store has failed or is closed.
    pub fn spaces(&self) -> Result<Vec<String>> {
        let names = self.with(SpaceId::CATALOGUE).range(..[MARK]);
        names.map(|entry| Ok(String::from_utf8_lossy(&entry?.0).into_owned())).collect()
    }

    /// Removes a key space and all its entries. Returns whether it existed.
    ///
    /// The first transaction removes the name, as durably as any other write. From then on, writes through
    /// handles of the key space, and batches with such writes, fail with [`Error::SpaceRemoved`]. A key space
    /// that is made later is empty, even if it has the same name. Writers of other key spaces continue.
    ///
    /// More transactions remove the entries, a few hundred at a time. Until they are done, reads through old
    /// handles find some of the entries. If the program is killed before that, the next opening of the store
    /// removes the rest.
    ///
    /// Earlier [snapshots](Snapshot) still show all entries. The entries that such a snapshot needs are
    /// removed in the first removal of a key space after the last snapshot is dropped, in
    /// [`purge`](Self::purge), or when the store is opened again. Empty shards are given up, which collects
    /// their garbage.
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
    /// [`Error::Heap`], for instance if the disk is full or has failed. If that happens after the first
    /// transaction, the key space is removed, and [`purge`](Self::purge) removes the rest of its entries.
    /// [`Error::KeyTooLong`] for a name that is longer than a key can be.
    pub fn remove_space(&self, name: &str) -> Result<bool> {
        if !self.with(SpaceId::CATALOGUE).contains_key(name)? {
            return Ok(false);
        }
        let key = SpaceId::CATALOGUE.key(name.as_bytes())?;
        let (shards, mut told) = (&self.shards, None);
        let removal = shards.write(&key, false, |tx, part, _| {
            let Some(id) = part::get(tx, part, &key, None).and_then(SpaceId::from_value) else {
                return Ok(None);
            };
            part::delete(tx, part, &key, &shards.eras)?;
            part::put(tx, part, &spaces::mark(id), &id.to_value(), None, &shards.eras)?;
            part::tidy_a_little(tx, part, &shards.eras, &key)?;
            // The flag is set before the commit, because after it another thread may create a key space of
            // the same name.
            told.insert(shards.spaces.handle(id)).set(true);
            Ok(Some(id))
        });
        match removal {
            Ok((Some(id), _)) => {
                self.finish_removal(id)?;
                if shards.eras.is_quiet() && shards.spaces.take_left() {
                    self.finish_removals()?;
                }
                Ok(true)
            }
            Ok((None, _)) => Ok(false),
            Err(error) => {
                // The key space still exists, unless another thread has removed it. If the transaction below
                // fails, too, the heap has failed, and no later write succeeds.
                let _ = told.map(|removed| {
                    shards.write(&key, true, |tx, part, _| {
                        let there = part::get(tx, part, &key, None).and_then(SpaceId::from_value);
                        let is_it = there.is_some_and(|id| shards.spaces.handle(id).is(&removed));
                        removed.set(!is_it);
                        Ok(())
                    })
                });
                Err(error)
            }
        }
    }

    /// Finishes removals of key spaces whose marks are there: interrupted ones, those whose entries snapshots
    /// needed, and those that other threads are running.
    fn finish_removals(&self) -> Result<()> {
        for mark in self.with(SpaceId::CATALOGUE).range([MARK]..) {
            if let Some(id) = SpaceId::from_value(&mark?.1) {
                self.finish_removal(id)?;
            }
        }
        Ok(())
    }

    /// Removes the entries of a removed key space, which has a mark and no name. Then removes its mark,
    /// unless a snapshot needs some of the entries.
    fn finish_removal(&self, id: SpaceId) -> Result<()> {
        let shards = &self.shards;
        // Ensures that the number is not reused while the store is open. Otherwise a late thread could clear
        // a key space that was made later.
        shards.spaces.note_numbers(|| self.first_number())?;
        let is_all = shards.clear(id)?;
        // An error is ignored, because the entries are removed. If there is no space to give up the shards,
        // later removals do so.
        let _ = shards.give_up_empty();
        if is_all {
            let mark = spaces::mark(id);
            shards.write(&mark, true, |tx, part, _| part::delete(tx, part, &mark, &shards.eras))?;
        } else {
            shards.spaces.note_left();
        }
        Ok(())
    }

    /// Carries out a batch as one transaction. The batch keeps its writes, so it can be written again.
    ///
    /// If a batch has 64 MiB or more, this also [folds the log](pheap::Heap::fold_log) before it returns, so
    /// the next writer does not wait for that.
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
    /// [`Error::OtherStore`]; [`Error::SpaceRemoved`] if one of the key spaces was removed: then nothing is
    /// written; [`Error::Heap`], for instance if the disk is full or has failed.
    pub fn write(&self, batch: &Batch) -> Result<()> {
        self.check(batch)?.write(false).map(drop)
    }

    /// Carries out a batch as [`write`](Self::write) does, without waiting until it is durable. The
    /// [`Commit`] tells when it is durable; there is none if the batch is empty. Like
    /// [`KeySpace::put_deferred`], it may wait for the disk when a growing store adds a shard.
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
    /// As for [`write`](Self::write). If the disk fails later, the `Commit` returns the error.
    pub fn write_deferred(&self, batch: &Batch) -> Result<Option<Commit>> {
        self.check(batch)?.write(true)
    }

    fn check<'b>(&self, batch: &'b Batch) -> Result<&'b Batch> {
        if batch.is_for(&self.shards) { Ok(batch) } else { Err(Error::OtherStore) }
    }

    /// Takes a snapshot of all key spaces as they are now. Writers wait for a moment. With a log, this may
    /// wait until the values that the snapshot shows are durable.
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
    /// [`Error::Heap`], for instance if the store has failed or is closed, or if the disk is full: the first
    /// snapshot after an opening, and then one in about 65,000, records a number in the store.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Snapshot::take(&self.shards)
    }

    /// Makes all writes durable that the [`SyncPolicy`](crate::SyncPolicy) has left to a later sync.
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// store.put("a", "1")?;
    /// store.sync()?;
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Heap`], for instance if the disk fails.
    pub fn sync(&self) -> Result<()> {
        Ok(self.shards.heap.sync()?)
    }

    /// Removes expired entries, versions that no snapshot needs, and the rest of
    /// [removed](Self::remove_space) key spaces, and gives up empty shards. Each write also removes a few
    /// expired entries and versions.
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
    /// [`Error::Heap`], for instance if the disk is full or has failed.
    pub fn purge(&self) -> Result<()> {
        // `tidy` comes first, because it needs no space: a removal may need some to keep versions for
        // snapshots.
        self.shards.tidy()?;
        self.finish_removals()?;
        self.shards.give_up_empty()
    }

    /// Copies the store to a new file while programs use it. With
    /// [`Durability::Wal`](crate::Durability::Wal), writers continue during the copy; otherwise they wait.
    /// See [`pheap::Heap::backup`].
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

    /// Copies the entries of a snapshot, in order, to a new store, which takes little space.
    /// (Objects do not move within a file, so a store uses freed space again but does not give it back.)
    /// Later writes are not in the copy: a program that wants to replace this store must keep writers away. A
    /// store that is open to be read only can be copied, too. A [follower](pheap::Options::follower) copies
    /// the store of another process as it was when the follower was opened.
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
    /// [`Error::Heap`] of the kind [`AlreadyExists`](std::io::ErrorKind::AlreadyExists) if there is a file at
    /// `path`, which stays unchanged. [`Error::Heap`] also, for instance, if the store has failed or is
    /// closed, or if the disk is full.
    ///
    /// The file appears at `path` only when it is complete and durable. (Until then it is in a folder
    /// `.NAME.….partial` in the same directory, and has no log, whatever `options` say. If the program is
    /// killed, the folder remains and may be deleted.)
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
        // No other process sees the store before it is complete, so it needs no log: `close` makes it
        // durable.
        let to = options.clone().durability(Durability::Process).open(&partial)?;
        for name in snapshot.number(SpaceId::CATALOGUE).range(..[MARK]) {
            let (name, number) = name?;
            let Some(id) = SpaceId::from_value(&number) else { continue };
            to.space(&String::from_utf8_lossy(&name))?.load_from(&snapshot.number(id))?;
        }
        to.load_from(&snapshot)?;
        to.close()?;
        // `persist_noclobber` does not replace a file that another process has made in the meantime.
        let partial = TempPath::try_from_path(partial).map_err(failed)?;
        partial.persist_noclobber(path).map_err(|refused| failed(refused.error))?;
        folder.close().and_then(|()| File::open(parent)?.sync_all()).map_err(failed)?;
        options.open(path)
    }

    /// Returns the sizes of the store, and its counters since the opening.
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
    /// [`Error::Heap`], for instance if the store has failed or is closed.
    pub fn stats(&self) -> Result<Stats> {
        let map = self.shards.map();
        let (entries, heap) = (self.shards.len()?, self.shards.heap.stats());
        let mut stats = Stats { entries, shards: map.shards.len(), heap, ..Stats::default() };
        map.shards.iter().for_each(|shard| shard.counts.add_to(&mut stats));
        Ok(stats)
    }

    /// Closes the store. All writes are in the file then, and it can be copied and moved. Calls through other
    /// handles fail. (Dropping the last handle closes the store, too, and ignores errors.)
    ///
    /// ```
    /// # let store = pheap_kv::Store::in_memory()?;
    /// store.close()?;
    /// # Ok::<(), pheap_kv::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Heap`], for instance if the disk fails.
    pub fn close(self) -> Result<()> {
        Ok(self.shards.heap.clone().close()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::LATER;
    use crate::range::VISITS;

    fn open(path: &Path) -> Store {
        Options::new().durability(Durability::Process).open(path).unwrap()
    }

    /// Returns a handle of the key space with this number, even if it has no name.
    fn unnamed(store: &Store, number: u64) -> KeySpace {
        KeySpace::new(store.with(SpaceId::new(number)), RemovedFlag::default())
    }

    fn entries(store: &Store) -> u64 {
        store.stats().unwrap().entries
    }

    #[test]
    fn numbers_are_not_used_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spaces.kv");
        let store = open(&path);
        let mut last = SpaceId::DEFAULT.number();
        let space = |store: &Store, last: &mut u64| {
            let space = store.space("one").unwrap();
            assert!(space.id.number() > *last);
            *last = space.id.number();
            space
        };
        for _ in 0..10 {
            space(&store, &mut last);
            assert!(store.remove_space("one").unwrap());
        }
        space(&store, &mut last);
        store.close().unwrap();
        // The number of the first key space removed after an opening is not used again, either.
        let store = open(&path);
        let old = store.space("one").unwrap();
        assert!(store.remove_space("one").unwrap());
        space(&store, &mut last).put("key", "").unwrap();
        assert!(matches!(old.put("key", ""), Err(Error::SpaceRemoved)));
    }

    #[test]
    fn key_spaces_with_prefixes_of_all_lengths_are_kept_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spaces.kv");
        for first in [0xED, 0xFFFD, u64::from(u32::MAX)] {
            let store = open(&path);
            store.shards.spaces.new_number(|| Ok::<_, Error>(first)).unwrap();
            for n in 0..5 {
                let space = store.space(&format!("{first} {n}")).unwrap();
                assert_eq!(space.id.number(), first + 1 + n);
                for key in [vec![], vec![0xFF; 9], vec![0xFF; crate::MAX_KEY]] {
                    space.put_for(&key, (first + n).to_be_bytes(), std::time::Duration::MAX).unwrap();
                }
            }
            store.close().unwrap();
        }
        let store = open(&path);
        let check = |store: &Store| {
            for name in store.spaces().unwrap() {
                let (first, n) = name.split_once(' ').unwrap();
                let value = first.parse::<u64>().unwrap() + n.parse::<u64>().unwrap();
                let space = store.space(&name).unwrap();
                let values: Vec<_> = space.iter().rev().map(|entry| entry.unwrap().1).collect();
                assert_eq!(values, vec![value.to_be_bytes(); 3], "{name}");
            }
        };
        check(&store);
        check(&store.compact_to(dir.path().join("small.kv"), Options::new()).unwrap());
        let next = store.space("next").unwrap();
        assert_eq!(next.id.number(), u64::from(u32::MAX) + 6);
        store.spaces().unwrap().iter().for_each(|name| assert!(store.remove_space(name).unwrap()));
        assert_eq!(entries(&store), 0);
    }

    /// Entries without a key space: in earlier versions of the crate, handles of removed key spaces could
    /// write them.
    #[test]
    fn entries_without_a_key_space_never_get_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stray.kv");
        let store = open(&path);
        store.space("a").unwrap().put("key", "named").unwrap();
        unnamed(&store, 7).put("key", "stray").unwrap();
        // These entries are added and deleted, so that the last shard is left empty.
        for n in 0..9000u32 {
            unnamed(&store, 9).put(n.to_be_bytes(), "").unwrap();
        }
        for n in 0..9000u32 {
            unnamed(&store, 9).delete(n.to_be_bytes()).unwrap();
        }
        assert!(store.stats().unwrap().shards > 1);
        store.close().unwrap();
        let store = open(&path);
        assert_eq!(store.space("b").unwrap().id.number(), 8);
        assert_eq!(store.space("b").unwrap().iter().count(), 0);
        assert_eq!(store.space("a").unwrap().iter().count(), 1);
    }

    #[test]
    fn a_key_space_is_made_without_looking_at_the_others() {
        let store = Store::in_memory().unwrap();
        store.space("first").unwrap();
        let visits = VISITS.get();
        for n in 0..1000 {
            store.space(&format!("{n}")).unwrap();
        }
        assert_eq!(VISITS.get(), visits);
    }

    /// Simulates a kill: the name and some of the entries are removed.
    #[test]
    fn a_removal_that_was_interrupted_is_finished_when_the_store_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("interrupted.kv");
        let store = open(&path);
        let space = store.space("gone").unwrap();
        for n in 0..3000u32 {
            space.put(n.to_be_bytes(), "").unwrap();
        }
        store.space("kept").unwrap().put("key", "value").unwrap();
        let mut batch = Batch::new();
        let catalogue = unnamed(&store, SpaceId::CATALOGUE.number());
        batch.delete(&catalogue, "gone").unwrap();
        store.write(&batch).unwrap();
        mark(&store, space.id);
        assert_eq!((entries(&store), store.spaces().unwrap()), (3003, vec!["kept".to_owned()]));
        let path = dir.path().join("copy.kv");
        store.backup(&path).unwrap();
        store.purge().unwrap();
        let reader = Options::new().heap(|heap| heap.read_only(true)).open(&path).unwrap();
        assert_eq!((entries(&reader), reader.spaces().unwrap()), (3003, vec!["kept".to_owned()]));
        reader.close().unwrap();
        for store in [store, open(&path)] {
            assert_eq!((entries(&store), store.spaces().unwrap()), (2, vec!["kept".to_owned()]));
            assert_eq!(store.space("gone").unwrap().iter().count(), 0);
        }
    }

    /// Adds the mark of a key space, as the first transaction of a removal does.
    fn mark(store: &Store, id: SpaceId) {
        unnamed(store, SpaceId::CATALOGUE.number()).put(&spaces::mark(id)[1..], id.to_value()).unwrap();
    }

    fn has_older(store: &Store) -> bool {
        let map = store.shards.map();
        map.shards.iter().any(|shard| shard.root.read(part::has_older).unwrap())
    }

    /// If a new key space got the number of a removed one, a late thread that also finishes the removal would
    /// clear the new key space.
    #[test]
    fn numbers_of_removals_that_others_finish_are_not_used_again() {
        let store = Store::in_memory().unwrap();
        let gone = SpaceId::new(7);
        unnamed(&store, gone.number()).put("key", "").unwrap();
        let before = store.snapshot().unwrap();
        mark(&store, gone);
        store.purge().unwrap();
        drop(before);
        store.purge().unwrap();
        assert_eq!(entries(&store), 0);
        assert!(store.space("new").unwrap().id.number() > gone.number());
    }

    #[test]
    fn what_snapshots_needed_of_removed_key_spaces_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("versions.kv");
        let store = open(&path);
        // Returns the number of keys that a reader of a snapshot visits, shown or not.
        let visited = |store: &Store, id| {
            let before = VISITS.get();
            assert_eq!(store.snapshot().unwrap().number(id).iter().count(), 0);
            VISITS.get() - before
        };
        let remove = |store: &Store| {
            let space = store.space("gone").unwrap();
            (0..3000u32).for_each(|n| space.put(n.to_be_bytes(), "").unwrap());
            let before = store.snapshot().unwrap();
            assert!(store.remove_space("gone").unwrap());
            assert_eq!(before.space(&space).unwrap().iter().count(), 3000);
            assert_eq!(visited(store, space.id), 3000);
            space.id
        };
        let check = |store: &Store, id| {
            let stats = store.stats().unwrap();
            assert_eq!((stats.entries, stats.shards, visited(store, id)), (0, 1, 0));
        };
        // The next removal of a key space removes the versions.
        let id = remove(&store);
        store.space("other").unwrap();
        assert!(store.remove_space("other").unwrap());
        check(&store, id);
        // A purge removes the versions.
        let id = remove(&store);
        store.purge().unwrap();
        check(&store, id);
        // The next opening removes the versions.
        let id = remove(&store);
        store.close().unwrap();
        check(&open(&path), id);
    }

    /// Expired values are not kept for snapshots, which do not show them.
    #[test]
    fn what_has_expired_is_not_kept_for_snapshots() {
        let hour = std::time::Duration::from_secs(3600);
        let store = Store::in_memory().unwrap();
        for n in 0..1000u32 {
            store.put_for(n.to_be_bytes(), "old", hour).unwrap();
        }
        let snapshot = store.snapshot().unwrap();
        // Half of the values become older versions before they expire.
        for n in 0..500u32 {
            store.delete(n.to_be_bytes()).unwrap();
        }
        assert_eq!((snapshot.iter().count(), has_older(&store)), (1000, true));
        LATER.set(2 * 3_600_000);
        store.purge().unwrap();
        assert_eq!((snapshot.iter().count(), entries(&store), has_older(&store)), (0, 0, false));
    }

    /// A removal may need space to keep versions for snapshots. So a purge first removes expired entries.
    #[test]
    fn a_full_store_is_purged_of_what_has_expired_before_removals_are_finished() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("full.kv");
        let options = Options::new().durability(Durability::Process).heap(|heap| heap.arena_size(1 << 20));
        let store = options.max_size(4 << 20).open(&path).unwrap();
        let gone = SpaceId::new(7);
        for n in 0..2000u32 {
            unnamed(&store, gone.number()).put(n.to_be_bytes(), "").unwrap();
        }
        let (hour, mut n) = (std::time::Duration::from_secs(3600), 0u32);
        mark(&store, gone);
        let snapshot = store.snapshot().unwrap();
        for len in [200, 0] {
            while store.put_for(n.to_be_bytes(), vec![7; len], hour).is_ok() {
                n += 1;
            }
        }
        let room = store.finish_removals();
        assert!(matches!(room, Err(Error::Heap(pheap::Error::OutOfSpace { .. }))), "{room:?}");
        // A snapshot can be taken of a full store, because that needs no space.
        let after = store.snapshot().unwrap();
        LATER.set(2 * 3_600_000);
        store.purge().unwrap();
        assert_eq!((entries(&store), snapshot.number(gone).iter().count()), (1, 2000));
        drop((snapshot, after));
        store.purge().unwrap();
        assert_eq!(entries(&store), 0);
    }

    #[test]
    fn forged_numbers_reach_neither_the_catalogue_nor_the_default_key_space() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("forged.kv");
        let store = open(&path);
        store.put("key", "default").unwrap();
        store.space("kept").unwrap().put("key", "kept").unwrap();
        let catalogue = unnamed(&store, SpaceId::CATALOGUE.number());
        for number in [SpaceId::CATALOGUE, SpaceId::DEFAULT] {
            catalogue.put(format!("name {}", number.number()), number.to_value()).unwrap();
            mark(&store, number);
        }
        drop(catalogue);
        store.close().unwrap();
        let store = open(&path);
        store.purge().unwrap();
        assert_eq!(store.space("kept").unwrap().get("key").unwrap().unwrap(), b"kept");
        for name in ["name 0", "name 1"] {
            assert_eq!(store.space(name).unwrap().iter().count(), 0);
            assert!(store.remove_space(name).unwrap());
        }
        assert_eq!(store.get("key").unwrap().unwrap(), b"default");
        // The greatest number is not used a second time.
        let catalogue = unnamed(&store, SpaceId::CATALOGUE.number());
        catalogue.put("last", SpaceId::new(u64::MAX).to_value()).unwrap();
        drop(catalogue);
        store.close().unwrap();
        let store = open(&path);
        assert!(matches!(store.space("new"), Err(Error::Heap(pheap::Error::Corrupt { .. }))));
        assert_eq!(store.get("key").unwrap().unwrap(), b"default");
    }
}
