//! Corrects checksums after damage, so that the code behind them is reached.

use std::ops::Range;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::image::{HEAD, HEAP, Image, LINE, LOG, PAGE, SLOT, head};

/// Words of a region's header. Each has a check in its upper 16 bits.
const ROOT: usize = 3;
pub const GENERATION: usize = 5;
/// Mask of the bits that are not the check.
pub const VALUE: u64 = (1 << 48) - 1;

/// A log entry: its file, its offset, and the seed of its checksum.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub file: usize,
    pub at: usize,
    pub seed: u64,
}

/// The places with checksums.
#[derive(Clone, Debug, Default)]
pub struct Seals {
    pub arenas: Vec<Range<usize>>,
    pub regions: Vec<usize>,
    /// Segments of the logs of regions, except the first ones.
    pub segments: Vec<Range<usize>>,
    /// Offsets of the records in the type table.
    pub records: Vec<usize>,
    pub bitmaps: Option<Range<usize>>,
    /// Log entries, and a place for one more entry after each sequence of entries.
    pub entries: Vec<Entry>,
    pub wal: Option<WalSeeds>,
    /// Offsets of the segments of the write-ahead log.
    pub wal_segments: Vec<usize>,
}

/// Returns the seed of an entry in the log of a region.
pub fn log_seed(identity: u64, generation: u64, sequence: u64, at: u64) -> u64 {
    identity
        ^ generation.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ sequence.wrapping_mul(0xd6e8_feb8_6659_fd93)
        ^ at.wrapping_mul(0xa076_1d64_78bd_642f)
}

/// The seed of the checksums in a write-ahead log.
#[derive(Clone, Copy, Debug)]
pub struct WalSeeds(u64);

impl WalSeeds {
    pub fn new(salt: u64, id: u64, nonce: u64) -> WalSeeds {
        let nonce = nonce.wrapping_mul(0xe703_7ed1_a0b4_28db).rotate_left(37);
        WalSeeds(salt ^ id.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ nonce)
    }

    /// Returns the seed for the records of a run.
    pub fn of_run(self, run: u64) -> WalSeeds {
        WalSeeds(self.0 ^ run.wrapping_mul(0x8ebc_6af0_9c88_c6e3).rotate_left(31))
    }

    pub fn at(self, position: u64) -> u64 {
        self.0 ^ position.wrapping_mul(0xa076_1d64_78bd_642f)
    }
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Returns the checksum of a log entry. It covers all words except the first; the seed takes its place.
pub fn checksum(seed: u64, words: &[u64]) -> u64 {
    const KEYS: [u64; 4] =
        [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3];
    let key = fold(seed ^ KEYS[0], KEYS[1]);
    let keys = KEYS.map(|constant| constant ^ key);
    let mut chains = keys;
    let (blocks, tail) = words.get(1..).unwrap_or(&[]).as_chunks::<8>();
    for block in blocks {
        for i in 0..4 {
            chains[i] = fold(chains[i] ^ block[2 * i], keys[(i + 1) % 4] ^ block[2 * i + 1]);
        }
    }
    let (pairs, last) = tail.as_chunks::<2>();
    for (chain, pair) in chains.iter_mut().zip(pairs) {
        *chain = fold(*chain ^ pair[0], keys[3] ^ pair[1]);
    }
    if let [last] = last {
        chains[3] = fold(chains[3] ^ last, keys[0]);
    }
    let [a, b, c, d] = chains;
    fold(a ^ words.len() as u64 ^ c.rotate_left(32), b ^ d.rotate_left(32) ^ key)
}

impl Image {
    /// Corrects the checksums. If `entries` is set, this includes those of log entries and of the write-ahead
    /// log.
    pub fn reseal(&mut self, entries: bool) {
        self.reseal_headers();
        let newest = self.newest();
        let salt = self.word(HEAP, newest + 8 * 8);
        let salt_bytes = salt.to_le_bytes();
        let seals = self.seals.clone();
        for arena in &seals.arenas {
            let head = head(arena.start);
            if let Some(words) = self.files[HEAP].get(head..head + HEAD * 8) {
                // The last word, which is the checksum, counts as zero.
                let sum = xxh3_64(&[&words[..(HEAD - 1) * 8], &[0; 8], &salt_bytes].concat());
                self.set_word(HEAP, head + (HEAD - 1) * 8, sum);
            }
            self.reseal_word(head + HEAD * 8);
            let table = head + PAGE;
            for entry in (table..table + arena.len() / PAGE * 16).step_by(16) {
                const CHECK: u64 = 0xff << 24;
                let word = self.word(HEAP, entry);
                if word & CHECK != 0 {
                    let word = word & !CHECK;
                    self.set_word(HEAP, entry, word | (word % 255 + 1) << 24);
                }
            }
        }
        for &region in &seals.regions {
            self.reseal_region(region, salt_bytes);
        }
        for &record in &seals.records {
            let len = (16 + self.word(HEAP, record + 8) as u32 as usize).next_multiple_of(8);
            if let Some(rest) = self.files[HEAP].get(record + 8..record + len) {
                let sum = xxh3_64(&[rest, &(record as u64).to_le_bytes(), &salt_bytes].concat());
                self.set_word(HEAP, record, sum);
            }
        }
        if let Some(range) = seals.bitmaps
            && let Some(rest) = self.files[HEAP].get(range.start + 8..range.end)
        {
            let sum = xxh3_64_with_seed(rest, salt ^ self.word(HEAP, newest + 18 * 8));
            self.set_word(HEAP, range.start, sum);
        }
        if !entries {
            return;
        }
        if let Some(seeds) = seals.wal {
            self.reseal_log(seeds, &seals.wal_segments);
        }
        for Entry { file, at, seed } in seals.entries {
            if let Some(words) = self.words(file, at, usize::MAX) {
                self.set_word(file, at, checksum(seed, &words));
            }
        }
    }

