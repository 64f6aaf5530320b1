//! Counts calls of commands, their time, and the bytes read and written. Each thread adds to its own
//! counters, so that threads do not contend for them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::data::Lookups;

/// The counters of one command in one thread. Only this thread adds to them.
#[derive(Debug, Default)]
pub struct Counts {
    calls: AtomicU64,
    nanoseconds: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    /// Calls, by their time: see [`BUCKETS`].
    histogram: [AtomicU64; BUCKETS],
}

/// Number of buckets of the histogram: calls of up to 1, 2, 4 … whole microseconds. The last has no bound.
pub const BUCKETS: usize = 31;

/// The counts of a command, summed over threads.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Sum {
    /// Number of calls.
    pub calls: u64,
    /// Time of all calls, in nanoseconds.
    pub nanoseconds: u64,
    /// Calls that were refused before they began.
    pub rejected: u64,
    /// Calls that ended with an error.
    pub failed: u64,
    /// Lookups that found their key, by commands that only read.
    pub hits: u64,
    /// Lookups that missed, by commands that only read.
    pub misses: u64,
    /// Calls, by their time: see [`BUCKETS`].
    pub histogram: [u64; BUCKETS],
}

/// The bytes that one thread has read from connections and written to them, and the numbers of reads and
/// writes.
#[derive(Debug, Default)]
pub struct Traffic([AtomicU64; 4]);

/// Traffic of connections.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Transferred {
    /// Bytes read.
    pub input: u64,
    /// Bytes written.
    pub output: u64,
    /// Reads that returned bytes.
    pub reads: u64,
    /// Writes that took bytes.
    pub writes: u64,
}

impl Traffic {
    /// Counts one read of `bytes` bytes.
    pub fn read(&self, bytes: usize) {
        add(&self.0[0], bytes as u64);
        add(&self.0[2], 1);
    }

    /// Counts one write of `bytes` bytes, if there are any.
    pub fn wrote(&self, bytes: usize) {
        if bytes > 0 {
            add(&self.0[1], bytes as u64);
            add(&self.0[3], 1);
        }
    }

    /// Returns the counts.
    pub fn get(&self) -> Transferred {
        let [input, output, reads, writes] = self.0.each_ref().map(|number| number.load(Relaxed));
        Transferred { input, output, reads, writes }
    }

    /// Resets the counts.
    pub fn reset(&self) {
        self.0.iter().for_each(|number| number.store(0, Relaxed));
    }
}

/// Adds to a number to which only one thread adds.
fn add(to: &AtomicU64, more: u64) {
    to.store(to.load(Relaxed) + more, Relaxed);
}

impl Counts {
    /// Counts a call.
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

    /// Returns the number of calls.
    pub fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }

    /// Counts the lookups of a command that only reads.
    pub fn look_up(&self, lookups: Lookups) {
        add(&self.hits, lookups.hits);
        add(&self.misses, lookups.misses);
    }

    /// Counts a refused call.
    pub fn reject(&self) {
        add(&self.rejected, 1);
    }

    /// Resets the counters. (A call that another thread counts at the same time may keep the old count, or be
    /// lost.)
    pub fn reset(&self) {
        let Counts { calls, nanoseconds, rejected, failed, hits, misses, histogram } = self;
        for number in [calls, nanoseconds, rejected, failed, hits, misses].into_iter().chain(histogram) {
            number.store(0, Relaxed);
        }
    }
}

impl Sum {
    /// Adds the counts of one thread.
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
