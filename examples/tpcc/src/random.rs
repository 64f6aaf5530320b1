//! Random numbers and texts, much as the specification defines them.

use crate::tables::Text;
use pheap_testkit::Rng;

/// A last name consists of three of these, one for each digit of a number.
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// Number of last names.
const LAST_NAMES: u32 = 1000;

/// Constants of the non-uniform distributions. The two for last names must differ by 65 to 119, but not by 96
/// or 112.
const C_LAST_NAME_LOAD: u32 = 123;
const C_LAST_NAME_RUN: u32 = 208;
const C_CUSTOMER: u32 = 259;
const C_ITEM: u32 = 4711;

/// A generator that returns the same numbers in each process.
pub struct Random(Rng);

impl Random {
    /// Returns the numbers of a stream. Different streams of one seed have different numbers.
    pub fn new(seed: u64, stream: u64) -> Random {
        Random(Rng::from_seed(seed ^ stream.wrapping_mul(0x517c_c1b7_2722_0a95)))
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn within(&mut self, low: u32, high: u32) -> u32 {
        low + (((self.0.next_u64() >> 32) * u64::from(high - low + 1)) >> 32) as u32
    }

    /// Returns true with this chance, in percent.
    pub fn percent(&mut self, chance: u32) -> bool {
        self.within(1, 100) <= chance
    }

    /// Returns a number from `low` to `high` with the non-uniform distribution NURand of the specification:
    /// some numbers are more frequent.
    fn not_uniform(&mut self, a: u32, c: u32, low: u32, high: u32) -> u32 {
        ((self.within(0, a) | self.within(low, high)) + c) % (high - low + 1) + low
    }

    /// Returns the number of a customer. A district has numbers up to `customers`.
    pub fn customer(&mut self, customers: u32) -> u32 {
        self.not_uniform(1023, C_CUSTOMER, 1, customers)
    }

    /// Returns the number of an item. There are numbers up to `items`.
    pub fn item(&mut self, items: u32) -> u32 {
        self.not_uniform(8191, C_ITEM, 1, items)
    }

    /// Returns a last name for a customer of the load.
    pub fn loaded_last_name(&mut self, customers: u32) -> Text<16> {
        self.last_name(C_LAST_NAME_LOAD, customers)
    }

    /// Returns a last name for a request. At least one customer of each district has it.
    pub fn wanted_last_name(&mut self, customers: u32) -> Text<16> {
        self.last_name(C_LAST_NAME_RUN, customers)
    }

    fn last_name(&mut self, c: u32, customers: u32) -> Text<16> {
        last_name(self.not_uniform(255, c, 0, customers.min(LAST_NAMES) - 1))
    }

    /// Returns random capital letters.
    pub fn letters<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.within(b'A'.into(), b'Z'.into()) as u8)
    }

    pub fn digits<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.within(b'0'.into(), b'9'.into()) as u8)
    }

    /// Returns at least `least` letters, digits and dots, and at most as many as fit.
    pub fn text<const N: usize>(&mut self, least: u32) -> Text<N> {
        const CHARACTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789..";
        let len = self.within(least, N as u32) as usize;
        let mut bytes = [0; N];
        // Each random number gives ten characters, because the load spends most of its time here.
        for ten in bytes[..len].chunks_mut(10) {
            let number = self.0.next_u64();
            for (i, byte) in ten.iter_mut().enumerate() {
                *byte = CHARACTERS[(number >> (6 * i)) as usize & 63];
            }
        }
        Text::new(&bytes[..len])
    }

    /// Returns 26 to 50 letters, digits and dots. About a tenth of these texts contain [`ORIGINAL`].
    pub fn data(&mut self) -> Text<50> {
        let text = self.text::<50>(26);
        if !self.percent(10) {
            return text;
        }
        let mut bytes = text.as_bytes().to_vec();
        let at = self.within(0, (bytes.len() - ORIGINAL.len()) as u32) as usize;
        bytes[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
        Text::new(&bytes)
    }

    /// Returns the numbers from 1 to `n`, in random order.
    pub fn permutation(&mut self, n: u32) -> Vec<u32> {
        let mut numbers: Vec<u32> = (1..=n).collect();
        for i in (1..n).rev() {
            numbers.swap(i as usize, self.within(0, i) as usize);
        }
        numbers
    }
}

/// Text in the data of branded items.
const ORIGINAL: &[u8] = b"ORIGINAL";

pub fn is_original(data: &Text<50>) -> bool {
    data.as_bytes().windows(ORIGINAL.len()).any(|part| part == ORIGINAL)
}

pub fn last_name(number: u32) -> Text<16> {
    let syllable = |digit: u32| SYLLABLES[digit as usize % 10];
    Text::new([syllable(number / 100), syllable(number / 10), syllable(number)].concat().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_digits() {
        assert_eq!(last_name(371).as_str(), "PRICALLYOUGHT");
        assert_eq!(last_name(0).as_str(), "BARBARBAR");
    }

    #[test]
    fn numbers_stay_within_their_bounds() {
        let mut random = Random::new(7, 0);
        for _ in 0..10_000 {
            assert!((1..=3).contains(&random.within(1, 3)));
            assert!((1..=3000).contains(&random.customer(3000)));
            assert!((1..=100_000).contains(&random.item(100_000)));
            assert!((26..=50).contains(&random.data().as_bytes().len()));
        }
        let mut numbers = random.permutation(100);
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(1..=100));
    }
}
