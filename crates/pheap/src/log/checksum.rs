//! The checksum of log entries.
//!
//! It is folded multiplication, as in wyhash (Wang Yi, public domain). One word is combined with the state,
//! the next word, if there is one, with a key. The two halves of their 128-bit product are combined into the
//! new state. Four such chains run side by side. The keys come from the seed, and so from the heap's secret
//! salt: a program that does not know the salt cannot choose words that make a chain forget the words before
//! them.
//!
//! General-purpose hashes are made for longer input than the entries of short transactions.

const KEYS: [u64; 4] =
    [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3];

/// Multiplies two words, and combines the two halves of the 128-bit product by exclusive or.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Returns the checksum of the number of words, and of all words except the first, which is the place of the
/// checksum.
#[inline(always)]
pub(crate) fn checksum(seed: u64, words: &[u64]) -> u64 {
    let key = fold(seed ^ KEYS[0], KEYS[1]);
    let keys = KEYS.map(|constant| constant ^ key);
    let mut chains = keys;
    let rest = words.get(1..).unwrap_or(&[]);
    let (blocks, tail) = rest.as_chunks::<8>();
    for block in blocks {
        for i in 0..4 {
            chains[i] = fold(chains[i] ^ block[2 * i], keys[(i + 1) % 4] ^ block[2 * i + 1]);
        }
    }
    // The tail is not processed in a loop, because a loop would keep the chains in memory.
    let n = tail.len();
    if n >= 2 {
        chains[0] = fold(chains[0] ^ tail[0], keys[3] ^ tail[1]);
        if n >= 4 {
            chains[1] = fold(chains[1] ^ tail[2], keys[3] ^ tail[3]);
            if n >= 6 {
                chains[2] = fold(chains[2] ^ tail[4], keys[3] ^ tail[5]);
            }
        }
    }
    if n % 2 == 1 {
        chains[3] = fold(chains[3] ^ tail[n - 1], keys[0]);
    }
    let [a, b, c, d] = chains;
    fold(a ^ words.len() as u64 ^ c.rotate_left(32), b ^ d.rotate_left(32) ^ key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_bit_matters() {
        for len in 1..40 {
            let words: Vec<u64> = (0..len).map(|i| i * 0x0101).collect();
            let mut seen = HashSet::from([checksum(7, &words), checksum(8, &words)]);
            assert_eq!(seen.len(), 2);
            for bit in 64..len as usize * 64 {
                let mut flipped = words.clone();
                flipped[bit / 64] ^= 1 << (bit % 64);
                assert!(seen.insert(checksum(7, &flipped)), "bit {bit} of {len} words");
            }
        }
    }

    #[test]
    fn length_and_order_matter() {
        let zeros = [0; 64];
        let all: HashSet<u64> = (1..64).map(|len| checksum(7, &zeros[..len])).collect();
        assert_eq!(all.len(), 63);
        for i in 1..30 {
            for j in i + 1..30 {
                let mut words: Vec<u64> = (0..30).collect();
                words.swap(i, j);
                assert_ne!(checksum(7, &words), checksum(7, &(0..30).collect::<Vec<u64>>()), "{i} and {j}");
            }
        }
    }
}
