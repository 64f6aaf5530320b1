//! The format of the write-ahead log's file: its head, marks, segments and records.
//!
//! The first page names the heap and the log, and says up to which position the heap's file has everything.
//! Segments of equal size follow. They are filled with zeros when they are added, and used again when a
//! checkpoint has brought their records to the heap's file. A position in the log is the number of its
//! segment times their size, plus the offset in it. No run uses a position twice, so the position is mixed
//! into the checksum of each record, and of each segment's first line.
//!
//! A *run* is the records that one process appends, from an opening of the heap on. It begins with a new
//! segment, and its number is in the seeds of its records. So words that an earlier run has left behind the
//! end that the opening found are no record of this run, wherever they lie.
//!
//! In a segment:
//! * Line 0: checksum, number of the segment, position where the records before it end, run, and the position
//!   up to which the log had been synced.
//! * Then the records. Each takes whole lines, and is an entry as in the [log of a region](crate::txn::log),
//!   with the flag [`MORE`] if its transaction goes on in the next record.

use std::cmp::Ordering;
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

/// Number of segments of a new log. A log that is cut down keeps as many.
pub(super) const FIRST_SEGMENTS: u64 = 2;

/// Bytes of the log's file before the first segment.
pub(crate) const HEAD: u64 = 4096;
/// Offsets of the two marks in the first page. Each has a sector to itself, and at most one of them is
/// written between two syncs. So one is whole, also on a disk that tears a write when the power fails.
pub(crate) const MARKS: [u64; 2] = [512, 1024];
/// First word of the log's file. It is not text, so no text file begins with it.
const MAGIC: u64 = u64::from_le_bytes(*b"\x89PHEWAL\n");
const FORMAT: u64 = 3;
/// Largest size of a segment that is accepted, in bytes. The segments that pheap makes are far shorter.
const MOST_SEGMENT: u64 = 1 << 30;
const HEAD_WORDS: usize = 8;
/// A flag in the second word of a record: the next record belongs to the same transaction.
pub(crate) const MORE: u64 = 1 << 33;
/// Largest number of words of a record.
pub(crate) const PIECE: usize = 4096;
/// Most bytes of a log that are read at a time. No record is as long.
const READ: u64 = 256 << 10;
/// A record begins only where at least this many words are left in the segment.
pub(crate) const LEAST: usize = 32;

/// The identity of a log, and the size of its segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogLayout {
    /// The uuid of the heap.
    pub(crate) uuid: u128,
    /// The number of the log: each heap counts its logs.
    pub(crate) id: u64,
    /// A random number, never 0. It tells apart the logs of copies of one heap, whose `id` may be equal.
    pub(crate) nonce: u64,
    /// Bytes of a segment.
    pub(crate) segment: u64,
}

/// The kinds of heads that a file with the name of a log may have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// The head is empty, or was never completed.
    Nothing,
    /// The file is no log, or a log of another format, as the text says.
    Foreign(&'static str),
    /// A log whose head is damaged or was never completed. It may be the log of the heap with this uuid.
    Damaged(u128),
    Log(LogLayout),
}

impl LogLayout {
    /// Returns the bytes of the log's head, with which its file begins.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut words =
            [MAGIC, FORMAT, self.uuid as u64, (self.uuid >> 64) as u64, self.id, self.segment, self.nonce, 0];
        words[HEAD_WORDS - 1] = head_sum(&words);
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Returns the number of the segment in which a log position lies.
    pub(crate) fn sequence(&self, position: u64) -> u64 {
        position / self.segment
    }

    /// Returns the position at which a segment begins. The log has the segment or gets it, so its number
    /// times the size of a segment fits into 64 bits.
    pub(crate) fn start(&self, sequence: u64) -> u64 {
        sequence * self.segment
    }

    /// Returns the positions of a segment whose number was read from a file, and may be any number. Returns
    /// `None` if no log can have such a segment.
    pub(crate) fn positions(&self, sequence: u64) -> Option<Range<u64>> {
        let start = sequence.checked_mul(self.segment)?;
        Some(start..start.checked_add(self.segment)?)
    }

    /// Returns the offset in the log's file of the segment at place `index`.
    pub(crate) fn file_offset(&self, index: u64) -> u64 {
        HEAD + index * self.segment
    }

