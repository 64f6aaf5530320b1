//! Deferred commits: the thread that syncs what nobody waits for, and the wakers of those who are to be told.
//!
//! Wakers are code of the program's. They are called, cloned and dropped while nothing of the log is locked, and called by this thread only.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Instant;

use super::{State, SyncPolicy, Wal};
use crate::error::Result;
use crate::sync::{Mistake, MutexGuard, mistake};

/// What the thread has to do.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    /// When the oldest record was appended that the thread does not know of, with [`SyncPolicy::Every`].
    since: Option<Instant>,
    /// Whom to wake when the log is synced up to a position. Two may have the same one, so they are numbered.
    wakers: BTreeMap<(u64, u64), Waker>,
    numbers: u64,
    /// The thread is to end, and none is to begin.
    stop: bool,
}

impl Deferred {
    /// Whether somebody is to be woken when the log is synced up to `end`.
    pub(super) fn is_waited_for(&self, end: u64) -> bool {
        self.wakers.first_key_value().is_some_and(|((position, _), _)| *position <= end)
    }

    /// Takes the wakers of those who wait for no more than `end`.
    fn take_wakers(&mut self, end: u64) -> BTreeMap<(u64, u64), Waker> {
        let later = self.wakers.split_off(&(end.saturating_add(1), 0));
        std::mem::replace(&mut self.wakers, later)
    }
}

impl Wal {
    /// Whether everything before `position` survives a power failure.
    #[inline]
    pub(crate) fn is_durable(&self, position: u64) -> bool {
        self.durable_end() >= position
    }

    /// Waits until that is so.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`](crate::Error::OutcomeUnknown).
    pub(crate) fn sync_up_to(&self, position: u64) -> Result<()> {
        self.reach(position, true)
    }

    /// Waits until at most so many bytes before `position` are not synced. If that fails, who waits for the commit is told.
    pub(crate) fn limit_unsynced(&self, position: u64, most: u64) {
        let least = position.saturating_sub(most);
        if !self.is_durable(least) {
            let _ = self.sync_up_to(least);
        }
    }

    /// Has the thread sync what was appended before `position`, if the policy is to sync commits. With another one, who needs it says so.
    pub(crate) fn ask(&self, position: u64) {
        if self.policy.syncs_deferred() && self.wanted.load(Ordering::Relaxed) < position {
            self.want(&self.state.lock(), position);
        }
    }

    fn want(&self, _state: &State, position: u64) {
        self.wanted.fetch_max(position, Ordering::Relaxed);
        self.ordered.notify_all();
    }

    /// Notes that something was appended that is to be synced some time later.
    #[inline]
    pub(super) fn note_unsynced(&self, state: &mut State) {
        if matches!(self.policy(), SyncPolicy::Every(_)) && state.deferred.since.is_none() {
            state.deferred.since = Some(Instant::now());
            self.ordered.notify_all();
        }
    }

    /// Leaves a waker, which is called when everything before `position` is durable, or will never be known to be. It replaces the one with this number. `false` if that
    /// is known, or there is nobody to call it.
    pub(super) fn leave_waker(&self, position: u64, number: &mut Option<u64>, waker: Waker) -> bool {
        let seen_before = mistake(Mistake::LookUnlocked) && self.has_syncer();
        let mut state = self.state.lock();
        if self.is_durable(position) || !(seen_before || self.has_syncer()) {
            drop(state);
            return false;
        }
        let deferred = &mut state.deferred;
        let number = *number.get_or_insert_with(|| {
            deferred.numbers += 1;
            deferred.numbers
        });
        let old = deferred.wakers.insert((position, number), waker);
        self.want(&state, position);
        drop(state);
        drop(old);
        true
    }

    /// Forgets a waker.
    pub(super) fn take_waker(&self, position: u64, number: u64) {
        let taken = self.state.lock().deferred.wakers.remove(&(position, number));
        drop(taken);
    }
}

/// The thread that syncs.
impl Wal {
    /// Whether there is one.
    pub(crate) fn has_syncer(&self) -> bool {
        self.has_syncer.load(Ordering::Acquire)
    }

    /// Has `start` start one, unless there is one or may be none any more. It calls [`sync_deferred`](Self::sync_deferred) until it is to end, and then [`end_syncer`](Self::end_syncer).
    pub(crate) fn begin_syncer<T>(&self, start: impl FnOnce() -> Option<T>) -> Option<T> {
        // Locked meanwhile, so that nobody leaves a waker to a thread that cannot be started.
        let state = self.state.lock();
        if self.has_syncer() || state.deferred.stop || state.failure.is_some() {
            return None;
        }
        let started = start();
        self.has_syncer.store(started.is_some(), Ordering::Release);
        started
    }

    /// Syncs what somebody wants to be synced, and wakes those who have waited for that; waits until there is something to do. `false` if the thread is to end.
    pub(crate) fn sync_deferred(&self) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.deferred.stop || state.failure.is_some() {
                return false;
            }
            let durable = self.durable_end();
            if state.deferred.is_waited_for(durable) {
                let wakers = state.deferred.take_wakers(durable);
                MutexGuard::unlocked(&mut state, || wake(wakers));
                continue;
            }
            let wanted = self.wanted.load(Ordering::Relaxed);
            if wanted > durable {
                drop(state);
                let _ = self.sync_up_to(wanted); // a failure is kept, for all others to see
                return true;
            }
            match (state.deferred.since, self.policy()) {
                (Some(since), SyncPolicy::Every(interval)) => match since.checked_add(interval) {
                    Some(end) if end <= Instant::now() => {
                        state.deferred.since = None;
                        self.want(&state, state.buffer.end());
                    }
                    Some(end) => drop(self.ordered.wait_until(&mut state, end)),
                    None => self.ordered.wait(&mut state), // that is never
                },
                _ => self.ordered.wait(&mut state),
            }
        }
    }

    /// Tells it to end.
    pub(crate) fn stop_syncer(&self) {
        self.state.lock().deferred.stop = true;
        self.ordered.notify_all();
    }

    /// The thread has ended. Wakes all that wait, for nobody else will.
    pub(crate) fn end_syncer(&self) {
        let mut state = self.state.lock();
        self.has_syncer.store(false, Ordering::Release);
        let wakers = state.deferred.take_wakers(u64::MAX);
        drop(state);
        wake(wakers);
    }
}

/// Calls wakers. One that panics keeps no other from being called, nor the log from being synced.
fn wake(wakers: BTreeMap<(u64, u64), Waker>) {
    for waker in wakers.into_values() {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
            std::mem::forget(panic); // to drop it may panic, too
        }
    }
}
