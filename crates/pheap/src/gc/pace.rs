//! Options and statistics of the collector. Its decisions are in [`gc`](super).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::stats::{Histogram, Stats};

/// What the regions of a heap have in common as to their collections.
#[derive(Default)]
pub(crate) struct Pace {
    /// In percent of what is live.
    pub(crate) growth: u64,
    /// Bytes that a region has allocated before it is collected.
    pub(crate) least: u64,
    completed: AtomicU64,
    pauses: Histogram,
}

impl Pace {
    pub(crate) fn new(growth: u64, least: u64) -> Pace {
        Pace { growth, least, ..Pace::default() }
    }

    /// A cycle of a region is complete.
    pub(super) fn complete(&self) {
        self.completed.fetch_add(1, Ordering::Relaxed);
    }

    /// Transactions had to wait so long.
    pub(super) fn pause(&self, duration: Duration) {
        self.pauses.add(duration);
    }

    pub(crate) fn add_to(&self, stats: &mut Stats) {
        stats.collections += self.completed.load(Ordering::Relaxed);
        stats.collecting += self.pauses.total();
        stats.pauses = self.pauses.copy();
    }
}
