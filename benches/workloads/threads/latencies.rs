//! How long operations take: histograms in steps of a sixty-fourth.

use crate::Sample;
use std::time::{Duration, Instant};

/// What is left of a number of 32 bits when its sign, its exponent and six bits of its fraction are kept: it grows with the number, if that is positive.
const SHIFT: u32 = 17;

struct Histogram {
    counts: Vec<u64>,
    n: u64,
    sum: f64,
    max: f64,
}

impl Histogram {
    fn new() -> Histogram {
        Histogram { counts: vec![0; 1 << (31 - SHIFT)], n: 0, sum: 0.0, max: 0.0 }
    }

    #[inline]
    fn add(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        self.counts[((seconds as f32).to_bits() >> SHIFT) as usize] += 1;
        self.n += 1;
        self.sum += seconds;
        self.max = self.max.max(seconds);
    }

    fn quantile(&self, share: f64) -> f64 {
        let (mut left, mut step) = ((share * self.n as f64).ceil() as u64, 0);
        for &count in &self.counts {
            step += 1;
            if count >= left {
                break;
            }
            left -= count;
        }
        f64::from(f32::from_bits(step << SHIFT)).min(self.max)
    }
}

/// How often somebody comes who does not care how long others take.
const EVERY: Duration = Duration::from_micros(10);

/// The operations of a thread, one after the other.
pub struct Latencies {
    /// Each counts once. So a thread that waits all the time has a few slow ones, and between them many fast ones.
    all: Histogram,
    /// As who comes at set times sees them: how long the one takes from then on that is under way.
    seen: Histogram,
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
        Latencies { all: Histogram::new(), seen: Histogram::new(), due: Instant::now() }
    }

    /// Does it, and notes how long that takes. The clock takes about 25 ns of it.
    #[inline]
    pub fn time<T>(&mut self, operation: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = operation();
        let end = Instant::now();
        self.all.add(end - start);
        while self.due < end {
            self.seen.add(end - self.due);
            self.due += EVERY;
        }
        result
    }

    /// Adds them to what is known of a run.
    pub fn note(&self, sample: Sample, names: Names) -> Sample {
        let [p50, p99, p9999, max, mean, seen_p50, seen_p99] = names;
        sample
            .noting(p50, self.all.quantile(0.5))
            .noting(p99, self.all.quantile(0.99))
            .noting(p9999, self.all.quantile(0.9999))
            .noting(max, self.all.max)
            .noting(mean, self.all.sum / self.all.n.max(1) as f64)
            .noting(seen_p50, self.seen.quantile(0.5))
            .noting(seen_p99, self.seen.quantile(0.99))
    }
}
