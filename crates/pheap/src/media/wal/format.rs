//! What a log looks like in its file.
//!
//! The first page names the heap and the log, and never changes. Behind it lie segments of equal size, which are written with zeros
//! when they are added, and used again when a checkpoint has brought their records to the heap's file. A position in the log is the number
//! of its segment times their size, plus the offset in it; it never comes back, so it is in the seed of each checksum.
//!
//! | in a segment | |
//! |---|---|
//! | line 0 | checksum, number of the segment, position where the records of the segment before end, number of the oldest segment that is needed |
//! | then | records: whole lines, each an entry as in the [log of a region](crate::txn::log), with [`MORE`] if its transaction goes on, [`CONTINUED`] if it began before |

use xxhash_rust::xxh3::xxh3_64;

use super::storage::Storage;
use crate::error::{Error, Result};
use crate::media::{Bug, LINE, LINE_WORDS, bug};
use crate::txn::checksum::checksum;

use std::io;
use std::path::Path;

/// Bytes before the first segment.
pub(crate) const HEAD: u64 = 4096;
/// First word of the file. Not text, so that no text file can have it.
const MAGIC: u64 = u64::from_le_bytes(*b"\x89PHEWAL\n");
const FORMAT: u64 = 1;
const HEAD_WORDS: usize = 8;
/// In the second word of a record: the next record belongs to the same transaction.
pub(crate) const MORE: u64 = 1 << 33;
/// There: the record before belongs to it, too.
pub(crate) const CONTINUED: u64 = 1 << 34;
/// Words that one record has at most.
pub(crate) const PIECE: usize = 4096;
/// A record begins where at least this many words are left in its segment.
pub(crate) const LEAST: usize = 32;

/// Which log this is, and how it is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Of the heap.
    pub(crate) uuid: u128,
    /// Counts the logs of the heap.
    pub(crate) id: u64,
    /// Bytes of a segment.
    pub(crate) segment: u64,
}

/// What the beginning of a file says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// A log that was never completed.
    Nothing,
    /// Not a log, or one of another format.
    Foreign(&'static str),
    /// A log of the heap with this uuid, whose head is damaged or was never completed.
    Damaged(u128),
    Log(Layout),
}

impl Layout {
    /// The first bytes of the file.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut words =
            [MAGIC, FORMAT, self.uuid as u64, (self.uuid >> 64) as u64, self.id, self.segment, 0, 0];
        words[HEAD_WORDS - 1] = head_sum(&words);
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Number of the segment of a position.
    pub(crate) fn sequence(&self, position: u64) -> u64 {
        position / self.segment
    }

    /// Position at which a segment begins.
    pub(crate) fn start(&self, sequence: u64) -> u64 {
        sequence * self.segment
    }

    /// Where the segment with this place in the file begins.
    pub(crate) fn file_offset(&self, index: u64) -> u64 {
        HEAD + index * self.segment
    }

    /// How many segments a file of `len` bytes has.
    pub(crate) fn segments(&self, len: u64) -> u64 {
        len.saturating_sub(HEAD) / self.segment
    }
}

fn head_sum(words: &[u64; HEAD_WORDS]) -> u64 {
    let bytes: Vec<u8> = words[..HEAD_WORDS - 1].iter().flat_map(|word| word.to_le_bytes()).collect();
    xxh3_64(&bytes)
}

/// Reads the head of a file.
pub(crate) fn read_head(file: &dyn Storage) -> io::Result<Head> {
    let mut bytes = [0; HEAD_WORDS * 8];
    let have = file.read_up_to(&mut bytes, 0)?;
    let words: [u64; HEAD_WORDS] =
        std::array::from_fn(|i| u64::from_le_bytes(*bytes[i * 8..].first_chunk().expect("8 bytes")));
    let uuid = u128::from(words[2]) | u128::from(words[3]) << 64;
    // It is written first of all, from the front.
    let written = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    if written <= 32 && (words[0] == MAGIC || MAGIC.to_le_bytes().starts_with(&bytes[..written.min(8)])) {
        return Ok(Head::Nothing);
    }
    if have < 8 || words[0] != MAGIC {
        return Ok(Head::Foreign("it is a file of another kind"));
    }
    if words[HEAD_WORDS - 1] != head_sum(&words) {
        return Ok(Head::Damaged(uuid));
    }
    let segment = words[5];
    if words[1] != FORMAT || !segment.is_multiple_of(HEAD) || segment < 2 * PIECE as u64 * 8 {
        return Ok(Head::Foreign("a newer pheap wrote it"));
    }
    Ok(Head::Log(Layout { uuid, id: words[4], segment }))
}

/// What the checksums of a log are seeded with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed(u64);