    /// Corrects the checksums of the header's slots.
    pub fn reseal_headers(&mut self) {
        for slot in [0, PAGE] {
            let Some(words) = self.files[HEAP].get(slot..slot + SLOT * 8) else { continue };
            // A slot that a new heap has not written yet stays as it is.
            if words[..8] != [0; 8] && words[8..].iter().any(|&byte| byte != 0) {
                let sum = xxh3_64(&words[..(SLOT - 1) * 8]);
                self.set_word(HEAP, slot + (SLOT - 1) * 8, sum);
            }
        }
    }

    /// Corrects the check in a word, unless the word is 0.
    fn reseal_word(&mut self, at: usize) {
        if self.word(HEAP, at) != 0 {
            let value = self.word(HEAP, at) & VALUE;
            self.set_word(HEAP, at, value | xxh3_64(&value.to_le_bytes()) >> 48 << 48);
        }
    }

    fn reseal_region(&mut self, region: usize, salt: [u8; 8]) {
        if let Some(words) = self.files[HEAP].get(region..region + 24) {
            let sum = xxh3_64(&[words, &salt].concat());
            self.set_word(HEAP, region + 7 * 8, sum);
        }
        [ROOT, GENERATION].into_iter().for_each(|word| self.reseal_word(region + word * 8));
        for slot in [512, 1024] {
            const WORDS: usize = 34;
            let slot = region + slot;
            if let Some(words) = self.files[HEAP].get(slot..slot + WORDS * 8)
                && words.iter().any(|&byte| byte != 0)
            {
                let sum = xxh3_64(words);
                self.set_word(HEAP, slot + WORDS * 8, sum);
            }
        }
    }

    /// Corrects the checksums of a write-ahead log, except those of its records.
    fn reseal_log(&mut self, seeds: WalSeeds, segments: &[usize]) {
        if let Some(words) = self.files[LOG].get(..56) {
            let sum = xxh3_64(words);
            self.set_word(LOG, 56, sum);
        }
        let segment = self.word(LOG, 40);
        let marks = [(512, u64::MAX), (1024, u64::MAX)];
        let heads = segments.iter().map(|&at| (at, self.word(LOG, at + 8).wrapping_mul(segment)));
        for (at, position) in heads.chain(marks).collect::<Vec<_>>() {
            let words: Vec<u64> = (0..LINE / 8).map(|i| self.word(LOG, at + i * 8)).collect();
            if words.iter().any(|&word| word != 0) {
                self.set_word(LOG, at, checksum(seeds.at(position), &words));
            }
        }
    }
}
