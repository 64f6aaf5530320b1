//! The end of the log: records that are not written yet, and the segments that they go to.

use std::collections::VecDeque;

use super::format::{ChecksumSeed, LEAST, LogLayout, MORE, PIECE, SegmentHead, WalSegment};
use crate::faults::{Bug, bug};
use crate::log::{Range, StagedEntry, head};
use crate::units::{LINE, LINE_WORDS};

/// Words that go to one place in the log's file: first lines and records.
#[derive(Debug)]
pub(crate) struct SegmentChunk {
    pub(crate) file_offset: u64,
    pub(crate) words: Vec<u64>,
}

/// The segments of a log, and the chunks that are still to be written to them.
#[derive(Debug)]
pub(crate) struct WalBuffer {
    layout: LogLayout,
    seed: ChecksumSeed,
    run: u64,
    /// Seed of the records of this run.
    records: ChecksumSeed,
    /// The segments in use, oldest first, and the number of the next new segment.
    live: VecDeque<WalSegment>,
    next: u64,
    /// Places in the file of the free segments.
    free: VecDeque<u64>,
    /// Position up to which the log is known to be synced.
    synced: u64,
    /// Position behind the last record, or behind the first line of a new segment.
    end: u64,
    /// Words that no thread has taken yet to write them, in the order of their positions.
    chunks: Vec<SegmentChunk>,
    /// The buffer of a chunk that was written, or an empty one. The next chunk uses its memory.
    spare: Vec<u64>,
}

impl WalBuffer {
    /// Creates the buffer of a new log of `segments` segments.
    pub(crate) fn new(layout: LogLayout, seed: ChecksumSeed, segments: u64) -> WalBuffer {
        let first = 1; // segments are numbered from 1, so that no position is 0
        WalBuffer::begin_run(
            layout,
            seed,
            layout.nonce,
            Vec::new(),
            (0..segments).collect(),
            layout.start(first),
            first,
        )
    }

    /// Creates the buffer of a run behind the position `end`, at which the records of the `live` segments
    /// end, and up to which the log is synced. The run begins with a new segment, with the number `next`, at
    /// the first `free` place.
    ///
    /// # Panics
    /// If no place is free.
    pub(crate) fn begin_run(
        layout: LogLayout,
        seed: ChecksumSeed,
        run: u64,
        live: Vec<WalSegment>,
        free: VecDeque<u64>,
        end: u64,
        next: u64,
    ) -> WalBuffer {
        let mut buffer = WalBuffer {
            layout,
            seed,
            run,
            records: seed.of_run(run),
            live: live.into(),
            next,
            free,
            synced: end,
            end,
            chunks: Vec::new(),
            spare: Vec::new(),
        };
        match buffer.live.back() {
            Some(last) if bug(Bug::GoOnInPlace) && buffer.left() > 0 => buffer.records = last.seed,
            _ => buffer.next_segment(),
        }
        buffer
    }

    /// Returns the position up to which the log is known to be synced.
    pub(crate) fn synced(&self) -> u64 {
        self.synced
    }

    /// Notes that the log is synced up to a position.
    pub(crate) fn set_synced(&mut self, synced: u64) {
        self.synced = synced;
    }

    /// Returns the position behind the last record, or behind the first line of a new segment.
    pub(crate) fn end_position(&self) -> u64 {
        self.end
    }

    pub(crate) fn free_segments(&self) -> u64 {
        self.free.len() as u64
    }

    pub(crate) fn segments(&self) -> u64 {
        (self.live.len() + self.free.len()) as u64
    }

    /// Returns the segments in use, oldest first.
    pub(crate) fn live(&self) -> Vec<WalSegment> {
        self.live.iter().copied().collect()
    }

    /// Adds free segments at these places in the file.
    pub(crate) fn add_segments(&mut self, places: std::ops::Range<u64>) {
        self.free.extend(places);
    }

    /// Frees the segments that end at `position` or before it.
    pub(crate) fn recycle(&mut self, position: u64) {
        let last = self.layout.sequence(position);
        while let Some(segment) = self.live.front().filter(|segment| segment.sequence < last) {
            self.free.push_back(segment.place);
            self.live.pop_front();
        }
    }

    /// Moves the end of the log to one of the first `segments` places of the file, if one of them is free.
    /// Does nothing if the last segment is at such a place already. The caller has seen that all records are
    /// written.
    pub(crate) fn move_down(&mut self, segments: u64) {
        if self.live.back().is_some_and(|last| last.place < segments) {
            return;
        }
        if let Some(first) = self.free.iter().position(|place| *place < segments) {
            self.free.swap(0, first);
            self.next_segment();
        }
    }

    /// Gives up the free segments behind the last place in use, except the first `segments`. Returns the
    /// number of places that are left.
    pub(crate) fn give_up_behind(&mut self, segments: u64) -> u64 {
        let left = self.live.iter().map(|segment| segment.place + 1).max().unwrap_or(0).max(segments);
        self.free.retain(|place| *place < left);
        left
    }

    /// Returns an upper bound of the bytes that `words` words of ranges take as records.
    pub(crate) fn need(&self, words: usize) -> u64 {
        let bytes = words as u64 * 8;
        // Besides its words, a record takes a head, padding in its last line, and perhaps an unused end of a
        // segment before it.
        let records = bytes / (PIECE as u64 * 8) + bytes / self.layout.segment + 3;
        bytes + records * (2 * LINE as u64 + LEAST as u64 * 8)
    }

