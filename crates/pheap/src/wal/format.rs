//! The format of the write-ahead log's file: its head, marks, segments and records.
//!
//! The first page names the heap and the log, and says up to which position the heap's file has everything. Behind it lie segments of equal size, which are written with zeros
//! when they are added, and used again when a checkpoint has brought their records to the heap's file. A position in the log is the number
//! of its segment times their size, plus the offset in it; it never comes back, so it is in the seed of each checksum.
//!
//! A *run* is what one process appends, from an opening of the heap on. It begins with a segment of its own, and its number is in the seeds of its records: what an earlier run has left
//! behind the end that was found is none of its records, wherever it ends.
//!
//! | in a segment | |
//! |---|---|
//! | line 0 | checksum, number of the segment, position where the records before it end, run, position up to which the log had been synced |
//! | then | records: whole lines, each an entry as in the [log of a region](crate::txn::log), with [`MORE`] if its transaction goes on |

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

use super::cache::MOST_TRIED;
use super::page_set::PageSet;
use crate::faults::holds;
use crate::log::{checksum, ranges};
use crate::os::cpu::bytes_mut;
use crate::os::storage::Storage;
use crate::units::{LINE, LINE_WORDS, PAGE};

/// Bytes before the first segment.
pub(crate) const HEAD: u64 = 4096;
/// Where the first page holds the position up to which the heap's file has everything: twice, each in a sector of its own, of which one is written at a time. So
/// one is whole, also on a disk that tears what it writes when the power fails.
pub(crate) const MARKS: [u64; 2] = [512, 1024];
/// First word of the file. Not text, so that no text file can have it.
const MAGIC: u64 = u64::from_le_bytes(*b"\x89PHEWAL\n");
const FORMAT: u64 = 3;
/// Bytes of a segment, at most. What is made is far shorter.
const MOST_SEGMENT: u64 = 1 << 30;
const HEAD_WORDS: usize = 8;
/// In the second word of a record: the next record belongs to the same transaction.
pub(crate) const MORE: u64 = 1 << 33;
/// Words that one record has at most.
pub(crate) const PIECE: usize = 4096;
/// Bytes that are read of a log at a time: several records, at least.
const READ: u64 = 256 << 10;
/// A record begins where at least this many words are left in its segment.
pub(crate) const LEAST: usize = 32;

/// Which log this is, and how it is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Of the heap.
    pub(crate) uuid: u128,
    /// Counts the logs of the heap.
    pub(crate) id: u64,
    /// Tells the logs of copies of one heap apart, which count alike. Never 0.
    pub(crate) nonce: u64,
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
            [MAGIC, FORMAT, self.uuid as u64, (self.uuid >> 64) as u64, self.id, self.segment, self.nonce, 0];
        words[HEAD_WORDS - 1] = head_sum(&words);
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Number of the segment of a position.
    pub(crate) fn sequence(&self, position: u64) -> u64 {
        position / self.segment
    }

    /// Position at which a segment begins, of those that there are.
    pub(crate) fn start(&self, sequence: u64) -> u64 {
        sequence * self.segment
    }

    /// The positions of a segment with a number that may be anything. `None` for one that no log has.
    pub(crate) fn positions(&self, sequence: u64) -> Option<Range<u64>> {
        let start = sequence.checked_mul(self.segment)?;
        Some(start..start.checked_add(self.segment)?)
    }

    /// Where the segment with this place in the file begins.
    pub(crate) fn file_offset(&self, index: u64) -> u64 {
        HEAD + index * self.segment
    }

    /// The places of the segments of a file, but for those that are holes.
    pub(crate) fn segments(&self, file: &dyn Storage) -> io::Result<Vec<u64>> {
        let end = file.len()?.saturating_sub(HEAD) / self.segment;
        let (mut segments, mut next) = (Vec::new(), 0);
        while next < end
            && let Some(data) = file.data_from(self.file_offset(next))?
        {
            let index = (data - HEAD) / self.segment;
            segments.extend((index < end).then_some(index));
            next = index + 1;
        }
        Ok(segments)
    }
}

fn head_sum(words: &[u64; HEAD_WORDS]) -> u64 {
    let bytes: Vec<u8> = words[..HEAD_WORDS - 1].iter().flat_map(|word| word.to_le_bytes()).collect();
    xxh3_64(&bytes)
}

/// Whether these may be some words of a head that was being written, without the first one: the disk may have any of them.
fn is_torn(words: &[u64; HEAD_WORDS]) -> bool {
    [0, FORMAT].contains(&words[1]) && words[5].is_multiple_of(HEAD) && words[5] <= MOST_SEGMENT
}

