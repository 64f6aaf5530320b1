//! How readers come in and leave.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::time::Instant;

use super::slots::Slot;
use super::{Access, CLOSED, EXCLUSIVE, PLACE, READERS, SETTLED, SLEEPERS, SPINS, THREAD, thread_of};
use crate::faults::{Bug, bug};
use crate::sync::fence::{self, Refused};
use crate::sync::lock::Want;
use crate::sync::spins;
use crate::sync::thread::this_thread;

/// How a reader has come in, and must leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Entry {
    /// At the slot of its thread, with a plain store.
    Plain,
    /// With a locked instruction.
    Locked,
    /// Counted with others.
    Counted,
}

impl Access {
    /// Waits until no writer is upgraded. `nested` says that this thread has a region already, perhaps this one, which it reads. If it has none, it
    /// waits behind those that wait to be upgraded, too.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn lock_shared(&self, nested: bool) -> Result<Entry, Refused> {
        let nested = nested && !bug(Bug::NestedReadsWait) || bug(Bug::ReadsOvertake);
        if !nested {
            self.gate.pass(|| false);
        }
        let attempt = || self.enter_plainly().or_else(|| self.enter_locked(nested));
        let wait = || match self.enter_plainly() {
            Some(entry) => Some(entry),
            None => self.enter_slowly(nested).ok(),
        };
        self.watch.take(Want::Shared, attempt, wait).ok_or(Refused)
    }

    #[inline(always)]
    pub(crate) fn unlock_shared(&self, entry: Entry) {
        self.watch.leave(Want::Shared);
        match (entry, self.slots.mine()) {
            (Entry::Plain, Some(slot)) => slot.leave_plainly(),
            (Entry::Locked, Some(slot)) => slot.leave(),
            _ => self.slots.remove_other(),
        }
        self.wake_writer();
    }

    /// Comes in with a plain store, if that will do: all that may be upgraded pass a heavy fence first.
    #[inline(always)]
    fn enter_plainly(&self) -> Option<Entry> {
        let slot = self.slots.mine()?;
        let word = self.word.load(Acquire);
        let is_mine = thread_of(word) == this_thread() && word & ((1 << PLACE) - 1) == 0;
        if word != READERS && !is_mine {
            return None;
        }
        slot.enter_plainly();
        if self.word.load(Acquire) == word {
            return Some(Entry::Plain);
        }
        slot.leave_plainly();
        self.wake_writer();
        None
    }

    /// Whether who has said that it is inside may stay there.
    fn admits(&self, word: u64, nested: bool) -> bool {
        word & if nested { EXCLUSIVE } else { CLOSED } == 0 && !self.is_unsettled(word)
    }

    /// Whether there is an owner that can be upgraded with plain stores, and is another thread.
    fn is_unsettled(&self, word: u64) -> bool {
        word >> THREAD != 0 && word & SETTLED == 0 && thread_of(word) != this_thread()
    }

    /// Comes in if it may at once.
    fn enter_locked(&self, nested: bool) -> Option<Entry> {
        let slot = self.slots.mine().or_else(|| self.slots.take_mine());
        let is_inside = slot.is_some_and(Slot::is_inside);
        if !is_inside && !self.admits(self.word.load(SeqCst), nested) {
            return None;
        }
        match slot {
            Some(slot) => slot.enter(),
            None => self.slots.add_others(1),
        }
        // Nobody is upgraded beside this very thread.
        if is_inside || self.admits(self.word.load(SeqCst), nested) {
            if let Some(slot) = slot
                && slot.note(self.writes.load(Relaxed)) >= self.enough
            {
                slot.forget_streak();
                self.grant_readers();
            }
            return Some(if slot.is_some() { Entry::Locked } else { Entry::Counted });
        }
        match slot {
            Some(slot) => slot.leave(),
            None => self.slots.remove_other(),
        }
        self.wake_writer();
        None
    }

    #[cold]
    fn enter_slowly(&self, nested: bool) -> Result<Entry, Refused> {
        loop {
            for _ in 0..spins(SPINS) {
                if let Some(entry) = self.enter_locked(nested) {
                    return Ok(entry);
                }
                if self.is_unsettled(self.word.load(SeqCst)) {
                    self.settle_owner()?;
                } else {
                    std::hint::spin_loop();
                }
            }
            if self.sleep(nested) {
                return Ok(Entry::Counted);
            }
        }
    }

    /// Sleeps until this thread is let in. Returns whether it was: if not, it can come in by itself.
    fn sleep(&self, nested: bool) -> bool {
        let mut waiting = self.waiting();
        let word = self.word.fetch_or(SLEEPERS, SeqCst);
        if word & if nested { EXCLUSIVE } else { CLOSED } == 0 {
            if waiting.readers + waiting.nested == 0 {
                self.word.fetch_and(!SLEEPERS, Relaxed);
            }
            return false;
        }
        if nested {
            waiting.nested += 1
        } else {
            waiting.readers += 1
        }
        let turns = |waiting: &super::Waiting| if nested { waiting.nested_turns } else { waiting.turns };
        let before = turns(&waiting);
        while turns(&waiting) == before {
            waiting = self.admitted.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// Lets readers use plain stores, if there is no writer. This thread reads.
    #[cold]
    fn grant_readers(&self) {
        if !self.writers.try_lock(Want::Shared) {
            return;
        }
        if self.evict(Some(Instant::now())) == Ok(true) && fence::is_supported() {
            self.plain.store(true, Relaxed);
            // Unless somebody sleeps: that will be for a moment.
            let _ = self.word.compare_exchange(0, READERS, SeqCst, Relaxed);
        }
        self.writers.unlock_shared();
    }
}
