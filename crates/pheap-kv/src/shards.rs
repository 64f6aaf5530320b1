//! The shards of a store: which one has a key, and how it is reached.
//!
//! The map from keys to shards is in memory, and replaced as a whole when a shard is split or given up. Who
//! has an old one is told by the shard, whose `bounds` are others since then, and looks again. So neither
//! reads nor writes take a lock for it.

mod split;

use crate::eras::Eras;
use crate::keys::{self, SpaceId, StoredKey};
use crate::meta;
use crate::part::{self, Part};
use crate::range::MOST;
use crate::spaces::{Removed, Spaces};
use crate::stats::Counts;
use crate::unsynced::{Counted, Unsynced};
use crate::{Error, Result};
use arc_swap::ArcSwap;
use pheap::{Commit, Heap, P, Root, SyncPolicy, Txn, View, field};
use std::ops::Bound;
use std::sync::{Arc, Mutex};

/// The name of a root begins with this if it is a shard's.
const PREFIX: &str = "kv.shard.";

/// Writes of a batch to one shard of which the memory is loaded before the first of them: few enough for it to be in a processor's cache then.
const TOGETHER: usize = 32;

/// Shards that are enough for each processor.
const PER_PROCESSOR: usize = 4;

/// A shard, and the range of keys that it had when this was made.
#[derive(Clone)]
pub(crate) struct Shard {
    pub(crate) root: Root<Part<'static>>,
    pub(crate) counts: Arc<Counts>,
    start: StoredKey,
    bounds: u64,
}

impl Shard {
    /// The shard with this root. If it is not in use, its bounds are 0.
    fn of(root: Root<Part<'static>>) -> Result<Shard> {
        let (bounds, start) = root.read(|view, part| {
            let start = StoredKey::from_slice(field!(part.start).as_slice(view));
            (view[field!(part.bounds)], start)
        })?;
        Ok(Shard { root, counts: Arc::default(), start, bounds })
    }

    /// Whether it still has the keys that it had.
    #[inline]
    fn is_current<'r>(&self, view: &View<'r>, part: P<'r, Part<'r>>) -> bool {
        view[field!(part.bounds)] == self.bounds
    }
}

/// All shards, in the order of their keys. The first one begins with the least key.
pub(crate) struct Map {
    pub(crate) shards: Vec<Shard>,
}

impl Map {
    /// The shard that has a key.
    #[inline]
    pub(crate) fn index_of(&self, key: &[u8]) -> usize {
        self.shards.partition_point(|shard| shard.start.as_slice() <= key).saturating_sub(1)
    }

    /// The last shard with keys that are less than this one.
    pub(crate) fn index_before(&self, key: &[u8]) -> usize {
        self.shards.partition_point(|shard| shard.start.as_slice() < key).saturating_sub(1)
    }

    #[inline]
    fn of(&self, key: &[u8]) -> &Shard {
        &self.shards[self.index_of(key)]
    }

    /// Greater than the bounds that any shard has had since the store was opened, also those that were given
    /// up: the shard with the greatest is never given up without its neighbour getting greater ones.
    fn new_bounds(&self) -> u64 {
        self.shards.iter().fold(0, |most, shard| most.max(shard.bounds)).saturating_add(1)
    }

    fn roots(&self, indices: impl Iterator<Item = usize>) -> Vec<Root<Part<'static>>> {
        indices.map(|index| self.shards[index].root.clone()).collect()
    }
}

/// Which keys a shard has.
#[derive(Clone, Copy)]
pub(crate) struct Extent<'m> {
    map: &'m Map,
    index: usize,
}

impl<'m> Extent<'m> {
    /// Where the next shard begins, or, backwards, where this one does; `None` if no shard is behind it in
    /// that direction.
    pub(crate) fn edge(self, backwards: bool) -> Option<&'m StoredKey> {
        let begins = if backwards { self.index } else { self.index + 1 };
        // The first shard has all keys that are less than those of the second.
        self.map.shards.get(begins).filter(|_| begins > 0).map(|shard| &shard.start)
    }
}

/// What all handles of a store share.
pub(crate) struct Shards {
    pub(crate) heap: Heap,
    pub(crate) eras: Eras,
    pub(crate) spaces: Spaces,
    map: ArcSwap<Map>,
    /// The roots of shards that are not in use. The thread that changes the map has it locked.
    unused: Mutex<Vec<Root<Part<'static>>>>,
    enough: usize,
    /// None if reads never wait for a disk.
    unsynced: Option<Unsynced>,
}

/// What a read waits for, until that is durable: so nobody is told what a power failure then takes back.
#[derive(Clone, Copy)]
pub(crate) enum Wait<'k> {
    /// What it has seen of a key.
    Key(&'k [u8]),
    /// All that it may have seen.
    All,
    /// Nothing: it has only seen what was durable before.
    Nothing,
}

