//! A biased lock: the thread that has had a lock many times in a row enters without taking it.
//!
//! A locked instruction waits until every store before it has left the processor, so behind a commit it costs a whole fence. The thread that a lock is
//! biased to does without: it says that it is inside with a plain store, and then looks whether it still is the owner. Whoever else has got
//! the lock says that it is not, makes all processors of the process agree on what came first ([`fence::heavy`]), and waits until the owner is outside.
//!
//! The scheme is that of biased locks (Kawachiya, Koseki, Onodera: *Lock Reservation: Java Locks Can Mostly Do Without Atomic Operations*, 2002; Dice,
//! Moir, Scherer: *Quickly Reacquirable Locks*, 2003) with an asymmetric fence, as in Dekker's algorithm.
//!
//! Between its first look at the owner and its store, an owner can be stopped for as long as the system likes. When it goes on, others may have been owners and
//! lost that again. So where it says that it is inside, no other thread ever does: each one has a slot of its own, and when there are none left, a thread takes the lock.

use std::sync::atomic::AtomicU64 as PlainU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Instant;

use super::fence;
#[cfg(test)]
pub(crate) use super::fence::will_be_supported;
use super::{AtomicBool, AtomicU64, Condvar, Mistake, Mutex, mistake};

/// Threads that a lock is biased to, in all its time.
const SLOTS: usize = 4;

/// A thread, with the slot that it has at one lock, and whether it is being evicted.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Owner(u64);

impl Owner {
    const NOBODY: Owner = Owner(0);
    const EVICTED: u64 = 1;
    const SHIFT: u32 = 1 + SLOTS.trailing_zeros();

    fn new(thread: u64, slot: usize) -> Owner {
        Owner(thread << Owner::SHIFT | (slot as u64) << 1)
    }

    fn thread(self) -> u64 {
        self.0 >> Owner::SHIFT
    }

    fn slot(self) -> usize {
        if mistake(Mistake::OneSlot) {
            return 0;
        }
        (self.0 >> 1) as usize % SLOTS
    }

    fn evicted(self) -> Owner {
        Owner(self.0 | Owner::EVICTED)
    }

    fn unevicted(self) -> Owner {
        Owner(self.0 & !Owner::EVICTED)
    }

    fn is_evicted(self) -> bool {
        self.0 & Owner::EVICTED != 0
    }
}

/// The bias of a lock. Threads have numbers, from 1 on.
#[derive(Debug)]
pub(crate) struct Bias {
    /// An [`Owner`]. Changed only by who has the lock. It is nobody only after it was seen that the one before is outside.
    owner: AtomicU64,
    /// Whether the owner of each slot is inside. Written by that thread alone.
    inside: [AtomicBool; SLOTS],
    /// Whose slot it is: with the lock.
    threads: [PlainU64; SLOTS],
    /// Who was the last one that has had the lock for itself, and how often in a row.
    last: PlainU64,
    streak: PlainU64,
    /// How often it takes to become the owner.
    enough: u64,
    /// Who waits for the owner.
    waiting: Mutex<()>,
    left: Condvar,
}

impl Bias {
    /// A thread that has had the lock for itself `enough` times in a row becomes the owner.
    pub(crate) fn new(enough: u64) -> Bias {
        Bias {
            owner: AtomicU64::new(Owner::NOBODY.0),
            inside: std::array::from_fn(|_| AtomicBool::new(false)),
            threads: Default::default(),
            last: PlainU64::new(0),
            streak: PlainU64::new(0),
            enough,
            waiting: Mutex::new(()),
            left: Condvar::new(),
        }
    }

    #[inline(always)]
    fn owner(&self) -> Owner {
        Owner(self.owner.load(Relaxed))
    }

    /// Enters without the lock, if `me` is the owner. It must not be inside already, nor have the lock.
    #[inline(always)]
    pub(crate) fn enter(&self, me: u64) -> bool {
        let owner = self.owner();
        if owner.thread() != me || owner.is_evicted() {
            return false;
        }
        #[cfg(not(all(test, pheap_loom)))]
        debug_assert!(!self.inside[owner.slot()].load(Relaxed), "this thread is inside already");
        self.inside[owner.slot()].store(true, Relaxed);
        fence::light();
        if self.owner() == owner || mistake(Mistake::NoSecondLook) {
            return true;
        }
        self.leave_as(owner);
        false
    }

    /// Leaves, if it was entered without the lock.
    #[inline(always)]
    pub(crate) fn leave(&self) -> bool {
        // As long as an owner is inside, it is named here; and who has the lock has seen to it that nobody is.
        let owner = self.owner();
        if owner == Owner::NOBODY {
            return false;
        }
        self.leave_as(owner.unevicted());
        true
    }

