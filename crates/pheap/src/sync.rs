//! The locks, condition variables and atomics by which threads synchronize. Code that models or the lab check
//! takes them from here, so that builds for these can replace them.
//!
//! The [lock](access) of regions is pheap's own. The others are those of std. In models (`cfg(pheap_loom)`)
//! they are those of [loom], and the lock of regions is made of these. Loom runs a test under every order of
//! their operations with a limited number of preemptions; see `docs/crash-testing.md`. Counters for
//! statistics do not come from here, because nothing depends on them.
//!
//! In builds with the simulator, locks report each place in the source where they are taken. The simulator
//! can pretend to leave out one of these acquisitions, and the tests must notice.
//!
//! [loom]: https://docs.rs/loom
//!
//! Knows threads. Must not know what they do.

pub(crate) mod access;
pub(crate) mod fence;
pub(crate) mod gate;
mod lock;
#[cfg(all(test, pheap_loom))]
pub(crate) mod model;
mod mutex;
#[cfg(not(all(feature = "sim", not(all(test, pheap_loom)))))]
#[path = "sync/unscheduled.rs"]
mod schedule;
#[cfg(all(feature = "sim", not(all(test, pheap_loom))))]
#[path = "sync/scheduled.rs"]
pub(crate) mod schedule;
mod thread;
#[cfg(not(all(feature = "sim", not(pheap_loom))))]
#[path = "sync/unwatched.rs"]
mod watch;
#[cfg(all(feature = "sim", not(pheap_loom)))]
#[path = "sync/watched.rs"]
mod watch;

pub(crate) use access::RegionLock;
pub(crate) use mutex::{Condvar, Mutex, MutexGuard, RwLock};
pub(crate) use thread::this_thread;

pub(crate) use schedule::{AtomicBool, AtomicU64, step};

/// How a thread wants a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockMode {
    Exclusive,
    Shared,
    /// Like `Shared`, but ahead of the queue: only an exclusive holder makes this thread wait. Threads in the
    /// queue may wait for something that this thread has, so waiting behind them could deadlock.
    Nested,
}

/// Returns how often a thread looks before it sleeps: `usual`, or once if each look is a separate step of a
/// model or of a scheduler.
#[inline(always)]
fn spins(usual: u32) -> u32 {
    if cfg!(all(test, pheap_loom)) || schedule::is_scheduled() { 1 } else { usual }
}

/// A mistake that a model or the crash lab seeds, and must then find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(unreachable_pub)] // public in builds with the simulator
pub enum Mistake {
    /// A thread that waits for a lock does not set the bit that says so.
    WaitUnseen,
    /// A thread that gives up waiting for a lock does not wake the threads that waited behind it.
    GiveUpQuietly,
    /// Records count as durable before the sync that makes them durable.
    PublishBeforeSync,
    /// A leader begins although another leader is at work.
    TwoLeaders,
    /// A thread that appends to a mapped log writes while another thread still writes earlier records.
    OvertakeWriter,
    /// A thread that asks where the log may end does not learn of the thread that writes to it.
    WriterUnseen,
    /// A file is synced again after a sync of it has failed.
    ForgetFailedSync,
    /// A file is synced while another thread syncs it.
    SyncsMeet,
    /// A thread that copies the heap's file gets records before the file has them.
    StreamAhead,
    /// A thread that leaves a waker checks whether there is a thread to call it, and only then locks their
    /// mutex. A thread that asks for a version looks up the durable position, and only then locks the
    /// versions.
    LookUnlocked,
    /// A thread that revokes a lock passes no heavy fence, so the owner may not see that.
    NoHeavyFence,
    /// An owner does not check again that it is the owner after it has stored its state.
    NoSecondLook,
    /// An owner that was revoked wakes no thread when it leaves.
    OwnerLeavesQuietly,
    /// A writer that is about to sleep looks for readers before its bit `PARKED` is visible to readers that
    /// leave.
    NoFenceOfSleepers,
    /// A writer that is being upgraded looks for readers before its bits are visible to them.
    NoFenceOfWriters,
    /// A reader looks for writers before its slot is visible to them.
    NoFenceOfReaders,
    /// A writer that waits for readers also keeps out threads that have a region already.
    NestedReadersWait,
    /// Readers that were let in are not counted.
    SleepersUncounted,
    /// Other threads can run between the release of a held pointer and the check whether it was the last one.
    LetGoTwice,
}

/// Returns whether this mistake was seeded. A constant, except in models and the lab.
#[inline(always)]
pub(crate) fn mistake(mistake: Mistake) -> bool {
    #[cfg(all(test, pheap_loom))]
    return model::is_seeded(mistake);
    #[cfg(not(all(test, pheap_loom)))]
    schedule::is_seeded(mistake)
}
