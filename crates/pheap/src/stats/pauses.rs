//! Counts for how long slices of collections have kept transactions waiting.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Number of buckets for each doubling of the duration.
const STEPS: usize = 8;
const BUCKETS: usize = 40 * STEPS;

/// A histogram of pauses: the time for which each slice of a collection has locked a region against
/// transactions.
///
/// Durations are counted in buckets that are at most as wide as an eighth of their value. All durations below
/// 9 ns are in the first bucket, and all from about two hours on in the last one.
#[derive(Clone, PartialEq, Eq)]
pub struct Pauses {
    counts: Box<[u64]>,
    longest: Duration,
}

impl Default for Pauses {
    fn default() -> Pauses {
        Pauses { counts: vec![0; BUCKETS].into(), longest: Duration::ZERO }
    }
}

impl Pauses {
    /// Returns the number of pauses.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the longest pause.
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// Returns the duration that this share (0 to 1) of the pauses did not exceed, overestimated by at most
    /// an eighth (below 9 ns, by more; pauses of hours may be underestimated). Zero if there were no pauses.
    pub fn quantile(&self, share: f64) -> Duration {
        let rank = (share.clamp(0.0, 1.0) * self.count() as f64).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank && seen > 0 {
                return Duration::from_nanos(end_of(bucket)).min(self.longest);
            }
        }
        Duration::ZERO
    }

    /// Returns the buckets that are not empty: for each, the upper bound of its durations (the last bucket
    /// also counts longer pauses), and its number of pauses.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let all = self.counts.iter().enumerate();
        all.filter(|(_, count)| **count > 0)
            .map(|(bucket, count)| (Duration::from_nanos(end_of(bucket)), *count))
    }
}

impl std::fmt::Debug for Pauses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pauses")
            .field("count", &self.count())
            .field("median", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("longest", &self.longest)
            .finish()
    }
}

fn bucket_of(nanos: u64) -> usize {
    let nanos = nanos.max(STEPS as u64);
    let octave = nanos.ilog2() as usize;
    let step = (nanos >> (octave - 3)) as usize - STEPS;
    ((octave - 3) * STEPS + step).min(BUCKETS - 1)
}

/// Returns the end of a bucket in nanoseconds: all durations in the bucket are shorter. (The last bucket also
/// counts longer ones.)
fn end_of(bucket: usize) -> u64 {
    let (octave, step) = (bucket / STEPS, bucket % STEPS);
    ((STEPS + step + 1) as u64) << octave
}

/// The histogram of a heap's pauses, of which [`Pauses`] is a copy. Any thread may add a pause.
#[derive(Debug)]
pub(crate) struct Histogram {
    counts: [AtomicU64; BUCKETS],
    longest: AtomicU64,
    total: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            counts: [const { AtomicU64::new(0) }; BUCKETS],
            longest: AtomicU64::new(0),
            total: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    pub(crate) fn add(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket_of(nanos)].fetch_add(1, Ordering::Relaxed);
        self.longest.fetch_max(nanos, Ordering::Relaxed);
        self.total.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(crate) fn total(&self) -> Duration {
        Duration::from_nanos(self.total.load(Ordering::Relaxed))
    }

    pub(crate) fn copy(&self) -> Pauses {
        Pauses {
            counts: self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            longest: Duration::from_nanos(self.longest.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_an_eighth_wide() {
        for nanos in (8..5000).chain([1 << 20, (1 << 30) + 12345, 1 << 40]) {
            let end = end_of(bucket_of(nanos));
            assert!(end > nanos && end - nanos <= nanos / 8 + 1, "{nanos} {end}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles() {
        let histogram = Histogram::default();
        assert_eq!(histogram.copy().quantile(0.99), Duration::ZERO);
        for micros in 1..=100 {
            histogram.add(Duration::from_micros(micros));
        }
        let pauses = histogram.copy();
        assert_eq!(pauses.count(), 100);
        assert_eq!(pauses.longest(), Duration::from_micros(100));
        assert_eq!(pauses.quantile(1.0), pauses.longest());
        let median = pauses.quantile(0.5).as_nanos();
        assert!((50_000..57_000).contains(&median), "{median}");
        assert_eq!(pauses.buckets().map(|(_, count)| count).sum::<u64>(), 100);
    }
}