impl Seed {
    /// `salt` is the heap's, so that nobody can make a record by choosing the bytes that he stores.
    pub(crate) fn new(salt: u64, id: u64) -> Seed {
        Seed(salt ^ id.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29))
    }

    fn at(self, position: u64) -> u64 {
        self.0 ^ position.wrapping_mul(0xa076_1d64_78bd_642f)
    }

    /// The first line of a segment that begins at `position`.
    pub(crate) fn segment_head(
        self,
        position: u64,
        sequence: u64,
        previous_end: u64,
        oldest: u64,
    ) -> [u64; LINE_WORDS] {
        let mut words = [0, sequence, previous_end, oldest, 0, 0, 0, 0];
        words[0] = checksum(self.at(position), &words);
        words
    }

    /// Completes a record that is going to be at `position`; its second word says how long it is.
    pub(crate) fn seal(self, position: u64, record: &mut [u64]) {
        record[0] = checksum(self.at(position), record);
    }

    fn is_sealed(self, position: u64, record: &[u64]) -> bool {
        record[0] == checksum(self.at(position), record)
    }
}

/// The words of a segment from one position on, as they are in the file.
pub(crate) struct Records {
    seed: Seed,
    words: Vec<u64>,
    /// Position of the first of the words.
    start: u64,
    at: usize,
}

impl Records {
    /// Reads `bytes` of the segment at place `index`, from a position on.
    pub(crate) fn read(
        file: &dyn Storage,
        layout: Layout,
        seed: Seed,
        index: u64,
        start: u64,
        bytes: u64,
    ) -> io::Result<Records> {
        let mut words = vec![0u64; (bytes / 8) as usize];
        // SAFETY: words are bytes, too, and any bytes are words.
        let buffer =
            unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), words.len() * 8) };
        let have = file.read_up_to(buffer, layout.file_offset(index) + start % layout.segment)?;
        words.truncate(have / 8);
        Ok(Records { seed, words, start, at: 0 })
    }

    /// Position behind the records that were seen.
    pub(crate) fn position(&self) -> u64 {
        self.start + self.at as u64 * 8
    }

    /// The next record, if it is complete.
    pub(crate) fn next(&mut self) -> Option<&[u64]> {
        let rest = &self.words[self.at.min(self.words.len())..];
        let len = *rest.get(1)? as u32 as usize;
        if len < 2 || len > rest.len() || !self.seed.is_sealed(self.position(), &rest[..len]) {
            return None;
        }
        let at = self.at;
        self.at += len.next_multiple_of(LINE_WORDS);
        Some(&self.words[at..at + len])
    }
}

/// What a crash left in a log.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The records of complete transactions, oldest first.
    pub(crate) records: Vec<Vec<u64>>,
    pub(crate) transactions: u64,
}

/// Reads a log up to the first record that is not complete.
pub(crate) fn read_all(file: &dyn Storage, layout: Layout, seed: Seed, path: &Path) -> Result<Found> {
    let error = |e| Error::io(format!("reading {}", path.display()), e);
    let (mut heads, mut oldest) = (Vec::new(), 0);
    for index in 0..layout.segments(file.len().map_err(error)?) {
        let mut bytes = [0; LINE];
        file.read_up_to(&mut bytes, layout.file_offset(index)).map_err(error)?;
        let words: [u64; LINE_WORDS] =
            std::array::from_fn(|i| u64::from_le_bytes(*bytes[i * 8..].first_chunk().expect("8 bytes")));
        if words == seed.segment_head(layout.start(words[1]), words[1], words[2], words[3]) {
            heads.push((words[1], index, words[2]));
            oldest = oldest.max(words[3]);
        }
    }
    // Segments are used again in the order of their numbers, but which of their new heads reach the disk is its affair: an older one may have kept its
    // own while that of the next one is gone. What came before the oldest that is needed is in the heap's file.
    heads.retain(|&(sequence, ..)| sequence >= oldest);
    heads.sort_unstable();
    let mut found = Found::default();
    let mut open: Vec<Vec<u64>> = Vec::new();
    let mut end: Option<(u64, u64)> = None; // number of the last segment, and where its records end
    for (sequence, index, previous_end) in heads {
        let follows = |(last, at)| sequence == last + 1 && (previous_end == at || bug(Bug::SkipSegmentEnd));
        if !end.is_none_or(follows) {
            break;
        }
        let start = layout.start(sequence) + LINE as u64;
        let mut records =
            Records::read(file, layout, seed, index, start, layout.segment - LINE as u64).map_err(error)?;
        while let Some(record) = records.next() {
            if open.is_empty() && record[1] & CONTINUED != 0 {
                continue; // it began in a segment that was used again, so it is in the heap's file
            }
            let more = record[1] & MORE != 0;
            open.push(record.to_vec());
            if !more {
                found.transactions += 1;
                found.records.append(&mut open);
            }
        }
        end = Some((sequence, records.position()));
    }
    Ok(found)
}
