//! The types of [`sync`](super) in builds with the simulator: those of parking_lot, which tell the [mutants](crate::faults::mutant) where they
//! are locked.
//!
//! A mutant of a lock is let in only when it would have been anyway, for two threads at once could do anything. Instead it is noted when it would have
//! met somebody: when it comes while another thread is inside, or when another comes while it is. To make that likely, it stays inside for a while,
//! until somebody comes. What is noted does not depend on luck: a meeting is one that would have happened.

#![allow(unsafe_code)]

use std::panic::Location;
use std::sync::PoisonError;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use parking_lot::lock_api;
use parking_lot::lock_api::{RawMutex as _, RawRwLock as _};

use super::RawLockRecursive;
use crate::faults::mutant;
use crate::faults::mutant::{Kind, Mutation};

/// How long a mutant waits for others, and how often.
const STAY: Duration = Duration::from_millis(25);
const STAYS: u64 = 40;

/// Says that a lock is about to be taken here, and whether it is the one that is left out.
fn is_left_out(site: &'static Location<'static>) -> bool {
    // Not where the library of the locks takes one again that it has let go of for a while.
    site.file().starts_with("crates") && mutant::reached(Kind::Lock, site) == Some(Mutation::Drop)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Exclusive,
    Shared,
}

#[derive(Debug)]
struct Seen {
    /// Threads inside.
    exclusive: u32,
    shared: u32,
    /// Those of them that the mutant has let in, for which access.
    mutants: Vec<(ThreadId, Access)>,
    /// Threads that wait.
    waiting_exclusive: u32,
    waiting_shared: u32,
}

/// Who is inside of a lock. Kept only while there is a mutant.
#[derive(Debug)]
struct Watch(std::sync::Mutex<Seen>);

impl Watch {
    const fn new() -> Watch {
        let seen =
            Seen { exclusive: 0, shared: 0, mutants: Vec::new(), waiting_exclusive: 0, waiting_shared: 0 };
        Watch(std::sync::Mutex::new(seen))
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a thread has to wait, and whether it would meet somebody if a lock was left out: this one, or that of who is inside.
    fn arrive(&self, access: Access, mutated: bool) {
        let mut seen = self.seen();
        let conflicts = |other: Access| access == Access::Exclusive || other == Access::Exclusive;
        let inside = seen.exclusive > 0 && conflicts(Access::Exclusive)
            || seen.shared > 0 && conflicts(Access::Shared);
        if mutated && inside || seen.mutants.iter().any(|mutant| conflicts(mutant.1)) {
            mutant::meet();
        }
        match access {
            Access::Exclusive => seen.waiting_exclusive += 1,
            Access::Shared => seen.waiting_shared += 1,
        }
    }

    fn stop_waiting(&self, access: Access) {
        let mut seen = self.seen();
        match access {
            Access::Exclusive => seen.waiting_exclusive -= 1,
            Access::Shared => seen.waiting_shared -= 1,
        }
    }

    fn enter(&self, access: Access, mutated: bool) {
        let mut seen = self.seen();
        match access {
            Access::Exclusive => seen.exclusive += 1,
            Access::Shared => seen.shared += 1,
        }
        if mutated {
            seen.mutants.push((std::thread::current().id(), access));
            drop(seen);
            self.stay(access);
        }
    }

    /// Waits for somebody who would not have had to wait for this thread.
    #[cold]
    fn stay(&self, access: Access) {
        if mutant::meetings() > 0 || mutant::fired() > STAYS {
            return;
        }
        let end = Instant::now() + STAY;
        while Instant::now() < end {
            let seen = self.seen();
            if seen.waiting_exclusive > 0 || access == Access::Exclusive && seen.waiting_shared > 0 {
                return mutant::meet();
            }
            drop(seen);
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn leave(&self, access: Access) {
        if !mutant::watches_locks() {
            return;
        }
        let mut seen = self.seen();
        // Not below 0: who was inside when the mutant was switched on was not counted.
        match access {
            Access::Exclusive => seen.exclusive = seen.exclusive.saturating_sub(1),
            Access::Shared => seen.shared = seen.shared.saturating_sub(1),
        }
        let me = (std::thread::current().id(), access);
        if let Some(mine) = seen.mutants.iter().position(|mutant| *mutant == me) {
            seen.mutants.swap_remove(mine);
        }
    }

    /// Takes a lock, by `attempt` or, if that fails, by `wait`. Whether it has got it.
    #[inline]
    fn take(
        &self,
        access: Access,
        site: &'static Location<'static>,
        attempt: impl FnOnce() -> bool,
        wait: impl FnOnce() -> bool,
    ) -> bool {
        let mutated = is_left_out(site);
        if !mutant::watches_locks() {
            return attempt() || wait();
        }
        let mut taken = attempt();
        if !taken {
            self.arrive(access, mutated);
            taken = wait();
            self.stop_waiting(access);
        }
        if taken {
            self.enter(access, mutated);
        }
        taken
    }
}

pub(crate) type Mutex<T> = lock_api::Mutex<RawMutex, T>;
pub(crate) type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;
pub(crate) type RwLock<T> = lock_api::RwLock<RawRwLock, T>;

pub(crate) struct RawMutex {
    watch: Watch,
    lock: parking_lot::RawMutex,
}

// SAFETY: the lock does it; what is watched changes nothing.
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(clippy::declare_interior_mutable_const)] // as for every lock
    const INIT: RawMutex = RawMutex { watch: Watch::new(), lock: parking_lot::RawMutex::INIT };
    type GuardMarker = <parking_lot::RawMutex as lock_api::RawMutex>::GuardMarker;

    #[inline]
    #[track_caller]
    fn lock(&self) {
        let wait = || {
            self.lock.lock();
            true
        };
        self.watch.take(Access::Exclusive, Location::caller(), || self.lock.try_lock(), wait);
    }

    #[inline]
    #[track_caller]
    fn try_lock(&self) -> bool {
        self.watch.take(Access::Exclusive, Location::caller(), || self.lock.try_lock(), || false)
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.watch.leave(Access::Exclusive);
        // SAFETY: this thread has the lock, the caller's premise, and so the one within.
        unsafe { self.lock.unlock() };
    }
}

// SAFETY: the lock within does it, in time; what is watched changes nothing.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    #[track_caller]
    fn try_lock_for(&self, patience: Duration) -> bool {
        let wait = || self.lock.try_lock_for(patience);
        self.watch.take(Access::Exclusive, Location::caller(), || self.lock.try_lock(), wait)
    }