    /// Returns the places of the whole segments of a file, except segments that are holes.
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

/// Returns the checksum of a log's head: of all its words except the last, which holds it.
fn head_sum(words: &[u64; HEAD_WORDS]) -> u64 {
    let bytes: Vec<u8> = words[..HEAD_WORDS - 1].iter().flat_map(|word| word.to_le_bytes()).collect();
    xxh3_64(&bytes)
}

/// Returns whether `words` may be left of an unfinished head, of which the disk may have any words. Looks
/// only at the format and the size of a segment.
fn is_torn(words: &[u64; HEAD_WORDS]) -> bool {
    [0, FORMAT].contains(&words[1]) && words[5].is_multiple_of(HEAD) && words[5] <= MOST_SEGMENT
}

/// Returns whether a file is not longer than a new log can be, and is zero behind its head, except perhaps
/// for a small number at the beginning of its last page: [`shows_writes`](Storage::shows_writes) writes such
/// numbers there when a log is made.
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

/// Reads the head of the file that has the name of a log.
pub(crate) fn read_head(file: &dyn Storage) -> io::Result<Head> {
    let mut bytes = [0; HEAD_WORDS * 8];
    let have = file.read_up_to(&mut bytes, 0)?;
    let words: [u64; HEAD_WORDS] = line(&bytes);
    let uuid = u128::from(words[2]) | u128::from(words[3]) << 64;
    // The head is written from its first byte on, and before any mark, first line of a segment, or record.
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
            "another version of pheap wrote it; first open and close the heap with that version",
        ));
    }
    Ok(Head::Log(LogLayout { uuid, id: words[4], nonce, segment }))
}

/// The seed of the checksums of a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChecksumSeed(u64);

impl ChecksumSeed {
    /// Creates the seed. `salt` is a secret of the heap, so that a program that does not know it cannot
    /// choose words that look like a record.
    pub(crate) fn new(salt: u64, layout: LogLayout) -> ChecksumSeed {
        let nonce = layout.nonce.wrapping_mul(0xe703_7ed1_a0b4_28db).rotate_left(37);
        ChecksumSeed(salt ^ layout.id.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ nonce)
    }

    fn seed_at(self, position: u64) -> u64 {
        self.0 ^ position.wrapping_mul(0xa076_1d64_78bd_642f)
    }

    /// Returns the seed of the records of a run.
    pub(crate) fn of_run(self, run: u64) -> ChecksumSeed {
        ChecksumSeed(self.0 ^ run.wrapping_mul(0x8ebc_6af0_9c88_c6e3).rotate_left(31))
    }

    /// Returns the line for `position` that has a checksum, and then the seven words `says`.
    pub(crate) fn line(self, position: u64, says: [u64; LINE_WORDS - 1]) -> [u64; LINE_WORDS] {
        let mut words = [0; LINE_WORDS];
        words[1..].copy_from_slice(&says);
        words[0] = checksum(self.seed_at(position), &words);
        words
    }

    /// Completes a record for `position` by its checksum. The second word of the record has its length
    /// already.
    pub(crate) fn seal(self, position: u64, record: &mut [u64]) {
        record[0] = checksum(self.seed_at(position), record);
    }

    fn is_sealed(self, position: u64, record: &[u64]) -> bool {
        holds(record[0], checksum(self.seed_at(position), record))
    }
}

/// The first line of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentHead {
    pub(crate) sequence: u64,
    /// Position at which the records before this segment end.
    pub(crate) previous_end: u64,
    pub(crate) run: u64,
    /// Position up to which the log had been synced when the segment was begun.
    pub(crate) synced: u64,
}

impl SegmentHead {
    /// Returns the line. `start` is the position at which the segment begins.
    pub(crate) fn to_words(self, seed: ChecksumSeed, start: u64) -> [u64; LINE_WORDS] {
        seed.line(start, [self.sequence, self.previous_end, self.run, self.synced, 0, 0, 0])
    }

    /// Reads the first line of a segment. Returns `None` if the line is torn, or belongs to no segment of
    /// this log.
    fn from_words(words: [u64; LINE_WORDS], layout: LogLayout, seed: ChecksumSeed) -> Option<SegmentHead> {
        let [_, sequence, previous_end, run, synced, ..] = words;
        let head = SegmentHead { sequence, previous_end, run, synced };
        // The segment's number was read from a file, and may be any number.
        let start = layout.positions(sequence)?.start;
        holds(words, head.to_words(seed, start)).then_some(head)
    }
}

