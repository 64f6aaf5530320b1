//! Which keys have writes that no disk has yet, so that reads of all others need not wait for it.
//!
//! With [`Durability::Wal`] and a sync for each commit, a read of pheap waits until all that was committed to its root is durable, if it sees it or not. A lookup here waits only if
//! there is such a write to a key of the same *class*, of which there are some thousands.

use pheap::{Commit, Durability, Heap, SyncPolicy};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const CLASSES: usize = 1 << 12;

/// Counts of writes, by the class of their key.
///
/// A write is counted under the lock of its shard, before it commits. So who sees it, sees the count, unless it is durable.
pub(crate) struct Unsynced {
    counts: Box<[AtomicU32]>,
    /// Of deferred writes, in their order: what tells when they are durable, and their classes.
    deferred: Mutex<VecDeque<(Commit, Vec<usize>)>>,
}

impl Unsynced {
    /// None if reads never wait for a disk.
    pub(crate) fn of(heap: &Heap, policy: SyncPolicy) -> Option<Unsynced> {
        let waits = heap.durability() == Durability::Wal && policy == SyncPolicy::EveryCommit;
        waits.then(|| Unsynced {
            counts: (0..CLASSES).map(|_| AtomicU32::new(0)).collect(),
            deferred: Mutex::default(),
        })
    }

    /// Whether a write to a key may not be durable that a read has seen.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        let count = &self.counts[class(key)];
        if count.load(Ordering::Acquire) == 0 {
            return false;
        }
        self.forget_durable(&mut self.deferred());
        count.load(Ordering::Acquire) > 0
    }

    pub(crate) fn count(&self, keys: &mut dyn Iterator<Item = &[u8]>) -> Counted<'_> {
        let classes: Vec<usize> = keys.map(class).collect();
        for &class in &classes {
            self.counts[class].fetch_add(1, Ordering::Relaxed);
        }
        Counted { of: self, classes }
    }

    fn uncount(&self, classes: &[usize]) {
        for &class in classes {
            self.counts[class].fetch_sub(1, Ordering::Release);
        }
    }

    fn forget_durable(&self, deferred: &mut VecDeque<(Commit, Vec<usize>)>) {
        while deferred.front().is_some_and(|(commit, _)| commit.is_durable()) {
            deferred.pop_front().inspect(|(_, classes)| self.uncount(classes));
        }
    }

    fn deferred(&self) -> MutexGuard<'_, VecDeque<(Commit, Vec<usize>)>> {
        self.deferred.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes that are counted until this is dropped: when they are durable, or have come to nothing.
pub(crate) struct Counted<'a> {
    of: &'a Unsynced,
    classes: Vec<usize>,
}

impl Counted<'_> {
    /// They are counted until `commit` says that they are durable.
    pub(crate) fn until(mut self, commit: Commit) {
        let classes = std::mem::take(&mut self.classes);
        let mut deferred = self.of.deferred();
        self.of.forget_durable(&mut deferred);
        deferred.push_back((commit, classes));
    }

    /// They are counted as long as the store is open, for nobody will say when they are durable.
    pub(crate) fn for_ever(mut self) {
        self.classes.clear();
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.of.uncount(&self.classes);
    }
}

/// FNV-1a, eight bytes at a time.
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
