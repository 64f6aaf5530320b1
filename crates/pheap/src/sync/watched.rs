//! The [lock](super::lock) in builds with the simulator: it tells the [mutants](crate::faults::mutant) where it is taken.
//!
//! A mutant of a lock is let in only when it would have been anyway, for two threads at once could do anything. Instead it is noted when it would have
//! met somebody: when it comes while another thread is inside, or when another comes while it is. To make that likely, it stays inside for a while,
//! until somebody comes. What is noted does not depend on luck: a meeting is one that would have happened.

use std::panic::Location;
use std::sync::PoisonError;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use super::lock::Want;
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

impl From<Want> for Access {
    fn from(want: Want) -> Access {
        match want {
            Want::Exclusive => Access::Exclusive,
            Want::Shared | Want::Nested => Access::Shared,
        }
    }
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

pub(crate) struct RawRwLock {
    watch: Watch,
    lock: super::lock::RawRwLock,
}

impl RawRwLock {
    pub(crate) const fn new() -> RawRwLock {
        RawRwLock { watch: Watch::new(), lock: super::lock::RawRwLock::new() }
    }

    #[inline]
    #[track_caller]
    pub(crate) fn lock(&self, want: Want) {
        let wait = || {
            self.lock.lock(want);
            true
        };
        self.watch.take(want.into(), Location::caller(), || self.lock.try_lock(want), wait);
    }

    #[inline]
    #[track_caller]
    pub(crate) fn try_lock(&self, want: Want) -> bool {
        self.watch.take(want.into(), Location::caller(), || self.lock.try_lock(want), || false)
    }

    #[track_caller]
    pub(crate) fn try_lock_until(&self, want: Want, end: Instant) -> bool {
        let wait = || self.lock.try_lock_until(want, end);
        self.watch.take(want.into(), Location::caller(), || self.lock.try_lock(want), wait)
    }

    #[inline]
    pub(crate) fn unlock_exclusive(&self) {
        self.watch.leave(Access::Exclusive);
        self.lock.unlock_exclusive();
    }

    #[inline]
    pub(crate) fn unlock_shared(&self) {
        self.watch.leave(Access::Shared);
        self.lock.unlock_shared();
    }

    pub(crate) fn is_exclusive(&self) -> bool {
        self.lock.is_exclusive()
    }
}
