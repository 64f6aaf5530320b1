//! The slots and the counter in which reading threads say that they read. Each thread that has a slot uses a
//! separate cache line. The other threads, and readers that a writer lets in when they sleep, share one
//! counter.

use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use super::Entry;
use crate::sync::thread::{self, SLOTS};
use crate::sync::{AtomicU64, Mistake, fence, mistake};

/// Number of slots of a lock that are allocated together.
const CHUNK: usize = 8;

/// The number of reads under one lock that a thread has begun and not ended.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Slot(AtomicU64);

/// The counts of the reads that were begun under one lock and have not ended.
#[derive(Debug, Default)]
pub(super) struct ReaderSlots {
    chunks: [OnceLock<Box<[Slot; CHUNK]>>; SLOTS / CHUNK],
    /// One more than the number of the highest slot that was ever used under this lock.
    used: AtomicUsize,
    /// The number of unfinished reads that are not counted in slots.
    others: AtomicU64,
}

impl ReaderSlots {
    pub(super) fn new() -> ReaderSlots {
        let slots = ReaderSlots::default();
        // In a model, the first slots must be allocated here: if a thread allocated them later, loom would
        // not know which thread did.
        if cfg!(all(test, pheap_loom)) {
            slots.chunks[0].get_or_init(Box::default);
        }
        slots
    }

    /// Returns the slot of this thread, if it is among the [used](Self::used) slots and has memory.
    #[inline(always)]
    fn mine(&self) -> Option<&AtomicU64> {
        let number = thread::slot_of_thread();
        if number >= self.used.load(Relaxed) {
            return None;
        }
        Some(&self.chunks[number / CHUNK].get()?[number % CHUNK].0)
    }

    /// Returns the slot of this thread, if the thread has one.
    #[cold]
    fn take_mine(&self) -> Option<&AtomicU64> {
        let number = thread::slot_of_thread();
        if number >= SLOTS {
            return None;
        }
        let slot = &self.chunks[number / CHUNK].get_or_init(Box::default)[number % CHUNK];
        // `used` is raised before the slot is used. Otherwise a writer that looks at all used slots would not
        // look at this one.
        self.used.fetch_max(number + 1, SeqCst);
        Some(&slot.0)
    }

    /// Counts this thread as a reader. A full fence follows, so loads after this call come later.
    #[inline]
    pub(super) fn register_reader(&self) -> Entry {
        let Some(slot) = self.mine().or_else(|| self.take_mine()) else {
            self.add_others(1);
            return Entry::Counted;
        };
        slot.fetch_add(1, SeqCst);
        if !mistake(Mistake::NoFenceOfReaders) {
            fence::full_behind_atomic();
        }
        Entry::Slot
    }

    /// Adds `number` readers to the shared counter. The readers may be other threads than the caller.
    pub(super) fn add_others(&self, number: u64) {
        self.others.fetch_add(number, SeqCst);
        fence::full_behind_atomic();
    }

    #[inline]
    pub(super) fn leave(&self, entry: Entry) {
        match (entry, self.mine()) {
            (Entry::Slot, Some(slot)) => slot.fetch_sub(1, SeqCst),
            _ => self.others.fetch_sub(1, SeqCst),
        };
        fence::full_behind_atomic();
    }

    /// Whether any read is counted. This sees each read that was counted before a fence that the calling
    /// thread has passed. If a read has ended, its loads happen before this returns.
    pub(super) fn is_any_inside(&self) -> bool {
        let is_inside = |word: &AtomicU64| word.load(Acquire) != 0;
        let used = self.used.load(SeqCst).div_ceil(CHUNK);
        for chunk in self.chunks.iter().take(used).filter_map(OnceLock::get) {
            if chunk.iter().any(|slot| is_inside(&slot.0)) {
                return true;
            }
        }
        is_inside(&self.others)
    }
}
