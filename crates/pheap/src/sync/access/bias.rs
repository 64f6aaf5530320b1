//! The owner of a lock: the thread that has been its only writer many times in a row, and needs no locked instruction.
//!
//! A locked instruction waits until every store before it has left the processor, so behind a commit it costs a whole fence. The owner does without: it says that
//! it is a writer, or upgraded, with a plain store, and then looks whether it still is the owner. Whoever else comes says that it is not, makes all processors of the
//! process agree on what came first ([`fence::heavy`]), and looks what the owner is: who wants to be the writer waits until it is none, and who wants to read until it is
//! not upgraded; from then on it is upgraded with locked instructions only.
//!
//! The scheme is that of biased locks (Kawachiya, Koseki, Onodera: *Lock Reservation: Java Locks Can Mostly Do Without Atomic Operations*, 2002; Dice,
//! Moir, Scherer: *Quickly Reacquirable Locks*, 2003) with an asymmetric fence, as in Dekker's algorithm.
//!
//! Between its first look at the word and its store, an owner can be stopped for as long as the system likes. When it goes on, others may have been owners and
//! lost that again. So where it says what it is, no other thread ever does: each one has a place of its own, and when there are none left, a thread takes the lock.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::time::Instant;

use super::{Access, EVICTED, EXCLUSIVE, OWNER, PLACE, SETTLED, THREAD, place_of, thread_of};
use crate::sync::fence::Refused;
use crate::sync::thread::this_thread;
use crate::sync::{Mistake, fence, mistake, parking};

/// What an owner is: nothing, a writer, or one that is upgraded.
pub(super) const OUTSIDE: u64 = 0;
const WRITER: u64 = 1;
const UPGRADED: u64 = 2;

/// Bits of a word that only has an owner.
const ELSE: u64 = (1 << PLACE) - 1;

impl Access {
    /// Makes this thread the writer, if it is the owner. It must be no writer already.
    #[inline(always)]
    pub(super) fn enter_biased(&self) -> bool {
        let word = self.word.load(Relaxed);
        if thread_of(word) != this_thread() || word & ELSE != 0 {
            return false;
        }
        let owner = &self.owners[place_of(word)];
        #[cfg(not(all(test, pheap_loom)))]
        debug_assert_eq!(owner.load(Relaxed), OUTSIDE, "this thread is a writer already");
        owner.store(WRITER, Relaxed);
        fence::light();
        if self.word.load(Relaxed) == word || mistake(Mistake::NoSecondLook) {
            return true;
        }
        self.becomes(word, OUTSIDE);
        false
    }

    /// Says what the owner is now. `word` names it.
    #[inline(always)]
    fn becomes(&self, word: u64, what: u64) {
        self.owners[place_of(word)].store(what, Release);
        fence::light();
        // One of those who evict it may have seen that, and have made it nobody, while another one is still about to wait.
        let now = self.word.load(Relaxed);
        let is_evicted = if mistake(Mistake::WakeEvictedOnly) { now & EVICTED != 0 } else { now != word };
        if is_evicted {
            self.wake();
        }
    }

    #[cold]
    pub(super) fn wake(&self) {
        let _waiting = self.waiting();
        self.changed.notify_all();
    }

    /// Makes the writer alone, if that is the owner, and nobody has evicted it before.
    #[inline(always)]
    pub(super) fn upgrade_as_owner(&self) -> bool {
        let word = self.word.load(Relaxed);
        // As long as an owner is a writer, it is named here; and every other writer has seen to it that there is none.
        if thread_of(word) == 0 {
            return false;
        }
        let owner = &self.owners[place_of(word)];
        if word & ELSE != 0 {
            return owner.load(Relaxed) == UPGRADED;
        }
        owner.store(UPGRADED, Relaxed);
        fence::light();
        if self.word.load(Relaxed) == word || mistake(Mistake::NoThirdLook) {
            return true;
        }
        self.becomes(word, WRITER);
        false
    }

    pub(super) fn is_owner_upgraded(&self) -> bool {
        let word = self.word.load(Relaxed);
        thread_of(word) != 0 && self.owners[place_of(word)].load(Relaxed) == UPGRADED
    }

    /// Takes that back. Returns whether it was the owner.
    #[inline(always)]
    pub(super) fn downgrade_as_owner(&self) -> bool {
        let word = self.word.load(Relaxed);
        let is_owner = thread_of(word) != 0 && word & EXCLUSIVE == 0;
        if is_owner {
            self.becomes(word & !ELSE, WRITER);
        }
        is_owner
    }

