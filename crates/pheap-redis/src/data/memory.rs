//! Measures how much memory the data need, and chooses shards to collect, if the memory is limited
//! (`maxmemory`).
//!
//! The heap counts most garbage as alive until its collector has found it. This module therefore estimates
//! the bytes of evicted keys and counts them until the collector has found them: while there is a limit,
//! `used_memory` is the live bytes less the evicted bytes. The module cannot count other garbage: deleted
//! keys and replaced values. From the bytes and the number of keys that were changed in a shard since its
//! last collection, it estimates how many bytes of the shard may be garbage (are *doubted*). When the live
//! bytes come near the limit, and before the server evicts keys, shards with many doubted bytes are
//! collected: small ones by the thread that needs memory, and large ones by the collector thread. A thread
//! does not wait for the collector thread if the data exceed the limit by far. If no key can be evicted, it
//! may collect a large shard itself.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::data::Store;

/// If the next collection of a shard is expected to mark at most this many bytes, the shard is small: the
/// thread that needs memory may collect it itself.
const SMALL: u64 = 1 << 20;

/// A collection is expected to find much if the doubted bytes are at least 1/`MUCH` of the bytes that it is
/// expected to mark.
const MUCH: u64 = 16;

/// The figures of one shard. The mutex around them protects all fields.
#[derive(Debug, Default)]
struct ShardMemory {
    /// Live bytes of the heap's count at the last [`Memory::update_figures`].
    alive: u64,
    /// Estimated bytes of `alive` that were evicted and that the collector has not found yet.
    evicted: u64,
    /// Estimate of the bytes that may be garbage.
    doubted: u64,
    /// Sum of all bytes that were ever added to `doubted`.
    ever_doubted: u64,
    /// Live bytes after the last collection of which this module knows, or at the last [`Memory::count`]. The
    /// next collection is expected to mark about as many.
    marked: u64,
    /// Sum of all bytes that were ever added to `evicted`.
    ever_evicted: u64,
    /// Whether much of the shard is assumed to be garbage, so that the collector thread should collect it
    /// soon. See [`Memory::flush`].
    is_flushed: bool,
}

impl ShardMemory {
    /// Adds bytes that may be garbage.
    fn doubt(&mut self, bytes: u64) {
        self.doubted += bytes;
        self.ever_doubted += bytes;
    }
}

/// The memory that the data need. While there is no limit, changes of the data are not counted.
#[derive(Debug, Default)]
pub struct Memory {
    limit: AtomicU64,
    /// The sum of `ShardMemory::alive` over all shards. The next field is that of `ShardMemory::evicted`.
    alive: AtomicU64,
    evicted: AtomicU64,
    shards: Vec<Mutex<ShardMemory>>,
    /// Whether the last attempt to make room found no key to evict and no garbage that it could collect at
    /// once. Changes of the data and of options clear the flag, and so does the collector thread when the
    /// data are within the limit.
    stuck: AtomicBool,
    /// If the data exceed the limit, the time when that began; and the total duration of the earlier periods.
    exceeded: Mutex<(Option<Instant>, Duration)>,
    is_exceeded: AtomicBool,
    /// Whether the collector thread has to look for a shard to collect. [`Memory::wake_collector`] sets it,
    /// and the thread clears it.
    wanted: Mutex<bool>,
    wake: Condvar,
}

/// A shard that should be collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectCandidate {
    /// The number of the shard.
    pub shard: usize,
    /// Whether collecting is expected to take so little time that the thread that needs memory may do it.
    pub is_small: bool,
    /// Whether so much of the shard may be garbage that a thread which needs memory should collect it before
    /// it refuses a command, however long that takes.
    pub is_much: bool,
}

impl Memory {
    /// Makes the figures of this number of shards, without a limit.
    pub fn new(shards: usize) -> Memory {
        Memory { shards: (0..shards).map(|_| Mutex::default()).collect(), ..Memory::default() }
    }

