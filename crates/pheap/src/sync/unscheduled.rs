//! The locks and atomics of builds without a scheduler of pheap: the system, or loom in models, schedules the
//! threads.

/// The types of which the locks are made.
pub(super) mod below {
    #[cfg(all(test, pheap_loom))]
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
    #[cfg(not(all(test, pheap_loom)))]
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
}

#[cfg(all(test, pheap_loom))]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64};
#[cfg(not(all(test, pheap_loom)))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64};

/// Whether a scheduler decides when this thread continues: never.
#[inline(always)]
pub(crate) const fn is_scheduled() -> bool {
    false
}

/// Does nothing: no thread has a scheduler.
#[inline(always)]
pub(crate) fn step(_what: &'static str) {}

/// Does nothing, like [`step`].
#[inline(always)]
pub(super) fn lock_step() {}

/// Takes a lock by `wait`, as no thread is scheduled.
#[inline(always)]
pub(super) fn acquire_scheduled<T, G>(
    _lock: &T,
    _attempt: impl Fn() -> Option<G>,
    wait: impl FnOnce() -> G,
) -> G {
    wait()
}

/// Never called, because no thread is scheduled.
pub(super) fn wait_for<T>(_what: &T, _limited: bool) -> bool {
    unreachable!("it is not scheduled")
}

/// Does nothing, like [`step`].
#[inline(always)]
pub(super) fn wake<T>(_what: &T) {}

/// Returns `false`: only the system can make all threads pass a fence.
#[cfg(not(all(test, pheap_loom)))]
#[inline(always)]
pub(super) fn pass_fences() -> bool {
    false
}

/// Returns `false`: no mistake is seeded.
#[cfg(not(all(test, pheap_loom)))]
#[inline(always)]
pub(super) const fn is_seeded(_mistake: super::Mistake) -> bool {
    false
}
