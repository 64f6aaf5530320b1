//! The locks, condition variables and atomics by which threads meet: one place decides whose they are.
//!
//! Usually they are those of parking_lot and of the standard library. In the models (`cfg(pheap_loom)`) they are those of [loom], which runs a test
//! under every order of their operations; see `docs/crash-testing.md`. Counters for statistics do not come from here: nothing depends on them.
//!
//! [loom]: https://docs.rs/loom

#[cfg(all(test, pheap_loom))]
pub(crate) mod model;

#[cfg(not(all(test, pheap_loom)))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(not(all(test, pheap_loom)))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64};

#[cfg(all(test, pheap_loom))]
pub(crate) use model::{AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, RwLock};

/// Of a `static`, which the models leave alone.
pub(crate) use parking_lot::Mutex as StaticMutex;

/// The lock of a region, and what it can do. The models leave it alone.
pub(crate) use parking_lot::RawRwLock;
pub(crate) use parking_lot::lock_api::{
    RawRwLock as RawLock, RawRwLockRecursive as RawLockRecursive, RawRwLockTimed as RawLockTimed,
};

/// A mistake that a model seeds, and must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// What is about to be synced counts as durable.
    PublishBeforeSync,
    /// A leader begins although another one is at work.
    TwoLeaders,
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
