//! How much memory the data need, and where the collector is to look for garbage, if that is limited (`maxmemory`).
//!
//! The heap counts as alive what its collector has not found dead yet. So what was evicted is counted here, by its estimated size, until it is found; `used_memory` is the difference.
//! What else has become garbage is not known: keys that were deleted, values that were replaced. It is *doubted* of a shard as much as was written there since it was collected. Before
//! anything is evicted, and before the limit is reached, shards of which much is doubted are collected: small ones by who needs the memory, large ones by a thread of its own.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::data::Store;

/// A shard with so much is collected at once by who needs the memory: a matter of a millisecond or so.
const SMALL: u64 = 1 << 20;

/// One part of so many of what a collection looks at is much to find.
const MUCH: u64 = 16;

/// What is known of a shard.
#[derive(Debug, Default)]
struct Figures {
    /// Bytes that were alive, as the heap counts, when it was last looked at.
    alive: u64,
    /// Bytes of these that were evicted.
    evicted: u64,
    /// Bytes of these that may be garbage.
    doubted: u64,
    /// All bytes that ever came to be doubted.
    ever_doubted: u64,
    /// Bytes that the last collection found alive: about so many will the next one look at.
    marked: u64,
    /// All bytes that were ever evicted.
    ever_evicted: u64,
    /// It is worth while to collect it: much is garbage. See [`Memory::flush`].
    is_flushed: bool,
}

impl Figures {
    /// So much more may be garbage.
    fn doubt(&mut self, bytes: u64) {
        self.doubted += bytes;
        self.ever_doubted += bytes;
    }
}

/// How much memory the data need. Nothing is counted while there is no limit.
#[derive(Debug, Default)]
pub struct Memory {
    limit: AtomicU64,
    /// Sums over all shards.
    alive: AtomicU64,
    evicted: AtomicU64,
    shards: Vec<Mutex<Figures>>,
    /// Nothing more can be freed, unless something is written, or an option changes.
    stuck: AtomicBool,
    /// Since when more is needed than the limit, if it is; and how long that was so before.
    exceeded: Mutex<(Option<Instant>, Duration)>,
    is_exceeded: AtomicBool,
    /// Whether the collecting thread is to look for something to do.
    wanted: Mutex<bool>,
    wake: Condvar,
}

/// A shard that is to be collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doubtful {
    /// Its number.
    pub shard: usize,
    /// Whether that takes so little time that who needs the memory may do it.
    pub is_small: bool,
    /// Whether so much of it may be garbage that who needs the memory had better wait for that, however long it takes, than do without.
    pub is_much: bool,
}

impl Memory {
    /// Without a limit.
    pub fn new(shards: usize) -> Memory {
        Memory { shards: (0..shards).map(|_| Mutex::default()).collect(), ..Memory::default() }
    }

    /// Bytes that may be needed; 0 if there is no limit.
    pub fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// Sets the limit, or takes it away (0).
    pub fn set_limit(&self, limit: u64, store: &Store) {
        let had_one = self.limit.swap(limit, SeqCst) > 0;
        if limit > 0 && !had_one {
            self.count(store);
        }
        self.stuck.store(false, SeqCst);
        self.wake_collector();
    }

    /// Counts what was written and nobody has [said](Self::settle): all of it may be garbage.
    pub fn count(&self, store: &Store) {
        (0..self.shards.len()).for_each(|shard| self.settle(store, shard, u64::MAX));
    }

    /// Bytes that the data need.
    pub fn used(&self) -> u64 {
        self.alive.load(Relaxed).saturating_sub(self.evicted.load(Relaxed))
    }

    /// By how many bytes that is more than may be.
    pub fn excess(&self) -> u64 {
        match self.limit() {
            0 => 0,
            limit => self.used().saturating_sub(limit),
        }
    }

    /// A transaction has changed a shard: so many keys.
    pub fn settle(&self, store: &Store, shard: usize, changes: u64) {
        if self.limit() == 0 {
            return;
        }
        let mut figures = self.shards[shard].lock();
        self.look(store, shard, &mut figures, changes);
        let is_doubtful = figures.doubted > self.tolerated(&figures);
        drop(figures);
        self.stuck.store(false, Relaxed);
        if is_doubtful && self.is_near() {
            self.wake_collector();
        }
    }

