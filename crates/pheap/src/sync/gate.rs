//! A gate in front of a lock. Threads that arrive at the gate, and have no region, wait there while another
//! thread locks or upgrades several regions, but not for ever.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::mutex::{Condvar, Mutex, MutexGuard};

/// The longest wait of a thread at a gate, until the closer lengthens it. A thread must not wait for ever:
/// the thread that has closed the gate may wait for a transaction on another root, which the waiting threads
/// do not even read. That transaction may wait for a lock of the program that a thread at the gate holds.
const PATIENCE: Duration = Duration::from_millis(100);
/// The longest wait of a thread at a gate, however often the closer [lengthens](Closer::lengthen) it.
const LONGEST: Duration = PATIENCE.saturating_mul(64);

/// A gate in front of a lock. Nothing depends on it except the order of threads, so one relaxed load is
/// enough to see whether it is closed.
pub(crate) struct Gate {
    /// Number of entries in `closers`.
    closed: AtomicU64,
    closers: Mutex<Vec<Closer>>,
    changed: Condvar,
}

/// A thread that closes gates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Closer {
    /// The closer's number, which is larger than those of all closers that were made before.
    number: u64,
    patience: Duration,
    /// The time at which threads stop waiting for this closer, the same for all threads that arrive before
    /// the next time is set. So all threads that have waited in vain enter together, however many there are,
    /// and leave a gap behind them.
    until: Instant,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Closer {
    pub(crate) fn new() -> Closer {
        let number = NEXT.fetch_add(1, Relaxed);
        Closer { number, patience: PATIENCE, until: Instant::now() + PATIENCE }
    }

    /// Sets a new deadline if the last one has passed. Called when the closer has tried again to lock or
    /// upgrade all its regions, and could not. The new wait is twice as long, up to [`LONGEST`]: otherwise
    /// threads whose work takes longer than the wait would come back again and again. Returns whether there
    /// is a new deadline.
    pub(crate) fn lengthen(&mut self) -> bool {
        let now = Instant::now();
        let is_over = now >= self.until;
        if is_over {
            self.patience = (2 * self.patience).min(LONGEST);
            self.until = now + self.patience;
        }
        is_over
    }
}

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate { closed: AtomicU64::new(0), closers: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits for the threads that have closed the gate by now, at most until their latest
    /// [deadline](Closer::until). It does not wait for a [`Closer`] that is made later, because there may
    /// always be another one. It does not wait at all if this thread has a region already, because the
    /// closers may wait for that region.
    #[inline(always)]
    pub(crate) fn pass(&self, has_something: impl FnOnce() -> bool) {
        if self.closed.load(Relaxed) != 0 && !has_something() {
            self.wait(NEXT.load(Relaxed));
        }
    }

    /// Locks the closers. The simulator does not record this lock, and no mutant leaves it out, because
    /// nothing depends on the gate except the order of threads.
    fn closers(&self) -> MutexGuard<'_, Vec<Closer>> {
        self.closers.lock_unwatched()
    }

    /// Waits for the closers with a lower number than `next`. It does not wait in models, where no time
    /// passes, because nothing depends on the gate except the order of threads.
    #[cold]
    fn wait(&self, next: u64) {
        if cfg!(all(test, pheap_loom)) {
            return;
        }
        let mut closers = self.closers();
        let before =
            |closers: &[Closer]| closers.iter().filter(|one| one.number < next).map(|one| one.until).max();
        // A deadline that a closer sets after this point applies to threads that arrive later.
        let Some(end) = before(&closers) else { return };
        while before(&closers).is_some() && !self.changed.wait_until(&mut closers, end) {}
    }

    /// Closes the gate until the caller [opens](Self::open) it. If this closer has closed the gate already,
    /// stores its [new deadline](Closer::lengthen).
    pub(crate) fn close(&self, closer: Closer) {
        let mut closers = self.closers();
        closers.retain(|known| known.number != closer.number);
        closers.push(closer);
        self.closed.store(closers.len() as u64, Relaxed);
    }

    pub(crate) fn open(&self, closer: Closer) {
        let mut closers = self.closers();
        closers.retain(|known| known.number != closer.number);
        self.closed.store(closers.len() as u64, Relaxed);
        self.changed.notify_all();
    }
}

/// The gates of several locks, which one closer keeps closed until this value is dropped.
pub(crate) struct ClosedGates<'a> {
    gates: Vec<&'a Gate>,
    closer: Closer,
}

impl<'a> ClosedGates<'a> {
    pub(crate) fn close(gates: Vec<&'a Gate>) -> ClosedGates<'a> {
        let closer = Closer::new();
        gates.iter().for_each(|gate| gate.close(closer));
        ClosedGates { gates, closer }
    }

    /// Sets a later deadline at all gates, if the last one has passed.
    pub(crate) fn lengthen(&mut self) {
        if self.closer.lengthen() {
            self.gates.iter().for_each(|gate| gate.close(self.closer));
        }
    }
}

impl Drop for ClosedGates<'_> {
    fn drop(&mut self) {
        self.gates.iter().for_each(|gate| gate.open(self.closer));
    }
}

#[cfg(all(test, not(pheap_loom)))]
mod tests {
    use std::thread;

    use super::*;

    impl Closer {
        /// Returns a closer for which other threads wait longer than any test takes.
        pub(crate) fn patient() -> Closer {
            Closer { until: Instant::now() + Duration::from_secs(3600), ..Closer::new() }
        }
    }

    #[test]
    fn who_comes_waits_for_those_who_came_before() {
        let gate = &Gate::new();
        let [first, second] = [Closer::patient(), Closer::patient()];
        gate.close(first);
        gate.close(second);
        thread::scope(|scope| {
            let next = NEXT.load(Relaxed);
            let waits = scope.spawn(move || gate.wait(next));
            thread::sleep(Duration::from_millis(20));
            gate.pass(|| true);
            gate.open(first);
            thread::sleep(Duration::from_millis(20));
            assert!(!waits.is_finished(), "another one still has it closed");
            let later = Closer::patient();
            gate.close(later);
            gate.open(second);
            waits.join().unwrap();
            gate.open(later);
        });
        gate.pass(|| false);
    }

    #[test]
    fn patience_ends_for_all_at_once_and_is_lengthened_when_it_is_over() {
        let gate = Gate::new();
        let mut closer = Closer { until: Instant::now(), ..Closer::new() };
        gate.close(closer);
        gate.pass(|| false);
        let mut last = PATIENCE;
        for _ in 0..10 {
            assert!(closer.lengthen());
            assert!(closer.patience == (2 * last).min(LONGEST));
            last = closer.patience;
            closer.until = Instant::now();
        }
        assert_eq!(last, LONGEST);
        closer.until = Closer::patient().until;
        let before = closer.until;
        assert!(!closer.lengthen());
        assert_eq!(closer.until, before);
        gate.close(closer);
        thread::scope(|scope| {
            let waits = scope.spawn(|| gate.pass(|| false));
            thread::sleep(Duration::from_millis(20));
            assert!(!waits.is_finished());
            gate.open(closer);
        });
    }
}
