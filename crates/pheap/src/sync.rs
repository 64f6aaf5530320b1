//! The locks, condition variables and atomics by which threads synchronize. Code that the models or the crash
//! lab check takes its locks and atomics from here, so that builds for models and for the lab can replace
//! them.
//!
//! The [lock](access) of regions is pheap's own. The mutexes, condition variables and atomics are made of
//! those of std; in models (`cfg(pheap_loom)`) they are those of [loom]. The lock of regions is made of them.
//! Loom runs a test in every order of the operations on them that has a limited number of preemptions; see
//! `docs/crash-testing.md`. Counters for statistics do not come from here, because nothing depends on them.
//!
//! In builds with the simulator, locks report the places in the source where they are taken. The simulator
//! can act as if the acquisition at one of these places were left out, and the tests must notice.
//!
//! [loom]: https://docs.rs/loom
//!
//! This module knows threads. It must not know what the threads do.

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

/// The access to a lock that a thread asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockMode {
    Exclusive,
    Shared,
    /// Like `Shared`, but ahead of the queue: only an exclusive holder makes this thread wait. Threads in the
    /// queue may wait for something that this thread has, so waiting behind them could deadlock.
    Nested,
}

/// Returns how many times a thread looks at a lock before it sleeps: `usual`, or once if each look is a
/// separate step of a model or of a scheduler.
#[inline(always)]
fn spins(usual: u32) -> u32 {
    if cfg!(all(test, pheap_loom)) || schedule::is_scheduled() { 1 } else { usual }
}

/// A mistake that a model or the crash lab seeds, and must then find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(unreachable_pub)] // public in builds with the simulator
pub enum Mistake {
    /// A thread that waits for a lock does not set the lock's bit `WAITING`.
    WaitUnseen,
    /// A thread that gives up waiting for a lock does not wake the threads that waited behind it.
    GiveUpQuietly,
    /// Records count as durable before the sync that makes them durable.
    PublishBeforeSync,
    /// A thread begins to write or sync the log while another thread writes or syncs it.
    TwoLeaders,
    /// A thread that appends to a mapped log writes while another thread still writes earlier records.
    OvertakeWriter,
    /// A thread that asks at which positions the next syncs of the log may end does not learn where the write
    /// in progress ends.
    WriterUnseen,
    /// A file is synced again after a sync of it has failed.
    ForgetFailedSync,
    /// A file is synced while another thread syncs it.
    SyncsMeet,
    /// A thread that copies the heap's file gets records before the file has them.
    StreamAhead,
    /// A thread that leaves a waker with the log checks whether there is a thread to call the waker, and only
    /// then locks the state of the log. A thread that asks for a version of a root looks up the durable
    /// position, and only then locks the versions.
    LookUnlocked,
    /// A thread that revokes a lock passes no heavy fence, so the owner of the lock may not see that it was
    /// revoked.
    NoHeavyFence,
    /// The owner of a lock does not check again, after it has stored its state, that no second thread has
    /// come.
    NoSecondLook,
    /// The owner of a revoked lock wakes no thread when it leaves.
    OwnerLeavesQuietly,
    /// A writer that is about to sleep looks for readers before its bit `PARKED` is visible to readers that
    /// leave.
    NoFenceOfSleepers,
    /// A writer that is being upgraded looks for readers before the bits that keep readers out are visible to
    /// them.
    NoFenceOfWriters,
    /// A reader looks for writers before its slot is visible to them.
    NoFenceOfReaders,
    /// A writer that waits for readers also keeps out threads that have a region already.
    NestedReadersWait,
    /// A writer that lets in sleeping readers does not count them as readers.
    SleepersUncounted,
    /// Other threads can run between the release of a held pointer and the check whether it was the last one.
    LetGoTwice,
}

/// Returns whether this mistake was seeded: always `false`, except in models and in builds with the
/// simulator.
#[inline(always)]
pub(crate) fn mistake(mistake: Mistake) -> bool {
    #[cfg(all(test, pheap_loom))]
    return model::is_seeded(mistake);
    #[cfg(not(all(test, pheap_loom)))]
    schedule::is_seeded(mistake)
}