    /// A transaction has evicted keys from a shard: about so many bytes.
    pub fn evict(&self, store: &Store, shard: usize, bytes: u64) {
        let mut figures = self.shards[shard].lock();
        self.look(store, shard, &mut figures, 0);
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

    /// Of these shards, all keys of a database were removed, or as many have expired as are left.
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

    /// Looks how much of a shard is alive now.
    fn look(&self, store: &Store, shard: usize, figures: &mut Figures, changes: u64) {
        let live = store.root(shard).live();
        let before = std::mem::replace(&mut figures.alive, live.bytes);
        // (The sum is right, however these wrap around.)
        self.alive.fetch_add(live.bytes.wrapping_sub(before), Relaxed);
        if live.bytes < before || changes == u64::MAX {
            figures.marked = live.bytes;
        }
        // Garbage was found: the collector has worked. It is what was evicted, as far as that goes.
        let found = before.saturating_sub(live.bytes);
        let of_evicted = found.min(figures.evicted);
        figures.evicted -= of_evicted;
        self.evicted.fetch_sub(of_evicted, Relaxed);
        // A key that was changed has left nothing that is larger than what is new, as far as is known; one that was deleted, a name and a value.
        let deleted = changes.saturating_mul(2 * live.bytes / live.objects.max(1)).min(live.bytes);
        let new = live.bytes.saturating_sub(before).max(deleted);
        figures.doubted = figures.doubted.saturating_sub(found);
        figures.doubt(new);
    }

    /// How much may be doubted of a shard before it is collected.
    fn tolerated(&self, figures: &Figures) -> u64 {
        let share = self.limit() / (32 * self.shards.len() as u64);
        figures.alive.saturating_sub(figures.evicted) / 2 + share
    }

    /// Whether the limit is near, or exceeded, for what is alive as the heap counts: then it is worth while to look for garbage.
    fn is_near(&self) -> bool {
        let limit = self.limit();
        limit > 0 && self.alive.load(Relaxed) > limit - limit / 8
    }

    /// The shard of which most is doubted: if that is much, or anything at all.
    pub fn doubtful(&self, at_all: bool) -> Option<Doubtful> {
        let mut most = (0, None);
        for (shard, figures) in self.shards.iter().enumerate() {
            let figures = figures.lock();
            let least = if at_all { 0 } else { self.tolerated(&figures) };
            if figures.doubted > least.max(most.0) {
                let (is_small, is_much) = (figures.marked <= SMALL, figures.doubted >= figures.marked / MUCH);
                most = (figures.doubted, Some(Doubtful { shard, is_small, is_much }));
            }
        }
        most.1
    }

    /// Whether so much more is needed than may be that nobody waits for the collector any longer.
    pub fn is_far_over(&self) -> bool {
        self.excess() > self.limit() / 8
    }

    /// Collects a shard. Afterwards nothing is doubted of it but what came meanwhile.
    ///
    /// # Errors
    /// If the heap does not want to be collected any more.
    pub fn collect(&self, store: &Store, shard: usize) -> pheap::Result<()> {
        if self.limit() == 0 {
            return store.root(shard).collect();
        }
        let before = self.will_collect(store, shard);
        store.root(shard).collect()?;
        self.has_collected(store, shard, before);
        Ok(())
    }

    /// A shard is going to be collected. How much was ever doubted of it, and evicted from it.
    fn will_collect(&self, store: &Store, shard: usize) -> [u64; 2] {
        let mut figures = self.shards[shard].lock();
        self.look(store, shard, &mut figures, 0);
        [figures.ever_doubted, figures.ever_evicted]
    }

    /// A shard was collected. Others may have collected it meanwhile.
    fn has_collected(&self, store: &Store, shard: usize, [ever_doubted, ever_evicted]: [u64; 2]) {
        let mut figures = self.shards[shard].lock();
        self.look(store, shard, &mut figures, 0);
        // Garbage that was found has been taken off already.
        figures.doubted = figures.doubted.min(figures.ever_doubted - ever_doubted);
        figures.marked = figures.alive;
        let since = figures.ever_evicted - ever_evicted;
        let found = figures.evicted.saturating_sub(since);
        figures.evicted -= found;
        self.evicted.fetch_sub(found, Relaxed);
    }

    /// Nothing more can be freed, as things are.
    pub fn set_stuck(&self) {
        self.stuck.store(true, Relaxed);
    }

    /// Whether nothing more can be freed, unless something has changed.
    pub fn is_stuck(&self) -> bool {
        self.stuck.load(Relaxed)
    }

    /// Notes whether more is needed than may be, which could not be freed at once.
    pub fn set_exceeded(&self, is_exceeded: bool) {
        if self.is_exceeded.load(Relaxed) == is_exceeded {
            return;
        }
        let mut exceeded = self.exceeded.lock();
        self.is_exceeded.store(is_exceeded, Relaxed);
        match exceeded.0.take() {
            Some(since) => exceeded.1 += since.elapsed(),
            None => exceeded.0 = Some(Instant::now()),
        }
    }

    /// How long more was needed than may be: in total, and since when it is so now.
    pub fn exceeded(&self) -> [Duration; 2] {
        let (since, before) = *self.exceeded.lock();
        let now = since.map_or(Duration::ZERO, |since| since.elapsed());
        [before + now, now]
    }

    /// Lets the collecting thread look for something to do; or end.
    pub fn wake_collector(&self) {
        let mut wanted = self.wanted.lock();
        if !*wanted {
            *wanted = true;
            self.wake.notify_one();
        }
    }

    /// The collecting thread: collects shards when that is worth while, until `stopping`.
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
                // Where nothing else helps, whatever was written may have left garbage.
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

    /// Sets keys of one shard, or removes them.
    fn write(store: &Store, keys: std::ops::Range<usize>, is_set: bool) -> u64 {
        store
            .root(3)
            .txn(|tx, root| {
                let (db, mut removed) = (tx[root].dbs.at(0), 0);
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

    /// Bytes that are alive, as the heap counts.
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
        memory.settle(&store, 3, 1000);
        let full = memory.used();
        assert!(full == alive(&store) && memory.excess() == full - 200_000);
        let freed = write(&store, 0..900, false);
        memory.evict(&store, 3, freed);
        let used = memory.used();
        assert!(used > empty && used < full / 2 && memory.excess() == 0, "{empty} {used} {full}");
        // When it is found, that is as was said.
        assert_eq!(memory.doubtful(false), Some(Doubtful { shard: 3, is_small: true, is_much: true }));
        memory.collect(&store, 3).unwrap();
        assert_eq!(memory.used(), alive(&store));
        assert!(memory.used().abs_diff(used) < full / 20, "{used} was {}", memory.used());
        assert_eq!(memory.doubtful(true), None);
        // Also if the heap finds it by itself.
        let freed = write(&store, 900..1000, false);
        memory.evict(&store, 3, freed);
        store.heap().collect().unwrap();
        memory.settle(&store, 3, 0);
        assert!(memory.used().abs_diff(alive(&store)) < full / 100);
    }

    #[test]
    fn what_was_deleted_is_doubted() {
        let (store, memory) = with_limit(10_000_000);
        write(&store, 0..1000, true);
        memory.settle(&store, 3, 1000);
        memory.collect(&store, 3).unwrap();
        write(&store, 0..900, false);
        memory.settle(&store, 3, 900);
        assert!(memory.doubtful(false).is_some());
        let before = memory.used();
        memory.collect(&store, 3).unwrap();
        assert!(memory.used() < before / 2 && memory.doubtful(true).is_none());
        // Keys that were set are doubted when they are as much as was there, or more.
        write(&store, 0..90, true);
        memory.settle(&store, 3, 90);
        assert!(memory.doubtful(false).is_none_or(|doubtful| doubtful.shard == 3));
        memory.flush(&[3]);
        assert!(memory.doubtful(false).is_some());
    }

    /// What was written since the other one came to its end is doubted still.
    #[test]
    fn two_who_collect_a_shard_at_once() {
        let (store, memory) = with_limit(10_000_000);
        write(&store, 0..1000, true);
        memory.settle(&store, 3, 1000);
        let before = memory.will_collect(&store, 3);
        memory.collect(&store, 3).unwrap();
        assert_eq!(memory.doubtful(true), None);
        write(&store, 0..100, true);
        memory.settle(&store, 3, 100);
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
                // The same keys, again and again: the limit would be exceeded twenty times.
                write(&store, 0..200, true);
                memory.settle(&store, 3, 200);
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
