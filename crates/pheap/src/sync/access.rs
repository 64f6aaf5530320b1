//! The lock of a region. Many readers run during a transaction; the writer is alone only while it stores to
//! memory that readers can see.
//!
//! | holder | may run at the same time as |
//! |---|---|
//! | reader ([`lock_shared`](RegionLock::lock_shared)) | readers, a not upgraded writer, quiescent holders |
//! | writer ([`lock_upgradable`](RegionLock::lock_upgradable)) | readers |
//! | [upgraded](RegionLock::upgrade) writer | no other holder |
//! | quiescent holder ([`lock_quiescent`](RegionLock::lock_quiescent)) | readers, quiescent holders |
//!
//! While there is a quiescent holder, no thread changes the region.
//!
//! Writers and quiescent holders queue at a [separate lock](RawRwLock). Readers do not queue there: each
//! reader says in a slot or a shared counter that it reads ([`slots`]), and then looks at the
//! [word](self#the-word). A writer that is being upgraded writes to the word, and then looks at all slots and
//! the counter. So one of the two sees the other. The first thread that uses the lock, its owner, needs none
//! of this until a second thread comes ([`bias`]).
//!
//! To use the lock, the second thread first needs a fence of all threads of the process. If the system
//! [refuses](FenceRefused) the fence, the second thread does not get the lock, because it cannot know whether
//! the owner is inside.
//!
//! # The word
//! The word says which readers the lock keeps out, and which sleeping threads must be woken. A reader that is
//! not the owner looks at the word after a locked instruction.
//!
//! # Turns
//! Readers that overlap must not delay a writer's upgrade for ever. So the first read of a thread waits while
//! a writer waits to be upgraded. A thread that already has a region, of this heap or of another one, does
//! not wait for that: two threads that nest two roots in opposite orders, with a writer of each root, would
//! deadlock.
//! A writer that is upgraded again and again must not keep readers out for ever. So at the end of its upgrade
//! a writer lets in all readers that sleep, at once, and waits for them at its next upgrade.
//!
//! A writer of several regions waits for one of them at a time, and only while it has none, so it cannot
//! queue at all of them. If it cannot have all at once, it closes a [gate](Gate) at each. Threads that arrive
//! at a gate, and have no region, wait there for a limited time. (The owner does not look at the gate.)
//!
//! The lock guards no value itself. Code that uses it must ensure that only a thread that has the lock
//! releases it.

use std::sync::atomic::Ordering::Acquire;
use std::time::{Duration, Instant};

use super::fence::FenceRefused;
use super::gate::Gate;
use super::lock::RawRwLock;
use super::mutex::{Condvar, Mutex, MutexGuard};
use super::watch::LockWatch;
use super::{AtomicU64, LockMode};
use crate::faults::{Bug, bug};
use slots::ReaderSlots;

pub(crate) use group::upgrade_all;
pub(crate) use readers::Entry;

mod bias;
mod group;
#[cfg(all(test, pheap_loom))]
mod model;
mod readers;
mod slots;
#[cfg(all(test, not(pheap_loom)))]
mod tests;
mod upgrade;

/// A bit of the lock's word: the lock keeps out readers that have no region yet.
const CLOSED: u64 = 1;
/// A bit of the lock's word: the lock keeps out all readers, even those that have a region already.
const EXCLUSIVE: u64 = 1 << 1;
/// A bit of the lock's word: readers sleep, and the writer must let them in when its upgrade ends.
const SLEEPERS: u64 = 1 << 2;
/// A bit of the lock's word: the writer sleeps until the readers have left, and a reader that leaves must
/// wake it.
const PARKED: u64 = 1 << 3;

/// How many times a reader looks at the word, or a writer at the slots of readers, before the thread sleeps.
const SPINS: u32 = 60;

#[derive(Default)]
struct WaitingThreads {
    /// Number of readers that sleep until a writer lets them in.
    readers: u64,
    /// How many times a writer has let in all sleeping readers.
    turns: u64,
    /// Whether all threads have passed a fence since the lock was [revoked](RegionLock::revoke).
    is_revoked: bool,
}

/// The lock of a region: readers, one writer that can be upgraded, and quiescent holders (see the
/// [module](self)).
pub(crate) struct RegionLock {
    /// The number of the first thread that used the lock, and whether it still is the owner (see [`bias`]).
    owner: AtomicU64,
    state: AtomicU64,
    word: AtomicU64,
    slots: ReaderSlots,
    /// The gate in front of this lock. A writer of several regions closes it.
    pub(crate) gate: Gate,
    writers: RawRwLock,
    watch: LockWatch,
    waiting: Mutex<WaitingThreads>,
    /// Notified when the owner of a revoked lock has changed its state, and when a reader leaves while the
    /// writer sleeps.
    changed: Condvar,
    /// Notified when readers that sleep may come in, or some of them may.
    admitted: Condvar,
}

