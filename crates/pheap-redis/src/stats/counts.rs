//! How often commands were called, and how long they took; what was read and sent. Each thread has counters of
//! its own, so that threads do not meet.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::data::Lookups;

/// Counters of one command in one thread.
#[derive(Debug, Default)]
pub struct Counts {
    calls: AtomicU64,
    nanoseconds: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    /// By the logarithm of the microseconds.
    histogram: [AtomicU64; BUCKETS],
}

/// Calls that took up to 1, 2, 4 … microseconds.
pub const BUCKETS: usize = 31;

/// What was counted of one command.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Sum {
    /// Calls.
    pub calls: u64,
    /// How long they took.
    pub nanoseconds: u64,
    /// Calls that were refused before they began.
    pub rejected: u64,
    /// Calls that ended with an error.
    pub failed: u64,
    /// Keys that were looked up and were there, if it only looks.
    pub hits: u64,
    /// Keys that were not there.
    pub misses: u64,
    /// Calls by the logarithm of the microseconds they took.
    pub histogram: [u64; BUCKETS],
}

/// What one thread has read from connections, and written to them.
#[derive(Debug, Default)]
pub struct Traffic([AtomicU64; 4]);

/// What was read from connections, and written to them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Transferred {
    /// Bytes that were read.
    pub input: u64,
    /// Bytes that were written.
    pub output: u64,
    /// Reads that gave something.
    pub reads: u64,
    /// Writes that took something.
    pub writes: u64,
}

impl Traffic {
    /// So many bytes were read at once.
    pub fn read(&self, bytes: usize) {
        add(&self.0[0], bytes as u64);
        add(&self.0[2], 1);
    }

    /// So many bytes were written, perhaps none.
    pub fn wrote(&self, bytes: usize) {
        if bytes > 0 {
            add(&self.0[1], bytes as u64);
            add(&self.0[3], 1);
        }
    }

    /// All that.
    pub fn get(&self) -> Transferred {
        let [input, output, reads, writes] = self.0.each_ref().map(|number| number.load(Relaxed));
        Transferred { input, output, reads, writes }
    }

    /// Begins anew.
    pub fn reset(&self) {
        self.0.iter().for_each(|number| number.store(0, Relaxed));
    }
}

/// Adds to a number that only one thread changes.
fn add(to: &AtomicU64, more: u64) {
    to.store(to.load(Relaxed) + more, Relaxed);
}

impl Counts {
    /// A call that took so long, and has perhaps ended with an error.
    pub fn call(&self, nanoseconds: u64, has_failed: bool) {
        add(&self.calls, 1);
        add(&self.nanoseconds, nanoseconds);
        if has_failed {
            add(&self.failed, 1);
        }
        let micros = nanoseconds / 1000;
        let bucket = (u64::BITS - micros.saturating_sub(1).leading_zeros()) as usize;
        add(&self.histogram[bucket.min(BUCKETS - 1)], 1);
    }

    /// Number of calls.
    pub fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }

    /// A command that only looks has found so many keys, and others not.
    pub fn look_up(&self, lookups: Lookups) {
        add(&self.hits, lookups.hits);
        add(&self.misses, lookups.misses);
    }

    /// A call that was refused.
    pub fn reject(&self) {
        add(&self.rejected, 1);
    }

    /// Begins anew. (A call that another thread counts meanwhile may be counted twice, or not.)
    pub fn reset(&self) {
        let Counts { calls, nanoseconds, rejected, failed, hits, misses, histogram } = self;
        for number in [calls, nanoseconds, rejected, failed, hits, misses].into_iter().chain(histogram) {
            number.store(0, Relaxed);
        }
    }
}

impl Sum {
    /// Adds what one thread has counted.
    pub fn add(&mut self, counts: &Counts) {
        self.calls += counts.calls.load(Relaxed);
        self.nanoseconds += counts.nanoseconds.load(Relaxed);
        self.rejected += counts.rejected.load(Relaxed);
        self.failed += counts.failed.load(Relaxed);
        self.hits += counts.hits.load(Relaxed);
        self.misses += counts.misses.load(Relaxed);
        for (sum, number) in self.histogram.iter_mut().zip(&counts.histogram) {
            *sum += number.load(Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted() {
        let counts = Counts::default();
        for nanoseconds in [0, 999, 1000, 2500, 4000, 9_000_000, u64::MAX / 8] {
            counts.call(nanoseconds, nanoseconds == 0);
        }
        counts.reject();
        counts.look_up(Lookups { hits: 2, misses: 3 });
        let mut sum = Sum::default();
        sum.add(&counts);
        assert_eq!((sum.calls, sum.rejected, sum.failed, sum.hits, sum.misses), (7, 1, 1, 2, 3));
        assert_eq!(sum.histogram[..3], [3, 1, 1]); // up to 1, 2 and 4 µs
        assert_eq!((sum.histogram[14], sum.histogram[BUCKETS - 1]), (1, 1));
        counts.reset();
        let mut none = Sum::default();
        none.add(&counts);
        assert_eq!(none, Sum::default());
    }
}
