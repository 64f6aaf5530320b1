//! A heap file as bytes, and where in it the metadata are. This knows the format by itself: see docs/design.md.

use arbitrary::Arbitrary;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

const PAGE: usize = 4096;
/// Words of a header slot, and of an arena's head.
const SLOT: usize = 64;
const HEAD: usize = 8;
/// Words of a region's header that have a check in their upper 16 bits.
const ROOT: usize = 3;
const GENERATION: usize = 5;

/// One piece of damage. Sections and places are taken modulo what there is.
#[derive(Arbitrary, Debug)]
pub enum Mutation {
    Flip {
        section: u8,
        at: u16,
        bit: u8,
    },
    Set {
        section: u8,
        word: u16,
        to: Value,
    },
    Copy {
        from: (u8, u16),
        to: (u8, u16),
        words: u8,
    },
    Zero {
        section: u8,
        word: u16,
        words: u8,
    },
    /// A byte of text, lengths and codes.
    Byte {
        section: u8,
        at: u16,
        to: u8,
    },
    /// Cuts the file off, or makes it longer.
    Length {
        pages: i8,
        bytes: i16,
    },
}

/// What a word becomes.
#[derive(Arbitrary, Debug)]
pub enum Value {
    Any(u64),
    Small(u8),
    /// A little more or less than it was.
    Near(i8),
    /// An offset in the file.
    Page(u8),
    Power(u8),
    Max,
}

/// A file.
#[derive(Clone)]
pub struct Image {
    bytes: Vec<u8>,
    sections: Vec<Range<usize>>,
    arenas: Vec<Range<usize>>,
    regions: Vec<usize>,
    /// Records of the type table: where each begins.
    records: Vec<usize>,
}

impl Image {
    /// Finds the metadata of a good file.
    pub fn of(bytes: Vec<u8>) -> Image {
        let mut image = Image { bytes, sections: vec![], arenas: vec![], regions: vec![], records: vec![] };
        image.sections.extend([0..SLOT * 8, PAGE..PAGE + SLOT * 8]);
        let newest = if image.word(16) > image.word(PAGE + 16) { 0 } else { PAGE };
        let mapped = image.word(newest + 6 * 8) as usize;
        let mut start = 0;
        while start < mapped {
            let head = head(start);
            let arena = start..start + image.word(head + 16) as usize;
            image.add_arena(arena.clone());
            start = arena.end;
        }
        image
    }

