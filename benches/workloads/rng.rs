//! The random numbers of every workload: splitmix64 from one seed, so that all systems do the same work.

/// The seed that all workloads start from.
pub const SEED: u64 = 42;

/// splitmix64: one addition and two multiplications a number.
pub struct Rng(u64);

impl Rng {
    /// The sequence that starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..n`: the high half of a product, so there is no division in a timed loop.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }
}
