//! Counts writes that are not durable yet, so that reads of other keys do not wait for the disk.
//!
//! With [`Durability::Wal`] and a sync for each commit, a read of pheap waits until all earlier commits to
//! its root are durable, whatever the read looks at. A lookup here waits only if such a commit, which is not
//! durable yet, writes to a key of the same *class*. There are 4,096 classes.

use pheap::{Commit, Durability, Heap, SyncPolicy};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const CLASSES: usize = 1 << 12;

/// Number of writes that are not durable yet, for each class of keys.
///
/// A write is counted under the lock of its shard, before it commits. So a reader that sees a write also sees
/// its count, unless the write is durable.
pub(crate) struct Unsynced {
    /// Number of writes by class. A count may include writes that became durable since
    /// [`forget_durable`](Unsynced::forget_durable).
    counts: Box<[AtomicU32]>,
    /// Deferred writes, in order: a commit that is durable no earlier than the writes, and their classes.
    deferred: Mutex<VecDeque<(Commit, Vec<usize>)>>,
}

impl Unsynced {
    /// Returns the counts for a heap with a log and [`SyncPolicy::EveryCommit`]. Returns `None` for others:
    /// their reads wait as those of pheap do.
    pub(crate) fn of(heap: &Heap, policy: SyncPolicy) -> Option<Unsynced> {
        let waits = heap.durability() == Durability::Wal && policy == SyncPolicy::EveryCommit;
        waits.then(|| Unsynced {
            counts: (0..CLASSES).map(|_| AtomicU32::new(0)).collect(),
            deferred: Mutex::default(),
        })
    }

    /// Returns whether a write to this key's class may not be durable yet.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        let count = &self.counts[class(key)];
        if count.load(Ordering::Acquire) == 0 {
            return false;
        }
        self.forget_durable(&mut self.deferred());
        count.load(Ordering::Acquire) > 0
    }

    /// Counts writes to these keys until the result is dropped. The caller must hold the locks of their
    /// shards.
    pub(crate) fn count(&self, keys: &mut dyn Iterator<Item = &[u8]>) -> CountedWrites<'_> {
        let classes: Vec<usize> = keys.map(class).collect();
        for &class in &classes {
            self.counts[class].fetch_add(1, Ordering::Relaxed);
        }
        CountedWrites { of: self, classes }
    }

    fn uncount(&self, classes: &[usize]) {
        for &class in classes {
            self.counts[class].fetch_sub(1, Ordering::Release);
        }
    }

    /// Removes deferred writes from the front that are durable.
    fn forget_durable(&self, deferred: &mut VecDeque<(Commit, Vec<usize>)>) {
        while deferred.front().is_some_and(|(commit, _)| commit.is_durable()) {
            deferred.pop_front().inspect(|(_, classes)| self.uncount(classes));
        }
    }

    fn deferred(&self) -> MutexGuard<'_, VecDeque<(Commit, Vec<usize>)>> {
        self.deferred.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes that are counted until this is dropped, because they are durable or have failed.
pub(crate) struct CountedWrites<'a> {
    of: &'a Unsynced,
    classes: Vec<usize>,
}

impl CountedWrites<'_> {
    /// Keeps the writes counted until `commit` is durable.
    pub(crate) fn until(mut self, commit: Commit) {
        let classes = std::mem::take(&mut self.classes);
        let mut deferred = self.of.deferred();
        self.of.forget_durable(&mut deferred);
        deferred.push_back((commit, classes));
    }

    /// Keeps the writes counted while the store is open, because it cannot be known when they are durable.
    pub(crate) fn for_ever(mut self) {
        self.classes.clear();
    }
}

impl Drop for CountedWrites<'_> {
    fn drop(&mut self) {
        self.of.uncount(&self.classes);
    }
}

/// Returns the class of a key: its hash by a variant of FNV-1a that takes eight bytes at a time.
fn class(key: &[u8]) -> usize {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for part in key.chunks(8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3);
        hash ^= hash >> 32;
    }
    hash as usize % CLASSES
}