    /// Returns the bytes that are left for records in the last segment and the free ones.
    pub(crate) fn room(&self) -> u64 {
        self.left() + self.free.len() as u64 * (self.layout.segment - LINE as u64)
    }

    /// Returns the bytes that are left in the last segment.
    fn left(&self) -> u64 {
        let used = self.end % self.layout.segment;
        if used == 0 { 0 } else { self.layout.segment - used }
    }

    /// Begins the next segment.
    ///
    /// # Panics
    /// If no segment is free.
    fn next_segment(&mut self) {
        let place = self.free.pop_front().expect("the caller has seen that there is room");
        let WalBuffer { run, synced, end: previous_end, next: sequence, .. } = *self;
        let start = self.layout.start(sequence);
        self.live.push_back(WalSegment { sequence, place, previous_end, seed: self.records });
        self.next += 1;
        let mut words = std::mem::take(&mut self.spare);
        words.clear();
        words.extend(SegmentHead { sequence, previous_end, run, synced }.to_words(self.seed, start));
        self.chunks.push(SegmentChunk { file_offset: self.layout.file_offset(place), words });
        self.end = start + LINE as u64;
    }

    /// Returns the words of the last chunk, to which records are appended. Begins a chunk if there is none.
    fn unwritten_words(&mut self) -> &mut Vec<u64> {
        if self.chunks.is_empty() {
            let file_offset = self.end_offset();
            let mut words = std::mem::take(&mut self.spare);
            words.clear();
            self.chunks.push(SegmentChunk { file_offset, words });
        }
        &mut self.chunks.last_mut().expect("there is one now").words
    }

    /// Appends the records of one transaction. The caller has seen that there is [room](Self::room) for the
    /// bytes that they [need](Self::need). `write` gets the chunks when their segment is full. If it returns
    /// true for each, the buffer drops them: they are written, or a write has failed.
    pub(crate) fn append<'a>(
        &mut self,
        ranges: impl Iterator<Item = Range<'a>>,
        mut write: impl FnMut(&SegmentChunk) -> bool,
    ) {
        let mut start = self.begin_record(&mut write);
        for range in ranges {
            let mut done = 0;
            while done < range.words.len() {
                let used = self.unwritten_words().len() - start;
                // The rest of the segment is whole lines, so a record that fits there fits with its padding.
                let most = PIECE.min(self.left() as usize / 8);
                if used + 2 > most {
                    self.end_record(start, MORE);
                    start = self.begin_record(&mut write);
                    continue;
                }
                let n = (most - used - 1).min(range.words.len() - done);
                let words = self.unwritten_words();
                words.push(head(range.offset + done as u64 * 8, n));
                words.extend_from_slice(&range.words[done..done + n]);
                done += n;
            }
        }
        self.end_record(start, 0);
    }

    /// [Appends](Self::append) an entry as one record that the caller writes. Returns its words, and their
    /// offset in the file. Returns `None`, and appends nothing, if the entry does not fit into one record in
    /// the last segment, or if chunks before it are still to be written.
    pub(crate) fn append_whole<'a>(&mut self, staged: &'a mut StagedEntry) -> Option<(&'a [u64], u64)> {
        let (len, left) = (staged.words.len(), self.left() as usize / 8);
        if !self.chunks.is_empty() || left < LEAST || len > PIECE.min(left) {
            return None;
        }
        let place = self.end_offset();
        let record = staged.seal();
        self.records.seal(self.end, &mut record[..len]);
        self.end += record.len() as u64 * 8;
        Some((record, place))
    }

    /// Returns the offset in the log's file at which the next record begins, if it goes to the last segment.
    fn end_offset(&self) -> u64 {
        let last = self.live.back().expect("a log has a segment");
        self.layout.file_offset(last.place) + self.end % self.layout.segment
    }

    /// Begins a record, in the next segment if the last one is almost full. Returns the index of the record's
    /// first word in [`unwritten_words`](Self::unwritten_words).
    fn begin_record(&mut self, write: &mut impl FnMut(&SegmentChunk) -> bool) -> usize {
        if self.left() < LEAST as u64 * 8 {
            if self.chunks.iter().all(write)
                && let Some(last) = self.chunks.pop()
            {
                self.chunks.clear();
                self.spare = last.words;
            }
            self.next_segment();
        }
        let words = self.unwritten_words();
        words.extend_from_slice(&[0, 0]);
        words.len() - 2
    }

    /// Completes the record that begins at index `start` of the words, and fills its last line with zeros.
    fn end_record(&mut self, start: usize, flags: u64) {
        let (seed, position) = (self.records, self.end);
        let words = self.unwritten_words();
        let len = words.len() - start;
        words[start + 1] = len as u64 | flags;
        seed.seal(position, &mut words[start..]);
        let padded = start + len.next_multiple_of(LINE_WORDS);
        words.resize(padded, 0);
        self.end = position + (padded - start) as u64 * 8;
    }

    /// Takes the chunks that are to be written.
    pub(crate) fn take_chunks(&mut self) -> Vec<SegmentChunk> {
        std::mem::take(&mut self.chunks)
    }

    /// Takes back chunks that were written. The next chunk uses the memory of the last one, unless that is
    /// larger than 1 MiB.
    pub(crate) fn give_back(&mut self, mut chunks: Vec<SegmentChunk>) {
        const KEEP: usize = 1 << 20;
        if let Some(chunk) = chunks.pop()
            && chunk.words.capacity() * 8 <= KEEP
        {
            self.spare = chunk.words;
        }
    }
}
