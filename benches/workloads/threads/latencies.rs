//! How long operations take, in nanoseconds.

use crate::Sample;
use hdrhistogram::Histogram;
use std::time::{Duration, Instant};

/// How often somebody comes who does not care how long others take.
const EVERY: Duration = Duration::from_micros(10);

/// The operations of a thread, one after the other.
pub struct Latencies {
    /// Each counts once. So a thread that waits all the time has a few slow ones, and between them many fast ones.
    all: Histogram<u64>,
    /// As who comes at set times sees them: how long the one takes from then on that is under way.
    seen: Histogram<u64>,
    due: Instant,
}

/// The names of the notes, in seconds.
pub type Names = [&'static str; 7];
/// Of reads.
pub const READS: Names =
    ["read_p50", "read_p99", "read_p9999", "read_max", "read_mean", "read_seen_p50", "read_seen_p99"];
/// Of writes.
pub const WRITES: Names =
    ["write_p50", "write_p99", "write_p9999", "write_max", "write_mean", "write_seen_p50", "write_seen_p99"];

impl Latencies {
    /// None yet.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Latencies {
        let histogram = Histogram::new(2).expect("two digits are not too many");
        Latencies { all: histogram.clone(), seen: histogram, due: Instant::now() }
    }

    /// Does it, and notes how long that takes. The clock takes about 25 ns of it.
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

    /// Adds them to what is known of a run.
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
