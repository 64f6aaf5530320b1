//! The owner of a lock: the first thread that uses it, which needs no locked instruction until a second thread comes.
//!
//! # Why
//! A locked instruction waits until every store before it has left the processor, so behind a commit it costs a
//! whole fence. A program with one thread would pay for that at each transaction and each read, for nothing.
//!
//! # How
//! * `owner` is the number of the owner; 0 before any thread has used the lock. The first thread
//!   [claims](Access::claim) it. The bit [`REVOKED`] says that a second thread has come, and [`GONE`] that the lock
//!   has no owner any more. Nothing follows [`GONE`]: a lock is revoked once in its life, and is an ordinary one from
//!   then on.
//! * `state` says where the owner is: nowhere, inside as the writer, upgraded, or inside of so many reads. Only the
//!   owner writes it, with plain stores. It looks at `owner` before each of these stores, and again behind it.
//! * A second thread [revokes](Access::revoke): it sets [`REVOKED`], lets all threads of the process pass a fence
//!   ([`heavy`](fence::heavy)), and looks at `state`. A writer waits until the owner is not the writer, a reader until
//!   the owner is not upgraded. An owner that is a reader keeps nobody waiting here: a writer that is upgraded looks
//!   at `state` as it looks at the slots of other readers.
//! * An owner that sees the bit takes back what it was about to say, and comes in like any other thread. Inside, it
//!   goes on: it is upgraded like any other writer, and it tells those who wait when it leaves. Who comes when it is
//!   no writer any more sets [`GONE`].
//!
//! While `owner` is not [`GONE`], no other thread is the writer: who would be sees to that first. So a writer that
//! finds another value there is the owner, and needs not compare numbers.
//!
//! The scheme is that of biased locks (Kawachiya, Koseki, Onodera: *Lock Reservation: Java Locks Can Mostly Do Without
//! Atomic Operations*, 2002) with an asymmetric fence, as in Dekker's algorithm. A second owner would need a word of
//! its own: the first one can be stopped for ever between its look and its store. That is why there is none.
//!
//! # Orders
//! `F` is the heavy fence: each thread passes a full fence at some moment between its begin and its end.
//!
//! 1. *The owner comes in, or is upgraded*: it stores `state`, and loads `owner` (`light` keeps the compiler from
//!    exchanging them). The other one stores `REVOKED`, passes `F`, and loads `state`. If the owner's part of `F` comes
//!    before its load, the load sees `REVOKED`, and the owner takes its store back. If it comes behind the load, it is
//!    behind the store too, which the other one sees.
//! 2. *A late store*: an owner that is stopped between its first load and its store may store at any time after `F`.
//!    By 1 it then sees `REVOKED`, and takes the store back. Meanwhile the store can keep others waiting, whom the
//!    owner wakes. It lets nobody in.
//! 3. *The owner leaves, or lets readers in*: it loads `owner`, stores `state` (`Release`), and loads `owner`. The other
//!    one loads `state` (`Acquire`) with the mutex `waiting` locked, and sleeps until it is woken with that mutex. If
//!    the second load sees no `REVOKED`, the store is before `F`, and the other one sees it. Else the owner locks the
//!    mutex behind its store: before the other one has locked it, which then sees the store; or when that sleeps.
//! 4. *What the owner has written inside* comes before the `Release` of 3. Its flushes (`Pmem`) come before the first
//!    load of 3. If the owner's part of `F` comes behind that load, `F` completes them: on x86-64 it is a locked
//!    instruction, an interrupt or a `mfence`. Else the load sees `REVOKED`, and the owner leaves with a locked
//!    instruction, which completes them too. (There is no `Pmem` on aarch64.)
//! 5. *Others that find [`GONE`]* (`Acquire`) come behind the thread that has stored it (`Release`), and so behind `F` and
//!    all that the owner has done before.
//! 6. *A writer that is upgraded, and the owner as a reader*: the writer has found [`GONE`], has revoked, or is the owner
//!    itself. So by 1 it sees the read, or the owner takes that back. Its loads of `state` are `Acquire`: what the
//!    reader has loaded, it has loaded before (3).
//!
//! On x86-64, where each load is `Acquire` and each store `Release`, only 1 could fail without `F`: a processor holds a
//! store back behind a later load. On aarch64 the same pair could, and the others hold by the orders that are named.
//! `membarrier(2)` with `PRIVATE_EXPEDITED` is a full fence for the caller, and for each thread of the process that
//! runs; a thread that does not run has passed one when it was stopped.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::time::Instant;

use super::Access;
use crate::faults::watches_locks;
use crate::sync::fence::{self, Refused};
use crate::sync::thread::this_thread;
use crate::sync::{Mistake, mistake};

/// In `owner`: nobody has used the lock.
const FRESH: u64 = 0;
/// A bit: another thread has come.
const REVOKED: u64 = 1 << 63;
/// Nobody is the owner, nor will be.
pub(super) const GONE: u64 = FRESH | REVOKED;

/// In `state`: the owner is not inside.
const OUTSIDE: u64 = 0;
/// Bits: it is the writer, and not upgraded; it is upgraded.
pub(super) const WRITER: u64 = 1;
pub(super) const UPGRADED: u64 = 2;
/// One of its reads. Above this, their number.
const READ: u64 = 4;

