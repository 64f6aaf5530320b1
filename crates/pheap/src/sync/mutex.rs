//! Values that are touched with a lock only: the types of [`lock_api`] over the lock of this crate.

#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use super::RawRwLock;
use super::lock::Want;

pub(crate) type Mutex<T> = lock_api::Mutex<RawMutex, T>;
pub(crate) type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;
pub(crate) type RwLock<T> = lock_api::RwLock<RawRwLock, T>;

/// Shows `f` what a mutex guards, in a forked child, where nobody locks it; if nobody had locked it when the child was made.
pub(super) fn look_at_unlocked<T, R>(mutex: &Mutex<T>, f: impl FnOnce(&T) -> R) -> Option<R> {
    // SAFETY: in a forked child nobody locks it, and nobody had when the child was made, as was just seen.
    (!mutex.is_locked()).then(|| f(unsafe { &*mutex.data_ptr() }))
}

/// The half of the lock that nobody shares.
pub(crate) struct RawMutex(RawRwLock);

// SAFETY: who has a lock for itself is the only one that has it, until it lets go of it.
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(clippy::declare_interior_mutable_const)] // as for every lock
    const INIT: RawMutex = RawMutex(RawRwLock::new());
    type GuardMarker = lock_api::GuardNoSend;

    #[inline]
    #[track_caller]
    fn lock(&self) {
        self.0.lock(Want::Exclusive);
    }

    #[inline]
    #[track_caller]
    fn try_lock(&self) -> bool {
        self.0.try_lock(Want::Exclusive)
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.0.unlock_exclusive();
    }

    fn is_locked(&self) -> bool {
        self.0.is_exclusive()
    }
}

// SAFETY: who has got the lock in time is the only one that has it.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    #[track_caller]
    fn try_lock_for(&self, patience: Duration) -> bool {
        self.try_lock_until(Instant::now() + patience)
    }

    #[track_caller]
    fn try_lock_until(&self, end: Instant) -> bool {
        self.0.try_lock_until(Want::Exclusive, end)
    }
}

// SAFETY: while somebody has a lock for itself nobody else has it, and while some share it nobody has it for itself.
unsafe impl lock_api::RawRwLock for RawRwLock {
    #[allow(clippy::declare_interior_mutable_const)] // as for every lock
    const INIT: RawRwLock = RawRwLock::new();
    type GuardMarker = lock_api::GuardNoSend;

    #[inline]
    #[track_caller]
    fn lock_shared(&self) {
        self.lock(Want::Shared);
    }

    #[inline]
    #[track_caller]
    fn try_lock_shared(&self) -> bool {
        self.try_lock(Want::Shared)
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        self.unlock_shared();
    }

    #[inline]
    #[track_caller]
    fn lock_exclusive(&self) {
        self.lock(Want::Exclusive);
    }

    #[inline]
    #[track_caller]
    fn try_lock_exclusive(&self) -> bool {
        self.try_lock(Want::Exclusive)
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        self.unlock_exclusive();
    }
}
