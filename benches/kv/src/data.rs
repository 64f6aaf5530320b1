//! Keys, values, and the choice of keys.

use pheap_suite::Rng;

/// Random bytes that all values are cut from. They cannot be compressed.
pub(crate) struct Values {
    bytes: Vec<u8>,
}

impl Values {
    pub(crate) fn new() -> Values {
        let mut rng = Rng::from_seed(pheap_suite::SEED);
        Values { bytes: (0..1 << 20).map(|_| rng.next_u64() as u8).collect() }
    }

    pub(crate) fn random(&self, rng: &mut Rng, len: usize) -> &[u8] {
        let start = rng.scaled((self.bytes.len() - len) as u64) as usize;
        &self.bytes[start..start + len]
    }
}

/// Format of keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    /// The keys of db_bench, of 16 bytes: the number in big-endian order, and the digit `0` eight times.
    DbBench,
    /// The keys of YCSB, of 24 bytes: `user`, and a hash of the number.
    Ycsb,
}

impl Keys {
    pub(crate) fn key(self, number: u64, key: &mut Vec<u8>) {
        key.clear();
        match self {
            Keys::DbBench => {
                key.extend_from_slice(&number.to_be_bytes());
                key.extend_from_slice(b"00000000");
            }
            Keys::Ycsb => key.extend_from_slice(format!("user{:020}", hash(number)).as_bytes()),
        }
    }
}

/// Returns the 64-bit FNV-1a hash of a number, by which YCSB spreads keys.
fn hash(mut number: u64) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325u64;
    for _ in 0..8 {
        hash = (hash ^ (number & 0xFF)).wrapping_mul(0x100_0000_01B3);
        number >>= 8;
    }
    hash
}

/// The zipfian numbers of YCSB (Gray et al., "Quickly generating billion-record synthetic databases", SIGMOD
/// 1994), with its constant of 0.99.
pub(crate) struct Zipfian {
    n: u64,
    alpha: f64,
    zeta: f64,
    eta: f64,
}

const THETA: f64 = 0.99;

impl Zipfian {
    pub(crate) fn new(n: u64) -> Zipfian {
        let zeta = |n: u64| (1..=n).map(|i| (i as f64).powf(-THETA)).sum::<f64>();
        let all = zeta(n);
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - THETA)) / (1.0 - zeta(2) / all);
        Zipfian { n, alpha: 1.0 / (1.0 - THETA), zeta: all, eta }
    }

    /// Returns a rank. Rank 0 is the most frequent.
    pub(crate) fn rank(&self, rng: &mut Rng) -> u64 {
        let u = rng.next_u64() as f64 / u64::MAX as f64;
        let uz = u * self.zeta;
        if uz < 1.0 {
            0
        } else if uz < 1.0 + 0.5f64.powf(THETA) {
            1
        } else {
            ((self.n as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha)) as u64).min(self.n - 1)
        }
    }

    /// Returns a number. Its frequency is independent of those of adjacent numbers.
    pub(crate) fn scrambled(&self, rng: &mut Rng) -> u64 {
        hash(self.rank(rng)) % self.n
    }
}
