//! A gate in front of a lock, at which newcomers wait while a thread collects several locks.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::mutex::{Condvar, Mutex, MutexGuard};

/// How long somebody waits at most, the first time. Who has closed the gate may wait for something else, which may wait for who waits here: a transaction on a root that these do not
/// even read, for a lock of the program's. So nobody waits for ever.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long it is at most after it was [lengthened](Closer::lengthen).
const LONGEST: Duration = PATIENCE.saturating_mul(64);

/// Nothing depends on the gate but who comes first, so that looking at it costs one load.
pub(crate) struct Gate {
    /// By how many it is closed.
    closed: AtomicU64,
    closers: Mutex<Vec<Closer>>,
    changed: Condvar,
}

/// Somebody who closes gates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Closer {
    /// Later ones have higher numbers.
    number: u64,
    patience: Duration,
    /// The same for all who wait, so that those who have waited in vain come in together, and leave room behind them; however many they are.
    until: Instant,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Closer {
    pub(crate) fn new() -> Closer {
        let number = NEXT.fetch_add(1, Relaxed);
        Closer { number, patience: PATIENCE, until: Instant::now() + PATIENCE }
    }

    /// The closer has not got all that it wants. If others need not wait for it any more, they do from now on, and twice as long: those whose turns take longer
    /// than the patience would otherwise come again and again. So they never wait much longer than the closer has. Returns whether that is so.
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

    /// Waits for those who have closed it by now, and not for later ones: there may always be another one. Nor [longer](Closer::until) than they may ask for. Not at all if
    /// the thread has something already, for which they may wait.
    #[inline(always)]
    pub(crate) fn pass(&self, has_something: impl FnOnce() -> bool) {
        if self.closed.load(Relaxed) != 0 && !has_something() {
            self.wait(NEXT.load(Relaxed));
        }
    }

    /// Not watched by mutants: nothing depends on it but who comes first.
    fn closers(&self) -> MutexGuard<'_, Vec<Closer>> {
        self.closers.lock_unwatched()
    }

    /// Waits for those with a lower number than `next`. (Not in models, where no time passes: nothing depends on it but who comes first.)
    #[cold]
    fn wait(&self, next: u64) {
        if cfg!(all(test, pheap_loom)) {
            return;
        }
        let mut closers = self.closers();
        let before =
            |closers: &[Closer]| closers.iter().filter(|one| one.number < next).map(|one| one.until).max();
        // What is lengthened meanwhile is for those who come from then on.
        let Some(end) = before(&closers) else { return };
        while before(&closers).is_some() && !self.changed.wait_until(&mut closers, end) {}
    }

    /// Closes it, until the caller [opens](Self::open) it; or tells those who come that the closer has
    /// [lengthened](Closer::lengthen) their patience.
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

/// Gates of several locks, closed.
pub(crate) struct Gates<'a> {
    gates: Vec<&'a Gate>,
    closer: Closer,
}

impl<'a> Gates<'a> {
    pub(crate) fn close(gates: Vec<&'a Gate>) -> Gates<'a> {
        let closer = Closer::new();
        gates.iter().for_each(|gate| gate.close(closer));
        Gates { gates, closer }
    }

    /// Keeps others away for longer, if they have come in meanwhile.
    pub(crate) fn lengthen(&mut self) {
        if self.closer.lengthen() {
            self.gates.iter().for_each(|gate| gate.close(self.closer));
        }
    }
}

impl Drop for Gates<'_> {
    fn drop(&mut self) {
        self.gates.iter().for_each(|gate| gate.open(self.closer));
    }
}

#[cfg(all(test, not(pheap_loom)))]
mod tests {
    use std::thread;

    use super::*;

    impl Closer {
        /// For whom others wait longer than any test takes.
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
