//! `Mutex`, `RwLock` and `Condvar`: those of std (of loom in models). Each is whole in a forked child, for nothing of it
//! lies elsewhere.
//!
//! They are not poisoned: what must not be used after a panic says so itself. In builds with the simulator they tell where
//! they are taken, and a [scheduler](super::schedule) may decide who goes on.

use std::fmt;
use std::hint;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::Instant;

use super::lock::Want;
use super::schedule::{self, below};
use super::watch::Watch;

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
        let guard = self.watch.take(Want::Exclusive, || self.try_once(), || Some(self.wait()));
        MutexGuard { guard, mutex: self }
    }

    /// [`lock`](Self::lock) for what locks of regions are made of, of which mutants leave out the whole.
    #[inline]
    pub(super) fn lock_unwatched(&self) -> MutexGuard<'_, T> {
        MutexGuard { guard: Some(self.wait()), mutex: self }
    }

    /// [`lock`](Self::lock) where it is locked for less time than it takes to fall asleep: this looks again and again for
    /// a while, ever more rarely. Threads that sleep have to be woken, by who unlocks, which takes longer than what the
    /// lock is for; and then all others come too late as well.
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
        schedule::lock_step();
        if_free(self.lock.try_lock())
    }

    fn wait(&self) -> below::MutexGuard<'_, T> {
        schedule::take(self, || if_free(self.lock.try_lock()), || whole(self.lock.lock()))
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        whole(self.lock.get_mut())
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

impl<'a, T> MutexGuard<'a, T> {
    /// Lets others at the mutex while `f` runs.
    #[track_caller]
    pub(crate) fn unlocked<R>(this: &mut Self, f: impl FnOnce() -> R) -> R {
        this.mutex.watch.leave(Want::Exclusive);
        drop(this.unlock());
        let result = f();
        this.guard = this.mutex.lock().guard.take();
        result
    }

    /// What is to be dropped before anybody else goes on.
    #[inline]
    fn unlock(&mut self) -> Option<below::MutexGuard<'a, T>> {
        schedule::wake(self.mutex);
        self.guard.take()
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.guard.is_some() {
            self.mutex.watch.leave(Want::Exclusive);
            schedule::wake(self.mutex);
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

    #[track_caller]
    pub(crate) fn read(&self) -> RwLockGuard<'_, below::RwLockReadGuard<'_, T>> {
        let (attempt, wait) = (|| if_free(self.lock.try_read()), || whole(self.lock.read()));
        self.guard(Want::Shared, attempt, || Some(schedule::take(&self.watch, attempt, wait)))
            .expect("waited for")
    }

    /// [`read`](Self::read), if that needs no waiting, for who has it or for who waits to write.
    #[track_caller]
    pub(crate) fn try_read(&self) -> Option<RwLockGuard<'_, below::RwLockReadGuard<'_, T>>> {
        schedule::lock_step();
        self.guard(Want::Shared, || None, || if_free(self.lock.try_read()))
    }

    #[track_caller]
    pub(crate) fn write(&self) -> RwLockGuard<'_, below::RwLockWriteGuard<'_, T>> {
        let (attempt, wait) = (|| if_free(self.lock.try_write()), || whole(self.lock.write()));
        self.guard(Want::Exclusive, attempt, || Some(schedule::take(&self.watch, attempt, wait)))
            .expect("waited for")
    }

    #[track_caller]
    fn guard<G>(
        &self,
        want: Want,
        attempt: impl FnOnce() -> Option<G>,
        wait: impl FnOnce() -> Option<G>,
    ) -> Option<RwLockGuard<'_, G>> {
        let guard = self.watch.take(want, attempt, wait)?;
        Some(RwLockGuard { guard, watch: &self.watch, want })
    }
}

impl<T> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RwLock")
    }
}

pub(crate) struct RwLockGuard<'a, G> {
    guard: G,
    watch: &'a Watch,
    want: Want,
}

impl<G> Drop for RwLockGuard<'_, G> {
    fn drop(&mut self) {
        self.watch.leave(self.want);
        schedule::wake(self.watch);
    }
}

impl<G: Deref> Deref for RwLockGuard<'_, G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for RwLockGuard<'_, G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

/// Waiting with a [`Mutex`] until something has changed. A thread may wake up for no reason.
#[derive(Default)]
pub(crate) struct Condvar {
    /// How many wait. Changed with the mutex, so that a thread that notifies after a change, made with the mutex, knows
    /// whether anyone waits: std's makes a system call each time.
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
        self.sleep(guard, None);
    }

    /// [`wait`](Self::wait), but not longer than until `end`. Whether that is over. (It never is in a model: somebody comes
    /// before.)
    #[track_caller]
    pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, end: Instant) -> bool {
        self.sleep(guard, Some(end))
    }

    /// [`wait_until`](Self::wait_until) `end`, if there is one. (In a model it is over as soon as others have had the chance
    /// to come.)
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
        let mutex = guard.mutex;
        mutex.watch.leave(Want::Exclusive);
        self.waiting.fetch_add(1, Relaxed);
        let inner = guard.unlock().expect("locked");
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let is_over;
        (guard.guard, is_over) = if schedule::is_scheduled() {
            // Nobody comes in between: this thread runs until it waits.
            drop(inner);
            let woken = left.is_none_or(|left| !left.is_zero()) && schedule::wait_for(self, left.is_some());
            (Some(mutex.wait()), !woken)
        } else if let Some(left) = left {
            let (inner, result) = whole(self.changed.wait_timeout(inner, left));
            (Some(inner), result.timed_out())
        } else {
            (Some(whole(self.changed.wait(inner))), false)
        };
        self.waiting.fetch_sub(1, Relaxed);
        mutex.watch.enter(Want::Exclusive, false);
        is_over
    }

    /// Wakes all that wait.
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

/// Whether a model has seeded the mistake that nobody is notified from here. A constant, but in models.
#[inline(always)]
#[track_caller]
fn is_unnoticed() -> bool {
    #[cfg(all(test, pheap_loom))]
    return super::model::is_dropped(std::panic::Location::caller());
    #[cfg(not(all(test, pheap_loom)))]
    false
}
