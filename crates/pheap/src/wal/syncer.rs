//! Deferred commits: the *sync thread*, which syncs records for which no thread waits, and the wakers of
//! tasks that wait.
//!
//! Wakers are code of the program. They are called, cloned and dropped while nothing of the log is locked,
//! and only the sync thread calls them.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Instant;

use super::{SyncPolicy, Wal, WalState};
use crate::error::Result;
use crate::sync::{Mistake, MutexGuard, mistake};

/// The work of the sync thread.
#[derive(Debug, Default)]
pub(super) struct SyncerState {
    /// With [`SyncPolicy::Every`]: when the oldest record was appended that the sync thread has not yet been
    /// asked to sync. `None` if there is none.
    since: Option<Instant>,
    /// The wakers, by the log position that each waits for, and by number, because several may wait for one
    /// position.
    wakers: BTreeMap<(u64, u64), Waker>,
    /// The last number given to a waker.
    numbers: u64,
    /// Whether the sync thread is to end, and no other is to begin.
    stop: bool,
}

impl SyncerState {
    /// Returns whether a waker waits for a position that is not behind `end`.
    pub(super) fn is_waited_for(&self, end: u64) -> bool {
        self.wakers.first_key_value().is_some_and(|((position, _), _)| *position <= end)
    }

    /// Takes the wakers that wait for positions not behind `end`.
    fn take_wakers(&mut self, end: u64) -> BTreeMap<(u64, u64), Waker> {
        let later = self.wakers.split_off(&(end.saturating_add(1), 0));
        std::mem::replace(&mut self.wakers, later)
    }
}

impl Wal {
    /// Returns whether all records before `position` survive a power failure.
    #[inline]
    pub(crate) fn is_durable(&self, position: u64) -> bool {
        self.durable_end() >= position
    }

    /// Waits until all records before `position` survive a power failure.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`](crate::Error::OutcomeUnknown).
    pub(crate) fn sync_up_to(&self, position: u64) -> Result<()> {
        self.reach(position, true)
    }

    /// Waits until at most `most` bytes before `position` are not synced. An error of the sync is ignored
    /// here, because waiting for the commit returns it.
    pub(crate) fn limit_unsynced(&self, position: u64, most: u64) {
        let least = position.saturating_sub(most);
        if !self.is_durable(least) {
            let _ = self.sync_up_to(least);
        }
    }

    /// Asks the sync thread to sync the records before `position`, if the policy is to sync each deferred
    /// commit. With other policies, the sync thread is asked when a task polls the commit, or, with
    /// [`SyncPolicy::Every`], when the interval is over.
    pub(crate) fn ask(&self, position: u64) {
        if self.policy.syncs_deferred() && self.wanted.load(Ordering::Relaxed) < position {
            self.want(&self.state.lock(), position);
        }
    }

    /// Asks the sync thread to sync the records before `position`. The state is locked.
    fn want(&self, _state: &WalState, position: u64) {
        self.wanted.fetch_max(position, Ordering::Relaxed);
        self.ordered.notify_all();
    }

    /// With [`SyncPolicy::Every`], notes the time of the first record that the sync thread is to sync later,
    /// and wakes that thread.
    #[inline]
    pub(super) fn note_unsynced(&self, state: &mut WalState) {
        if matches!(self.policy(), SyncPolicy::Every(_)) && state.deferred.since.is_none() {
            state.deferred.since = Some(Instant::now());
            self.ordered.notify_all();
        }
    }

    /// Leaves a waker that is called when all records before `position` are durable, or when the sync thread
    /// ends. The waker replaces the earlier one with the number `number`; if there is no number, it gets a
    /// new one. Returns `false`, and leaves no waker, if the position is durable already or there is no
    /// thread to call the waker.
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

    /// Removes the waker with this position and number.
    pub(super) fn take_waker(&self, position: u64, number: u64) {
        let taken = self.state.lock().deferred.wakers.remove(&(position, number));
        drop(taken);
    }
}

/// The sync thread: the thread that syncs records for which no thread waits.
impl Wal {
    /// Returns whether the sync thread is there.
    pub(crate) fn has_syncer(&self) -> bool {
        self.has_syncer.load(Ordering::Acquire)
    }

    /// Calls `start` to start the sync thread, unless the thread is there or may not begin any more, or the
    /// log has failed. The sync thread calls [`sync_deferred`](Self::sync_deferred) until that returns
    /// `false`, and then [`end_syncer`](Self::end_syncer).
    pub(crate) fn begin_syncer<T>(&self, start: impl FnOnce() -> Option<T>) -> Option<T> {
        // The state stays locked, so that no task leaves a waker to a thread that cannot be started.
        let state = self.state.lock();
        if self.has_syncer() || state.deferred.stop || state.failure.is_some() {
            return None;
        }
        let started = start();
        self.has_syncer.store(started.is_some(), Ordering::Release);
        started
    }

    /// Waits, in the sync thread, until a sync is wanted, syncs the log up to the wanted position, and
    /// returns `true`. While it waits, it calls the wakers of durable positions. Returns `false` if the sync
    /// thread is to end, or the log has failed.
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
                // The result is ignored, because the log's state keeps a failure.
                let _ = self.sync_up_to(wanted);
                return true;
            }
            match (state.deferred.since, self.policy()) {
                (Some(since), SyncPolicy::Every(interval)) => match since.checked_add(interval) {
                    Some(end) if end <= Instant::now() => {
                        state.deferred.since = None;
                        self.want(&state, state.buffer.end_position());
                    }
                    Some(end) => drop(self.ordered.wait_until(&mut state, end)),
                    // The end of the interval is too far away for an `Instant`, so the thread waits without a
                    // time limit.
                    None => self.ordered.wait(&mut state),
                },
                _ => self.ordered.wait(&mut state),
            }
        }
    }

    /// Tells the sync thread to end.
    pub(crate) fn stop_syncer(&self) {
        self.state.lock().deferred.stop = true;
        self.ordered.notify_all();
    }

    /// Notes that the sync thread has ended, and calls all wakers, because no other thread will call them.
    pub(crate) fn end_syncer(&self) {
        let mut state = self.state.lock();
        self.has_syncer.store(false, Ordering::Release);
        let wakers = state.deferred.take_wakers(u64::MAX);
        drop(state);
        wake(wakers);
    }
}

/// Calls wakers. If one panics, the others are still called, and the thread goes on.
fn wake(wakers: BTreeMap<(u64, u64), Waker>) {
    for waker in wakers.into_values() {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
            // Dropping the value of the panic may panic, too, so the value is leaked.
            std::mem::forget(panic);
        }
    }
}
