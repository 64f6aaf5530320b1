//! Where the threads that read say so: each one that has a slot on a line of its own, the others in one word.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64 as PlainU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::sync::thread::{self, SLOTS};
use crate::sync::{AtomicU64, Mistake, fence, mistake};

/// A word has the number of reads that its threads are inside of, and above that how many there have been in all, which begins anew when there is no room.
const ONE: u64 = 1 | FIRST;
const FIRST: u64 = 1 << 32;
const INSIDE: u64 = FIRST - 1;

/// Slots that get their memory together.
const CHUNK: usize = 8;

/// Where one thread reads.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Slot {
    /// Written by the thread alone.
    word: AtomicU64,
    /// For how many reads in a row it has met no writer, and how many these had been by then. Of the thread alone, too.
    streak: PlainU64,
    writes: PlainU64,
}

/// The threads that read at one lock.
#[derive(Debug, Default)]
pub(super) struct Slots {
    chunks: [OnceLock<Box<[Slot; CHUNK]>>; SLOTS / CHUNK],
    /// One more than the highest slot that was ever used.
    used: AtomicUsize,
    /// Those that have none.
    others: AtomicU64,
}

/// How many reads of other threads there have been, and whether one is going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) count: u64,
    pub(super) is_any_inside: bool,
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
    pub(super) fn mine(&self) -> Option<&Slot> {
        let number = thread::slot();
        if number >= self.used.load(Relaxed) {
            return None;
        }
        Some(&self.chunks[number / CHUNK].get()?[number % CHUNK])
    }

    /// The slot of this thread, if it can have one.
    pub(super) fn take_mine(&self) -> Option<&Slot> {
        let number = thread::slot();
        if number >= SLOTS {
            return None;
        }
        let slot = &self.chunks[number / CHUNK].get_or_init(Box::default)[number % CHUNK];
        // Before the slot is used: who looks at all of them would not look at this one.
        self.used.fetch_max(number + 1, SeqCst);
        Some(slot)
    }

    /// Counts so many that have no slot in, on behalf of whoever it is.
    pub(super) fn add_others(&self, number: u64) {
        self.others.fetch_add(number * ONE, SeqCst);
        fence::full_behind_atomic();
    }

    pub(super) fn remove_other(&self) {
        self.others.fetch_sub(1, SeqCst);
        fence::full_behind_atomic();
    }

    /// Looks at all of them. A read that has begun before a fence that this thread has passed is seen, and so is what one that has ended has read.
    pub(super) fn look(&self) -> Seen {
        let mine = self.mine().map(std::ptr::from_ref);
        let others = self.others.load(Acquire);
        let mut seen = Seen { count: others / FIRST, is_any_inside: others & INSIDE != 0 };
        let used = self.used.load(SeqCst);
        for chunk in self.chunks.iter().take(used.div_ceil(CHUNK)) {
            for slot in chunk.get().iter().flat_map(|chunk| chunk.iter()) {
                let word = slot.word.load(Acquire);
                seen.count += if Some(std::ptr::from_ref(slot)) == mine { 0 } else { word / FIRST };
                seen.is_any_inside |= word & INSIDE != 0;
            }
        }
        seen
    }
}

impl Slot {
    /// Whether this thread is inside.
    pub(super) fn is_inside(&self) -> bool {
        self.word.load(Relaxed) & INSIDE != 0
    }

    /// Says with a plain store that this thread is inside once more.
    #[inline(always)]
    pub(super) fn enter_plainly(&self) {
        self.word.store(self.word.load(Relaxed).wrapping_add(ONE), Relaxed);
        fence::light();
    }

    #[inline(always)]
    pub(super) fn leave_plainly(&self) {
        self.word.store(self.word.load(Relaxed) - 1, Release);
        fence::light();
    }

    /// The same with a locked instruction, which all processors see before what comes next.
    pub(super) fn enter(&self) {
        self.word.fetch_add(ONE, SeqCst);
        if !mistake(Mistake::NoFenceOfReaders) {
            fence::full_behind_atomic();
        }
    }

    pub(super) fn leave(&self) {
        self.word.fetch_sub(1, SeqCst);
        fence::full_behind_atomic();
    }

    /// Notes a read that has seen that there had been so many writers by then. Returns how many such reads there were in a row.
    pub(super) fn note(&self, writes: u64) -> u64 {
        let before = if self.writes.load(Relaxed) == writes { self.streak.load(Relaxed) } else { 0 };
        self.writes.store(writes, Relaxed);
        self.streak.store(before + 1, Relaxed);
        before + 1
    }

    /// Begins to count anew.
    pub(super) fn forget_streak(&self) {
        self.streak.store(0, Relaxed);
    }
}

#[cfg(all(test, not(pheap_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_reads_more_often_than_can_be_counted() {
        let slot = Slot { word: AtomicU64::new(!INSIDE), ..Slot::default() };
        slot.enter_plainly();
        assert!(slot.is_inside());
        slot.leave_plainly();
        assert!(!slot.is_inside());
    }
}