impl RegionLock {
    pub(crate) fn new() -> RegionLock {
        RegionLock {
            owner: AtomicU64::new(0),
            state: AtomicU64::new(0),
            word: AtomicU64::new(0),
            slots: ReaderSlots::new(),
            gate: Gate::new(),
            writers: RawRwLock::new(),
            watch: Default::default(),
            waiting: Mutex::default(),
            changed: Condvar::new(),
            admitted: Condvar::new(),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingThreads> {
        self.waiting.lock_unwatched()
    }

    #[cold]
    fn wake(&self) {
        let _waiting = self.waiting();
        self.changed.notify_all();
    }

    /// Waits until this thread is the writer. The thread must not have this region in any way before.
    /// `is_nested` says whether the thread has another region. Like all functions here that lock, this fails
    /// if the lock must be revoked, and the system [refuses](FenceRefused) the fence for that.
    ///
    /// The owner does not look at the gate. The thread that has closed the gate revokes the lock when it
    /// wants this region, and only then waits for the owner.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn lock_upgradable(&self, is_nested: impl FnOnce() -> bool) -> Result<(), FenceRefused> {
        if self.enter_as_owner() { Ok(()) } else { self.wait_upgradable(is_nested) }
    }

    #[inline(never)]
    #[track_caller]
    fn wait_upgradable(&self, is_nested: impl FnOnce() -> bool) -> Result<(), FenceRefused> {
        // This thread waits at the gate even if the lock is free. The lock may be free only for the moment
        // between two transactions of this thread, and a writer of several regions might never find it free.
        if !bug(Bug::GatesForReads) {
            self.gate.pass(is_nested);
        }
        self.lock_collected()
    }

    /// [`lock_upgradable`](Self::lock_upgradable) without the gate, for a thread that locks several regions,
    /// or that wants a region for another purpose than a transaction.
    #[inline]
    #[track_caller]
    pub(crate) fn lock_collected(&self) -> Result<(), FenceRefused> {
        if self.enter_as_first() {
            return Ok(());
        }
        self.writers.lock(LockMode::Exclusive);
        self.make_way(LockMode::Exclusive, || None).map(drop)
    }

    /// [`lock_upgradable`](Self::lock_upgradable), if this thread can have the lock without waiting. Returns
    /// whether this thread has the lock.
    #[track_caller]
    pub(crate) fn try_lock_upgradable(&self) -> Result<bool, FenceRefused> {
        if self.enter_as_first() {
            return Ok(true);
        }
        if !self.writers.try_lock(LockMode::Exclusive) {
            return Ok(false);
        }
        self.make_way(LockMode::Exclusive, || Some(Instant::now()))
    }

    /// [`lock_collected`](Self::lock_collected), but waits at most `patience`. Returns whether this thread
    /// has the lock: a thread that already has the region, except as a reader, does not get it.
    #[track_caller]
    pub(crate) fn try_lock_for(&self, patience: Duration) -> Result<bool, FenceRefused> {
        let end = Instant::now() + patience;
        if self.enter_as_first() {
            return Ok(true);
        }
        if !self.writers.try_lock_until(LockMode::Exclusive, end) {
            return Ok(false);
        }
        self.make_way(LockMode::Exclusive, || Some(end))
    }

    /// Waits until the owner of the lock is not a writer, at most until `end`. The caller has locked
    /// `writers`. If the owner still is a writer, or its state cannot be known, this releases `writers`.
    /// Returns whether the caller still has `writers`.
    #[inline(always)]
    fn make_way(&self, want: LockMode, end: impl FnOnce() -> Option<Instant>) -> Result<bool, FenceRefused> {
        if self.owner.load(Acquire) == bias::GONE {
            return Ok(true);
        }
        let alone = self.revoke(bias::WRITER | bias::UPGRADED, end());
        match want {
            _ if alone == Ok(true) => {}
            LockMode::Exclusive => self.writers.unlock_exclusive(),
            LockMode::Shared | LockMode::Nested => self.writers.unlock_shared(),
        }
        alone
    }

    /// Ends this thread's time as the writer, [upgraded](Self::upgrade) or not.
    #[inline(always)]
    pub(crate) fn unlock_upgradable(&self) {
        if !self.leave_as_owner() {
            self.unlock_taken();
        }
    }

    /// Releases the lock of a writer that is not the owner, or that is the owner of a revoked lock.
    #[inline(never)]
    fn unlock_taken(&self) {
        self.open();
        if !self.leave_revoked() {
            self.writers.unlock_exclusive();
        }
    }

    /// Waits until there is no writer, and makes this thread a quiescent holder. `overtakes` says whether
    /// this thread passes writers that wait for the lock.
    #[track_caller]
    pub(crate) fn lock_quiescent(&self, overtakes: bool) -> Result<(), FenceRefused> {
        let want = if overtakes { LockMode::Nested } else { LockMode::Shared };
        self.writers.lock(want);
        // If this thread is the owner, it is not the writer: a thread that becomes a quiescent holder has no
        // transaction on the region.
        if self.mine().is_some() || self.claim() { Ok(()) } else { self.make_way(want, || None).map(drop) }
    }

    pub(crate) fn unlock_quiescent(&self) {
        self.writers.unlock_shared();
    }
}
