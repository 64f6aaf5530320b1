//! The shards of a store, and the map from keys to shards.
//!
//! The map is in memory. A split or a removal of a shard replaces the map as a whole, and changes the
//! `bounds` of the shards. A thread with an old map finds bounds in the shard that differ from the bounds in
//! the map, and retries with the new map. So reads and writes use the map without a lock.

mod split;

use crate::eras::Eras;
use crate::keys::{self, SpaceId, StoredKey};
use crate::meta;
use crate::part::{self, Part};
use crate::range::MOST;
use crate::spaces::{RemovedFlag, Spaces};
use crate::stats::WriteCounts;
use crate::unsynced::{CountedWrites, Unsynced};
use crate::{Error, Result};
use arc_swap::ArcSwap;
use pheap::{Commit, Heap, P, Root, SyncPolicy, Txn, View, field};
use std::ops::Bound;
use std::sync::{Arc, Mutex};

/// Prefix of the names of the shards' roots.
const PREFIX: &str = "kv.shard.";

/// Number of writes of a batch to one shard whose memory is prefetched together. It is small, because all of
/// that memory should still be in the processor's cache when the last of them runs.
const TOGETHER: usize = 32;

/// A store has enough shards if it has this many for each processor.
const PER_PROCESSOR: usize = 4;

/// A shard, and the range of keys that it had when the map was made.
#[derive(Clone)]
pub(crate) struct Shard {
    pub(crate) root: Root<Part<'static>>,
    /// Counters of the writes to the shard, shared by all maps with it. If the shard behind it is given up,
    /// the shard gets new counters, with the sums of both.
    pub(crate) counts: Arc<WriteCounts>,
    /// The least key of the range.
    start: StoredKey,
    /// Copy of [`Part::bounds`]. Out of date if the range was changed since.
    bounds: u64,
}

impl Shard {
    /// Reads the shard with this root. Its bounds are 0 if it is not in use.
    fn of(root: Root<Part<'static>>) -> Result<Shard> {
        let (bounds, start) = root.read(|view, part| {
            let start = StoredKey::from_slice(field!(part.start).as_slice(view));
            (view[field!(part.bounds)], start)
        })?;
        Ok(Shard { root, counts: Arc::default(), start, bounds })
    }

    /// Returns whether the shard still has the range of keys of the map.
    #[inline]
    fn is_current<'r>(&self, view: &View<'r>, part: P<'r, Part<'r>>) -> bool {
        view[field!(part.bounds)] == self.bounds
    }
}

/// All shards in use, in the order of their keys. The first one begins with the least key.
pub(crate) struct ShardMap {
    pub(crate) shards: Vec<Shard>,
}

impl ShardMap {
    /// Returns the index of the shard of a key.
    #[inline]
    pub(crate) fn index_of(&self, key: &[u8]) -> usize {
        self.shards.partition_point(|shard| shard.start.as_slice() <= key).saturating_sub(1)
    }

    /// Returns the index of the last shard that can have keys less than `key`.
    pub(crate) fn index_before(&self, key: &[u8]) -> usize {
        self.shards.partition_point(|shard| shard.start.as_slice() < key).saturating_sub(1)
    }

    #[inline]
    fn of(&self, key: &[u8]) -> &Shard {
        &self.shards[self.index_of(key)]
    }

    /// Returns a number greater than the bounds of all shards since the store was opened, including shards
    /// that were given up. A shard's bounds are lost when it is given up, but the shard before it then gets
    /// greater ones.
    fn new_bounds(&self) -> u64 {
        self.shards.iter().fold(0, |most, shard| most.max(shard.bounds)).saturating_add(1)
    }

    fn roots(&self, indices: impl Iterator<Item = usize>) -> Vec<Root<Part<'static>>> {
        indices.map(|index| self.shards[index].root.clone()).collect()
    }
}

/// The range of keys of a shard.
#[derive(Clone, Copy)]
pub(crate) struct ShardExtent<'m> {
    map: &'m ShardMap,
    index: usize,
}

impl<'m> ShardExtent<'m> {
    /// Returns the start of the next shard, or, backwards, of this shard. Returns `None` for the last shard
    /// in that direction.
    pub(crate) fn edge(self, backwards: bool) -> Option<&'m StoredKey> {
        let begins = if backwards { self.index } else { self.index + 1 };
        // The range of the first shard begins with the least key, so it has no edge backwards.
        self.map.shards.get(begins).filter(|_| begins > 0).map(|shard| &shard.start)
    }
}