    /// Returns the limit in bytes; 0 if there is none.
    pub fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// Sets the limit in bytes; 0 removes it.
    pub fn set_limit(&self, limit: u64, store: &Store) {
        let had_one = self.limit.swap(limit, SeqCst) > 0;
        if limit > 0 && !had_one {
            self.count(store);
        }
        self.stuck.store(false, SeqCst);
        self.wake_collector();
    }

    /// Counts the live bytes of all shards, for writes that no call of [`count_changes`](Self::count_changes)
    /// has reported. All live bytes count as doubted. Does nothing if there is no limit.
    pub fn count(&self, store: &Store) {
        (0..self.shards.len()).for_each(|shard| self.count_changes(store, shard, u64::MAX));
    }

    /// Returns the bytes that the data need: the live bytes less the evicted ones, as of the last counts. The
    /// result is not up to date while there is no limit.
    pub fn used(&self) -> u64 {
        self.alive.load(Relaxed).saturating_sub(self.evicted.load(Relaxed))
    }

    /// Returns by how many bytes the data exceed the limit; 0 if they do not exceed it, or if there is no
    /// limit.
    pub fn excess(&self) -> u64 {
        match self.limit() {
            0 => 0,
            limit => self.used().saturating_sub(limit),
        }
    }

    /// Counts a transaction that has made at most `changes` changes in a shard. `u64::MAX` means that all
    /// live bytes may be garbage. Does nothing if there is no limit.
    pub fn count_changes(&self, store: &Store, shard: usize, changes: u64) {
        if self.limit() == 0 {
            return;
        }
        let mut figures = self.shards[shard].lock();
        self.update_figures(store, shard, &mut figures, changes);
        let is_doubtful = figures.doubted > self.tolerated(&figures);
        drop(figures);
        self.stuck.store(false, Relaxed);
        if is_doubtful && self.is_near() {
            self.wake_collector();
        }
    }

    /// Counts a transaction that has evicted keys of about `bytes` bytes from a shard.
    pub fn evict(&self, store: &Store, shard: usize, bytes: u64) {
        let mut figures = self.shards[shard].lock();
        self.update_figures(store, shard, &mut figures, 0);
        figures.evicted += bytes;
        figures.ever_evicted += bytes;
        figures.doubt(bytes);
        self.evicted.fetch_add(bytes, Relaxed);
        let is_doubtful = figures.doubted > self.tolerated(&figures);
        drop(figures);
        if is_doubtful {
            self.wake_collector();
        }
    }

    /// Counts all bytes of these shards as doubted, and has the collector thread collect them. The caller
    /// knows that much of these shards is garbage.
    pub fn flush(&self, shards: &[usize]) {
        for &shard in shards {
            let mut figures = self.shards[shard].lock();
            let more = figures.alive.saturating_sub(figures.doubted);
            figures.doubt(more);
            figures.is_flushed = true;
        }
        self.stuck.store(false, Relaxed);
        self.wake_collector();
    }

    /// Updates the figures of a shard from the heap's count of live bytes.
    fn update_figures(&self, store: &Store, shard: usize, figures: &mut ShardMemory, changes: u64) {
        let live = store.root(shard).live();
        let before = std::mem::replace(&mut figures.alive, live.bytes);
        // The difference of the two counts may wrap around, and the sum is still right.
        self.alive.fetch_add(live.bytes.wrapping_sub(before), Relaxed);
        if live.bytes < before || changes == u64::MAX {
            figures.marked = live.bytes;
        }
        // If the count fell, at least `before - live` bytes of garbage were freed. Evicted bytes are assumed
        // to be the first of this garbage.
        let found = before.saturating_sub(live.bytes);
        let of_evicted = found.min(figures.evicted);
        figures.evicted -= of_evicted;
        self.evicted.fetch_sub(of_evicted, Relaxed);
        // Estimates the garbage of the changes as the greater of two values: as if each change had replaced a
        // value by one of the same size, and as if each had deleted a name and a value of average size.
        let deleted = changes.saturating_mul(2 * live.bytes / live.objects.max(1)).min(live.bytes);
        let new = live.bytes.saturating_sub(before).max(deleted);
        figures.doubted = figures.doubted.saturating_sub(found);
        figures.doubt(new);
    }

