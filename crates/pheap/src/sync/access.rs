//! The lock of a region: many readers beside one writer, who is alone only while it stores to where they look.
//!
//! | | beside it |
//! |---|---|
//! | a reader ([`lock_shared`](Access::lock_shared)) | readers, a writer, who looks while nobody changes anything |
//! | a writer ([`lock_upgradable`](Access::lock_upgradable)) | readers |
//! | a writer that is [upgraded](Access::upgrade) | nobody |
//! | who looks while nobody changes anything ([`lock_quiescent`](Access::lock_quiescent)) | readers, and others like it |
//!
//! Writers, and who wants none of them, meet at a [lock of their own](RawRwLock), in the order in which they come. Readers do not go there: each says on a line of its
//! own that it reads ([`slots`]), and then looks at the [word](self#the-word); who upgrades writes to the word, and then looks at all of these lines. One of the two sees the other.
//!
//! Each of these looks behind a store is a fence, behind a commit a dear one. So who comes again and again does without it, and who seldom comes makes up for that
//! with a [heavy fence](super::fence), which all processors pass:
//! * A thread that has been the only one for long is the *owner* ([`bias`]). It says with plain stores that it is a writer, and that it is upgraded, and looks whether it still is the owner.
//!   Whoever else comes evicts it. Evicted while it is a writer, it goes on as one.
//! * If there has been no writer for long, *readers* say so with plain stores. A writer ends that before it begins.
//! * Else both use locked instructions.
//!
//! If the heavy fence is [refused](Refused) when it is needed, the lock is not taken: nobody knows who is inside.
//!
//! # The word
//! Which of these it is; for whom it is closed; whether somebody sleeps who must be woken. Threads that use locked instructions all look at it behind them.
//!
//! # Turns
//! Readers that overlap must not keep a writer from its upgrade for ever: the first read of a thread waits while somebody waits to be upgraded. Not so a thread that has
//! a region already, of this heap or of another one: two threads that nest two roots in opposite orders, beside a writer of each, would wait in a circle. And a writer that is
//! upgraded again and again must not keep readers away: those that sleep are let in by it, all at once, when it ends to be upgraded, and it waits for them the next time.
//!
//! A writer of several regions waits for one of them at a time, and only while it has none, so it cannot be queued at all of them; instead it closes a
//! [gate](Gate) at each, at which those wait who come and have nothing.
//!
//! It guards nothing by itself: who builds on it sees to it that only a thread that has it lets go of it.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64 as PlainU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

use super::below::{Condvar, Mutex, MutexGuard};
use super::fence::Refused;
use super::gate::Gate;
use super::lock::{RawRwLock, Want};
use super::thread::this_thread;
use super::watch::Watch;
use super::{AtomicU64, Mistake, fence, mistake};
use crate::faults::{Bug, bug, watches_locks};
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
/// Readers use plain stores: there is neither an owner nor a writer.
const READERS: u64 = 1 << 4;
/// The owner is none any more, once it has seen this.
const EVICTED: u64 = 1 << 5;
/// It is certain that it sees this before it is upgraded.
const SETTLED: u64 = 1 << 6;
/// Where the owner says that it is a writer.
const PLACE: u32 = 7;
/// The thread that is the owner, or was, as long as it may be a writer; 0 if there is none.
const THREAD: u32 = PLACE + PLACES.trailing_zeros();
/// All that is about an owner.
const OWNER: u64 = !(EVICTED - 1);

/// Threads that become owners, in all the time of a lock.
const PLACES: usize = 4;

/// For how long threads look at a word before they sleep.
const SPINS: u32 = 60;

fn thread_of(word: u64) -> u64 {
    word >> THREAD
}

fn place_of(word: u64) -> usize {
    if mistake(Mistake::OnePlace) {
        return 0;
    }
    (word >> PLACE) as usize % PLACES
}

#[derive(Default)]
struct Waiting {
    /// Readers that sleep, those that have a region already by themselves.
    readers: u64,
    nested: u64,
    /// How often they were let in.
    turns: u64,
    nested_turns: u64,
}

/// See the [module](self).
pub(crate) struct Access {
    word: AtomicU64,
    /// What each of those that have become owners is. Written by that thread alone.
    owners: [AtomicU64; PLACES],
    /// Whose place it is: with the lock of the writers.
    threads: [PlainU64; PLACES],
    /// The thread that was the writer last, and how often in a row, while nobody read.
    last: PlainU64,
    streak: PlainU64,
    /// How many reads there had been when it was upgraded last.
    reads: PlainU64,
    /// How many writers there have been that were no owners.
    writes: PlainU64,
    /// How often in a row a thread comes before it does without locked instructions.
    enough: u64,
    /// Whether readers may leave with plain stores.
    plain: AtomicBool,
    slots: Slots,
    /// Closed by writers of several regions.
    pub(crate) gate: Gate,
    writers: RawRwLock,
    watch: Watch,
    waiting: Mutex<Waiting>,
    /// An owner is another thing than it was, or a reader has left.
    changed: Condvar,
    /// Readers were let in.
    admitted: Condvar,
}