/// The state that all handles of a store share.
pub(crate) struct Shards {
    pub(crate) heap: Heap,
    pub(crate) eras: Eras,
    pub(crate) spaces: Spaces,
    /// The current map. Only a thread that holds the lock of `unused` replaces it.
    map: ArcSwap<ShardMap>,
    /// The roots of shards that are not in use. A thread that changes the map holds this lock.
    unused: Mutex<Vec<Root<Part<'static>>>>,
    /// Number of shards that are enough for the processors that this process may use.
    enough: usize,
    /// Writes that are not durable yet. `None` if reads do not distinguish them by key: see [`Unsynced::of`].
    unsynced: Option<Unsynced>,
}

/// The writes that a read waits for until they are durable, in a store with a log and
/// [`SyncPolicy::EveryCommit`]. So no caller sees a value that a power failure takes back. In other stores
/// this makes no difference: each read waits as [`Root::read`] does.
#[derive(Clone, Copy)]
pub(crate) enum DurableWait<'k> {
    /// The writes to this key that the read has seen (and others of its [class](Unsynced)).
    Key(&'k [u8]),
    /// All writes to the shard that the read may have seen.
    All,
    /// No writes: the read shows only values that were durable before it.
    Nothing,
}

impl Shards {
    /// Opens the shards of a heap, or creates the first one.
    pub(crate) fn open(heap: Heap, eras: Eras, policy: SyncPolicy) -> Result<Shards> {
        let (mut shards, mut unused) = (Vec::new(), Vec::new());
        for root in heap.roots().iter().filter(|root| root.name.starts_with(PREFIX)) {
            let shard = Shard::of(heap.root(&root.name)?)?;
            if shard.bounds > 0 { shards.push(shard) } else { unused.push(shard.root) }
        }
        if shards.is_empty() {
            let root: Root<Part> = unused.pop().map_or_else(|| heap.root(&format!("{PREFIX}0")), Ok)?;
            root.txn(|tx, part| {
                tx[field!(part.bounds)] = 1;
                Ok(())
            })?;
            shards.push(Shard::of(root)?);
        }
        shards.sort_by(|one, two| one.start.cmp(&two.start));
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let map = ArcSwap::from_pointee(ShardMap { shards });
        let (enough, unsynced) = (PER_PROCESSOR * processors, Unsynced::of(&heap, policy));
        let spaces = Spaces::default();
        Ok(Shards { heap, eras, spaces, map, unused: Mutex::new(unused), enough, unsynced })
    }

    pub(crate) fn map(&self) -> Arc<ShardMap> {
        self.map.load_full()
    }

