//! Rates per second, as `INFO` shows them: the mean of the last samples.

use std::time::Instant;

/// The number of samples in the mean, as in Redis. With ten samples in a second, they cover 1.6 seconds.
const SAMPLES: usize = 16;

/// The number of rates: commands, bytes from clients, bytes to clients, and bytes from a master.
pub const COUNTED: usize = 4;

/// Rates per second.
#[derive(Debug, Default)]
pub struct Rates {
    last: Option<(Instant, [u64; COUNTED])>,
    samples: [[f64; COUNTED]; SAMPLES],
    next: usize,
}

impl Rates {
    /// Adds a sample: the totals since the start of the server, or since they were reset.
    pub fn sample(&mut self, now: Instant, totals: [u64; COUNTED]) {
        if let Some((then, before)) = self.last.replace((now, totals)) {
            let seconds = now.saturating_duration_since(then).as_secs_f64().max(0.001);
            let rate = |i: usize| totals[i].saturating_sub(before[i]) as f64 / seconds;
            self.samples[self.next] = std::array::from_fn(rate);
            self.next = (self.next + 1) % SAMPLES;
        }
    }

    /// Returns the rates.
    pub fn get(&self) -> [f64; COUNTED] {
        std::array::from_fn(|i| self.samples.iter().map(|sample| sample[i]).sum::<f64>() / SAMPLES as f64)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn rates_are_those_of_the_last_samples() {
        let (mut rates, start) = (Rates::default(), Instant::now());
        let at = |tenths: u32| start + Duration::from_millis(100) * tenths;
        rates.sample(at(0), [1000, 0, 0, 0]);
        assert_eq!(rates.get(), [0.0; 4]);
        for tenths in 1..=16 {
            rates.sample(at(tenths), [1000 + 10 * u64::from(tenths), 0, 5, 0]);
        }
        let [commands, input, output, _] = rates.get().map(f64::round);
        assert_eq!([commands, input, output], [100.0, 0.0, 3.0]);
        // The totals fall to 0, as after a reset of the counters.
        (17..=33).for_each(|tenths| rates.sample(at(tenths), [0; 4]));
        assert_eq!(rates.get(), [0.0; 4]);
    }
}
