//! Threads that run as the system schedules them.

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

/// Whether a scheduler decides when this thread continues.
#[inline(always)]
pub(crate) const fn is_scheduled() -> bool {
    false
}

/// Reports that this thread is about to do something that other threads can see.
#[inline(always)]
pub(crate) fn step(_what: &'static str) {}

/// Reports that this thread is about to take a lock, if it is free.
#[inline(always)]
pub(super) fn lock_step() {}

/// Takes a lock by `wait`.
#[inline(always)]
pub(super) fn acquire_scheduled<T, G>(
    _lock: &T,
    _attempt: impl Fn() -> Option<G>,
    wait: impl FnOnce() -> G,
) -> G {
    wait()
}

/// Waits until another thread [wakes](wake) the threads that wait for `_what`.
pub(super) fn wait_for<T>(_what: &T, _limited: bool) -> bool {
    unreachable!("it is not scheduled")
}

/// Lets the threads continue that wait for `_what`.
#[inline(always)]
pub(super) fn wake<T>(_what: &T) {}

/// Makes all threads pass a fence, if that is possible without the system. Returns whether it did.
#[cfg(not(all(test, pheap_loom)))]
#[inline(always)]
pub(super) fn pass_fences() -> bool {
    false
}

/// Whether this mistake was seeded.
#[cfg(not(all(test, pheap_loom)))]
#[inline(always)]
pub(super) const fn is_seeded(_mistake: super::Mistake) -> bool {
    false
}