    /// Tells that the thread is outside. `owner` is what it was when it entered.
    #[inline(always)]
    fn leave_as(&self, owner: Owner) {
        self.inside[owner.slot()].store(false, Release);
        fence::light();
        // One of those who evict it may have seen that, and have made it nobody, while another one is still about to wait.
        let is_evicted =
            if mistake(Mistake::WakeEvictedOnly) { self.owner().is_evicted() } else { self.owner() != owner };
        if is_evicted {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        let _waiting = self.waiting.lock();
        self.left.notify_all();
    }

    #[cfg(test)]
    pub(crate) fn is_owned(&self) -> bool {
        self.owner() != Owner::NOBODY
    }

    /// Whether some thread has entered without the lock, at this moment.
    pub(crate) fn is_entered(&self) -> bool {
        let owner = self.owner();
        owner != Owner::NOBODY && self.inside[owner.slot()].load(Relaxed)
    }

    /// Notes that `me` has got the lock for itself, and has [evicted](Self::evict) the owner.
    #[inline]
    pub(crate) fn note(&self, me: u64) {
        let streak = if self.last.load(Relaxed) == me { self.streak.load(Relaxed) } else { 0 };
        self.last.store(me, Relaxed);
        self.streak.store(streak + 1, Relaxed);
    }

    /// `me` has got the lock, shared with others. [Evicts](Self::evict) the owner.
    #[inline]
    pub(crate) fn has_shared(&self, me: u64) {
        if self.owner().thread() == me {
            return; // who reads is not inside
        }
        self.evict(|| None);
        let last = self.last.load(Relaxed);
        if last != me && last != 0 {
            self.last.store(0, Relaxed);
        }
    }

    /// Makes the thread that has the lock for itself, and is about to let go of it, the owner, if it has had it often enough.
    #[inline]
    pub(crate) fn before_unlock(&self) {
        if self.streak.load(Relaxed) >= self.enough {
            self.grant();
        }
    }

    #[cold]
    fn grant(&self) {
        self.streak.store(0, Relaxed);
        let me = self.last.load(Relaxed);
        let is_free = |thread: u64| thread == 0 || thread == me;
        let slot = self.threads.iter().position(|thread| is_free(thread.load(Relaxed)));
        // There is none when others have them all: slots are never given back.
        if let Some(slot) = slot.filter(|_| fence::is_supported()) {
            self.threads[slot].store(me, Relaxed);
            self.owner.store(Owner::new(me, slot).0, Relaxed);
        }
    }

    /// Waits until the owner is outside and is none any more, at most until `end`. Returns whether that is so. The caller has the lock.
    #[inline]
    pub(crate) fn evict(&self, end: impl FnOnce() -> Option<Instant>) -> bool {
        // Another reader may have waited for the owner. What that has written is seen by all of them.
        let owner = Owner(self.owner.load(Acquire));
        owner == Owner::NOBODY || self.evict_owner(owner, end())
    }

    #[cold]
    fn evict_owner(&self, owner: Owner, end: Option<Instant>) -> bool {
        // Readers do this side by side, and each one itself: that the owner is evicted does not say that it knows.
        let evicted = owner.evicted();
        let before = self.owner.compare_exchange(owner.0, evicted.0, Relaxed, Acquire);
        if before == Err(Owner::NOBODY.0) {
            return true;
        }
        if !mistake(Mistake::NoHeavyFence) {
            fence::heavy();
        }
        if !self.wait_until_outside(evicted.slot(), end) {
            return false;
        }
        // It has left with a plain store, which waits for nothing: neither for lines that it has flushed without a fence nor for non-temporal stores.
        fence::heavy();
        let _ = self.owner.compare_exchange(evicted.0, Owner::NOBODY.0, Release, Relaxed);
        true
    }

    /// Returns whether the thread of the slot is outside, at `end` at the latest.
    fn wait_until_outside(&self, slot: usize, end: Option<Instant>) -> bool {
        let is_inside = || self.inside[slot].load(Acquire);
        if !is_inside() {
            return true;
        }
        let mut waiting = self.waiting.lock();
        while is_inside() {
            match end {
                None => self.left.wait(&mut waiting),
                Some(end) if self.left.wait_until(&mut waiting, end) => return !is_inside(),
                Some(_) => {}
            }
        }
        true
    }
}

/// Number of this thread, from 1 on. No other one ever has it.
#[inline(always)]
pub(crate) fn this_thread() -> u64 {
    // No destructor, so that access is a plain load.
    thread_local! {
        static NUMBER: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }
    #[cold]
    fn next() -> u64 {
        static NEXT: PlainU64 = PlainU64::new(1);
        let number = NEXT.fetch_add(1, Relaxed);
        NUMBER.set(number);
        number
    }
    match NUMBER.get() {
        0 => next(),
        number => number,
    }
}

#[cfg(all(test, pheap_loom))]
mod model;
