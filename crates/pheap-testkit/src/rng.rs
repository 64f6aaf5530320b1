//! A small generator of random numbers, so that a seed names the same run on every machine.

/// A SplitMix64 generator.
#[derive(Debug, Clone)]
pub struct Rng(u64);

/// Mixes the bits of a word.
#[inline]
pub fn mix(mut x: u64) -> u64 {
    x ^= x >> 30;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 27;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

impl Rng {
    /// Makes the generator for these numbers. Their order matters. Another sequence would change which
    /// programs the crash lab runs.
    pub fn new(parts: &[u64]) -> Rng {
        Rng(parts.iter().fold(0x5eed, |state, &part| mix(state ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15)))
    }

    /// Makes the generator that begins in this state. It is cheaper than [`new`](Rng::new), which mixes its
    /// numbers.
    #[inline]
    pub fn from_seed(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Returns the next number.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number below `n`, which must not be 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next_u64() % n as u64) as usize
    }

    /// Returns a number below `n`, or 0 if `n` is 0. It is the high half of a product, so a timed loop has no
    /// division.
    #[inline]
    pub fn scaled(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Returns `true` with probability `of` / 256.
    pub fn chance(&mut self, of: u64) -> bool {
        self.next_u64() & 255 < of
    }
}
