//! Who looks at objects of a region without its lock, and how to wait until nobody does.

use std::sync::atomic::Ordering;

use crate::sync::{AtomicU64, Condvar, Mutex, this_thread};

#[cfg(all(test, pheap_loom))]
mod model;

/// Counters, for threads that look at the same time not to write to the same line.
const SHARDS: usize = if cfg!(all(test, pheap_loom)) { 1 } else { 8 };

/// In a counter: nobody may begin to look any more.
const ENDED: u64 = 1 << 63;

/// Those who look, counted.
#[derive(Default)]
pub(crate) struct Accesses {
    shards: [Shard; SHARDS],
    lock: Mutex<()>,
    left: Condvar,
}

#[derive(Default)]
#[repr(align(128))]
struct Shard(AtomicU64);

/// A thread looks, until this is dropped.
pub(crate) struct Access<'a> {
    accesses: &'a Accesses,
    shard: usize,
}

impl Accesses {
    /// Begins to look, unless that has been [ended](Self::end).
    #[inline]
    pub(crate) fn begin(&self) -> Option<Access<'_>> {
        let access = Access { accesses: self, shard: this_thread() as usize % SHARDS };
        let before = self.shards[access.shard].0.fetch_add(1, Ordering::Acquire);
        (before & ENDED == 0).then_some(access)
    }

    /// Lets nobody begin any more, and waits for those who have.
    pub(crate) fn end(&self) {
        for shard in &self.shards {
            shard.0.fetch_or(ENDED, Ordering::Relaxed);
        }
        let mut locked = self.lock.lock();
        for shard in &self.shards {
            // Released by those who leave: what they have read comes before what the caller is going to do to it.
            while shard.0.load(Ordering::Acquire) != ENDED {
                self.left.wait(&mut locked);
            }
        }
    }

    /// Whether [`end`](Self::end) was called.
    pub(crate) fn is_ended(&self) -> bool {
        self.shards.iter().all(|shard| shard.0.load(Ordering::Relaxed) & ENDED != 0)
    }
}

impl Drop for Access<'_> {
    #[inline]
    fn drop(&mut self) {
        let before = self.accesses.shards[self.shard].0.fetch_sub(1, Ordering::Release);
        if before & ENDED != 0 {
            // With the lock, or this could come between the look and the wait of who waits.
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
        let here = accesses.begin().unwrap();
        std::thread::scope(|scope| {
            let there = accesses.begin().unwrap();
            let ending = scope.spawn(|| accesses.end());
            while !accesses.is_ended() {
                std::thread::yield_now();
            }
            assert!(accesses.begin().is_none());
            assert!(!ending.is_finished());
            drop(there);
            drop(here);
            ending.join().unwrap();
        });
        accesses.end(); // at once
        assert!(accesses.begin().is_none());
    }
}
