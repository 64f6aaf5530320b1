//! The lock of a region: many readers beside one writer, who is alone only while it stores to where they look.
//!
//! | | beside it |
//! |---|---|
//! | a reader ([`lock_shared`](Access::lock_shared)) | readers, a writer, who looks while nobody changes anything |
//! | a writer ([`lock_upgradable`](Access::lock_upgradable)) | readers |
//! | a writer that is [upgraded](Access::upgrade) | nobody |
//! | who looks while nobody changes anything ([`lock_quiescent`](Access::lock_quiescent)) | readers, and others like it |
//!
//! Writers, and who wants none of them, meet at a [lock of their own](RawRwLock), in the order in which they come.
//! Readers do not go there: each says on a line of its own that it reads ([`slots`]), and then looks at the
//! [word](self#the-word); who upgrades writes to the word, and then looks at all of these lines. One of the two sees
//! the other. The first thread that uses the lock needs nothing of that until a second one comes ([`bias`]).
//!
//! If the fence that this takes is [refused](Refused) when the second one comes, it does not get the lock: nobody knows
//! whether the first one is inside.
//!
//! # The word
//! For whom the lock is closed; whether somebody sleeps who must be woken. All but the owner look at it behind locked
//! instructions.
//!
//! # Turns
//! Readers that overlap must not keep a writer from its upgrade for ever: the first read of a thread waits while
//! somebody waits to be upgraded. Not so a thread that has a region already, of this heap or of another one: two threads
//! that nest two roots in opposite orders, beside a writer of each, would wait in a circle. And a writer that is upgraded
//! again and again must not keep readers away: those that sleep are let in by it, all at once, when it ends to be
//! upgraded, and it waits for them the next time.
//!
//! A writer of several regions waits for one of them at a time, and only while it has none, so it cannot be queued at all
//! of them; instead it closes a [gate](Gate) at each, at which those wait who come and have nothing.
//!
//! It guards nothing by itself: who builds on it sees to it that only a thread that has it lets go of it.

use std::sync::atomic::Ordering::Acquire;
use std::time::{Duration, Instant};

use super::fence::Refused;
use super::gate::Gate;
use super::lock::RawRwLock;
use super::mutex::{Condvar, Mutex, MutexGuard};
use super::watch::Watch;
use super::{AtomicU64, Want};
use crate::faults::{Bug, bug};
use slots::Slots;

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

/// Bits of the word. Readers wait, if they have no region.
const CLOSED: u64 = 1;
/// So do all others.
const EXCLUSIVE: u64 = 1 << 1;
/// Readers sleep, whom the writer lets in.
const SLEEPERS: u64 = 1 << 2;
/// The writer sleeps until readers have left.
const PARKED: u64 = 1 << 3;

/// For how long threads look at a word before they sleep.
const SPINS: u32 = 60;

#[derive(Default)]
struct Waiting {
    /// Readers that sleep.
    readers: u64,
    /// How often all of them were let in.
    turns: u64,
    /// All threads have passed a fence since the lock was [revoked](Access::revoke).
    is_revoked: bool,
}

/// See the [module](self).
pub(crate) struct Access {
    /// The first thread that uses it, and where that is.
    owner: AtomicU64,
    state: AtomicU64,
    word: AtomicU64,
    slots: Slots,
    /// Closed by writers of several regions.
    pub(crate) gate: Gate,
    writers: RawRwLock,
    watch: Watch,
    waiting: Mutex<Waiting>,
    /// The owner is another thing than it was, or a reader has left.
    changed: Condvar,
    /// Readers were let in.
    admitted: Condvar,
}

