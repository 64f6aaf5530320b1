//! Latencies of operations, in nanoseconds.

use crate::Sample;
use hdrhistogram::Histogram;
use std::time::{Duration, Instant};

/// Interval at which an operation could arrive, for the latencies that an independent client would see.
const EVERY: Duration = Duration::from_micros(10);

/// Latencies of the operations of one thread.
pub struct Latencies {
    /// Latencies with each operation counted once. A thread that often waits has few slow operations, and
    /// many fast ones between them.
    all: Histogram<u64>,
    /// Latencies that a client sees which arrives at fixed intervals: the time until the operation in
    /// progress ends.
    seen: Histogram<u64>,
    due: Instant,
}

/// Names of the notes. Their values are in seconds.
pub type Names = [&'static str; 7];
/// Names for reads.
pub const READS: Names =
    ["read_p50", "read_p99", "read_p9999", "read_max", "read_mean", "read_seen_p50", "read_seen_p99"];
/// Names for writes.
pub const WRITES: Names =
    ["write_p50", "write_p99", "write_p9999", "write_max", "write_mean", "write_seen_p50", "write_seen_p99"];

impl Latencies {
    /// Makes empty histograms.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Latencies {
        let histogram = Histogram::new(2).expect("two digits are not too many");
        Latencies { all: histogram.clone(), seen: histogram, due: Instant::now() }
    }

    /// Runs the operation, and records its latency, which includes a reading of the clock.
    #[inline]
    pub fn time<T>(&mut self, operation: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = operation();
        let end = Instant::now();
        add(&mut self.all, end - start);
        while self.due < end {
            add(&mut self.seen, end - self.due);
            self.due += EVERY;
        }
        result
    }

    /// Adds the figures to the notes of a sample.
    pub fn note(&self, sample: Sample, names: Names) -> Sample {
        let [p50, p99, p9999, max, mean, seen_p50, seen_p99] = names;
        let seconds = |of: &Histogram<u64>, share| of.value_at_quantile(share) as f64 * 1e-9;
        sample
            .noting(p50, seconds(&self.all, 0.5))
            .noting(p99, seconds(&self.all, 0.99))
            .noting(p9999, seconds(&self.all, 0.9999))
            .noting(max, seconds(&self.all, 1.0))
            .noting(mean, self.all.mean() * 1e-9)
            .noting(seen_p50, seconds(&self.seen, 0.5))
            .noting(seen_p99, seconds(&self.seen, 0.99))
    }
}

#[inline]
fn add(histogram: &mut Histogram<u64>, time: Duration) {
    histogram.record(time.as_nanos() as u64).expect("the histogram grows");
}
