//! Options and statistics of the collector. Its decisions are in [`gc`](super).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::stats::{Histogram, Stats};

/// Options and statistics that the regions of a heap share for their collections.
#[derive(Default)]
pub(crate) struct Pace {
    /// Growth, in percent of the live bytes, after which a full cycle is due. A minor cycle is due after a
    /// quarter of that. Neither is due before `least` bytes were allocated.
    pub(crate) growth: u64,
    /// Bytes that a region must have allocated before a cycle is due, however small the region is. (A cycle
    /// may begin a quarter earlier, and at any time if it is wanted.)
    pub(crate) least: u64,
    completed: AtomicU64,
    pauses: Histogram,
}

impl Pace {
    pub(crate) fn new(growth: u64, least: u64) -> Pace {
        Pace { growth, least, ..Pace::default() }
    }

    /// Counts a complete cycle of a region.
    pub(super) fn complete(&self) {
        self.completed.fetch_add(1, Ordering::Relaxed);
    }

    /// Records how long a slice, or a cycle that was completed at once, took.
    pub(super) fn pause(&self, duration: Duration) {
        self.pauses.add(duration);
    }

    pub(crate) fn add_to(&self, stats: &mut Stats) {
        stats.collections += self.completed.load(Ordering::Relaxed);
        stats.collecting += self.pauses.total();
        stats.pauses = self.pauses.copy();
    }
}