impl Access {
    pub(crate) fn new() -> Access {
        Access {
            owner: AtomicU64::new(0),
            state: AtomicU64::new(0),
            word: AtomicU64::new(0),
            slots: Slots::new(),
            gate: Gate::new(),
            writers: RawRwLock::new(),
            watch: Default::default(),
            waiting: Mutex::default(),
            changed: Condvar::new(),
            admitted: Condvar::new(),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock_unwatched()
    }

    #[cold]
    fn wake(&self) {
        let _waiting = self.waiting();
        self.changed.notify_all();
    }

    /// Waits until this thread is the writer. It must have the region in no way before. `is_nested` says whether it has
    /// another one.
    ///
    /// The owner does not look at the gate: who has closed it revokes the lock when he comes there, and before he waits.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn lock_upgradable(&self, is_nested: impl FnOnce() -> bool) -> Result<(), Refused> {
        if self.enter_as_owner() { Ok(()) } else { self.wait_upgradable(is_nested) }
    }

    #[inline(never)]
    #[track_caller]
    fn wait_upgradable(&self, is_nested: impl FnOnce() -> bool) -> Result<(), Refused> {
        // Also if the lock is free: it may be only for the moment between two transactions of this thread, and who
        // collects locks would not meet that.
        if !bug(Bug::GatesForReads) {
            self.gate.pass(is_nested);
        }
        self.lock_collected()
    }

    /// [`lock_upgradable`](Self::lock_upgradable), for who collects several regions, or wants one for something else
    /// than a transaction.
    #[inline]
    #[track_caller]
    pub(crate) fn lock_collected(&self) -> Result<(), Refused> {
        if self.enter_as_first() {
            return Ok(());
        }
        self.writers.lock(Want::Exclusive);
        self.make_way(Want::Exclusive, || None).map(drop)
    }

    /// [`lock_upgradable`](Self::lock_upgradable), if that needs no waiting.
    #[track_caller]
    pub(crate) fn try_lock_upgradable(&self) -> Result<bool, Refused> {
        if self.enter_as_first() {
            return Ok(true);
        }
        if !self.writers.try_lock(Want::Exclusive) {
            return Ok(false);
        }
        self.make_way(Want::Exclusive, || Some(Instant::now()))
    }

    /// [`lock_collected`](Self::lock_collected), if that needs no longer. It does if this thread has the region already,
    /// in whatever way but as a reader.
    #[track_caller]
    pub(crate) fn try_lock_for(&self, patience: Duration) -> Result<bool, Refused> {
        let end = Instant::now() + patience;
        if self.enter_as_first() {
            return Ok(true);
        }
        if !self.writers.try_lock_until(Want::Exclusive, end) {
            return Ok(false);
        }
        self.make_way(Want::Exclusive, || Some(end))
    }

    /// The lock of the writers is taken. Waits until the owner is no writer, at most until `end`; if it still is, or that
    /// cannot be known, gives the lock back. Returns whether it has it.
    #[inline(always)]
    fn make_way(&self, want: Want, end: impl FnOnce() -> Option<Instant>) -> Result<bool, Refused> {
        if self.owner.load(Acquire) == bias::GONE {
            return Ok(true);
        }
        let alone = self.revoke(bias::WRITER | bias::UPGRADED, end());
        match want {
            _ if alone == Ok(true) => {}
            Want::Exclusive => self.writers.unlock_exclusive(),
            Want::Shared | Want::Nested => self.writers.unlock_shared(),
        }
        alone
    }

    /// Ends to be the writer, [upgraded](Self::upgrade) or not.
    #[inline(always)]
    pub(crate) fn unlock_upgradable(&self) {
        if !self.leave_as_owner() {
            self.unlock_taken();
        }
    }

    /// Of one who is not the owner, or not any more.
    #[inline(never)]
    fn unlock_taken(&self) {
        self.open();
        if !self.leave_revoked() {
            self.writers.unlock_exclusive();
        }
    }

    /// Waits until there is no writer. `overtakes` says whether this thread waits for none that wait themselves.
    #[track_caller]
    pub(crate) fn lock_quiescent(&self, overtakes: bool) -> Result<(), Refused> {
        let want = if overtakes { Want::Nested } else { Want::Shared };
        self.writers.lock(want);
        // An owner that looks is no writer.
        if self.mine().is_some() || self.claim() { Ok(()) } else { self.make_way(want, || None).map(drop) }
    }

    pub(crate) fn unlock_quiescent(&self) {
        self.writers.unlock_shared();
    }
}
