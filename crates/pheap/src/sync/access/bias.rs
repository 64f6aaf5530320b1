//! The owner of a lock: the first thread that uses the lock. It needs no locked instruction until a second
//! thread comes.
//!
//! # Why
//! A locked instruction waits until every earlier store has left the processor. So after a commit it costs a
//! whole fence. A program with one thread would pay for a fence at each transaction and each read, for
//! nothing.
//!
//! # How
//! * `owner` is the number of the owner; 0 before any thread has used the lock. The first thread
//!   [claims](RegionLock::claim) it, if the system has the heavy fence. The bit [`REVOKED`] says that a
//!   second thread has come, and [`GONE`] that the lock has no owner. [`GONE`] is final: the lock is an
//!   ordinary lock from then on.
//! * `state` says where the owner is: outside, inside as the writer, upgraded, or inside a number of reads.
//!   Only the owner writes it, with plain stores until it knows that a second thread has come. It looks at
//!   `owner` before each of these stores, and again after it.
//! * A second thread [revokes](RegionLock::revoke) the lock: it sets [`REVOKED`], makes all threads of the
//!   process pass a fence ([`heavy`](fence::heavy)), and looks at `state`. A writer waits until the owner is
//!   not the writer, a reader until the owner is not upgraded. An owner that reads makes no thread wait here:
//!   a writer that is being upgraded looks at `state` as it looks at the slots of other readers.
//! * An owner that sees the bit takes back the state that it was about to enter, and comes in like any other
//!   thread. If it is already inside, it continues: it is upgraded like any other writer, and wakes the
//!   waiting threads when it leaves. The first thread that finds that the owner is not a writer any more sets
//!   [`GONE`].
//!
//! While `owner` is not [`GONE`], no other thread is the writer, because every other writer first makes it
//! [`GONE`]. So a writer that finds another value there is the owner, and need not compare numbers.
//!
//! The scheme is that of biased locks (Kawachiya, Koseki, Onodera: *Lock Reservation: Java Locks Can Mostly
//! Do Without Atomic Operations*, 2002) with an asymmetric fence, as in Dekker's algorithm. There is no
//! second owner, because it would need a separate word: the first owner may be stopped for ever between its
//! look and its store.
//!
//! # Orders
//! `F` is the heavy fence: each thread passes a full fence at some moment between the begin and the end of
//! `F`. "The other thread" is the thread that revokes the lock.
//!
//! 1. *The owner comes in, or is upgraded*: it stores `state`, and loads `owner` (`light` keeps the compiler
//!    from exchanging them). The other thread stores `REVOKED`, passes `F`, and loads `state`. If the owner's
//!    part of `F` comes before its load, the load sees `REVOKED`, and the owner takes its store back. If it
//!    comes after the load, it also comes after the store, so the other thread sees the store.
//! 2. *A late store*: an owner that is stopped between its first load and its store may store at any time
//!    after `F`. By 1 it then sees `REVOKED`, and takes the store back. Until then the store can make other
//!    threads wait; the owner wakes them. The store lets no thread in.
//! 3. *The owner leaves, or lets readers in*: it loads `owner`, stores `state` (`Release`), and loads
//!    `owner`. The other thread loads `state` (`Acquire`) with the mutex `waiting` locked, and sleeps until
//!    it is woken with that mutex. If the owner's second load does not see `REVOKED`, its store is before
//!    `F`, and the other thread sees the store. Otherwise the owner locks the mutex after its store. Either
//!    it does so before the other thread locks it, which then sees the store; or it does so when the other
//!    thread sleeps, and wakes it.
//! 4. *What the owner has written inside* comes before the `Release` of 3. Its flushes (`Pmem`) come before
//!    the first load of 3. If the owner's part of `F` comes after that load, `F` completes them: on x86-64 it
//!    is a locked instruction, an interrupt or an `mfence`. Otherwise the load sees `REVOKED`, and the owner
//!    leaves with a locked instruction, which completes them, too. (There is no `Pmem` on aarch64.)
//! 5. *Other threads that find [`GONE`]* (`Acquire`) come after the thread that has stored it (`Release`). So
//!    they come after `F` and after everything that the owner has done before.
//! 6. *A writer that is being upgraded, and the owner as a reader*: the writer has found [`GONE`], has
//!    revoked the lock, or is the owner itself. So by 1 it sees the read, or the owner takes the read back.
//!    Its loads of `state` are `Acquire`: the reader's loads come before the store that ends the read (3).
//!
//! On x86-64, where each load is `Acquire` and each store `Release`, only 1 could fail without `F`: a
//! processor may delay a store past a later load. On aarch64 the same pair could fail, and the others hold by
//! the orders that are named. `membarrier(2)` with `PRIVATE_EXPEDITED` is a full fence for the caller, and
//! for each thread of the process that runs. A thread that does not run passed one when it was stopped.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::time::Instant;

