//! A gate in front of a lock, at which those wait who come to read, while somebody else collects several locks.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// How long somebody waits at most. Who has closed the gate may wait for something else, which may wait for who waits here: a transaction on a root that these do not
/// even read, for a lock of the program's. Those who come one after the other, after so much time each, leave room for the others between them.
const PATIENCE: Duration = Duration::from_millis(100);

/// Nothing depends on the gate but who comes first, so that looking at it costs one load.
pub(crate) struct Gate {
    /// By how many it is closed.
    closed: AtomicU64,
    /// How often one of them has opened it.
    opened: Mutex<u64>,
    changed: Condvar,
}

impl Gate {
    pub(crate) const fn new() -> Gate {
        Gate { closed: AtomicU64::new(0), opened: Mutex::new(0), changed: Condvar::new() }
    }

    /// Waits while it is closed, but at most until one of those who have closed it opens it: there may always be another one. And not for [ever](PATIENCE).
    #[inline(always)]
    pub(crate) fn pass(&self) {
        if self.closed.load(Relaxed) != 0 {
            self.wait();
        }
    }

    #[cold]
    fn wait(&self) {
        let end = Instant::now() + PATIENCE;
        let mut opened = self.opened.lock();
        let before = *opened;
        while self.closed.load(Relaxed) != 0 && *opened == before {
            if self.changed.wait_until(&mut opened, end).timed_out() {
                return;
            }
        }
    }

    /// Closes it, until the caller [opens](Self::open) it.
    pub(crate) fn close(&self) {
        self.closed.fetch_add(1, Relaxed);
    }

    pub(crate) fn open(&self) {
        let mut opened = self.opened.lock();
        *opened += 1;
        self.closed.fetch_sub(1, Relaxed);
        self.changed.notify_all();
    }
}