/// A log mark: the words in the first page of a log that change. Each of the two [places](MARKS) may have
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogMark {
    /// Number of runs of the log before `run`.
    pub(crate) runs: u64,
    /// Position up to which the heap's file has everything.
    pub(crate) folded: u64,
    /// `run` is the newest run of the log. `before` is the run that the heap's header may name until it names
    /// `run`.
    pub(crate) run: u64,
    pub(crate) before: u64,
}

impl LogMark {
    /// Returns the mark that a log without marks counts as having.
    pub(crate) fn first(layout: LogLayout) -> LogMark {
        LogMark { runs: 0, folded: layout.start(1), run: layout.nonce, before: layout.nonce }
    }

    pub(crate) fn to_words(self, seed: ChecksumSeed) -> [u64; LINE_WORDS] {
        seed.line(u64::MAX, [self.folded, self.runs, self.run, self.before, 0, 0, 0])
    }

    fn from_words(words: [u64; LINE_WORDS], seed: ChecksumSeed) -> Option<LogMark> {
        let [_, folded, runs, run, before, ..] = words;
        let mark = LogMark { runs, folded, run, before };
        (holds(words, mark.to_words(seed)) && folded.is_multiple_of(LINE as u64)).then_some(mark)
    }
}

/// A segment in use: it has records, or gets the next one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalSegment {
    pub(crate) sequence: u64,
    /// Place of the segment in the file.
    pub(crate) place: u64,
    /// Position at which the records before this segment end.
    pub(crate) previous_end: u64,
    /// Seed of the checksums of the segment's records.
    pub(crate) seed: ChecksumSeed,
}

/// The words of a segment from a log position on, as they are in the log's file, and how far they were read
/// as records.
pub(crate) struct SegmentRecords {
    seed: ChecksumSeed,
    words: Vec<u64>,
    /// Position in the log of the first word.
    start: u64,
    /// Index in `words` of the record that is read next.
    at: usize,
}

impl SegmentRecords {
    /// Reads `bytes` bytes of the segment with place `index`, from the position `start` on, or fewer if the
    /// file ends before.
    pub(crate) fn read(
        file: &dyn Storage,
        layout: LogLayout,
        seed: ChecksumSeed,
        index: u64,
        start: u64,
        bytes: u64,
    ) -> io::Result<SegmentRecords> {
        let mut words = vec![0u64; (bytes / 8) as usize];
        let have =
            file.read_up_to(bytes_mut(&mut words), layout.file_offset(index) + start % layout.segment)?;
        words.truncate(have / 8);
        Ok(SegmentRecords { seed, words, start, at: 0 })
    }

    /// Returns the position behind the records that [`next`](Self::next) has returned.
    pub(crate) fn position(&self) -> u64 {
        self.start + self.at as u64 * 8
    }

    /// Returns the next record, if all its words are in memory and its checksum is right.
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

/// The result of reading a log from some position on. The records themselves stay in the log: see
/// [`each_record`].
#[derive(Debug, Default)]
pub(crate) struct ReadLog {
    /// Number of complete transactions that were read.
    pub(crate) transactions: u64,
    /// The pages of the heap to which the complete transactions store, and perhaps pages to which an
    /// incomplete one does.
    pub(crate) pages: PageSet,
    /// The range of the heap from the first byte that complete transactions store to until the last.
    pub(crate) extent: Option<Range<u64>>,
    /// Position at which reading began, and the position behind the last complete transaction.
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// The segments of the log that the last call of [`read_on`] has read, oldest first.
    pub(crate) segments: Vec<WalSegment>,
    /// Number of the newest segment, whether it was read or not; 0 without segments.
    pub(crate) newest: u64,
    /// Position up to which the log had been synced: the largest value in the first lines of the segments
    /// that were read.
    pub(crate) synced: u64,
    /// The largest synced position that is the end of a transaction, by the first lines of all segments,
    /// whether they were read or not. See [`lost`](Self::lost).
    pub(super) promised: u64,
    /// Distance from `end` to the position where the reading ended. Records between belong to an incomplete
    /// transaction.
    pub(crate) rest: u64,
}

impl ReadLog {
    /// Creates the result of a reading that begins at position `end` and has found nothing yet.
    pub(crate) fn behind(end: u64) -> ReadLog {
        ReadLog { begin: end, end, ..ReadLog::default() }
    }

