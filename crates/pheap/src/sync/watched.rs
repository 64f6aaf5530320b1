//! Locks in builds with the simulator: they report to the [mutants](crate::faults::mutant) where they are
//! taken.
//!
//! A mutant is an acquisition of a lock that counts as left out. The thread still waits for the lock, because
//! two threads inside at once could do anything. Instead this module records whether the mutant would have
//! met another thread: the mutant arrives while another thread is inside, or another thread arrives while the
//! mutant is inside. To make that likely, the mutant stays inside for a while, until another thread arrives.
//! No meeting is recorded that could not have happened without the acquisition.

use std::panic::Location;
use std::sync::PoisonError;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use super::LockMode;
use crate::faults::mutant;
use crate::faults::mutant::{Kind, Mutation};

/// The longest time for which a mutant stays inside a lock to meet other threads, and the most times that it
/// stays.
const STAY: Duration = Duration::from_millis(25);
const STAYS: u64 = 40;

/// Reports that a lock is about to be taken at `site`. Returns whether this acquisition is left out.
fn is_left_out(site: &'static Location<'static>) -> bool {
    // Only places within this repository's crates count.
    site.file().starts_with("crates") && mutant::reached(Kind::Lock, site) == Some(Mutation::Drop)
}

#[derive(Debug, Default)]
struct SeenThreads {
    /// `inside` has the number of threads that have the lock exclusively, and the number of threads that
    /// share it; `waiting` has the numbers of threads that wait for exclusive and for shared access.
    inside: [u32; 2],
    waiting: [u32; 2],
    /// The threads inside that are mutants, and how each wanted the lock.
    mutants: Vec<(ThreadId, LockMode)>,
}

/// Returns the index of `want` in `inside` and `waiting`.
fn mode_index(want: LockMode) -> usize {
    usize::from(want != LockMode::Exclusive)
}

/// The threads that are inside a lock. Recorded only while there is a mutant.
#[derive(Debug, Default)]
pub(crate) struct LockWatch(std::sync::Mutex<SeenThreads>);

impl LockWatch {
    fn seen_threads(&self) -> std::sync::MutexGuard<'_, SeenThreads> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that this thread has to wait. Also records a meeting if the mutant is the acquisition of this
    /// thread or of a thread inside, and the two must not be inside at the same time.
    fn arrive(&self, want: LockMode, mutated: bool) {
        let mut seen = self.seen_threads();
        let conflicts = |other: usize| mode_index(want) == 0 || other == 0;
        let inside = (0..2).any(|other| seen.inside[other] > 0 && conflicts(other));
        if mutated && inside || seen.mutants.iter().any(|mutant| conflicts(mode_index(mutant.1))) {
            mutant::meet();
        }
        seen.waiting[mode_index(want)] += 1;
    }

    pub(crate) fn record_entry(&self, want: LockMode, mutated: bool) {
        if !mutant::watches_locks() {
            return;
        }
        let mut seen = self.seen_threads();
        seen.inside[mode_index(want)] += 1;
        if mutated {
            seen.mutants.push((std::thread::current().id(), want));
            drop(seen);
            self.stay(want);
        }
    }

    /// Stays inside for [`STAY`] at most, until a thread waits that may not be inside at the same time, and
    /// counts that as a meeting. Does nothing if there was a meeting before, or if the mutant was reached
    /// more than [`STAYS`] times.
    #[cold]
    fn stay(&self, want: LockMode) {
        if mutant::meetings() > 0 || mutant::fired() > STAYS {
            return;
        }
        let end = Instant::now() + STAY;
        while Instant::now() < end {
            let [exclusive, shared] = self.seen_threads().waiting;
            if exclusive > 0 || want == LockMode::Exclusive && shared > 0 {
                return mutant::meet();
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    pub(crate) fn leave(&self, want: LockMode) {
        if !mutant::watches_locks() {
            return;
        }
        let mut seen = self.seen_threads();
        // The count stays at 0 or more: threads that were inside when the mutant was switched on were not
        // counted.
        let inside = &mut seen.inside[mode_index(want)];
        *inside = inside.saturating_sub(1);
        let me = (std::thread::current().id(), want);
        if let Some(mine) = seen.mutants.iter().position(|mutant| *mutant == me) {
            seen.mutants.swap_remove(mine);
        }
    }

    /// Takes a lock, by `attempt` or, if that fails, by `wait`. By `wait` alone if no lock is watched.
    #[inline]
    #[track_caller]
    pub(crate) fn acquire_watched<G>(
        &self,
        want: LockMode,
        attempt: impl FnOnce() -> Option<G>,
        wait: impl FnOnce() -> Option<G>,
    ) -> Option<G> {
        let mutated = is_left_out(Location::caller());
        if !mutant::watches_locks() {
            return wait();
        }
        let taken = attempt().or_else(|| {
            self.arrive(want, mutated);
            let taken = wait();
            self.seen_threads().waiting[mode_index(want)] -= 1;
            taken
        });
        if taken.is_some() {
            self.record_entry(want, mutated);
        }
        taken
    }
}