    /// Ends to be the writer, if that is the owner, and nobody has evicted it.
    #[inline(always)]
    pub(super) fn leave_as_owner(&self) -> bool {
        let word = self.word.load(Relaxed);
        let is_owner = thread_of(word) != 0 && word & ELSE == 0;
        if is_owner {
            self.becomes(word, OUTSIDE);
        }
        is_owner
    }

    /// The same if it was evicted.
    pub(super) fn leave_evicted(&self) -> bool {
        let word = self.word.load(Relaxed);
        let is_owner = thread_of(word) != 0;
        if is_owner {
            self.becomes(word & !ELSE, OUTSIDE);
        }
        is_owner
    }

    #[cfg(test)]
    pub(in crate::sync) fn is_owned(&self) -> bool {
        thread_of(self.word.load(Relaxed)) != 0
    }

    /// Whether some thread is the writer as the owner, at this moment.
    pub(super) fn is_owner_inside(&self) -> bool {
        let word = self.word.load(Relaxed);
        thread_of(word) != 0 && self.owners[place_of(word)].load(Relaxed) != OUTSIDE
    }

    /// Notes that this thread has become the writer, and has [evicted](Self::evict) the owner.
    #[inline]
    pub(super) fn note_writer(&self) {
        let me = this_thread();
        let streak = if self.last.load(Relaxed) == me { self.streak.load(Relaxed) } else { 0 };
        self.last.store(me, Relaxed);
        self.streak.store(streak + 1, Relaxed);
    }

    /// Makes the writer, who is about to let go of the lock, the owner, if it has been the only one often enough.
    #[inline]
    pub(super) fn before_unlock(&self) {
        if self.streak.load(Relaxed) >= self.enough {
            self.grant();
        }
    }

    #[cold]
    fn grant(&self) {
        self.streak.store(0, Relaxed);
        let me = self.last.load(Relaxed);
        let is_free = |thread: u64| thread == 0 || thread == me;
        // There is none when others have them all: they are never given back.
        let Some(place) = self.threads.iter().position(|thread| is_free(thread.load(Relaxed))) else {
            return;
        };
        if !fence::is_supported() {
            return;
        }
        let _waiting = self.waiting();
        self.threads[place].store(me, Relaxed);
        self.plain.store(true, Relaxed);
        let word = me << THREAD | (place as u64) << PLACE;
        if self.word.compare_exchange(0, word, SeqCst, Relaxed).is_err() {
            return;
        }
        // Who begins to read from here on sees that there is an owner.
        fence::full_behind_atomic();
        let seen = self.slots.look();
        if seen.is_any_inside && !mistake(Mistake::OwnerBesideReaders) {
            self.word.fetch_and(!OWNER, Release);
        }
    }

    /// Waits until the owner is no writer and is the owner no more, at most until `end`. Returns whether that is so. The caller has the lock of the writers, perhaps with others.
    #[cold]
    pub(super) fn evict(&self, end: Option<Instant>) -> Result<bool, Refused> {
        let mut waiting = self.waiting();
        let mut is_told = false;
        let mut is_over = false;
        loop {
            let word = self.word.load(Acquire);
            if thread_of(word) == 0 {
                return Ok(true);
            }
            // Each one does this itself: that the owner is evicted does not say that it knows.
            if !std::mem::replace(&mut is_told, true) {
                self.word.fetch_or(EVICTED, Relaxed);
                if !mistake(Mistake::NoHeavyFence) {
                    fence::heavy()?;
                }
            }
            if self.owners[place_of(word)].load(Acquire) == OUTSIDE {
                break;
            }
            if is_over {
                return Ok(false);
            }
            (waiting, is_over) = parking::wait_until(&self.changed, &self.waiting, waiting, end);
        }
        // It has left with a plain store, which waits for nothing: neither for lines that it has flushed without a fence nor for non-temporal stores.
        fence::heavy()?;
        self.word.fetch_and(!OWNER, Release);
        Ok(true)
    }

    /// Waits until the owner is not upgraded, nor ever will be without a locked instruction.
    #[cold]
    pub(super) fn settle_owner(&self) -> Result<(), Refused> {
        // Nobody becomes an owner, nor ceases to be one, meanwhile.
        let mut waiting = self.waiting();
        loop {
            let word = self.word.load(Acquire);
            if thread_of(word) == 0 || word & SETTLED != 0 {
                return Ok(());
            }
            self.word.fetch_or(EVICTED, Relaxed);
            if !mistake(Mistake::NoHeavyFenceOfReaders) {
                fence::heavy()?;
            }
            if self.owners[place_of(word)].load(Acquire) != UPGRADED {
                self.word.fetch_or(SETTLED, AcqRel);
                return Ok(());
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
