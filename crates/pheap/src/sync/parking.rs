//! Waiting for a condition with a limit of time.

use std::sync::PoisonError;
use std::time::Instant;

use super::below::{Condvar, Mutex, MutexGuard};

/// Lets others at what the mutex guards until this thread is woken, or `end` is over: which it returns.
pub(super) fn wait_until<'a, T>(
    changed: &Condvar,
    _mutex: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    end: Option<Instant>,
) -> (MutexGuard<'a, T>, bool) {
    let Some(_end) = end else {
        return (changed.wait(guard).unwrap_or_else(PoisonError::into_inner), false);
    };
    // In a model, it is over as soon as others have had the chance to come.
    #[cfg(all(test, pheap_loom))]
    {
        drop(guard);
        loom::thread::yield_now();
        (_mutex.lock().unwrap_or_else(PoisonError::into_inner), true)
    }
    #[cfg(not(all(test, pheap_loom)))]
    {
        let left = _end.saturating_duration_since(Instant::now());
        let (guard, result) = changed.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner);
        (guard, result.timed_out())
    }
}