    /// Returns the doubted bytes above which a shard is worth a collection.
    fn tolerated(&self, figures: &ShardMemory) -> u64 {
        let share = self.limit() / (32 * self.shards.len() as u64);
        figures.alive.saturating_sub(figures.evicted) / 2 + share
    }

    /// Returns whether the live bytes of the heap's count are near or above the limit, so that looking for
    /// garbage is worth its cost.
    fn is_near(&self) -> bool {
        let limit = self.limit();
        limit > 0 && self.alive.load(Relaxed) > limit - limit / 8
    }

    /// Returns the shard with the most doubted bytes, of all shards if `at_all`, else only of the shards
    /// whose doubted bytes exceed the tolerated amount.
    pub fn doubtful(&self, at_all: bool) -> Option<CollectCandidate> {
        let mut most = (0, None);
        for (shard, figures) in self.shards.iter().enumerate() {
            let figures = figures.lock();
            let least = if at_all { 0 } else { self.tolerated(&figures) };
            if figures.doubted > least.max(most.0) {
                let (is_small, is_much) = (figures.marked <= SMALL, figures.doubted >= figures.marked / MUCH);
                most = (figures.doubted, Some(CollectCandidate { shard, is_small, is_much }));
            }
        }
        most.1
    }

    /// Returns whether the data exceed the limit by so much that threads evict keys instead of waiting for
    /// the collector.
    pub fn is_far_over(&self) -> bool {
        self.excess() > self.limit() / 8
    }

    /// Collects a shard. If there is a limit, only bytes that became doubted since the collection began stay
    /// doubted.
    ///
    /// # Errors
    /// The errors of [`pheap::Root::collect`].
    pub fn collect(&self, store: &Store, shard: usize) -> pheap::Result<()> {
        if self.limit() == 0 {
            return store.root(shard).collect();
        }
        let before = self.will_collect(store, shard);
        store.root(shard).collect()?;
        self.has_collected(store, shard, before);
        Ok(())
    }

    /// Begins a collection of a shard. Returns the bytes that were ever doubted and ever evicted, for
    /// `has_collected`.
    fn will_collect(&self, store: &Store, shard: usize) -> [u64; 2] {
        let mut figures = self.shards[shard].lock();
        self.update_figures(store, shard, &mut figures, 0);
        [figures.ever_doubted, figures.ever_evicted]
    }

    /// Ends a collection of a shard. Other threads may have collected the shard at the same time.
    fn has_collected(&self, store: &Store, shard: usize, [ever_doubted, ever_evicted]: [u64; 2]) {
        let mut figures = self.shards[shard].lock();
        self.update_figures(store, shard, &mut figures, 0);
        // `update_figures` has already subtracted the garbage that was found.
        figures.doubted = figures.doubted.min(figures.ever_doubted - ever_doubted);
        figures.marked = figures.alive;
        let since = figures.ever_evicted - ever_evicted;
        let found = figures.evicted.saturating_sub(since);
        figures.evicted -= found;
        self.evicted.fetch_sub(found, Relaxed);
    }

    /// Notes that an attempt to make room found no key to evict and no garbage that it could collect at once.
    pub fn set_stuck(&self) {
        self.stuck.store(true, Relaxed);
    }

    /// Returns what [`set_stuck`](Self::set_stuck) has noted, unless a change of the data or of options, or
    /// the collector thread, has cleared it.
    pub fn is_stuck(&self) -> bool {
        self.stuck.load(Relaxed)
    }

