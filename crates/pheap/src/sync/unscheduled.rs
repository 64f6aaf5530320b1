//! Threads that run as the system lets them.

#[cfg(all(test, pheap_loom))]
pub(super) use loom::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(all(test, pheap_loom)))]
pub(super) use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

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
