//! The end of the log: records that are not written yet, and the segments that they go to.

use std::collections::VecDeque;

use super::format::{LEAST, Layout, MORE, PIECE, Seed, Segment, SegmentHead};
use crate::faults::{Bug, bug};
use crate::log::{Range, Staged, head};
use crate::units::{LINE, LINE_WORDS};

/// Words that go to one place in the file.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) file_offset: u64,
    pub(crate) words: Vec<u64>,
}

/// The segments of a log, and what is to be written to them.
#[derive(Debug)]
pub(crate) struct Buffer {
    layout: Layout,
    seed: Seed,
    run: u64,
    /// Of the records of this run.
    records: Seed,
    /// The segments with records, oldest first; the number of the one after them.
    live: VecDeque<Segment>,
    next: u64,
    /// Places in the file of segments without.
    free: VecDeque<u64>,
    /// Position up to which the log is known to be synced.
    synced: u64,
    /// Position of the next record.
    end: u64,
    chunks: Vec<Chunk>,
    /// Buffers that were written, to be used again.
    spare: Vec<u64>,
}

impl Buffer {
    /// Of a new log of `segments` segments.
    pub(crate) fn new(layout: Layout, seed: Seed, segments: u64) -> Buffer {
        let first = 1; // so that no position is 0
        Buffer::begin(
            layout,
            seed,
            layout.nonce,
            Vec::new(),
            (0..segments).collect(),
            layout.start(first),
            first,
        )
    }

    /// Of a run behind `end`, which is where the `live` segments end. It begins with a segment of its own, with the number `next`; there is a `free` one.
    pub(crate) fn begin(
        layout: Layout,
        seed: Seed,
        run: u64,
        live: Vec<Segment>,
        free: VecDeque<u64>,
        end: u64,
        next: u64,
    ) -> Buffer {
        let mut buffer = Buffer {
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

    pub(crate) fn synced(&self) -> u64 {
        self.synced
    }

    /// The log was synced up to a position.
    pub(crate) fn set_synced(&mut self, synced: u64) {
        self.synced = synced;
    }

    /// Position behind the last record.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn free_segments(&self) -> u64 {
        self.free.len() as u64
    }

    pub(crate) fn segments(&self) -> u64 {
        (self.live.len() + self.free.len()) as u64
    }

    /// The segments with records, oldest first.
    pub(crate) fn live(&self) -> Vec<Segment> {
        self.live.iter().copied().collect()
    }

    /// Adds the segments with these places in the file.
    pub(crate) fn add_segments(&mut self, places: std::ops::Range<u64>) {
        self.free.extend(places);
    }

    /// Uses segments again whose records are all before `position`.
    pub(crate) fn recycle(&mut self, position: u64) {
        let last = self.layout.sequence(position);
        while let Some(segment) = self.live.front().filter(|segment| segment.sequence < last) {
            self.free.push_back(segment.place);
            self.live.pop_front();
        }
    }

    /// Goes on in one of the first `segments` of the file, of which one is free, if it is in another one. All that was appended is written.
    pub(crate) fn move_down(&mut self, segments: u64) {
        if self.live.back().is_some_and(|last| last.place < segments) {
            return;
        }
        if let Some(first) = self.free.iter().position(|place| *place < segments) {
            self.free.swap(0, first);
            self.next_segment();
        }
    }

    /// Gives up the segments behind the last one that has records, but for the first `segments`. Returns how many are left.
    pub(crate) fn give_up_behind(&mut self, segments: u64) -> u64 {
        let left = self.live.iter().map(|segment| segment.place + 1).max().unwrap_or(0).max(segments);
        self.free.retain(|place| *place < left);
        left
    }

    /// Bytes that are certainly enough for `words` words of ranges.
    pub(crate) fn need(&self, words: usize) -> u64 {
        let bytes = words as u64 * 8;
        // The beginning of a record, the line that it ends in, and the end of a segment that is too short for one.
        let records = bytes / (PIECE as u64 * 8) + bytes / self.layout.segment + 3;
        bytes + records * (2 * LINE as u64 + LEAST as u64 * 8)
    }

    /// Bytes that fit.
    pub(crate) fn room(&self) -> u64 {
        self.left() + self.free.len() as u64 * (self.layout.segment - LINE as u64)
    }

    /// Bytes left in the last segment.
    fn left(&self) -> u64 {
        let used = self.end % self.layout.segment;
        if used == 0 { 0 } else { self.layout.segment - used }
    }

    /// Begins the next segment, of which there is one.
    fn next_segment(&mut self) {
        let place = self.free.pop_front().expect("the caller has seen that there is room");
        let Buffer { run, synced, end: previous_end, next: sequence, .. } = *self;
        let start = self.layout.start(sequence);
        self.live.push_back(Segment { sequence, place, previous_end, seed: self.records });
        self.next += 1;
        let mut words = std::mem::take(&mut self.spare);
        words.clear();
        words.extend(SegmentHead { sequence, previous_end, run, synced }.to_words(self.seed, start));
        self.chunks.push(Chunk { file_offset: self.layout.file_offset(place), words });
        self.end = start + LINE as u64;
    }

    /// The words that are going to be written at the end.
    fn words(&mut self) -> &mut Vec<u64> {
        if self.chunks.is_empty() {
            let file_offset = self.place();
            let mut words = std::mem::take(&mut self.spare);
            words.clear();
            self.chunks.push(Chunk { file_offset, words });
        }
        &mut self.chunks.last_mut().expect("there is one now").words
    }

    /// Appends one transaction, for which there is [room](Self::room) for what it [needs](Self::need).
    /// `write` gets each chunk when its segment is full. If it returns true, it has written the chunk, and
    /// the buffer drops it.
    pub(crate) fn append<'a>(
        &mut self,
        ranges: impl Iterator<Item = Range<'a>>,
        mut write: impl FnMut(&Chunk) -> bool,
    ) {
        let mut start = self.begin_record(&mut write);
        for range in ranges {
            let mut done = 0;
            while done < range.words.len() {
                let used = self.words().len() - start;
                // The rest of the segment is whole lines, so what fits there fits with its padding.
                let most = PIECE.min(self.left() as usize / 8);
                if used + 2 > most {
                    self.end_record(start, MORE);
                    start = self.begin_record(&mut write);
                    continue;
                }
                let n = (most - used - 1).min(range.words.len() - done);
                let words = self.words();
                words.push(head(range.offset + done as u64 * 8, n));
                words.extend_from_slice(&range.words[done..done + n]);
                done += n;
            }
        }
        self.end_record(start, 0);
    }

