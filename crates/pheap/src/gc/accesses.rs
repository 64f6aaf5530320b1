//! Counts the threads that access objects of a region without its lock, and waits until there are none.

use std::sync::atomic::Ordering;

use crate::sync::{AtomicU64, Condvar, Mutex, this_thread};

#[cfg(all(test, pheap_loom))]
mod model;

/// Number of counters. There are several, so that threads that access a region at the same time rarely write
/// to the same cache line.
const SHARDS: usize = if cfg!(all(test, pheap_loom)) { 1 } else { 8 };

/// A bit of each counter. If it is set, no access may begin any more.
const ENDED: u64 = 1 << 63;

/// Counts the accesses in progress, in several counters.
#[derive(Default)]
pub(crate) struct Accesses {
    shards: [AccessShard; SHARDS],
    lock: Mutex<()>,
    left: Condvar,
}

#[derive(Default)]
#[repr(align(128))]
struct AccessShard(AtomicU64);

/// An access in progress. Dropping the guard ends the access.
pub(crate) struct AccessGuard<'a> {
    accesses: &'a Accesses,
    shard: usize,
}

impl Accesses {
    /// Begins an access. Returns `None` if accesses were [ended](Self::close_and_wait).
    #[inline]
    pub(crate) fn begin_access(&self) -> Option<AccessGuard<'_>> {
        let access = AccessGuard { accesses: self, shard: this_thread() as usize % SHARDS };
        let before = self.shards[access.shard].0.fetch_add(1, Ordering::Acquire);
        (before & ENDED == 0).then_some(access)
    }

    /// Prevents new accesses, and waits until the present ones have ended.
    pub(crate) fn close_and_wait(&self) {
        for shard in &self.shards {
            shard.0.fetch_or(ENDED, Ordering::Relaxed);
        }
        let mut locked = self.lock.lock();
        for shard in &self.shards {
            // `Acquire` pairs with the `Release` of an access that ends: the loads of that access come before
            // the caller's next stores to the same memory.
            while shard.0.load(Ordering::Acquire) != ENDED {
                self.left.wait(&mut locked);
            }
        }
    }

    /// Whether [`close_and_wait`](Self::close_and_wait) was called.
    pub(crate) fn is_ended(&self) -> bool {
        self.shards.iter().all(|shard| shard.0.load(Ordering::Relaxed) & ENDED != 0)
    }
}

impl Drop for AccessGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        let before = self.accesses.shards[self.shard].0.fetch_sub(1, Ordering::Release);
        if before & ENDED != 0 {
            // The lock is taken before the notification. Otherwise the notification could come after the
            // thread in `close_and_wait` has loaded the counter, and before it waits.
            drop(self.accesses.lock.lock());
            self.accesses.left.notify_all();
        }
    }
}

#[cfg(all(test, not(pheap_loom)))]
mod tests {
    use super::*;

    #[test]
    fn ending_waits_for_those_who_look() {
        let accesses = Accesses::default();
        let here = accesses.begin_access().unwrap();
        std::thread::scope(|scope| {
            let there = accesses.begin_access().unwrap();
            let ending = scope.spawn(|| accesses.close_and_wait());
            while !accesses.is_ended() {
                std::thread::yield_now();
            }
            assert!(accesses.begin_access().is_none());
            assert!(!ending.is_finished());
            drop(there);
            drop(here);
            ending.join().unwrap();
        });
        accesses.close_and_wait(); // returns at once
        assert!(accesses.begin_access().is_none());
    }
}
