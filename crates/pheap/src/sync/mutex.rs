//! `Mutex`, `RwLock` and `Condvar`, made of those of std (of loom in models). Each has all its state in
//! itself, so a lock that a forked child creates works in the child.
//!
//! A panic does not poison them: data that must not be used after a panic have a separate mark. In builds
//! with the simulator they report where they are taken, and a [scheduler](super::schedule) may decide which
//! thread continues.

use std::fmt;
use std::hint;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::Instant;

use super::LockMode;
use super::schedule::{self, below};
use super::watch::LockWatch;

fn whole<G>(result: LockResult<G>) -> G {
    result.unwrap_or_else(PoisonError::into_inner)
}

fn if_free<G>(result: TryLockResult<G>) -> Option<G> {
    match result {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// A lock of std or loom, and the threads that hold it (recorded in builds with the simulator, while there is
/// a mutant).
#[derive(Default)]
pub(crate) struct Lock<L> {
    watch: LockWatch,
    inner: L,
}

pub(crate) type Mutex<T> = Lock<below::Mutex<T>>;
pub(crate) type RwLock<T> = Lock<below::RwLock<T>>;

impl<L> fmt::Debug for Lock<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lock")
    }
}

pub(crate) struct Guard<'a, G, L> {
    /// The guard of std or loom. `None` while this guard does not hold the lock: within
    /// [`unlocked`](Self::unlocked), during a [wait](Condvar::wait), and while it is dropped.
    guard: Option<G>,
    lock: &'a Lock<L>,
    want: LockMode,
}

pub(crate) type MutexGuard<'a, T> = Guard<'a, below::MutexGuard<'a, T>, below::Mutex<T>>;
type ReadGuard<'a, T> = Guard<'a, below::RwLockReadGuard<'a, T>, below::RwLock<T>>;
type WriteGuard<'a, T> = Guard<'a, below::RwLockWriteGuard<'a, T>, below::RwLock<T>>;

impl<L> Lock<L> {
    fn guarded<G>(&self, guard: Option<G>, want: LockMode) -> Guard<'_, G, L> {
        Guard { guard, lock: self, want }
    }
}

impl<G, L> Guard<'_, G, L> {
    /// Records that this thread leaves, and returns the inner guard. The caller drops it, or waits with it,
    /// at once: a scheduled thread does so before any other scheduled thread continues.
    #[inline]
    fn leave(&mut self) -> Option<G> {
        self.lock.watch.leave(self.want);
        schedule::wake(self.lock);
        self.guard.take()
    }
}

impl<G, L> Drop for Guard<'_, G, L> {
    #[inline]
    fn drop(&mut self) {
        if self.guard.is_some() {
            self.leave();
        }
    }
}

impl<G: Deref, L> Deref for Guard<'_, G, L> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        self.guard.as_ref().expect("locked")
    }
}

impl<G: DerefMut, L> DerefMut for Guard<'_, G, L> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        self.guard.as_mut().expect("locked")
    }
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Lock { watch: Default::default(), inner: below::Mutex::new(value) }
    }

    #[inline]
    #[track_caller]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let guard = self.watch.acquire_watched(LockMode::Exclusive, || self.try_once(), || Some(self.wait()));
        self.guarded(guard, LockMode::Exclusive)
    }

    /// [`lock`](Self::lock) for the mutexes inside the lock of a region. The simulator does not record them
    /// separately, because a mutant leaves out the lock of the region as a whole.
    #[inline]
    pub(super) fn lock_unwatched(&self) -> MutexGuard<'_, T> {
        self.guarded(Some(self.wait()), LockMode::Exclusive)
    }

    /// [`lock`](Self::lock) for a mutex that is held for less time than a thread needs to fall asleep: this
    /// tries to lock again and again for a while, at growing intervals, before it sleeps. The unlocking
    /// thread has to wake a thread that sleeps, which takes longer than the work under the lock, and then all
    /// other threads are late, too.
    #[inline]
    #[track_caller]
    pub(crate) fn lock_briefly(&self) -> MutexGuard<'_, T> {
        const LOOKS: u32 = 12;
        let look = |look: u32| {
            let guard = self.try_once();
            if guard.is_none() {
                (0..1u32 << look.min(7)).for_each(|_| hint::spin_loop());
            }
            guard
        };
        let wait = || Some((1..super::spins(LOOKS)).find_map(look).unwrap_or_else(|| self.wait()));
        let guard = self.watch.acquire_watched(LockMode::Exclusive, || self.try_once(), wait);
        self.guarded(guard, LockMode::Exclusive)
    }

    /// [`lock`](Self::lock), if this thread can have the mutex without waiting. (Not for models: loom waits.)
    #[track_caller]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let guard = self.watch.acquire_watched(LockMode::Exclusive, || None, || self.try_once())?;
        Some(self.guarded(Some(guard), LockMode::Exclusive))
    }

    fn try_once(&self) -> Option<below::MutexGuard<'_, T>> {
        schedule::lock_step();
        if_free(self.inner.try_lock())
    }

    fn wait(&self) -> below::MutexGuard<'_, T> {
        schedule::acquire_scheduled(self, || if_free(self.inner.try_lock()), || whole(self.inner.lock()))
    }
}