use super::RegionLock;
use crate::faults::watches_locks;
use crate::sync::fence::{self, FenceRefused};
use crate::sync::thread::this_thread;
use crate::sync::{Mistake, mistake};

/// A value of `owner`: no thread has used the lock.
const FRESH: u64 = 0;
/// A bit of `owner`: a second thread has come to the lock.
const REVOKED: u64 = 1 << 63;
/// A value of `owner`: the lock has no owner, and never gets one again.
pub(super) const GONE: u64 = FRESH | REVOKED;

/// A value of `state`: the owner is not inside.
const OUTSIDE: u64 = 0;
/// Bits of `state`: `WRITER` says that the owner is the writer, and not upgraded; `UPGRADED` that it is the
/// writer, and upgraded.
pub(super) const WRITER: u64 = 1;
pub(super) const UPGRADED: u64 = 2;
/// One read of the owner, as a number in `state`: this bit and all higher ones are the number of the owner's
/// unfinished reads.
const READ: u64 = 4;

impl RegionLock {
    /// Makes this thread the owner, if no thread has used the lock yet, the system has the heavy fence, and
    /// the simulator does not watch locks. Returns whether this thread became the owner.
    pub(super) fn claim(&self) -> bool {
        self.owner.load(Relaxed) == FRESH
            && !watches_locks()
            && fence::heavy().is_ok()
            && self.owner.compare_exchange(FRESH, this_thread(), Relaxed, Relaxed).is_ok()
    }

    /// Returns the number of this thread, if it is the owner and no second thread has come. (While the
    /// simulator watches locks, no thread counts as the owner, so that each acquisition is recorded.)
    #[inline(always)]
    pub(super) fn mine(&self) -> Option<u64> {
        let owner = self.owner.load(Relaxed);
        (owner == this_thread() && !watches_locks()).then_some(owner)
    }

    /// Stores the state of the owner, which is this thread, with a plain store. Returns whether no second
    /// thread has come.
    #[inline(always)]
    fn say(&self, owner: u64, state: u64) -> bool {
        self.state.store(state, Release);
        fence::light();
        self.owner.load(Relaxed) == owner
    }

    /// Stores the owner's new state once a second thread has come, and wakes the threads that wait for it.
    #[cold]
    fn tell(&self, state: u64) {
        // `SeqCst` makes this a locked instruction, after which the owner's flushes are complete.
        self.state.store(state, SeqCst);
        if !mistake(Mistake::OwnerLeavesQuietly) {
            self.wake();
        }
    }

    /// Stores a state in which the owner holds more, with a plain store. If a second thread has come, stores
    /// the state `before` again. Returns whether the owner holds more now.
    #[inline(always)]
    fn come(&self, owner: u64, state: u64, before: u64) -> bool {
        let comes = self.say(owner, state) || mistake(Mistake::NoSecondLook);
        if !comes {
            self.tell(before);
        }
        comes
    }

    /// Stores a state in which the owner holds less, and wakes the waiting threads if a second thread has
    /// come.
    #[inline(always)]
    fn leave(&self, owner: u64, state: u64) {
        if owner & REVOKED != 0 || !self.say(owner, state) {
            self.tell(state);
        }
    }

    /// Makes this thread the writer, if it is the owner and no second thread has come. The thread must not be
    /// inside. Returns whether this thread is the writer.
    #[inline(always)]
    pub(super) fn enter_as_owner(&self) -> bool {
        let Some(me) = self.mine() else { return false };
        #[cfg(not(all(test, pheap_loom)))]
        debug_assert_eq!(self.state.load(Relaxed), OUTSIDE, "this thread is inside already");
        self.come(me, WRITER, OUTSIDE)
    }