    /// If records that were synced cannot be read, returns an offset in the log's file behind which records
    /// are damaged.
    ///
    /// No crash leaves such a log. When a run begins a segment, all transactions before the position that the
    /// segment's first line calls synced are durable, those of earlier runs, too. From then on each reading
    /// finds these transactions:
    /// * A segment is used again only when a mark behind its records is durable, and reading begins at the
    ///   newest mark.
    /// * A later run begins at the end of the last complete transaction, so behind these transactions. Its
    ///   segments name that end or a later one, so none of them leads a reader past these transactions.
    /// * First lines that earlier runs have left behind their end, or in segments that are used again, name
    ///   smaller synced positions. A torn first line does not count.
    /// * After a failed sync, a run calls nothing more synced. Before the next run writes a first line, it
    ///   writes again the records that no first line calls synced.
    ///
    /// A synced position is the end of a transaction, or lies directly behind a first line. Positions of the
    /// second kind do not count: a later run that finds no record there uses the segment again.
    pub(super) fn lost(&self, layout: LogLayout) -> Option<u64> {
        let last = self.segments.iter().rev().find(|segment| layout.start(segment.sequence) < self.end);
        let offset = last.map_or(HEAD, |last| {
            layout.file_offset(last.place) + (self.end - layout.start(last.sequence)).min(layout.segment)
        });
        (self.end < self.promised).then_some(offset)
    }
}

/// Returns the smallest range that contains both ranges. `None` is an empty range.
fn around(one: Option<Range<u64>>, other: Option<Range<u64>>) -> Option<Range<u64>> {
    let Some(one) = one else { return other };
    let other = other.unwrap_or(one.clone());
    Some(one.start.min(other.start)..one.end.max(other.end))
}

/// Receives the records while a log is read.
pub(super) trait RecordVisitor {
    /// Receives the next record. The record is whole, but its transaction may not be.
    fn add(&mut self, record: &[u64]);
    /// Says that all records that were added so far belong to complete transactions.
    fn complete(&mut self);
    /// Says that the records since the last call of [`complete`](Self::complete) do not count.
    fn discard_incomplete(&mut self);
}

/// A visitor that ignores the records.
impl RecordVisitor for () {
    fn add(&mut self, _record: &[u64]) {}
    fn complete(&mut self) {}
    fn discard_incomplete(&mut self) {}
}

/// Reads a log from its mark to its end.
pub(crate) fn read_all(file: &dyn Storage, layout: LogLayout, seed: ChecksumSeed) -> io::Result<ReadLog> {
    let mut found = ReadLog::behind(read_mark(file, layout, seed)?.0.folded);
    read_on(file, layout, seed, &mut found, &mut ())?;
    Ok(found)
}

/// Calls `visit` with the records between two log positions, oldest first. `segments` are the segments that
/// have these records. At most 256 KiB of records are in memory at a time.
///
/// # Errors
/// Those of `visit`, those of the operating system, or an error if the log does not have these records.
pub(super) fn each_record(
    file: &dyn Storage,
    layout: LogLayout,
    segments: &[WalSegment],
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
                SegmentRecords::read(file, layout, segment.seed, segment.place, at, READ.min(end - at))?;
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

/// Returns the words of the line with which `bytes` begins.
fn line(bytes: &[u8]) -> [u64; LINE_WORDS] {
    std::array::from_fn(|i| u64::from_le_bytes(*bytes[i * 8..].first_chunk().expect("8 bytes")))
}

/// Returns the newest whole mark, and its index in [`MARKS`]; without a whole mark, [`LogMark::first`] and
/// the index 1.
pub(super) fn read_mark(
    file: &dyn Storage,
    layout: LogLayout,
    seed: ChecksumSeed,
) -> io::Result<(LogMark, usize)> {
    let mut bytes = [0; (MARKS[1] - MARKS[0]) as usize + LINE];
    file.read_copies(&mut bytes, MARKS[0])?;
    let marks = [0, 1].map(|number| {
        let words = line(&bytes[(MARKS[number] - MARKS[0]) as usize..]);
        LogMark::from_words(words, seed).map(|mark| (mark, number))
    });
    // If no mark is whole, the index is 1, so that the first mark is written at index 0.
    Ok(marks.into_iter().flatten().max().unwrap_or((LogMark::first(layout), 1)))
}

/// Returns the segments whose first line is whole, by number, with their places in the file.
fn read_heads(
    file: &dyn Storage,
    layout: LogLayout,
    seed: ChecksumSeed,
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

/// If the log's file was cut off, returns its length, and the length that it had at least before.
///
/// No crash leaves such a file. The first segments are durable before the heap's header names the log, and
/// stay. Any other segment is durable before its first line is written. pheap cuts it off only when a durable
/// mark is behind its records. So a segment has to be whole if it has a larger number than the segment of the
/// mark, or if it is that segment and has a record behind the mark. An opening makes the length durable again
/// before it goes on with the log, because an earlier sync may have failed. Another process may make the file
/// longer now, or cut it down: so the length and the mark are read after the first line of the last segment.
pub(super) fn cut_lengths(
    file: &dyn Storage,
    layout: LogLayout,
    seed: ChecksumSeed,
) -> io::Result<Option<(u64, u64)>> {
    let place = file.len()?.saturating_sub(HEAD) / layout.segment;
    let (start, whole) = (layout.file_offset(place), layout.file_offset(FIRST_SEGMENTS.max(place + 1)));
    let mut bytes = [0; LINE];
    file.read_up_to(&mut bytes, start)?;
    let head = SegmentHead::from_words(line(&bytes), layout, seed);
    let len = file.len()?;
    let folded = read_mark(file, layout, seed)?.0.folded;
    let of_mark = layout.sequence(folded);
    let is_needed = match head.map(|head| (head.sequence.cmp(&of_mark), head.run)) {
        Some((Ordering::Greater, _)) => true,
        Some((Ordering::Equal, run)) => {
            let behind = folded.max(layout.start(of_mark) + LINE as u64);
            SegmentRecords::read(file, layout, seed.of_run(run), place, behind, READ)?.next().is_some()
        }
        Some((Ordering::Less, _)) | None => false,
    };
    let is_cut = len < layout.file_offset(FIRST_SEGMENTS) || is_needed && start < len && len < whole;
    Ok(is_cut.then_some((len, whole)))
}

/// Reads on from the end of `found` to the end of the log, where no whole record follows and from where no
/// segment goes on. `reader` receives the records.
pub(super) fn read_on(
    file: &dyn Storage,
    layout: LogLayout,
    seed: ChecksumSeed,
    found: &mut ReadLog,
    reader: &mut impl RecordVisitor,
) -> io::Result<()> {
    let heads = read_heads(file, layout, seed)?;
    found.newest = heads.last_key_value().map_or(0, |(&sequence, _)| sequence);
    let positions = heads.values().map(|(head, _)| head.synced);
    found.promised =
        positions.filter(|synced| synced % layout.segment != LINE as u64).max().unwrap_or_default();
    found.segments.clear();
    // Of several segments whose first lines name the same position as the end of the records before them, the
    // newest remains.
    let behind: HashMap<u64, (SegmentHead, u64)> =
        heads.values().map(|segment| (segment.0.previous_end, *segment)).collect();
    // The first line of the next segment names the end of the last record if the segment is of the same run,
    // and the end of the last complete transaction if it begins a run. If runs were cut short, several
    // segments may fit. Then the newest counts.
    let next = |least: u64, ends: [u64; 2]| {
        let segments = ends.iter().filter_map(|end| behind.get(end)).copied();
        segments.filter(|(head, _)| head.sequence >= least).max_by_key(|(head, _)| head.sequence)
    };
    let mut at = found.end;
    let first = layout.sequence(at);
    let inside = heads.get(&first).filter(|_| at != layout.start(first)).copied();
    let mut segment = inside.or_else(|| next(first, [at; 2]));
    // The range of the heap to which the incomplete transaction stores.
    let mut incomplete = None;
    while let Some((head, place)) = segment {
        let SegmentHead { sequence, previous_end, run, synced } = head;
        let positions = layout.positions(sequence).expect("its head was read");
        let of_run = seed.of_run(run);
        found.segments.push(WalSegment { sequence, place, previous_end, seed: of_run });
        found.synced = found.synced.max(synced);
        if previous_end != at {
            // A new run begins here, so the last transaction of the run before stays incomplete. Or the
            // reading begins inside this segment, and there is nothing to discard.
            reader.discard_incomplete();
            incomplete = None;
        }
        at = at.max(positions.start + LINE as u64);
        loop {
            // A segment is read in pieces, because a follower reads again and again the records that another
            // process appends, and finds few each time.
            let bytes = positions.end.saturating_sub(at).min(READ);
            let mut records = SegmentRecords::read(file, layout, of_run, place, at, bytes)?;
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
    reader.discard_incomplete();
    Ok(())
}
