//! How long operations take: a histogram in steps of a sixty-fourth.

use crate::Sample;
use std::time::Instant;

/// What is left of a number of 32 bits when its sign, its exponent and six bits of its fraction are kept: it grows with the number, if that is positive.
const SHIFT: u32 = 17;

/// See the [module](self).
pub(super) struct Latencies {
    counts: Vec<u64>,
    n: u64,
    sum: f64,
    max: f64,
}

/// The names of the notes, in seconds.
pub(super) type Names = [&'static str; 5];
pub(super) const READS: Names = ["read_p50", "read_p99", "read_p9999", "read_max", "read_mean"];
pub(super) const WRITES: Names = ["write_p50", "write_p99", "write_p9999", "write_max", "write_mean"];

impl Latencies {
    pub(super) fn new() -> Latencies {
        Latencies { counts: vec![0; 1 << (31 - SHIFT)], n: 0, sum: 0.0, max: 0.0 }
    }

    /// Does it, and notes how long that takes. The clock takes about 25 ns of it.
    #[inline]
    pub(super) fn time<T>(&mut self, operation: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = operation();
        let seconds = start.elapsed().as_secs_f64();
        self.counts[((seconds as f32).to_bits() >> SHIFT) as usize] += 1;
        self.n += 1;
        self.sum += seconds;
        self.max = self.max.max(seconds);
        result
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

    /// Adds them to what is known of a run.
    pub(super) fn note(&self, sample: Sample, names: Names) -> Sample {
        let [p50, p99, p9999, max, mean] = names;
        sample
            .noting(p50, self.quantile(0.5))
            .noting(p99, self.quantile(0.99))
            .noting(p9999, self.quantile(0.9999))
            .noting(max, self.max)
            .noting(mean, self.sum / self.n.max(1) as f64)
    }
}