impl Access {
    /// Makes this thread the owner, if no thread has used the lock yet and the system has the heavy fence.
    pub(super) fn claim(&self) -> bool {
        self.owner.load(Relaxed) == FRESH
            && !watches_locks()
            && fence::heavy().is_ok()
            && self.owner.compare_exchange(FRESH, this_thread(), Relaxed, Relaxed).is_ok()
    }

    /// The number of this thread, if it is the owner. (While it is watched who takes locks, threads take them.)
    #[inline(always)]
    pub(super) fn mine(&self) -> Option<u64> {
        let owner = self.owner.load(Relaxed);
        (owner == this_thread() && !watches_locks()).then_some(owner)
    }

    /// Says with a plain store what the owner, this thread, is from now on. Returns whether it still is the owner.
    #[inline(always)]
    fn say(&self, owner: u64, state: u64) -> bool {
        self.state.store(state, Release);
        fence::light();
        self.owner.load(Relaxed) == owner
    }

    /// Says it once another thread has come, which may wait for it.
    #[cold]
    fn tell(&self, state: u64) {
        // A locked instruction, behind which the owner's flushes are complete.
        self.state.store(state, SeqCst);
        if !mistake(Mistake::OwnerLeavesQuietly) {
            self.wake();
        }
    }

    /// Says with a plain store that the owner is more from now on, or that it still is what it was `before`, for another
    /// thread has come. Returns whether it is more.
    #[inline(always)]
    fn come(&self, owner: u64, state: u64, before: u64) -> bool {
        let comes = self.say(owner, state) || mistake(Mistake::NoSecondLook);
        if !comes {
            self.tell(before);
        }
        comes
    }

    /// Says that the owner is less from now on.
    #[inline(always)]
    fn leave(&self, owner: u64, state: u64) {
        if owner & REVOKED != 0 || !self.say(owner, state) {
            self.tell(state);
        }
    }

    /// Makes this thread the writer, if it is the owner. It must not be inside.
    #[inline(always)]
    pub(super) fn enter_as_owner(&self) -> bool {
        let Some(me) = self.mine() else { return false };
        #[cfg(not(all(test, pheap_loom)))]
        debug_assert_eq!(self.state.load(Relaxed), OUTSIDE, "this thread is inside already");
        self.come(me, WRITER, OUTSIDE)
    }

    /// The same for one that may be inside, which is not let in once more, or that may become the owner.
    pub(super) fn enter_as_first(&self) -> bool {
        let is_outside = self.mine().is_some() && self.state.load(Relaxed) == OUTSIDE;
        (is_outside || self.claim()) && self.enter_as_owner()
    }

    /// Lets this thread read, if it is the owner.
    #[inline(always)]
    pub(super) fn read_as_owner(&self) -> bool {
        let Some(me) = self.mine() else { return false };
        let state = self.state.load(Relaxed);
        self.come(me, state + READ, state)
    }

    /// Ends such a read.
    #[inline(always)]
    pub(super) fn end_read_as_owner(&self) {
        self.leave(self.owner.load(Relaxed), self.state.load(Relaxed) - READ);
    }

    /// Makes the writer alone, if that is the owner and no other thread has come before.
    #[inline(always)]
    pub(super) fn upgrade_as_owner(&self) -> bool {
        let owner = self.owner.load(Relaxed);
        if owner & REVOKED == 0 { self.come(owner, UPGRADED, WRITER) } else { self.is_owner_upgraded() }
    }

    /// Whether the writer, this thread, has become alone as the owner.
    #[inline(always)]
    pub(super) fn is_owner_upgraded(&self) -> bool {
        self.state.load(Relaxed) == UPGRADED
    }

    /// Takes that back.
    #[inline(always)]
    pub(super) fn downgrade_as_owner(&self) {
        self.leave(self.owner.load(Relaxed), WRITER);
    }

    /// Ends to be the writer, if that is the owner and no other thread has come before.
    #[inline(always)]
    pub(super) fn leave_as_owner(&self) -> bool {
        let owner = self.owner.load(Relaxed);
        let is_owner = owner & REVOKED == 0;
        if is_owner {
            self.leave(owner, OUTSIDE);
        }
        is_owner
    }

    /// The same if another thread has come. Returns whether the writer is the owner.
    pub(super) fn leave_revoked(&self) -> bool {
        let is_owner = self.owner.load(Relaxed) != GONE;
        if is_owner {
            self.tell(OUTSIDE);
        }
        is_owner
    }

    /// Whether the owner reads. Not all of these reads may go on.
    pub(super) fn owner_reads(&self) -> bool {
        self.state.load(Acquire) >= READ
    }

    /// Whether some thread is the owner.
    #[cfg(all(test, not(pheap_loom)))]
    pub(in crate::sync) fn is_owned(&self) -> bool {
        self.owner.load(Relaxed) & !REVOKED != 0
    }

    /// Sees to it that the owner does not come in any more, nor is upgraded, without a locked instruction. Waits as long
    /// as it is one of `inside`, at most until `end`. Returns whether it is none of these.
    #[cold]
    pub(super) fn revoke(&self, inside: u64, end: Option<Instant>) -> Result<bool, Refused> {
        let mut waiting = self.waiting();
        if self.owner.fetch_or(REVOKED, SeqCst) & !REVOKED == FRESH {
            return Ok(true); // there was no owner, or there is none any more
        }
        // The bit does not say that the owner knows: the fence may have been refused to the thread that has set it.
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