    fn add_arena(&mut self, arena: Range<usize>) {
        let head = head(arena.start);
        let table = head + PAGE;
        let table_end = table + arena.len() / PAGE * 16;
        self.sections.extend([head..head + HEAD * 8, table..table_end]);
        let mut page = table_end.next_multiple_of(PAGE);
        while page < arena.end {
            let entry = self.word(table + (page - arena.start) / PAGE * 16);
            let len = ((entry >> 32) as usize).max(1) * PAGE;
            match entry as u8 {
                1 => {
                    self.regions.push(page);
                    // Identity, names, and the first segment of the log: its link, its first entries, its rest.
                    self.sections.extend([page..page + 64, page + 512..page + 1536]);
                    self.sections.extend([page + PAGE..page + PAGE + 512, page + PAGE + 512..page + len]);
                }
                2 => self.sections.extend([page..page + 512, page + 512..page + len]),
                3 => {
                    self.sections.push(page..page + 1024);
                    let mut at = page + 64;
                    while self.word(at) != 0 {
                        self.records.push(at);
                        at += (16 + self.word(at + 8) as u32 as usize).next_multiple_of(8);
                    }
                }
                _ => {} // objects
            }
            page += len;
        }
        self.arenas.push(arena);
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The word at `at`; 0 behind the end.
    fn word(&self, at: usize) -> u64 {
        self.bytes.get(at..at + 8).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes")))
    }

    fn set_word(&mut self, at: usize, to: u64) {
        if let Some(word) = self.bytes.get_mut(at..at + 8) {
            word.copy_from_slice(&to.to_le_bytes());
        }
    }

    fn byte_of(&self, section: u8, at: u16) -> usize {
        let section = &self.sections[usize::from(section) % self.sections.len()];
        section.start + usize::from(at) % section.len()
    }

    fn word_of(&self, section: u8, word: u16) -> usize {
        let section = &self.sections[usize::from(section) % self.sections.len()];
        section.start + usize::from(word) % (section.len() / 8) * 8
    }

    /// The words that follow, within the section.
    fn words_of(&self, section: u8, word: u16, words: u8) -> Range<usize> {
        let start = self.word_of(section, word);
        let section = &self.sections[usize::from(section) % self.sections.len()];
        start..(start + usize::from(words) * 8).min(section.end)
    }

    pub fn apply(&mut self, mutation: &Mutation) {
        match *mutation {
            Mutation::Flip { section, at, bit } => {
                let at = self.byte_of(section, at);
                if let Some(byte) = self.bytes.get_mut(at) {
                    *byte ^= 1 << (bit % 8);
                }
            }
            Mutation::Byte { section, at, to } => {
                let at = self.byte_of(section, at);
                if let Some(byte) = self.bytes.get_mut(at) {
                    *byte = to;
                }
            }
            Mutation::Set { section, word, ref to } => {
                let at = self.word_of(section, word);
                let to = match *to {
                    Value::Any(value) => value,
                    Value::Small(value) => value.into(),
                    Value::Near(by) => self.word(at).wrapping_add_signed(by.into()),
                    Value::Page(page) => u64::from(page) * PAGE as u64,
                    Value::Power(exponent) => 1 << (exponent % 64),
                    Value::Max => u64::MAX,
                };
                self.set_word(at, to);
            }
            Mutation::Copy { from, to, words } => {
                let from = self.words_of(from.0, from.1, words);
                let to = self.words_of(to.0, to.1, words);
                let len = from.len().min(to.len());
                if from.start.max(to.start) + len <= self.bytes.len() {
                    self.bytes.copy_within(from.start..from.start + len, to.start);
                }
            }
            Mutation::Zero { section, word, words } => {
                let range = self.words_of(section, word, words);
                if let Some(bytes) = self.bytes.get_mut(range) {
                    bytes.fill(0);
                }
            }
            Mutation::Length { pages, bytes } => {
                let len = self.bytes.len() as i64 + i64::from(pages) * PAGE as i64 + i64::from(bytes);
                self.bytes.resize(len.clamp(0, 1 << 20) as usize, 0);
            }
        }
    }

    /// Makes checksums good again.
    pub fn reseal(&mut self) {
        for slot in [0, PAGE] {
            if self.word(slot) != 0 && slot + PAGE <= self.bytes.len() {
                let sum = xxh3_64(&self.bytes[slot..slot + (SLOT - 1) * 8]);
                // The slot that a new heap has not written stays as it is.
                if self.bytes[slot + 8..slot + SLOT * 8].iter().any(|&byte| byte != 0) {
                    self.set_word(slot + (SLOT - 1) * 8, sum);
                }
            }
        }
        let newest = if self.word(16) > self.word(PAGE + 16) { 0 } else { PAGE };
        let salt = self.word(newest + 8 * 8).to_le_bytes();
        for arena in self.arenas.clone() {
            let head = head(arena.start);
            if let Some(words) = self.bytes.get(head..head + HEAD * 8) {
                // Its last word counts as zero.
                let sum = xxh3_64(&[&words[..(HEAD - 1) * 8], &[0; 8], &salt].concat());
                self.set_word(head + (HEAD - 1) * 8, sum);
            }
        }
        for region in self.regions.clone() {
            if let Some(words) = self.bytes.get(region..region + 24) {
                let sum = xxh3_64(&[words, &salt].concat());
                self.set_word(region + 7 * 8, sum);
            }
            for word in [ROOT, GENERATION].map(|word| region + word * 8) {
                if self.word(word) != 0 {
                    let value = self.word(word) << 16 >> 16;
                    self.set_word(word, value | xxh3_64(&value.to_le_bytes()) >> 48 << 48);
                }
            }
            for slot in [512, 1024] {
                const WORDS: usize = 34;
                let slot = region + slot;
                if let Some(words) = self.bytes.get(slot..slot + WORDS * 8)
                    && words.iter().any(|&byte| byte != 0)
                {
                    let sum = xxh3_64(words);
                    self.set_word(slot + WORDS * 8, sum);
                }
            }
        }
        for record in self.records.clone() {
            let len = (16 + self.word(record + 8) as u32 as usize).next_multiple_of(8);
            if let Some(rest) = self.bytes.get(record + 8..record + len) {
                let sum = xxh3_64(&[rest, &(record as u64).to_le_bytes(), &salt].concat());
                self.set_word(record, sum);
            }
        }
    }
}

/// Where the head of the arena at `start` is.
fn head(start: usize) -> usize {
    start + if start == 0 { 2 * PAGE } else { 0 }
}
