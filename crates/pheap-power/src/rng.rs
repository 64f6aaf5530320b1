//! Random numbers from a seed.

use crate::content::mix;

/// SplitMix64.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64, number: u64) -> Rng {
        Rng(mix(seed ^ mix(number.wrapping_add(1))))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}