impl Shards {
    /// Finds the shards of a heap, or creates the first one.
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
        let map = ArcSwap::from_pointee(Map { shards });
        let (enough, unsynced) = (PER_PROCESSOR * processors, Unsynced::of(&heap, policy));
        let spaces = Spaces::default();
        Ok(Shards { heap, eras, spaces, map, unused: Mutex::new(unused), enough, unsynced })
    }

    pub(crate) fn map(&self) -> Arc<Map> {
        self.map.load_full()
    }

    /// Entries of all shards; none is left out or counted twice because a shard is split.
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

    /// Reads the shard that has a key.
    #[inline]
    pub(crate) fn read<R>(
        &self,
        key: &[u8],
        wait: Wait<'_>,
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
                // Who has split the shard is about to replace the map.
                None => std::thread::yield_now(),
            }
        }
    }

    /// Reads the shard that `place` chooses, and then one neighbour after the other, until `f` returns
    /// something, or there is no other. `f` is told which range of keys the shard has. It is called for a
    /// shard again if that was split.
    pub(crate) fn read_from<R>(
        &self,
        place: impl Fn(&Map) -> usize,
        backwards: bool,
        wait: Wait<'_>,
        mut f: impl for<'r> FnMut(&View<'r>, P<'r, Part<'r>>, Extent<'_>) -> Option<R>,
    ) -> Result<Option<R>> {
        'again: loop {
            let map = self.map.load();
            let mut next = Some(place(&map));
            while let Some(index) = next.filter(|&index| index < map.shards.len()) {
                let (shard, extent) = (&map.shards[index], Extent { map: &map, index });
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
        wait: Wait<'_>,
        f: impl for<'r> FnOnce(&View<'r>, P<'r, Part<'r>>) -> R,
    ) -> Result<R> {
        let (unsynced, key) = match (&self.unsynced, wait) {
            (None, _) | (_, Wait::All) => return Ok(shard.root.read(f)?),
            (Some(unsynced), Wait::Key(key)) => (unsynced, Some(key)),
            (Some(unsynced), Wait::Nothing) => (unsynced, None),
        };
        let (result, seen) = shard.root.read_deferred(f)?;
        if !seen.is_durable() && key.is_some_and(|key| unsynced.has(key)) {
            seen.wait()?;
        }
        Ok(result)
    }

    /// Runs a transaction on the shard that has a key. If that is deferred, it returns what tells when it is durable, and does not wait.
    #[inline]
    pub(crate) fn write<R>(
        &self,
        key: &[u8],
        deferred: bool,
        f: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, Part<'r>>, &Counts) -> pheap::Result<R>,
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

    fn count(&self, keys: &mut dyn Iterator<Item = &[u8]>) -> Option<Counted<'_>> {
        Some(self.unsynced.as_ref()?.count(keys))
    }

    /// Runs one transaction over the shards that have these keys: `f` is called for each of them, with its index. What goes to one shard is in its order.
    /// If one of the key spaces was removed, nothing is written.
    pub(crate) fn write_all<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
        spaces: &[Removed],
        deferred: bool,
        mut f: impl for<'r> FnMut(usize, &mut Txn<'r>, P<'r, Part<'r>>, &Counts) -> pheap::Result<()>,
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
                if spaces.iter().any(Removed::get) {
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

    /// The greatest stored key.
    pub(crate) fn last_key(&self) -> Result<Option<Vec<u8>>> {
        let last = |map: &Map| map.shards.len() - 1;
        self.read_from(last, true, Wait::Nothing, |view, part, _| part::last_key(view, part))
    }

    /// Removes all that is in a key space that nobody can write to any more, in transactions for which it
    /// does not wait. Returns whether nothing is left, not even versions for snapshots.
    pub(crate) fn clear(&self, id: SpaceId) -> Result<bool> {
        let (mut from, end, mut most) = (id.start(), keys::behind_space(&id.start()), MOST);
        let mut is_all = true;
        loop {
            let removed = self.write(&from, true, |tx, part, _| {
                let span = (Bound::Included(&from[..]), Bound::Excluded(&end[..]));
                part::clear(tx, part, &self.eras, span, most)
            });
            let ((next, is_left), _) = match removed {
                // A transaction needs room, too, and gives back what it has freed when it has committed.
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

    /// Removes from all shards what has expired, and versions that no snapshot needs any more.
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

    /// Where the shard begins that is behind the one with this key.
    fn start_behind(&self, key: &[u8]) -> Option<StoredKey> {
        let map = self.map();
        map.shards.get(map.index_of(key) + 1).map(|shard| shard.start.clone())
    }

    /// Ends the era, at one moment for all shards.
    pub(crate) fn take_snapshot(&self) -> Result<u64> {
        loop {
            if self.eras.are_used_up() {
                self.eras.reserve(meta::reserve_eras(&self.heap)?);
            }
            let map = self.map();
            let roots = map.roots(0..map.shards.len());
            // Nothing is written. What is seen is durable when this returns.
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

/// Has writes counted until they are durable that were deferred. All that is committed to one of their shards by now is durable no earlier than they are.
fn keep_counted(counted: Option<Counted<'_>>, root: &Root<Part<'static>>) {
    let Some(counted) = counted else { return };
    match root.read_deferred(|_, _| ()) {
        Ok(((), commit)) => counted.until(commit),
        // Closed by another thread, or its disk has failed. That is no error of the writes, which have happened.
        Err(_) => counted.for_ever(),
    }
}

/// Tells the compiler that this closure works for all brands.
fn transaction<R, F>(f: F) -> F
where
    F: for<'r> FnOnce(&mut Txn<'r>, P<'r, Part<'r>>) -> pheap::Result<R>,
{
    f
}
