//! How the writer of a region keeps readers out (its upgrade), and lets them in again.

use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release, SeqCst};

use super::{CLOSED, EXCLUSIVE, PARKED, RegionLock, SLEEPERS, SPINS};
use crate::sync::{LockMode, Mistake, fence, mistake, spins};

impl RegionLock {
    /// Waits until this thread, the writer, is alone, unless it is already. Waits for threads that read, and
    /// for threads that begin to read during the wait and have a region already.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn upgrade(&self) {
        if !self.upgrade_as_owner() && !self.is_shut() {
            let wait = || {
                while !self.shut() {
                    self.wait_for_readers();
                }
                Some(())
            };
            self.watch.acquire_watched(LockMode::Exclusive, || self.shut().then_some(()), wait);
        }
    }

    /// [`upgrade`](Self::upgrade), if no thread reads, or none reads for long. Returns whether this thread is
    /// alone.
    #[track_caller]
    pub(crate) fn try_upgrade(&self) -> bool {
        let attempt = || {
            let alone = self.shut();
            if !alone {
                self.open();
            }
            alone.then_some(())
        };
        self.upgrade_as_owner()
            || self.is_shut()
            || self.watch.acquire_watched(LockMode::Exclusive, || None, attempt).is_some()
    }

    /// Whether this thread, the writer, is alone.
    pub(crate) fn is_upgraded(&self) -> bool {
        self.is_owner_upgraded() || self.is_shut()
    }

    /// Lets readers in again, if this thread, the writer, keeps them out.
    #[inline]
    pub(crate) fn downgrade(&self) {
        if self.is_owner_upgraded() { self.downgrade_as_owner() } else { self.open() }
    }

    /// Whether this thread, the writer, keeps readers out by the lock's word, and not as the owner.
    #[inline(always)]
    fn is_shut(&self) -> bool {
        self.word.load(Relaxed) & EXCLUSIVE != 0
    }

    /// Keeps new readers out, and looks for a while whether any thread still reads. Returns whether none
    /// does.
    #[cold]
    fn shut(&self) -> bool {
        self.word.fetch_or(CLOSED | EXCLUSIVE, SeqCst);
        if !mistake(Mistake::NoFenceOfWriters) {
            fence::full_behind_atomic();
        }
        for _ in 0..spins(SPINS) {
            if !self.is_read() {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    fn is_read(&self) -> bool {
        self.slots.is_any_inside() || self.owner_reads()
    }

    /// Lets in readers that have a region already, and waits until no thread reads. When this returns,
    /// another such reader may have come in.
    #[cold]
    fn wait_for_readers(&self) {
        let mut waiting = self.waiting();
        self.word.fetch_or(PARKED, SeqCst);
        if !mistake(Mistake::NestedReadersWait) {
            self.word.fetch_and(!EXCLUSIVE, SeqCst);
            self.admitted.notify_all();
        }
        // A reader that leaves changes its slot, then looks at the word, and then wakes this thread; a reader
        // that is the owner wakes this thread without looking. This thread writes the word, and then reads
        // the slots. So one of the two sees the other.
        if !mistake(Mistake::NoFenceOfSleepers) {
            fence::full_behind_atomic();
        }
        while self.is_read() {
            self.changed.wait(&mut waiting);
        }
        self.word.fetch_and(!PARKED, Relaxed);
    }

    /// Lets readers in, if this thread keeps them out by the lock's word.
    pub(super) fn open(&self) {
        let word = self.word.load(Relaxed);
        if word & EXCLUSIVE == 0 {
            return;
        }
        self.watch.leave(LockMode::Exclusive);
        let is_open = word & SLEEPERS == 0
            && self.word.compare_exchange(word, word & !(CLOSED | EXCLUSIVE), Release, Relaxed).is_ok();
        if !is_open {
            self.open_to_sleepers();
        }
    }

    #[cold]
    fn open_to_sleepers(&self) {
        let mut waiting = self.waiting();
        // This thread adds the sleeping readers to the number of threads that read, before it wakes them. So
        // the next upgrade, of any writer, waits until they have read.
        let readers = std::mem::take(&mut waiting.readers);
        if readers > 0 && !mistake(Mistake::SleepersUncounted) {
            self.slots.add_others(readers);
        }
        waiting.turns += 1;
        self.word.fetch_and(!(CLOSED | EXCLUSIVE | SLEEPERS), AcqRel);
        self.admitted.notify_all();
    }
}
