//! Waiting with a [`Mutex`](super::Mutex) until something has changed.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::MutexGuard;

/// What is waited for is changed with the mutex only: else a thread may not be notified that is about to wait.
#[derive(Debug)]
pub(crate) struct Condvar {
    /// How many wait. Changed with the mutex of those who wait, so that who notifies after a change sees whom it concerns.
    waiting: AtomicUsize,
    /// How often it was notified.
    notified: Mutex<u64>,
    changed: std::sync::Condvar,
}

impl Condvar {
    pub(crate) const fn new() -> Condvar {
        Condvar { waiting: AtomicUsize::new(0), notified: Mutex::new(0), changed: std::sync::Condvar::new() }
    }

    /// Lets others at what the mutex guards until it is notified. (Not sooner, but the thread that has the mutex next may have undone the change.)
    #[track_caller]
    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_with(guard, None);
    }

    /// [`wait`](Self::wait), but not longer than until `end`. Whether it was notified.
    #[track_caller]
    pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, end: Instant) -> bool {
        self.wait_with(guard, Some(end))
    }

    #[track_caller]
    fn wait_with<T>(&self, guard: &mut MutexGuard<'_, T>, end: Option<Instant>) -> bool {
        self.waiting.fetch_add(1, Relaxed);
        // Before the guard lets go of its mutex, so that nobody notifies in between.
        let notified = self.notified.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *notified;
        let in_time = MutexGuard::unlocked(guard, || match end {
            None => {
                drop(self.changed.wait_while(notified, |now| *now == before));
                true
            }
            Some(end) => {
                let left = end.saturating_duration_since(Instant::now());
                let waited = self.changed.wait_timeout_while(notified, left, |now| *now == before);
                !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
            }
        });
        self.waiting.fetch_sub(1, Relaxed);
        in_time
    }

    /// Wakes all that wait.
    #[inline]
    pub(crate) fn notify_all(&self) {
        if self.waiting.load(Relaxed) > 0 {
            *self.notified.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::sync::Mutex;

    #[test]
    fn all_that_wait_are_notified() {
        const THREADS: u64 = 3;
        const ROUNDS: u64 = 300;
        let (round, changed) = (Mutex::new(0), Condvar::new());
        thread::scope(|scope| {
            for me in 0..THREADS {
                let (round, changed) = (&round, &changed);
                scope.spawn(move || {
                    for turn in 0..ROUNDS {
                        let mut round = round.lock();
                        while *round % THREADS != me {
                            changed.wait(&mut round);
                        }
                        assert_eq!(*round, turn * THREADS + me);
                        *round += 1;
                        changed.notify_all();
                    }
                });
            }
        });
        assert_eq!(*round.lock(), THREADS * ROUNDS);
        assert_eq!(changed.waiting.load(Relaxed), 0);
    }

    #[test]
    fn waiting_ends() {
        let (value, changed) = (Mutex::new(0), Condvar::new());
        let mut guard = value.lock();
        let end = Instant::now() + Duration::from_millis(5);
        assert!(!changed.wait_until(&mut guard, end));
        assert!(Instant::now() >= end);
        assert!(!changed.wait_until(&mut guard, end));
        thread::scope(|scope| {
            scope.spawn(|| {
                *value.lock() += 1;
                changed.notify_all();
            });
            assert!(changed.wait_until(&mut guard, Instant::now() + Duration::from_secs(60)));
            assert_eq!(*guard, 1);
        });
    }
}
