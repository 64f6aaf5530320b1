//! How readers take the lock of a region, and release it.

use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use super::bias::{GONE, UPGRADED};
use super::{CLOSED, EXCLUSIVE, PARKED, RegionLock, SLEEPERS, SPINS};
use crate::faults::{Bug, bug};
use crate::sync::fence::FenceRefused;
use crate::sync::{LockMode, spins};

/// How a reader has taken the lock of a region. It must release the lock in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Entry {
    /// The reader is the owner of the lock, and counts in the owner's state.
    Owner,
    /// The reader counts in the slot of its thread.
    Slot,
    /// The reader counts in the shared counter: its thread has no slot, or a writer has let it in.
    Counted,
}

impl RegionLock {
    /// Waits until no writer is upgraded, and makes this thread a reader. `nested` says that this thread has
    /// a region already: another one, or this one as a reader. A thread that has no region also waits at a
    /// closed gate, unless it is the owner, and behind writers that wait to be upgraded.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn lock_shared(&self, nested: bool) -> Result<Entry, FenceRefused> {
        if self.read_as_owner() { Ok(Entry::Owner) } else { self.wait_shared(nested) }
    }

    #[inline(never)]
    #[track_caller]
    fn wait_shared(&self, nested: bool) -> Result<Entry, FenceRefused> {
        if self.claim() && self.read_as_owner() {
            return Ok(Entry::Owner);
        }
        let nested = nested && !bug(Bug::NestedReadsWait) || bug(Bug::ReadsOvertake);
        if !nested {
            self.gate.pass(|| false);
        }
        if self.owner.load(Acquire) != GONE {
            self.revoke(UPGRADED, None)?;
        }
        let wait = || Some(self.try_enter(nested).unwrap_or_else(|| self.enter_slowly(nested)));
        Ok(self.watch.acquire_watched(LockMode::Shared, || self.try_enter(nested), wait).expect("waited for"))
    }

    #[inline(always)]
    pub(crate) fn unlock_shared(&self, entry: Entry) {
        match entry {
            Entry::Owner => self.end_read_as_owner(),
            Entry::Slot | Entry::Counted => {
                self.watch.leave(LockMode::Shared);
                self.leave_slot(entry);
            }
        }
    }

    /// Ends a read, and wakes the writer if the writer sleeps until readers leave.
    #[inline(never)]
    fn leave_slot(&self, entry: Entry) {
        self.slots.leave(entry);
        if self.word.load(Acquire) & PARKED != 0 {
            self.wake();
        }
    }

    /// Makes this thread a reader, if it need not wait.
    fn try_enter(&self, nested: bool) -> Option<Entry> {
        if self.keeps_out(self.word.load(SeqCst), nested) {
            return None;
        }
        let entry = self.slots.register_reader();
        if self.keeps_out(self.word.load(SeqCst), nested) {
            self.leave_slot(entry);
            return None;
        }
        Some(entry)
    }

    fn keeps_out(&self, word: u64, nested: bool) -> bool {
        word & if nested { EXCLUSIVE } else { CLOSED } != 0
    }

    #[cold]
    fn enter_slowly(&self, nested: bool) -> Entry {
        loop {
            for _ in 0..spins(SPINS) {
                if let Some(entry) = self.try_enter(nested) {
                    return entry;
                }
                std::hint::spin_loop();
            }
            if self.sleep(nested) {
                return Entry::Counted;
            }
        }
    }

    /// Sleeps until this thread may read. Returns whether a writer has let it in, and has counted it as a
    /// reader. If not, the thread must try again by itself.
    fn sleep(&self, nested: bool) -> bool {
        let mut waiting = self.waiting();
        self.word.fetch_or(SLEEPERS, SeqCst);
        waiting.readers += 1;
        let turn = waiting.turns;
        while waiting.turns == turn {
            if !self.keeps_out(self.word.load(SeqCst), nested) {
                waiting.readers -= 1;
                if waiting.readers == 0 {
                    self.word.fetch_and(!SLEEPERS, Relaxed);
                }
                return false;
            }
            self.admitted.wait(&mut waiting);
        }
        true
    }
}
