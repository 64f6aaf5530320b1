//! Threads that run as the system lets them.

/// What locks are made of.
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

/// Whether this thread goes on when a scheduler says so.
#[inline(always)]
pub(crate) const fn is_scheduled() -> bool {
    false
}

/// This thread is about to do what others can see.
#[inline(always)]
pub(crate) fn step(_what: &'static str) {}

/// It is about to take a lock, if that is free.
#[inline(always)]
pub(super) fn lock_step() {}

/// Takes a lock by `attempt`, or waits for it by `wait`.
#[inline(always)]
pub(super) fn take<T, G>(_lock: &T, _attempt: impl Fn() -> Option<G>, wait: impl FnOnce() -> G) -> G {
    wait()
}

/// Waits until somebody [wakes](wake) those who wait for this.
pub(super) fn wait_for<T>(_what: &T, _limited: bool) -> bool {
    unreachable!("it is not scheduled")
}

/// Lets those go on that wait for this.
#[inline(always)]
pub(super) fn wake<T>(_what: &T) {}

/// All threads have passed a fence, if that could be done without the system.
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