/// Whether a file is as long as a new log at most, and has nothing but a head, and perhaps a number in its last page, where a new log is [tried out](Storage::shows_writes).
fn is_zero_behind_head(file: &dyn Storage) -> io::Result<bool> {
    const MOST: u64 = HEAD + (2 << 20);
    const START: usize = HEAD_WORDS * 8;
    let len = file.len()?;
    if len > MOST {
        return Ok(false);
    }
    let mut rest = vec![0; MOST as usize];
    let have = file.read_up_to(&mut rest, START as u64)?;
    let tried = len.checked_sub(HEAD + PAGE).map(|segments| (HEAD + segments) as usize - START);
    Ok(rest[..have]
        .iter()
        .enumerate()
        .all(|(at, &byte)| byte == 0 || Some(at) == tried && byte <= MOST_TRIED))
}

/// Reads the head of a file.
pub(crate) fn read_head(file: &dyn Storage) -> io::Result<Head> {
    let mut bytes = [0; HEAD_WORDS * 8];
    let have = file.read_up_to(&mut bytes, 0)?;
    let words: [u64; HEAD_WORDS] = line(&bytes);
    let uuid = u128::from(words[2]) | u128::from(words[3]) << 64;
    // It is written first of all, from the front.
    let written = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    if written <= 32 && (words[0] == MAGIC || MAGIC.to_le_bytes().starts_with(&bytes[..written.min(8)])) {
        return Ok(Head::Nothing);
    }
    if words[0] == 0 && is_torn(&words) && is_zero_behind_head(file)? {
        return Ok(Head::Nothing);
    }
    if have < 8 || words[0] != MAGIC {
        return Ok(Head::Foreign("it is a file of another kind"));
    }
    if !holds(words[HEAD_WORDS - 1], head_sum(&words)) {
        return Ok(Head::Damaged(uuid));
    }
    let (format, segment, nonce) = (words[1], words[5], words[6]);
    if format != FORMAT
        || nonce == 0
        || !segment.is_multiple_of(HEAD)
        || !(2 * PIECE as u64 * 8..=MOST_SEGMENT).contains(&segment)
    {
        return Ok(Head::Foreign(
            "another version of pheap wrote it; open the heap with that one, and close it, before this one can",
        ));
    }
    Ok(Head::Log(Layout { uuid, id: words[4], nonce, segment }))
}

/// What the checksums of a log are seeded with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed(u64);

impl Seed {
    /// `salt` is the heap's, so that nobody can make a record by choosing the bytes that he stores.
    pub(crate) fn new(salt: u64, layout: Layout) -> Seed {
        let nonce = layout.nonce.wrapping_mul(0xe703_7ed1_a0b4_28db).rotate_left(37);
        Seed(salt ^ layout.id.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ nonce)
    }

    fn at(self, position: u64) -> u64 {
        self.0 ^ position.wrapping_mul(0xa076_1d64_78bd_642f)
    }

    /// The seed of what a run appends.
    pub(crate) fn of_run(self, run: u64) -> Seed {
        Seed(self.0 ^ run.wrapping_mul(0x8ebc_6af0_9c88_c6e3).rotate_left(31))
    }

    /// The line that says these words, at a position.
    pub(crate) fn line(self, position: u64, says: [u64; LINE_WORDS - 1]) -> [u64; LINE_WORDS] {
        let mut words = [0; LINE_WORDS];
        words[1..].copy_from_slice(&says);
        words[0] = checksum(self.at(position), &words);
        words
    }

    /// Completes a record that is going to be at `position`; its second word says how long it is.
    pub(crate) fn seal(self, position: u64, record: &mut [u64]) {
        record[0] = checksum(self.at(position), record);
    }

    fn is_sealed(self, position: u64, record: &[u64]) -> bool {
        holds(record[0], checksum(self.at(position), record))
    }
}

/// The first line of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentHead {
    pub(crate) sequence: u64,
    /// Position at which the records end that come before those of this segment.
    pub(crate) previous_end: u64,
    pub(crate) run: u64,
    /// Position up to which the log had been synced by then.
    pub(crate) synced: u64,
}

impl SegmentHead {
    /// `start` is the position at which the segment begins.
    pub(crate) fn to_words(self, seed: Seed, start: u64) -> [u64; LINE_WORDS] {
        seed.line(start, [self.sequence, self.previous_end, self.run, self.synced, 0, 0, 0])
    }