impl Access {
    /// Threads that come `enough` times in a row do without locked instructions.
    pub(crate) fn new(enough: u64) -> Access {
        Access {
            word: AtomicU64::new(0),
            owners: std::array::from_fn(|_| AtomicU64::new(bias::OUTSIDE)),
            threads: Default::default(),
            last: PlainU64::new(0),
            streak: PlainU64::new(0),
            reads: PlainU64::new(0),
            writes: PlainU64::new(0),
            enough,
            plain: AtomicBool::new(false),
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
        self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Waits until this thread is the writer. It must have the region in no way before. `is_nested` says whether it has another one.
    ///
    /// The owner does not look at the gate: who has closed it evicts the owner before it waits a second time.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn lock_upgradable(&self, is_nested: impl FnOnce() -> bool) -> Result<(), Refused> {
        if self.enter_as_owner() { Ok(()) } else { self.wait_upgradable(is_nested) }
    }

    #[inline(never)] // who is here often is not for long
    #[track_caller]
    fn wait_upgradable(&self, is_nested: impl FnOnce() -> bool) -> Result<(), Refused> {
        // Also if the lock is free: it may be only for the moment between two transactions of this thread, and who collects locks would not meet that.
        if !bug(Bug::GatesForReads) {
            self.gate.pass(is_nested);
        }
        self.take_upgradable()
    }

    /// [`lock_upgradable`](Self::lock_upgradable), for who collects several regions.
    #[track_caller]
    pub(crate) fn lock_collected(&self) -> Result<(), Refused> {
        if self.enter_as_owner() { Ok(()) } else { self.take_upgradable() }
    }

    #[inline(always)]
    #[track_caller]
    fn take_upgradable(&self) -> Result<(), Refused> {
        self.lock_unbiased()?;
        self.note_writer();
        Ok(())
    }

    /// [`lock_upgradable`](Self::lock_upgradable), if that needs no waiting.
    #[track_caller]
    pub(crate) fn try_lock_upgradable(&self) -> Result<bool, Refused> {
        if self.enter_as_owner() {
            return Ok(true);
        }
        if self.is_owner_inside() || !self.writers.try_lock(Want::Exclusive) {
            return Ok(false);
        }
        self.takes_over_until(|| Some(Instant::now()))
    }

    /// Waits until this thread is the writer, for something else than a transaction: it does not become the owner by that.
    #[track_caller]
    pub(crate) fn lock_unbiased(&self) -> Result<(), Refused> {
        self.writers.lock(Want::Exclusive);
        self.takes_over_until(|| None).map(drop)
    }

    /// [`lock_unbiased`](Self::lock_unbiased), if that needs no longer. It does if this thread has the region already, in whatever way but as a reader.
    #[track_caller]
    pub(crate) fn try_lock_unbiased_for(&self, patience: Duration) -> Result<bool, Refused> {
        let end = Instant::now() + patience;
        if self.writers.try_lock_until(Want::Exclusive, end) {
            self.takes_over_until(|| Some(end))
        } else {
            Ok(false)
        }
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
        if !self.leave_evicted() {
            self.before_unlock();
            self.writers.unlock_exclusive();
        }
    }

    #[inline(always)]
    fn enter_as_owner(&self) -> bool {
        !watches_locks() && self.enter_biased()
    }

    /// The lock of the writers is taken. If an owner is still a writer at `end`, gives it back.
    #[inline(always)]
    fn takes_over_until(&self, end: impl FnOnce() -> Option<Instant>) -> Result<bool, Refused> {
        let alone = self.take_over(end);
        if alone != Ok(true) {
            self.writers.unlock_exclusive();
        }
        alone
    }

    /// The lock of the writers is taken: sees to it that there is no owner, and that readers use locked instructions. Waits for an owner that is a writer, at most until `end`. Returns
    /// whether there is none.
    #[inline(always)]
    fn take_over(&self, end: impl FnOnce() -> Option<Instant>) -> Result<bool, Refused> {
        self.writes.store(self.writes.load(Relaxed).wrapping_add(1), Relaxed);
        // Another thread may have waited for the owner. What that has written is seen by all.
        if self.word.load(Acquire) & (OWNER | READERS) == 0 { Ok(true) } else { self.take_over_slowly(end()) }
    }

    #[cold]
    fn take_over_slowly(&self, end: Option<Instant>) -> Result<bool, Refused> {
        if self.word.fetch_and(!READERS, Relaxed) & READERS != 0 && !mistake(Mistake::NoHeavyFenceOfWriters) {
            fence::heavy().inspect_err(|_| {
                // The next writer must not take it that all know.
                self.word.fetch_or(READERS, Relaxed);
            })?;
        }
        self.evict(end)
    }

    /// Waits until there is no writer. `overtakes` says whether this thread waits for none that wait themselves.
    #[track_caller]
    pub(crate) fn lock_quiescent(&self, overtakes: bool) -> Result<(), Refused> {
        self.writers.lock(if overtakes { Want::Nested } else { Want::Shared });
        if thread_of(self.word.load(Acquire)) != this_thread() {
            self.evict(None).inspect_err(|_| self.writers.unlock_shared())?;
        }
        self.last.store(0, Relaxed);
        Ok(())
    }

    pub(crate) fn unlock_quiescent(&self) {
        self.writers.unlock_shared();
    }
}
