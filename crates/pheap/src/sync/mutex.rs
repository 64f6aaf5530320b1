//! `Mutex`, `RwLock` and `Condvar`: those of std (of loom in models). Each is whole in a forked child, for nothing of it lies elsewhere.
//!
//! They are not poisoned: what must not be used after a panic says so itself. In builds with the simulator they tell where they are taken.

use std::fmt;
use std::hint;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::below;
use super::lock::Want;
use super::watch::Watch;

#[derive(Default)]
pub(crate) struct Mutex<T> {
    watch: Watch,
    lock: below::Mutex<T>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex { watch: Default::default(), lock: below::Mutex::new(value) }
    }

    #[inline]
    #[track_caller]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let wait = || Some(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        let guard = self.watch.take(Want::Exclusive, || self.try_once(), wait);
        MutexGuard { guard, mutex: self }
    }

    /// [`lock`](Self::lock) where it is locked for less time than it takes to fall asleep: this looks again and again for a while, ever more rarely. Threads that sleep have to be woken, by
    /// who unlocks, which takes longer than what the lock is for; and then all others come too late as well.
    #[inline]
    #[track_caller]
    pub(crate) fn lock_briefly(&self) -> MutexGuard<'_, T> {
        const LOOKS: u32 = 12;
        let wait = || {
            (1..super::spins(LOOKS)).find_map(|look| {
                let guard = self.try_once();
                if guard.is_none() {
                    (0..1u32 << look.min(7)).for_each(|_| hint::spin_loop());
                }
                guard
            })
        };
        let wait =
            || Some(wait().unwrap_or_else(|| self.lock.lock().unwrap_or_else(PoisonError::into_inner)));
        let guard = self.watch.take(Want::Exclusive, || self.try_once(), wait);
        MutexGuard { guard, mutex: self }
    }

    /// [`lock`](Self::lock), if that needs no waiting. (Not for models: loom waits.)
    #[track_caller]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let guard = self.watch.take(Want::Exclusive, || None, || self.try_once())?;
        Some(MutexGuard { guard: Some(guard), mutex: self })
    }

    fn try_once(&self) -> Option<below::MutexGuard<'_, T>> {
        match self.lock.try_lock() {
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(e)) => Some(e.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.lock.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutex")
    }
}

pub(crate) struct MutexGuard<'a, T> {
    /// `None` only within [`unlocked`](Self::unlocked) and while it [waits](Condvar::wait).
    guard: Option<below::MutexGuard<'a, T>>,
    mutex: &'a Mutex<T>,
}

impl<T> MutexGuard<'_, T> {
    /// Lets others at the mutex while `f` runs.
    #[track_caller]
    pub(crate) fn unlocked<R>(this: &mut Self, f: impl FnOnce() -> R) -> R {
        this.mutex.watch.leave(Want::Exclusive);
        this.guard = None;
        let result = f();
        this.guard = this.mutex.lock().guard.take();
        result
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.guard.is_some() {
            self.mutex.watch.leave(Want::Exclusive);
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.guard.as_ref().expect("locked")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("locked")
    }
}

pub(crate) struct RwLock<T> {
    watch: Watch,
    lock: below::RwLock<T>,
}

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> RwLock<T> {
        RwLock { watch: Default::default(), lock: below::RwLock::new(value) }
    }

    /// Locks it to read, if no thread has it, or waits for it, to write.
    #[track_caller]
    pub(crate) fn try_read(&self) -> Option<RwLockGuard<'_, below::RwLockReadGuard<'_, T>>> {
        let guard = self.watch.take(Want::Shared, || None, || self.lock.try_read().ok())?;
        Some(RwLockGuard { _guard: guard, watch: &self.watch, want: Want::Shared })
    }

    #[track_caller]
    pub(crate) fn write(&self) -> RwLockGuard<'_, below::RwLockWriteGuard<'_, T>> {
        let attempt = || self.lock.try_write().ok();
        let wait = || Some(self.lock.write().unwrap_or_else(PoisonError::into_inner));
        let guard = self.watch.take(Want::Exclusive, attempt, wait).expect("waited for");
        RwLockGuard { _guard: guard, watch: &self.watch, want: Want::Exclusive }
    }
}

impl<T> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RwLock")
    }
}

pub(crate) struct RwLockGuard<'a, G> {
    _guard: G,
    watch: &'a Watch,
    want: Want,
}

impl<G> Drop for RwLockGuard<'_, G> {
    fn drop(&mut self) {
        self.watch.leave(self.want);
    }
}

/// Waiting with a [`Mutex`] until something has changed. A thread may wake up for no reason.
#[derive(Default)]
pub(crate) struct Condvar {
    /// How many wait. Changed with the mutex, so that a thread that notifies after a change, made with the mutex, knows whether anyone waits: std's makes a
    /// system call each time.
    waiting: AtomicUsize,
    changed: below::Condvar,
}

impl Condvar {
    pub(crate) fn new() -> Condvar {
        Condvar::default()
    }

    /// Lets others at what the mutex guards until it is notified.
    #[track_caller]
    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_with(guard, |guard| self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner));
    }

    /// [`wait`](Self::wait), but not longer than until `end`. Whether that is over. (It never is in a model: somebody comes before.)
    #[track_caller]
    pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, end: Instant) -> bool {
        let mut is_over = false;
        self.wait_with(guard, |guard| {
            let left = end.saturating_duration_since(Instant::now());
            let (guard, result) =
                self.changed.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner);
            is_over = result.timed_out();
            guard
        });
        is_over
    }

    fn wait_with<'a, T>(
        &self,
        guard: &mut MutexGuard<'a, T>,
        wait: impl FnOnce(below::MutexGuard<'a, T>) -> below::MutexGuard<'a, T>,
    ) {
        let watch = &guard.mutex.watch;
        watch.leave(Want::Exclusive);
        self.waiting.fetch_add(1, Relaxed);
        guard.guard = guard.guard.take().map(wait);
        self.waiting.fetch_sub(1, Relaxed);
        watch.enter(Want::Exclusive, false);
    }

    /// Wakes all that wait.
    #[inline]
    #[track_caller]
    pub(crate) fn notify_all(&self) {
        if !is_unnoticed() && self.waiting.load(Relaxed) > 0 {
            self.changed.notify_all();
        }
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condvar")
    }
}

/// Whether a model has seeded the mistake that nobody is notified from here. A constant, but in models.
#[inline(always)]
#[track_caller]
fn is_unnoticed() -> bool {
    #[cfg(all(test, pheap_loom))]
    return super::model::is_dropped(std::panic::Location::caller());
    #[cfg(not(all(test, pheap_loom)))]
    false
}