    /// `None` if it is torn, or no head at all.
    fn from_words(words: [u64; LINE_WORDS], layout: Layout, seed: Seed) -> Option<SegmentHead> {
        let [_, sequence, previous_end, run, synced, ..] = words;
        let head = SegmentHead { sequence, previous_end, run, synced };
        let start = layout.positions(sequence)?.start; // the number may be any
        holds(words, head.to_words(seed, start)).then_some(head)
    }
}

/// What the first page says that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    /// How many runs there were before this one.
    pub(crate) runs: u64,
    /// Position up to which the heap's file has everything.
    pub(crate) folded: u64,
    /// The run, and the one that the heap's header may name as long as it does not know of this.
    pub(crate) run: u64,
    pub(crate) before: u64,
}

impl Mark {
    /// What holds of a log without a mark.
    pub(crate) fn first(layout: Layout) -> Mark {
        Mark { runs: 0, folded: layout.start(1), run: layout.nonce, before: layout.nonce }
    }

    pub(crate) fn to_words(self, seed: Seed) -> [u64; LINE_WORDS] {
        seed.line(u64::MAX, [self.folded, self.runs, self.run, self.before, 0, 0, 0])
    }

    fn from_words(words: [u64; LINE_WORDS], seed: Seed) -> Option<Mark> {
        let [_, folded, runs, run, before, ..] = words;
        let mark = Mark { runs, folded, run, before };
        (holds(words, mark.to_words(seed)) && folded.is_multiple_of(LINE as u64)).then_some(mark)
    }
}

/// A segment that has records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) sequence: u64,
    /// Its place in the file.
    pub(crate) place: u64,
    /// Position at which the records end that come before its own.
    pub(crate) previous_end: u64,
    /// Of its records.
    pub(crate) seed: Seed,
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
        let have =
            file.read_up_to(bytes_mut(&mut words), layout.file_offset(index) + start % layout.segment)?;
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

/// What there is in a log from some position on. The records themselves stay in the log: see [`each_record`].
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Complete transactions.
    pub(crate) transactions: u64,
    /// The pages that their records store to, and perhaps some that records of an incomplete transaction do.
    pub(crate) pages: PageSet,
    /// The bytes of the heap between the first and the last one that complete transactions store to.
    pub(crate) extent: Option<Range<u64>>,
    /// Position from which on it was read, and behind the last complete transaction.
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// The segments that were read, oldest first.
    pub(crate) segments: Vec<Segment>,
    /// Number of the newest segment of all, whether it was read or not.
    pub(crate) newest: u64,
    /// Position up to which the log had been synced, as far as the segments say.
    pub(crate) synced: u64,
    /// Bytes behind the end, of records that are not complete.
    pub(crate) rest: u64,
}

impl Found {
    /// Nothing, behind a position.
    pub(crate) fn behind(end: u64) -> Found {
        Found { begin: end, end, ..Found::default() }
    }
}

/// The bytes from the beginning of one range to the end of the other.
fn around(one: Option<Range<u64>>, other: Option<Range<u64>>) -> Option<Range<u64>> {
    let Some(one) = one else { return other };
    let other = other.unwrap_or(one.clone());
    Some(one.start.min(other.start)..one.end.max(other.end))
}

/// Gets the records that are read of a log.
pub(super) trait Reader {
    /// The next record, of which nothing is known yet but that it is whole.
    fn add(&mut self, record: &[u64]);
    /// The records that were added are those of complete transactions.
    fn complete(&mut self);
    /// The records since the last call of [`complete`](Self::complete) count for nothing.
    fn cut(&mut self);
}

/// No records are wanted.
impl Reader for () {
    fn add(&mut self, _record: &[u64]) {}
    fn complete(&mut self) {}
    fn cut(&mut self) {}
}

/// Reads a log up to the first record that is not complete.
pub(crate) fn read_all(file: &dyn Storage, layout: Layout, seed: Seed) -> io::Result<Found> {
    let mut found = Found::behind(read_mark(file, layout, seed)?.0.folded);
    read_on(file, layout, seed, &mut found, &mut ())?;
    Ok(found)
}

/// Calls `visit` with the records between two positions, oldest first. `segments` are those that have them. Few
/// records are in memory at a time.
///
/// # Errors
/// Those of `visit`, or that the log does not have these records.
pub(super) fn each_record(
    file: &dyn Storage,
    layout: Layout,
    segments: &[Segment],
    positions: Range<u64>,
    mut visit: impl FnMut(&[u64]) -> io::Result<()>,
) -> io::Result<()> {
    let gone = || io::Error::new(io::ErrorKind::InvalidData, "the log does not hold what was written to it");
    let mut at = positions.start;
    for (number, segment) in segments.iter().enumerate() {
        let end = segments.get(number + 1).map_or(u64::MAX, |next| next.previous_end).min(positions.end);
        at = at.max(layout.start(segment.sequence) + LINE as u64);
        while at < end {
            let mut records =
                Records::read(file, layout, segment.seed, segment.place, at, READ.min(end - at))?;
            while let Some(record) = records.next() {
                visit(record)?;
            }
            if records.at == 0 {
                return Err(gone());
            }
            at = records.position();
        }
    }
    if at < positions.end { Err(gone()) } else { Ok(()) }
}