    /// Returns the number of entries of all shards. A concurrent split does not make the count miss an entry,
    /// or have one twice.
    pub(crate) fn len(&self) -> Result<u64> {
        'again: loop {
            let map = self.map();
            let mut all = 0;
            for shard in &map.shards {
                let counted =
                    shard.root.read(|view, part| shard.is_current(view, part).then(|| part::len(view, part)));
                let Some(len) = counted? else {
                    std::thread::yield_now();
                    continue 'again;
                };
                all += len as u64;
            }
            return Ok(all);
        }
    }

    /// Calls `f` with the shard of a key.
    #[inline]
    pub(crate) fn read<R>(
        &self,
        key: &[u8],
        wait: DurableWait<'_>,
        f: impl for<'r> FnOnce(&View<'r>, P<'r, Part<'r>>) -> R,
    ) -> Result<R> {
        let mut f = Some(f);
        loop {
            let map = self.map.load();
            let shard = map.of(key);
            let result = self.look(shard, wait, |view, part| {
                let f = f.take_if(|_| shard.is_current(view, part))?;
                Some(f(view, part))
            })?;
            match result {
                Some(result) => return Ok(result),
                // The thread that has changed the range of the shard is about to replace the map.
                None => std::thread::yield_now(),
            }
        }
    }

    /// Calls `f` with the shard that `place` chooses, and then with its neighbours in order, until `f`
    /// returns a value or no shard is left. `f` also gets the shard's range of keys. If the range of a shard
    /// was changed since, the method starts again with `place`, so it may call `f` for a shard twice.
    pub(crate) fn read_from<R>(
        &self,
        place: impl Fn(&ShardMap) -> usize,
        backwards: bool,
        wait: DurableWait<'_>,
        mut f: impl for<'r> FnMut(&View<'r>, P<'r, Part<'r>>, ShardExtent<'_>) -> Option<R>,
    ) -> Result<Option<R>> {
        'again: loop {
            let map = self.map.load();
            let mut next = Some(place(&map));
            while let Some(index) = next.filter(|&index| index < map.shards.len()) {
                let (shard, extent) = (&map.shards[index], ShardExtent { map: &map, index });
                let result = self.look(shard, wait, |view, part| {
                    shard.is_current(view, part).then(|| f(view, part, extent))
                })?;
                match result {
                    None => {
                        std::thread::yield_now();
                        continue 'again;
                    }
                    Some(None) => next = if backwards { index.checked_sub(1) } else { Some(index + 1) },
                    Some(result) => return Ok(result),
                }
            }
            return Ok(None);
        }
    }

    #[inline]
    fn look<R>(
        &self,
        shard: &Shard,
        wait: DurableWait<'_>,
        f: impl for<'r> FnOnce(&View<'r>, P<'r, Part<'r>>) -> R,
    ) -> Result<R> {
        let (unsynced, key) = match (&self.unsynced, wait) {
            (None, _) | (_, DurableWait::All) => return Ok(shard.root.read(f)?),
            (Some(unsynced), DurableWait::Key(key)) => (unsynced, Some(key)),
            (Some(unsynced), DurableWait::Nothing) => (unsynced, None),
        };
        let (result, seen) = shard.root.read_deferred(f)?;
        if !seen.is_durable() && key.is_some_and(|key| unsynced.has(key)) {
            seen.wait()?;
        }
        Ok(result)
    }

    /// Runs a transaction on the shard of a key. If `deferred` is set, does not wait until the transaction is
    /// durable, and returns its [`Commit`].
    #[inline]
    pub(crate) fn write<R>(
        &self,
        key: &[u8],
        deferred: bool,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, Part<'r>>, &WriteCounts) -> pheap::Result<R>,
    ) -> Result<(R, Option<Commit>)> {
        let (mut f, mut counted) = (Some(f), None);
        loop {
            let map = self.map.load();
            let shard = map.of(key);
            let run = transaction(|tx, part| match f.take_if(|_| shard.is_current(tx, part)) {
                Some(f) => {
                    counted = self.count(&mut std::iter::once(key));
                    f(tx, part, &shard.counts).map(Some)
                }
                None => Ok(None),
            });
            let (result, commit) = if deferred {
                let (result, commit) = shard.root.txn_deferred(run)?;
                keep_counted(counted.take(), &shard.root);
                (result, Some(commit))
            } else {
                (shard.root.txn(run)?, None)
            };
            match result {
                Some(result) => return Ok((result, commit)),
                None => std::thread::yield_now(),
            }
        }
    }

    fn count(&self, keys: &mut dyn Iterator<Item = &[u8]>) -> Option<CountedWrites<'_>> {
        Some(self.unsynced.as_ref()?.count(keys))
    }

    /// Runs one transaction on the shards of all keys. Calls `f` for each key, with its index; within a
    /// shard, in the order of `keys`. If one of the key spaces was removed, writes nothing and returns an
    /// error.
    pub(crate) fn write_all<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
        spaces: &[RemovedFlag],
        deferred: bool,
        mut f: impl for<'r> FnMut(usize, &mut Txn<'r>, P<'r, Part<'r>>, &WriteCounts) -> pheap::Result<()>,
    ) -> Result<Option<Commit>> {
        loop {
            let map = self.map();
            let mut places: Vec<(usize, usize, &[u8])> =
                keys.clone().enumerate().map(|(i, key)| (map.index_of(key), i, key)).collect();
            places.sort_unstable_by_key(|&(index, i, _)| (index, i));
            let mut involved: Vec<usize> = places.iter().map(|place| place.0).collect();
            involved.dedup();
            if involved.is_empty() {
                return Ok(None);
            }
            let roots = map.roots(involved.iter().copied());
            let mut counted = None;
            let run = |mut shards: pheap::Shards<'_, Part<'static>>| {
                for (at, &index) in involved.iter().enumerate() {
                    if !shards.with(at, |tx, part| map.shards[index].is_current(tx, part)) {
                        return Ok(None);
                    }
                }
                if spaces.iter().any(RemovedFlag::get) {
                    return Ok(Some(Err(Error::SpaceRemoved)));
                }
                counted = self.count(&mut keys.clone());
                for (at, places) in places.chunk_by(|one, next| one.0 == next.0).enumerate() {
                    let counts = &map.shards[places[0].0].counts;
                    for some in places.chunks(TOGETHER) {
                        shards.with(at, |tx, part| {
                            if some.len() > 1 {
                                part::prefetch(tx, part, some.iter().map(|place| place.2));
                            }
                            some.iter().try_for_each(|&(_, i, _)| f(i, tx, part, counts))
                        })?;
                    }
                }
                Ok(Some(Ok(())))
            };
            let (done, commit) = if deferred {
                let (done, commit) = pheap::txn_deferred(&roots, run)?;
                keep_counted(counted.take(), &roots[0]);
                (done, Some(commit))
            } else {
                (pheap::txn(&roots, run)?, None)
            };
            match done {
                Some(done) => return done.map(|()| commit),
                None => std::thread::yield_now(),
            }
        }
    }

    /// Returns the greatest stored key of all shards.
    pub(crate) fn last_key(&self) -> Result<Option<Vec<u8>>> {
        let last = |map: &ShardMap| map.shards.len() - 1;
        self.read_from(last, true, DurableWait::Nothing, |view, part, _| part::last_key(view, part))
    }

    /// Removes all entries and versions of a removed key space, in deferred transactions. No thread may write
    /// to the key space any more. Returns false if versions are left that snapshots need.
    pub(crate) fn clear(&self, id: SpaceId) -> Result<bool> {
        let (mut from, end, mut most) = (id.start(), keys::behind_space(&id.start()), MOST);
        let mut is_all = true;
        loop {
            let removed = self.write(&from, true, |tx, part, _| {
                let span = (Bound::Included(&from[..]), Bound::Excluded(&end[..]));
                part::clear(tx, part, &self.eras, span, most)
            });
            let ((next, is_left), _) = match removed {
                // A transaction needs space before its commit frees any. A smaller one needs less.
                Err(Error::Heap(pheap::Error::OutOfSpace { .. })) if most > 1 => {
                    most /= 2;
                    continue;
                }
                removed => removed?,
            };
            is_all &= !is_left;
            from = match next.map(StoredKey::from_vec).or_else(|| self.start_behind(&from)) {
                Some(next) if next < end => next,
                _ => return Ok(is_all),
            };
        }
    }

    /// Removes expired values, and versions that no snapshot needs, from all shards.
    pub(crate) fn tidy(&self) -> Result<()> {
        let mut shard = Some(StoredKey::new());
        while let Some(key) = shard {
            let root = self.map().of(&key).root.clone();
            let mut from = Some(Vec::new());
            while let Some(next) = from {
                from = root.txn(|tx, part| part::tidy(tx, part, &self.eras, &next, MOST))?;
            }
            shard = self.start_behind(&key);
        }
        Ok(())
    }

    /// Returns the start of the shard behind the shard of `key`.
    fn start_behind(&self, key: &[u8]) -> Option<StoredKey> {
        let map = self.map();
        map.shards.get(map.index_of(key) + 1).map(|shard| shard.start.clone())
    }

    /// Ends the era, at one moment for all shards. Returns the era of the new snapshot.
    pub(crate) fn take_snapshot(&self) -> Result<u64> {
        loop {
            if self.eras.are_used_up() {
                self.eras.reserve(meta::reserve_eras(&self.heap)?);
            }
            let map = self.map();
            let roots = map.roots(0..map.shards.len());
            // The transaction writes nothing. It waits until all that the snapshot sees is as durable as the
            // policy requires.
            let era = pheap::txn(&roots, |mut shards| {
                let current =
                    (0..shards.len()).all(|i| shards.with(i, |tx, part| map.shards[i].is_current(tx, part)));
                Ok(if current { self.eras.take() } else { None })
            })?;
            match era {
                Some(era) => return Ok(era),
                None => std::thread::yield_now(),
            }
        }
    }
}

/// Keeps deferred writes in the counts of [`Unsynced`] until they are durable. `root` must be one of the
/// shards that they have changed: they stay counted until all commits to `root` until now are durable, and
/// their own commit is one of those.
fn keep_counted(counted: Option<CountedWrites<'_>>, root: &Root<Part<'static>>) {
    let Some(counted) = counted else { return };
    match root.read_deferred(|_, _| ()) {
        Ok(((), commit)) => counted.until(commit),
        // Another thread has closed the store, or the disk has failed. The writes have succeeded all the
        // same.
        Err(_) => counted.for_ever(),
    }
}

/// Makes the compiler infer that a closure works for all brands.
fn transaction<R, F>(f: F) -> F
where
    F: for<'r> FnOnce(&mut Txn<'r>, P<'r, Part<'r>>) -> pheap::Result<R>,
{
    f
}