    /// Notes whether the data exceed the limit after an attempt to make room.
    pub fn set_exceeded(&self, is_exceeded: bool) {
        if self.is_exceeded.load(Relaxed) == is_exceeded {
            return;
        }
        let mut exceeded = self.exceeded.lock();
        if exceeded.0.is_some() == is_exceeded {
            return; // another thread was faster
        }
        self.is_exceeded.store(is_exceeded, Relaxed);
        match exceeded.0.take() {
            Some(since) => exceeded.1 += since.elapsed(),
            None => exceeded.0 = Some(Instant::now()),
        }
    }

    /// Returns how long the data exceeded the limit: in total, and in the present period.
    pub fn exceeded(&self) -> [Duration; 2] {
        let (since, before) = *self.exceeded.lock();
        let now = since.map_or(Duration::ZERO, |since| since.elapsed());
        [before + now, now]
    }

    /// Wakes the collector thread, which looks for a shard to collect, or ends if the server stops.
    pub fn wake_collector(&self) {
        let mut wanted = self.wanted.lock();
        if !*wanted {
            *wanted = true;
            self.wake.notify_one();
        }
    }

    /// Runs the collector thread: it collects shards while that is worth its cost, until `stopping` is set or
    /// a collection fails.
    pub fn run_collector(&self, store: &Store, stopping: &AtomicBool) {
        loop {
            {
                let mut wanted = self.wanted.lock();
                while !*wanted && !stopping.load(SeqCst) {
                    self.wake.wait(&mut wanted);
                }
                *wanted = false;
            }
            for (shard, figures) in self.shards.iter().enumerate() {
                let is_flushed = std::mem::take(&mut figures.lock().is_flushed);
                if is_flushed && !stopping.load(SeqCst) && self.collect(store, shard).is_err() {
                    return;
                }
            }
            while !stopping.load(SeqCst) && self.is_near() {
                // If nothing else can be freed, every doubted byte counts, below the tolerated amount too.
                let Some(next) = self.doubtful(self.is_stuck()) else { break };
                if self.collect(store, next.shard).is_err() {
                    return;
                }
                if self.excess() == 0 {
                    self.stuck.store(false, Relaxed);
                }
            }
            if stopping.load(SeqCst) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Change, Value, size};

    /// Sets or removes keys of one shard. Returns the estimated bytes of the removed keys.
    fn write(store: &Store, keys: std::ops::Range<usize>, is_set: bool) -> u64 {
        store
            .root(3)
            .txn(|tx, root| {
                let (db, mut removed) = (tx[root].dbs.at(tx, 0), 0);
                for key in keys {
                    let key = format!("key:{key}").into_bytes();
                    if is_set {
                        let value = tx.alloc_slice_copy(&[b'x'; 300])?;
                        db.set(tx, &key, Value::Bytes(value))?;
                    } else if let Some((value, _)) = db.remove(tx, &key) {
                        removed += (size::text(key.len()) + size::value(tx, value, 9)) as u64;
                    }
                }
                Ok(removed)
            })
            .unwrap()
    }

    /// Returns the live bytes of the heap's count, of the shards and the libraries.
    fn alive(store: &Store) -> u64 {
        (0..=store.shards().len()).map(|shard| store.root(shard).live().bytes).sum()
    }

    fn with_limit(limit: u64) -> (Store, Memory) {
        let store = Store::in_memory().unwrap();
        let memory = Memory::new(store.shards().len() + 1);
        memory.set_limit(limit, &store);
        (0..=store.shards().len()).for_each(|shard| memory.collect(&store, shard).unwrap());
        assert_eq!(memory.doubtful(true), None);
        (store, memory)
    }

    #[test]
    fn what_was_evicted_does_not_count() {
        let (store, memory) = with_limit(200_000);
        let empty = memory.used();
        assert_eq!(empty, alive(&store));
        write(&store, 0..1000, true);
        memory.count_changes(&store, 3, 1000);
        let full = memory.used();
        assert!(full == alive(&store) && memory.excess() == full - 200_000);
        let freed = write(&store, 0..900, false);
        memory.evict(&store, 3, freed);
        let used = memory.used();
        assert!(used > empty && used < full / 2 && memory.excess() == 0, "{empty} {used} {full}");
        // After the collection, the count of the heap confirms the estimate.
        assert_eq!(
            memory.doubtful(false),
            Some(CollectCandidate { shard: 3, is_small: true, is_much: true })
        );
        memory.collect(&store, 3).unwrap();
        assert_eq!(memory.used(), alive(&store));
        assert!(memory.used().abs_diff(used) < full / 20, "{used} was {}", memory.used());
        assert_eq!(memory.doubtful(true), None);
        // The estimate is also confirmed if the heap is collected without this module.
        let freed = write(&store, 900..1000, false);
        memory.evict(&store, 3, freed);
        store.heap().collect().unwrap();
        memory.count_changes(&store, 3, 0);
        assert!(memory.used().abs_diff(alive(&store)) < full / 100);
    }

    #[test]
    fn what_was_deleted_is_doubted() {
        let (store, memory) = with_limit(10_000_000);
        write(&store, 0..1000, true);
        memory.count_changes(&store, 3, 1000);
        memory.collect(&store, 3).unwrap();
        write(&store, 0..900, false);
        memory.count_changes(&store, 3, 900);
        assert!(memory.doubtful(false).is_some());
        let before = memory.used();
        memory.collect(&store, 3).unwrap();
        assert!(memory.used() < before / 2 && memory.doubtful(true).is_none());
        // New bytes are doubted. Whether they are more than is tolerated depends on the size of the shard.
        write(&store, 0..90, true);
        memory.count_changes(&store, 3, 90);
        assert!(memory.doubtful(false).is_none_or(|doubtful| doubtful.shard == 3));
        memory.flush(&[3]);
        assert!(memory.doubtful(false).is_some());
    }

    /// Of two collections at once, the one that ends last leaves those bytes doubted that were written after
    /// the end of the other one.
    #[test]
    fn two_who_collect_a_shard_at_once() {
        let (store, memory) = with_limit(10_000_000);
        write(&store, 0..1000, true);
        memory.count_changes(&store, 3, 1000);
        let before = memory.will_collect(&store, 3);
        memory.collect(&store, 3).unwrap();
        assert_eq!(memory.doubtful(true), None);
        write(&store, 0..100, true);
        memory.count_changes(&store, 3, 100);
        let doubted = memory.shards[3].lock().doubted;
        memory.has_collected(&store, 3, before);
        assert!(doubted >= 100 * 300 && memory.shards[3].lock().doubted == doubted, "{doubted}");
        memory.collect(&store, 3).unwrap();
        assert_eq!(memory.doubtful(true), None);
    }

    #[test]
    fn the_collecting_thread_works_where_it_is_worth_while() {
        let (store, memory) = with_limit(600_000);
        let stopping = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| memory.run_collector(&store, &stopping));
            for _ in 0..200 {
                // Each round replaces the same keys. Without collections they would exceed the limit twenty
                // times over.
                write(&store, 0..200, true);
                memory.count_changes(&store, 3, 200);
                while memory.excess() > 0 && memory.doubtful(false).is_some() {
                    std::thread::yield_now();
                }
            }
            let excess = memory.excess();
            stopping.store(true, SeqCst);
            memory.wake_collector();
            assert_eq!(excess, 0);
        });
    }

    #[test]
    fn how_long_it_is_exceeded() {
        let (_store, memory) = with_limit(0);
        assert_eq!((memory.excess(), memory.exceeded()), (0, [Duration::ZERO; 2]));
        memory.set_exceeded(true);
        std::thread::sleep(Duration::from_millis(2));
        let [total, now] = memory.exceeded();
        assert!(total >= Duration::from_millis(2) && total == now);
        memory.set_exceeded(false);
        let [total, now] = memory.exceeded();
        assert!(total >= Duration::from_millis(2) && now == Duration::ZERO);
    }
}
