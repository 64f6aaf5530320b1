//! The locks, condition variables and atomics by which threads meet: one place decides whose they are.
//!
//! Usually they are those of parking_lot and of the standard library. In the models (`cfg(pheap_loom)`) they are those of [loom], which runs a test
//! under every order of their operations; see `docs/crash-testing.md`. Counters for statistics do not come from here: nothing depends on them.
//!
//! In builds with the simulator they tell which of them is taken where, and one of them can be left out, or seems to be: the tests must notice.
//!
//! [loom]: https://docs.rs/loom
//!
//! Knows threads. Must not know what they do.

#![allow(unsafe_code)]

pub(crate) mod bias;
pub(crate) mod fence;
pub(crate) mod gate;
#[cfg(all(test, pheap_loom))]
pub(crate) mod model;
#[cfg(all(feature = "sim", not(all(test, pheap_loom))))]
mod watched;

#[cfg(all(test, pheap_loom))]
use model as these;
#[cfg(not(any(feature = "sim", all(test, pheap_loom))))]
use parking_lot as these;
#[cfg(all(feature = "sim", not(all(test, pheap_loom))))]
use watched as these;

pub(crate) use these::{Condvar, Mutex, MutexGuard, RawRwLock, RwLock};

#[cfg(all(test, pheap_loom))]
pub(crate) use model::{AtomicBool, AtomicU64};
#[cfg(not(all(test, pheap_loom)))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64};

pub(crate) use parking_lot::lock_api::{RawRwLock as RawLock, RawRwLockTimed as RawLockTimed};

/// Locks that a thread may share that holds others, or this one, already.
pub(crate) trait RawLockRecursive {
    /// Shares the lock, as soon as nobody has it alone: also if somebody waits to have it alone.
    fn lock_shared_recursive(&self);
}

impl RawLockRecursive for parking_lot::RawRwLock {
    #[inline(always)]
    fn lock_shared_recursive(&self) {
        use parking_lot::lock_api::{RawRwLockRecursive as _, RawRwLockRecursiveTimed as _};
        // Who is parked is woken when the lock is let go of. But the next writer may have come first, and wait for others that share the lock; and these may wait for
        // this thread, in another region. So it looks again: it may share the lock with them.
        const AGAIN: std::time::Duration = std::time::Duration::from_millis(1);
        while !(self.try_lock_shared_recursive() || self.try_lock_shared_recursive_for(AGAIN)) {}
    }
}

/// What those use who wait for the owner of a [bias](bias::Bias). Never watched: while locks are, there is no owner.
#[cfg(all(test, pheap_loom))]
use model::{Condvar as BiasCondvar, Mutex as BiasMutex};
#[cfg(not(all(test, pheap_loom)))]
use parking_lot::{Condvar as BiasCondvar, Mutex as BiasMutex};

/// Shows `f` what a mutex guards. In a forked child, which is not to lock it, nobody does; so what is there stays as it is, and is whole if nobody had locked it when the child was made: else
/// `None`.
#[track_caller]
pub(crate) fn look_at<T, R>(mutex: &Mutex<T>, forked: bool, f: impl FnOnce(&T) -> R) -> Option<R> {
    if !forked {
        return Some(f(&mutex.lock()));
    }
    #[cfg(not(all(test, pheap_loom)))]
    // SAFETY: in a forked child nobody locks it, and nobody had when the child was made, as was just seen.
    return (!mutex.is_locked()).then(|| f(unsafe { &*mutex.data_ptr() }));
    #[cfg(all(test, pheap_loom))]
    None
}

/// A mistake that a model seeds, and must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// What is about to be synced counts as durable.
    PublishBeforeSync,
    /// A leader begins although another one is at work.
    TwoLeaders,
    /// Who appends to a mapped log writes while another thread writes what came before.
    OvertakeWriter,
    /// A file is synced again after a sync of it has failed.
    ForgetFailedSync,
    /// A file is synced while another thread does so.
    SyncsMeet,
    /// Who evicts the owner of a bias does not make sure that it knows.
    NoHeavyFence,
    /// An owner does not look whether it still is one, when others can see that it is inside.
    NoSecondLook,
    /// All owners of a bias say at the same place that they are inside.
    OneSlot,
    /// An owner that leaves wakes nobody if it is no longer named as the owner.
    WakeEvictedOnly,
    /// Others can come in between, where a held pointer is let go of and where it is seen whether that was the last one.
    LetGoTwice,
}

/// Whether a model has seeded this mistake. A constant, but in models.
#[inline(always)]
pub(crate) fn mistake(_mistake: Mistake) -> bool {
    #[cfg(all(test, pheap_loom))]
    return model::is_seeded(_mistake);
    #[cfg(not(all(test, pheap_loom)))]
    false
}
