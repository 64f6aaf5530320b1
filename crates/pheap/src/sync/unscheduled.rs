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

/// Lets other threads go on while this one waits for what is there to change, if it is decided who goes on.
#[inline(always)]
pub(super) fn give_way<T>(_what: &T) -> bool {
    #[cfg(all(test, pheap_loom))]
    loom::thread::yield_now();
    cfg!(all(test, pheap_loom))
}

/// Those who [wait](give_way) for what is there to change need not wait any longer.
#[inline(always)]
pub(super) fn has_changed<T>(_what: &T) {}

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