    /// [Appends](Self::append) an entry as a record that the caller writes: its words, and where in the file they go. `None` if it must be taken apart, or something is to be written before it.
    pub(crate) fn append_whole<'a>(&mut self, staged: &'a mut Staged) -> Option<(&'a [u64], u64)> {
        let (len, left) = (staged.words.len(), self.left() as usize / 8);
        if !self.chunks.is_empty() || left < LEAST || len > PIECE.min(left) {
            return None;
        }
        let place = self.place();
        let record = staged.seal();
        self.records.seal(self.end, &mut record[..len]);
        self.end += record.len() as u64 * 8;
        Some((record, place))
    }

    /// Where the next record goes in the file, if it is in this segment.
    fn place(&self) -> u64 {
        let last = self.live.back().expect("a log has a segment");
        self.layout.file_offset(last.place) + self.end % self.layout.segment
    }

    /// Begins a record, in the next segment if this one is almost full, and returns its place in [`words`](Self::words).
    fn begin_record(&mut self, write: &mut impl FnMut(&Chunk) -> bool) -> usize {
        if self.left() < LEAST as u64 * 8 {
            if self.chunks.iter().all(write)
                && let Some(last) = self.chunks.pop()
            {
                self.chunks.clear();
                self.spare = last.words;
            }
            self.next_segment();
        }
        let words = self.words();
        words.extend_from_slice(&[0, 0]);
        words.len() - 2
    }

    fn end_record(&mut self, start: usize, flags: u64) {
        let (seed, position) = (self.records, self.end);
        let words = self.words();
        let len = words.len() - start;
        words[start + 1] = len as u64 | flags;
        seed.seal(position, &mut words[start..]);
        let padded = start + len.next_multiple_of(LINE_WORDS);
        words.resize(padded, 0);
        self.end = position + (padded - start) as u64 * 8;
    }

    /// What is to be written.
    pub(crate) fn take(&mut self) -> Vec<Chunk> {
        std::mem::take(&mut self.chunks)
    }

    /// Takes back what was written, to use its memory again.
    pub(crate) fn give_back(&mut self, mut chunks: Vec<Chunk>) {
        const KEEP: usize = 1 << 20;
        if let Some(chunk) = chunks.pop()
            && chunk.words.capacity() * 8 <= KEEP
        {
            self.spare = chunk.words;
        }
    }
}