/// The words of a line.
fn line(bytes: &[u8]) -> [u64; LINE_WORDS] {
    std::array::from_fn(|i| u64::from_le_bytes(*bytes[i * 8..].first_chunk().expect("8 bytes")))
}

/// The newest mark, and in which of the two places it is.
pub(super) fn read_mark(file: &dyn Storage, layout: Layout, seed: Seed) -> io::Result<(Mark, usize)> {
    let mut bytes = [0; (MARKS[1] - MARKS[0]) as usize + LINE];
    file.read_copies(&mut bytes, MARKS[0])?;
    let marks = [0, 1].map(|number| {
        let words = line(&bytes[(MARKS[number] - MARKS[0]) as usize..]);
        Mark::from_words(words, seed).map(|mark| (mark, number))
    });
    // The first one to be written is that at place 0.
    Ok(marks.into_iter().flatten().max().unwrap_or((Mark::first(layout), 1)))
}

/// The segments whose heads are whole, oldest first, with their places in the file.
fn read_heads(
    file: &dyn Storage,
    layout: Layout,
    seed: Seed,
) -> io::Result<BTreeMap<u64, (SegmentHead, u64)>> {
    let mut heads = BTreeMap::new();
    for place in layout.segments(file)? {
        let mut bytes = [0; LINE];
        file.read_up_to(&mut bytes, layout.file_offset(place))?;
        if let Some(head) = SegmentHead::from_words(line(&bytes), layout, seed) {
            heads.insert(head.sequence, (head, place));
        }
    }
    Ok(heads)
}

/// Reads on from where `found` ends, up to the first record that is not complete. `reader` gets the records.
pub(super) fn read_on(
    file: &dyn Storage,
    layout: Layout,
    seed: Seed,
    found: &mut Found,
    reader: &mut impl Reader,
) -> io::Result<()> {
    let heads = read_heads(file, layout, seed)?;
    found.newest = heads.last_key_value().map_or(0, |(&sequence, _)| sequence);
    found.segments.clear();
    // Of several, the newest.
    let behind: HashMap<u64, (SegmentHead, u64)> =
        heads.values().map(|segment| (segment.0.previous_end, *segment)).collect();
    // A run goes on where complete transactions end; within a run, a segment does where records end. Where a run was cut short, there may be several.
    let next = |least: u64, ends: [u64; 2]| {
        let segments = ends.iter().filter_map(|end| behind.get(end)).copied();
        segments.filter(|(head, _)| head.sequence >= least).max_by_key(|(head, _)| head.sequence)
    };
    let mut at = found.end;
    let first = layout.sequence(at);
    let inside = heads.get(&first).filter(|_| at != layout.start(first)).copied();
    let mut segment = inside.or_else(|| next(first, [at; 2]));
    let mut incomplete = None; // the extent of its records
    while let Some((head, place)) = segment {
        let SegmentHead { sequence, previous_end, run, synced } = head;
        let positions = layout.positions(sequence).expect("its head was read");
        let of_run = seed.of_run(run);
        found.segments.push(Segment { sequence, place, previous_end, seed: of_run });
        found.synced = found.synced.max(synced);
        if previous_end != at {
            reader.cut(); // what the run before has not completed, nobody will
            incomplete = None;
        }
        at = at.max(positions.start + LINE as u64);
        loop {
            // Not all of it at once: who reads again and again what another process appends finds little each time.
            let bytes = positions.end.saturating_sub(at).min(READ);
            let mut records = Records::read(file, layout, of_run, place, at, bytes)?;
            while let Some(record) = records.next() {
                for range in ranges(record) {
                    found.pages.insert(range.offset, range.end());
                    incomplete = around(incomplete, Some(range.offset..range.end()));
                }
                reader.add(record);
                if record[1] & MORE == 0 {
                    reader.complete();
                    found.transactions += 1;
                    found.extent = around(found.extent.take(), incomplete.take());
                    found.end = records.position();
                }
            }
            if records.at == 0 {
                break;
            }
            at = records.position();
        }
        segment = next(sequence + 1, [at, found.end]);
    }
    found.rest = at.saturating_sub(found.end);
    reader.cut();
    Ok(())
}
