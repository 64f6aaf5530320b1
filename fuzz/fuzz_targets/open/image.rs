//! A heap's file and its log as bytes, and the places of their parts. This module implements the format
//! independently of pheap; see docs/design.md.

use std::ops::Range;

use crate::seal::{Entry, GENERATION, Seals, VALUE, WalSeeds, checksum, log_seed};

pub const PAGE: usize = 4096;
pub const LINE: usize = 64;
/// Words of a header slot, and of an arena's head.
pub const SLOT: usize = 64;
pub const HEAD: usize = 8;

/// Indices of the two files.
pub const HEAP: usize = 0;
pub const LOG: usize = 1;

/// A part of a file.
#[derive(Clone, Debug)]
pub struct Section {
    pub file: usize,
    pub range: Range<usize>,
}

/// The files of a heap.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// The heap's file, and the write-ahead log, which is empty if there is none.
    pub files: [Vec<u8>; 2],
    /// Sections with metadata, logs included.
    pub tables: Vec<Section>,
    /// Sections with objects.
    pub objects: Vec<Section>,
    pub seals: Seals,
    /// Address at which the heap was mapped last.
    pub base: u64,
}

impl Image {
    /// Finds the parts of the files of a good heap.
    pub fn of(heap: Vec<u8>, log: Vec<u8>) -> Image {
        let mut image = Image { files: [heap, log], ..Image::default() };
        image.add(HEAP, [0..SLOT * 8, PAGE..PAGE + SLOT * 8]);
        let newest = image.newest();
        image.base = image.word(HEAP, newest + 10 * 8);
        let salt = image.word(HEAP, newest + 8 * 8);
        let mapped = image.word(HEAP, newest + 6 * 8) as usize;
        let mut start = 0;
        while start < mapped {
            let head = head(start);
            let arena = start..start + image.word(HEAP, head + 16) as usize;
            image.add_arena(arena.clone());
            start = arena.end;
        }
        let bitmaps = [18, 19].map(|word| image.word(HEAP, newest + word * 8) as usize);
        if bitmaps[1] > 0 {
            image.add(HEAP, [bitmaps[0]..bitmaps[0] + bitmaps[1]]);
            image.seals.bitmaps = Some(bitmaps[0]..bitmaps[0] + bitmaps[1]);
        }
        for region in image.seals.regions.clone() {
            image.add_entries(region, salt);
        }
        if !image.files[LOG].is_empty() {
            image.add_log(salt);
        }
        image
    }

    /// Returns an image of files whose content is unknown.
    pub fn unknown(heap: Vec<u8>, log: Vec<u8>) -> Image {
        let mut image = Image { files: [heap, log], ..Image::default() };
        for file in [HEAP, LOG] {
            let len = image.files[file].len();
            image.add(file, [0..len.min(PAGE), 0..len]);
        }
        image.base = image.word(HEAP, 10 * 8);
        image
    }

    fn add(&mut self, file: usize, ranges: impl IntoIterator<Item = Range<usize>>) {
        let sections = ranges.into_iter().filter(|range| range.len() >= 8);
        self.tables.extend(sections.map(|range| Section { file, range }));
    }

    fn add_arena(&mut self, arena: Range<usize>) {
        let head = head(arena.start);
        let table = head + PAGE;
        let table_end = table + arena.len() / PAGE * 16;
        self.add(HEAP, [head..head + (HEAD + 1) * 8, table..table_end]);
        let first = table_end.next_multiple_of(PAGE);
        let mut page = first;
        while page < arena.end {
            let entry = self.word(HEAP, table + entry_number(&arena, first, page) * 16);
            let len = ((entry >> 32) as usize).max(1) * PAGE;
            match entry as u8 {
                1 => {
                    self.seals.regions.push(page);
                    // The identity, the names, and the first segment of the log: its link, its first entries,
                    // and its rest.
                    self.add(HEAP, [page..page + 64, page + 512..page + 1536]);
                    self.add(HEAP, [page + PAGE..page + PAGE + 512, page + PAGE + 512..page + len]);
                }
                2 => {
                    self.seals.segments.push(page..page + len);
                    self.add(HEAP, [page..page + 512, page + 512..page + len]);
                }
                3 => {
                    self.add(HEAP, [page..page + 1024]);
                    let mut at = page + LINE;
                    while self.word(HEAP, at) != 0 {
                        self.seals.records.push(at);
                        at += (16 + self.word(HEAP, at + 8) as u32 as usize).next_multiple_of(8);
                    }
                }
                4 | 5 => {
                    let first = page..page + len.min(512);
                    self.objects.extend([first, page..page + len].map(|range| Section { file: HEAP, range }));
                }
                _ => {}
            }
            page += len;
        }
        self.seals.arenas.push(arena);
    }

