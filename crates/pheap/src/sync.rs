//! The locks, condition variables and atomics by which threads meet: one place decides whose they are.
//!
//! The [lock](access) of regions is our own. Others are those of std; in models (`cfg(pheap_loom)`) all are those of [loom], which runs a test
//! under every order of their operations; see `docs/crash-testing.md`. Counters for statistics do not come from here: nothing depends on them.
//!
//! In builds with the simulator they tell which of them is taken where, and one of them can be left out, or seems to be: the tests must notice.
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

pub(crate) use access::Access;
pub(crate) use mutex::{Condvar, Mutex, MutexGuard, RwLock};
pub(crate) use thread::this_thread;

pub(crate) use schedule::{AtomicBool, AtomicU64, step};

/// For what a thread comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    Exclusive,
    Shared,
    /// To share it at once, if nobody has it for itself: others may wait for something that this thread has.
    Nested,
}

/// How often a thread looks before it sleeps: once where each look is a step of its own.
#[inline(always)]
fn spins(usual: u32) -> u32 {
    if cfg!(all(test, pheap_loom)) || schedule::is_scheduled() { 1 } else { usual }
}

/// A mistake that a model seeds, or the lab, and must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(unreachable_pub)] // public in builds with the simulator
pub enum Mistake {
    /// Who waits for a lock does not say so.
    WaitUnseen,
    /// Who gives up waiting for a lock does not wake those that waited behind it.
    GiveUpQuietly,
    /// What is about to be synced counts as durable.
    PublishBeforeSync,
    /// A leader begins although another one is at work.
    TwoLeaders,
    /// Who appends to a mapped log writes while another thread writes what came before.
    OvertakeWriter,
    /// Who asks where the log may end is not told of the thread that writes to it.
    WriterUnseen,
    /// A file is synced again after a sync of it has failed.
    ForgetFailedSync,
    /// A file is synced while another thread does so.
    SyncsMeet,
    /// Who copies the heap's file gets records before that has them.
    StreamAhead,
    /// Who leaves a waker looks whether there is a thread that will call it, and only then locks what they share. Who asks for a version looks what is durable, and only then locks the versions.
    LookUnlocked,
    /// Who revokes a lock does not make sure that its owner knows.
    NoHeavyFence,
    /// An owner does not look whether it still is one, when others can see where it is.
    NoSecondLook,
    /// An owner that has been revoked wakes nobody when it leaves.
    OwnerLeavesQuietly,
    /// A writer that is about to sleep looks for readers before those that leave can see that.
    NoFenceOfSleepers,
    /// A writer that is upgraded looks for readers before they can see that.
    NoFenceOfWriters,
    /// A reader looks for writers before they can see it.
    NoFenceOfReaders,
    /// A writer that waits for readers keeps those away that have a region already.
    NestedReadersWait,
    /// Readers that were let in are not counted.
    SleepersUncounted,
    /// Others can come in between, where a held pointer is let go of and where it is seen whether that was the last one.
    LetGoTwice,
}

/// Whether this mistake was seeded. A constant, but in models and the lab.
#[inline(always)]
pub(crate) fn mistake(mistake: Mistake) -> bool {
    #[cfg(all(test, pheap_loom))]
    return model::is_seeded(mistake);
    #[cfg(not(all(test, pheap_loom)))]
    schedule::is_seeded(mistake)
}
