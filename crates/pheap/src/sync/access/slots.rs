//! Where the threads that read say so: each one that has a slot on a line of its own, the others in one word.

use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use super::Entry;
use crate::sync::thread::{self, SLOTS};
use crate::sync::{AtomicU64, Mistake, fence, mistake};

/// Slots that get their memory together.
const CHUNK: usize = 8;

/// How many reads one thread is inside of.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Slot(AtomicU64);

/// The threads that read at one lock.
#[derive(Debug, Default)]
pub(super) struct Slots {
    chunks: [OnceLock<Box<[Slot; CHUNK]>>; SLOTS / CHUNK],
    /// One more than the highest slot that was ever used.
    used: AtomicUsize,
    /// How many reads those are inside of that have none.
    others: AtomicU64,
}

impl Slots {
    pub(super) fn new() -> Slots {
        let slots = Slots::default();
        // Models do not know by whom this was made, if it is made later.
        if cfg!(all(test, pheap_loom)) {
            slots.chunks[0].get_or_init(Box::default);
        }
        slots
    }

    /// The slot of this thread, if it has used one here before.
    #[inline(always)]
    fn mine(&self) -> Option<&AtomicU64> {
        let number = thread::slot();
        if number >= self.used.load(Relaxed) {
            return None;
        }
        Some(&self.chunks[number / CHUNK].get()?[number % CHUNK].0)
    }

    /// The slot of this thread, if it can have one.
    #[cold]
    fn take_mine(&self) -> Option<&AtomicU64> {
        let number = thread::slot();
        if number >= SLOTS {
            return None;
        }
        let slot = &self.chunks[number / CHUNK].get_or_init(Box::default)[number % CHUNK];
        // Before the slot is used: who looks at all of them would not look at this one.
        self.used.fetch_max(number + 1, SeqCst);
        Some(&slot.0)
    }

    /// Says that this thread is inside, before what comes next.
    #[inline]
    pub(super) fn enter(&self) -> Entry {
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

    /// Counts so many that have no slot in, on behalf of whoever it is.
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

    /// Whether one of them is inside. A read that has begun before a fence that this thread has passed is seen, and so is
    /// what one that has ended has read.
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