impl<T> MutexGuard<'_, T> {
    /// Unlocks the mutex while `f` runs, and locks it again.
    #[track_caller]
    pub(crate) fn unlocked<R>(this: &mut Self, f: impl FnOnce() -> R) -> R {
        drop(this.leave());
        let result = f();
        this.guard = this.lock.lock().guard.take();
        result
    }
}

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> RwLock<T> {
        Lock { watch: Default::default(), inner: below::RwLock::new(value) }
    }

    /// Locks the value for reading, if this thread need not wait.
    #[track_caller]
    pub(crate) fn try_read(&self) -> Option<ReadGuard<'_, T>> {
        schedule::lock_step();
        let guard =
            self.watch.acquire_watched(LockMode::Shared, || None, || if_free(self.inner.try_read()))?;
        Some(self.guarded(Some(guard), LockMode::Shared))
    }

    #[track_caller]
    pub(crate) fn write(&self) -> WriteGuard<'_, T> {
        let attempt = || if_free(self.inner.try_write());
        let wait = || Some(schedule::acquire_scheduled(self, attempt, || whole(self.inner.write())));
        self.guarded(self.watch.acquire_watched(LockMode::Exclusive, attempt, wait), LockMode::Exclusive)
    }
}

/// Lets a thread that has locked a [`Mutex`] wait for a change. A thread may wake up for no reason.
#[derive(Default)]
pub(crate) struct Condvar {
    /// Number of threads that wait. It changes only while the mutex of the waiting threads is locked. So a
    /// thread that changes something under the mutex, and notifies afterwards, knows whether a thread waits.
    /// The `Condvar` of std would make a system call each time.
    waiting: AtomicUsize,
    changed: below::Condvar,
}

impl Condvar {
    pub(crate) fn new() -> Condvar {
        Condvar::default()
    }

    /// Unlocks the mutex, waits for a notification, and locks the mutex again.
    #[track_caller]
    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        self.sleep(guard, None);
    }

    /// [`wait`](Self::wait), but at most until `end`. Returns whether that time has passed. (In a model it
    /// never passes: another thread notifies first.)
    #[track_caller]
    pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, end: Instant) -> bool {
        self.sleep(guard, Some(end))
    }

    /// [`wait_until`](Self::wait_until) `end`, if there is one. (In a model the time has passed as soon as
    /// other threads have had the chance to run.)
    pub(super) fn wait_at_most<T>(&self, guard: &mut MutexGuard<'_, T>, end: Option<Instant>) -> bool {
        #[cfg(all(test, pheap_loom))]
        if end.is_some() {
            MutexGuard::unlocked(guard, loom::thread::yield_now);
            return true;
        }
        self.sleep(guard, end)
    }

    #[track_caller]
    fn sleep<T>(&self, guard: &mut MutexGuard<'_, T>, end: Option<Instant>) -> bool {
        self.waiting.fetch_add(1, Relaxed);
        let inner = guard.leave().expect("locked");
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let is_over;
        (guard.guard, is_over) = if schedule::is_scheduled() {
            // No other scheduled thread runs between the unlocking and the wait: this thread runs until it
            // waits.
            drop(inner);
            let woken = left.is_none_or(|left| !left.is_zero()) && schedule::wait_for(self, left.is_some());
            (Some(guard.lock.wait()), !woken)
        } else if let Some(left) = left {
            let (inner, result) = whole(self.changed.wait_timeout(inner, left));
            (Some(inner), result.timed_out())
        } else {
            (Some(whole(self.changed.wait(inner))), false)
        };
        self.waiting.fetch_sub(1, Relaxed);
        guard.lock.watch.record_entry(LockMode::Exclusive, false);
        is_over
    }

    /// Wakes all threads that wait.
    #[inline]
    #[track_caller]
    pub(crate) fn notify_all(&self) {
        if !is_unnoticed() && self.waiting.load(Relaxed) > 0 {
            schedule::wake(self);
            self.changed.notify_all();
        }
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condvar")
    }
}

/// Whether a model leaves out the notification from the caller's place in the source. A constant, except in
/// models.
#[inline(always)]
#[track_caller]
fn is_unnoticed() -> bool {
    #[cfg(all(test, pheap_loom))]
    return super::model::is_dropped(std::panic::Location::caller());
    #[cfg(not(all(test, pheap_loom)))]
    false
}