    /// [`enter_as_owner`](Self::enter_as_owner) for a thread that may become the owner, or may be inside
    /// already. A thread that is inside does not enter a second time.
    pub(super) fn enter_as_first(&self) -> bool {
        let is_outside = self.mine().is_some() && self.state.load(Relaxed) == OUTSIDE;
        (is_outside || self.claim()) && self.enter_as_owner()
    }

    /// Lets this thread read, if it is the owner and no second thread has come. Returns whether this thread
    /// reads.
    #[inline(always)]
    pub(super) fn read_as_owner(&self) -> bool {
        let Some(me) = self.mine() else { return false };
        let state = self.state.load(Relaxed);
        self.come(me, state + READ, state)
    }

    /// Ends a read of the owner.
    #[inline(always)]
    pub(super) fn end_read_as_owner(&self) {
        self.leave(self.owner.load(Relaxed), self.state.load(Relaxed) - READ);
    }

    /// Makes this thread, the writer, alone, if it is the owner and no second thread has come. Returns
    /// whether this thread is alone as the owner.
    #[inline(always)]
    pub(super) fn upgrade_as_owner(&self) -> bool {
        let owner = self.owner.load(Relaxed);
        if owner & REVOKED == 0 { self.come(owner, UPGRADED, WRITER) } else { self.is_owner_upgraded() }
    }

    /// Whether this thread, which is the writer, is the owner and keeps readers out.
    #[inline(always)]
    pub(super) fn is_owner_upgraded(&self) -> bool {
        self.state.load(Relaxed) == UPGRADED
    }

    /// Ends the owner's upgrade. The owner stays the writer.
    #[inline(always)]
    pub(super) fn downgrade_as_owner(&self) {
        self.leave(self.owner.load(Relaxed), WRITER);
    }

    /// Ends this thread's time as the writer, if this thread is the owner and no second thread had come.
    /// Returns whether that was so.
    #[inline(always)]
    pub(super) fn leave_as_owner(&self) -> bool {
        let owner = self.owner.load(Relaxed);
        let is_owner = owner & REVOKED == 0;
        if is_owner {
            self.leave(owner, OUTSIDE);
        }
        is_owner
    }

    /// Ends this thread's time as the writer, if this thread is the owner of a revoked lock. Returns whether
    /// it is the owner.
    pub(super) fn leave_revoked(&self) -> bool {
        let is_owner = self.owner.load(Relaxed) != GONE;
        if is_owner {
            self.tell(OUTSIDE);
        }
        is_owner
    }

    /// Whether the owner reads. A read that the owner is about to take back counts, too.
    pub(super) fn owner_reads(&self) -> bool {
        self.state.load(Acquire) >= READ
    }

    /// Whether some thread is the owner.
    #[cfg(all(test, not(pheap_loom)))]
    pub(in crate::sync) fn is_owned(&self) -> bool {
        self.owner.load(Relaxed) & !REVOKED != 0
    }

    /// Ensures that from now on the owner neither comes in nor is upgraded without a locked instruction.
    /// Waits while the owner is in one of the states `inside`, at most until `end`. Returns whether the owner
    /// is in none of these states.
    ///
    /// # Errors
    /// [`FenceRefused`] if the system refuses the fence. The state of the owner is unknown then.
    #[cold]
    pub(super) fn revoke(&self, inside: u64, end: Option<Instant>) -> Result<bool, FenceRefused> {
        let mut waiting = self.waiting();
        if self.owner.fetch_or(REVOKED, SeqCst) & !REVOKED == FRESH {
            return Ok(true); // there was no owner, or there is none any more
        }
        // The bit `REVOKED` alone does not prove that the owner has seen it: the system may have refused the
        // fence to the thread that has set the bit.
        if !waiting.is_revoked && !mistake(Mistake::NoHeavyFence) {
            fence::heavy()?;
            waiting.is_revoked = true;
        }
        let mut is_over = false;
        loop {
            let state = self.state.load(Acquire);
            if state & (WRITER | UPGRADED) == 0 {
                self.owner.store(GONE, SeqCst);
            }
            if state & inside == 0 || is_over {
                return Ok(state & inside == 0);
            }
            is_over = self.changed.wait_at_most(&mut waiting, end);
        }
    }
}