    #[track_caller]
    fn try_lock_until(&self, end: Instant) -> bool {
        let wait = || self.lock.try_lock_until(end);
        self.watch.take(Access::Exclusive, Location::caller(), || self.lock.try_lock(), wait)
    }
}

/// With the locks of this module.
#[derive(Debug)]
pub(crate) struct Condvar {
    notified: std::sync::Mutex<u64>,
    changed: std::sync::Condvar,
}

impl Condvar {
    pub(crate) const fn new() -> Condvar {
        Condvar { notified: std::sync::Mutex::new(0), changed: std::sync::Condvar::new() }
    }

    #[track_caller]
    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        // Before the guard lets go of its lock, so that nobody notifies in between.
        let mut notified = self.notified.lock().unwrap_or_else(PoisonError::into_inner);
        MutexGuard::unlocked(guard, move || {
            let before = *notified;
            while *notified == before {
                notified = self.changed.wait(notified).unwrap_or_else(PoisonError::into_inner);
            }
        });
    }

    /// [`wait`](Self::wait), but not longer than this.
    #[track_caller]
    pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, patience: Duration) {
        let notified = self.notified.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = &self.changed;
        MutexGuard::unlocked(guard, move || {
            let before = *notified;
            drop(changed.wait_timeout_while(notified, patience, |now| *now == before));
        });
    }

    pub(crate) fn notify_all(&self) {
        *self.notified.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }
}

pub(crate) struct RawRwLock {
    watch: Watch,
    lock: parking_lot::RawRwLock,
}

// SAFETY: the lock does it; what is watched changes nothing.
unsafe impl lock_api::RawRwLock for RawRwLock {
    #[allow(clippy::declare_interior_mutable_const)] // as for every lock
    const INIT: RawRwLock = RawRwLock { watch: Watch::new(), lock: parking_lot::RawRwLock::INIT };
    type GuardMarker = <parking_lot::RawRwLock as lock_api::RawRwLock>::GuardMarker;

    #[inline]
    #[track_caller]
    fn lock_shared(&self) {
        let wait = || {
            self.lock.lock_shared();
            true
        };
        self.watch.take(Access::Shared, Location::caller(), || self.lock.try_lock_shared(), wait);
    }

    #[inline]
    #[track_caller]
    fn try_lock_shared(&self) -> bool {
        self.watch.take(Access::Shared, Location::caller(), || self.lock.try_lock_shared(), || false)
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        self.watch.leave(Access::Shared);
        // SAFETY: this thread shares the lock, the caller's premise, and so the one within.
        unsafe { self.lock.unlock_shared() };
    }

    #[inline]
    #[track_caller]
    fn lock_exclusive(&self) {
        let wait = || {
            self.lock.lock_exclusive();
            true
        };
        self.watch.take(Access::Exclusive, Location::caller(), || self.lock.try_lock_exclusive(), wait);
    }

    #[inline]
    #[track_caller]
    fn try_lock_exclusive(&self) -> bool {
        self.watch.take(Access::Exclusive, Location::caller(), || self.lock.try_lock_exclusive(), || false)
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        self.watch.leave(Access::Exclusive);
        // SAFETY: this thread has the lock for itself, the caller's premise, and so the one within.
        unsafe { self.lock.unlock_exclusive() };
    }
}

impl RawLockRecursive for RawRwLock {
    #[inline]
    #[track_caller]
    fn lock_shared_recursive(&self) {
        let now = || lock_api::RawRwLockRecursive::try_lock_shared_recursive(&self.lock);
        let wait = || {
            RawLockRecursive::lock_shared_recursive(&self.lock);
            true
        };
        self.watch.take(Access::Shared, Location::caller(), now, wait);
    }
}

// SAFETY: the lock within does it, in time; what is watched changes nothing.
unsafe impl lock_api::RawRwLockTimed for RawRwLock {
    type Duration = Duration;
    type Instant = Instant;

    #[track_caller]
    fn try_lock_shared_for(&self, patience: Duration) -> bool {
        let wait = || self.lock.try_lock_shared_for(patience);
        self.watch.take(Access::Shared, Location::caller(), || self.lock.try_lock_shared(), wait)
    }

    #[track_caller]
    fn try_lock_shared_until(&self, end: Instant) -> bool {
        let wait = || self.lock.try_lock_shared_until(end);
        self.watch.take(Access::Shared, Location::caller(), || self.lock.try_lock_shared(), wait)
    }

    #[track_caller]
    fn try_lock_exclusive_for(&self, patience: Duration) -> bool {
        let wait = || self.lock.try_lock_exclusive_for(patience);
        self.watch.take(Access::Exclusive, Location::caller(), || self.lock.try_lock_exclusive(), wait)
    }

    #[track_caller]
    fn try_lock_exclusive_until(&self, end: Instant) -> bool {
        let wait = || self.lock.try_lock_exclusive_until(end);
        self.watch.take(Access::Exclusive, Location::caller(), || self.lock.try_lock_exclusive(), wait)
    }
}