    /// Adds the entries of a region's log, and the place after the last entry of each segment. Looks at 16
    /// segments at most.
    fn add_entries(&mut self, region: usize, salt: u64) {
        let id = self.word(HEAP, region + 8);
        let identity = salt ^ id.wrapping_mul(0xe703_7ed1_a0b4_28db);
        let generation = self.word(HEAP, region + GENERATION * 8) & VALUE;
        let mut segment = region + PAGE..region + 2 * PAGE;
        let mut sequence = 0;
        for _ in 0..16 {
            let mut at = segment.start + LINE;
            while at + LINE <= segment.end {
                let seed = log_seed(identity, generation, sequence, at as u64);
                let entry = Entry { file: HEAP, at, seed };
                self.seals.entries.push(entry);
                let words = self.words(HEAP, at, segment.end);
                if words.is_none_or(|words| words[0] != checksum(seed, &words)) {
                    break;
                }
                sequence += 1;
                at += (self.word(HEAP, at + 8) as u32 as usize * 8).next_multiple_of(LINE);
            }
            let next = self.word(HEAP, segment.start) as usize;
            let Some(found) = self.seals.segments.iter().find(|other| other.start == next) else { break };
            segment = found.clone();
        }
    }

    /// Adds the parts of the write-ahead log.
    fn add_log(&mut self, salt: u64) {
        self.add(LOG, [0..64, 512..576, 1024..1088]);
        let (id, segment, nonce) = (self.word(LOG, 32), self.word(LOG, 40) as usize, self.word(LOG, 48));
        let seeds = WalSeeds::new(salt, id, nonce);
        self.seals.wal = Some(seeds);
        let mut start = PAGE;
        while start + segment <= self.files[LOG].len() {
            self.seals.wal_segments.push(start);
            self.add(LOG, [start..start + LINE]);
            let (sequence, run) = (self.word(LOG, start + 8), self.word(LOG, start + 24));
            let records = seeds.of_run(run);
            let mut at = start + LINE;
            while at + LINE <= start + segment {
                let position = sequence * segment as u64 + (at - start) as u64;
                let seed = records.at(position);
                self.seals.entries.push(Entry { file: LOG, at, seed });
                let words = self.words(LOG, at, start + segment);
                if words.is_none_or(|words| words[0] != checksum(seed, &words)) {
                    break;
                }
                at += (self.word(LOG, at + 8) as u32 as usize * 8).next_multiple_of(LINE);
            }
            let used = start + LINE..(at + 2 * LINE).min(start + segment);
            self.add(LOG, [used]);
            start += segment;
        }
    }

    /// Returns the offset of the newest header slot.
    pub fn newest(&self) -> usize {
        if self.word(HEAP, 16) > self.word(HEAP, PAGE + 16) { 0 } else { PAGE }
    }

    /// Returns the words of a log entry, unless it ends after `end`, or its length is invalid.
    pub fn words(&self, file: usize, at: usize, end: usize) -> Option<Vec<u64>> {
        let len = self.word(file, at + 8) as u32 as usize;
        if len < 2 || at + len * 8 > end.min(self.files[file].len()) {
            return None;
        }
        Some((0..len).map(|i| self.word(file, at + i * 8)).collect())
    }

    /// Returns the word at `at`, or 0 if the file does not have all of it.
    pub fn word(&self, file: usize, at: usize) -> u64 {
        let bytes = self.files[file].get(at..at.saturating_add(8));
        bytes.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes")))
    }

    pub fn set_word(&mut self, file: usize, at: usize, to: u64) {
        if let Some(word) = self.files[file].get_mut(at..at.saturating_add(8)) {
            word.copy_from_slice(&to.to_le_bytes());
        }
    }
}

/// Returns the offset of the head of the arena at `start`.
pub fn head(start: usize) -> usize {
    start + if start == 0 { 2 * PAGE } else { 0 }
}

/// Returns the index of a page's entry in the arena's table. `first` is the offset of the first page that can
/// be used.
fn entry_number(arena: &Range<usize>, first: usize, page: usize) -> usize {
    let pages = arena.len() / PAGE;
    if !pages.is_multiple_of(256) {
        return (page - arena.start) / PAGE;
    }
    let page = (page - first) / PAGE;
    (page % 256 / 4 * (pages / 256) + page / 256) * 4 + page % 4
}
