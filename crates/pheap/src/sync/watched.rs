//! Locks in builds with the simulator: they tell the [mutants](crate::faults::mutant) where they are taken.
//!
//! A mutant of a lock is let in only when it would have been anyway, for two threads at once could do anything. Instead it is noted when it would have
//! met somebody: when it comes while another thread is inside, or when another comes while it is. To make that likely, it stays inside for a while,
//! until somebody comes. What is noted does not depend on luck: a meeting is one that would have happened.

use std::panic::Location;
use std::sync::PoisonError;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use super::Want;
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

#[derive(Debug, Default)]
struct Seen {
    /// Threads inside that have it for themselves, and that share it; and those that wait for that.
    inside: [u32; 2],
    waiting: [u32; 2],
    /// Those inside that the mutant has let in, for which access.
    mutants: Vec<(ThreadId, Want)>,
}

/// Its place in `inside` and `waiting`.
fn place(want: Want) -> usize {
    usize::from(want != Want::Exclusive)
}

/// Who is inside of a lock. Kept only while there is a mutant.
#[derive(Debug, Default)]
pub(crate) struct Watch(std::sync::Mutex<Seen>);

impl Watch {
    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a thread has to wait, and whether it would meet somebody if a lock was left out: this one, or that of who
    /// is inside.
    fn arrive(&self, want: Want, mutated: bool) {
        let mut seen = self.seen();
        let conflicts = |other: usize| place(want) == 0 || other == 0;
        let inside = (0..2).any(|other| seen.inside[other] > 0 && conflicts(other));
        if mutated && inside || seen.mutants.iter().any(|mutant| conflicts(place(mutant.1))) {
            mutant::meet();
        }
        seen.waiting[place(want)] += 1;
    }

    pub(crate) fn enter(&self, want: Want, mutated: bool) {
        if !mutant::watches_locks() {
            return;
        }
        let mut seen = self.seen();
        seen.inside[place(want)] += 1;
        if mutated {
            seen.mutants.push((std::thread::current().id(), want));
            drop(seen);
            self.stay(want);
        }
    }

    /// Waits for somebody who would not have had to wait for this thread.
    #[cold]
    fn stay(&self, want: Want) {
        if mutant::meetings() > 0 || mutant::fired() > STAYS {
            return;
        }
        let end = Instant::now() + STAY;
        while Instant::now() < end {
            let [exclusive, shared] = self.seen().waiting;
            if exclusive > 0 || want == Want::Exclusive && shared > 0 {
                return mutant::meet();
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    pub(crate) fn leave(&self, want: Want) {
        if !mutant::watches_locks() {
            return;
        }
        let mut seen = self.seen();
        // Not below 0: who was inside when the mutant was switched on was not counted.
        let inside = &mut seen.inside[place(want)];
        *inside = inside.saturating_sub(1);
        let me = (std::thread::current().id(), want);
        if let Some(mine) = seen.mutants.iter().position(|mutant| *mutant == me) {
            seen.mutants.swap_remove(mine);
        }
    }

    /// Takes a lock, by `attempt` or, if that fails, by `wait`.
    #[inline]
    #[track_caller]
    pub(crate) fn take<G>(
        &self,
        want: Want,
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
            self.seen().waiting[place(want)] -= 1;
            taken
        });
        if taken.is_some() {
            self.enter(want, mutated);
        }
        taken
    }
}
