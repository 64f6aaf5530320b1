//! Brings the records of a log to the heap's file, page by page.

use std::io;

use crate::log::{Range, ranges};
use crate::os::cpu::{bytes, bytes_mut};
use crate::os::storage::Storage;
use crate::units::{HEADER_SIZE, PAGE};

const PAGE_WORDS: usize = PAGE as usize / 8;
/// Least number of bytes of memory that a fold may fill with records before it writes them.
const LEAST: u64 = 1 << 20;
/// Pages that are read and written at once, at most.
const RUN: usize = 256;
/// Number of pages that a fold asks the kernel to read ahead, if the heap's file may not be in the page
/// cache. The kernel then reads many pages at a time.
const AHEAD: u64 = 4096;

/// The part of a record's range that lies in one page.
struct PagePiece {
    page: u64,
    /// Index in `Fold::words` of the piece's first word. Of pieces that overlap, the one with the larger
    /// index is newer.
    at: u32,
    /// Index within the page of the piece's first word, and number of its words.
    first: u16,
    len: u16,
}

/// Collects records for the heap's file, and writes them when they fill the memory.
pub(crate) struct Fold<'a> {
    data: &'a dyn Storage,
    /// Words of memory that records and pieces may take before they are written.
    most: usize,
    pieces: Vec<PagePiece>,
    words: Vec<u64>,
    /// Bytes written so far.
    written: u64,
    /// Number of pages that the kernel is asked to read ahead, 0 for none.
    ahead: u64,
}

impl<'a> Fold<'a> {
    /// Creates a fold that fills about `room` bytes of memory before it writes, but at least [`LEAST`], and
    /// at most what a [`PagePiece`] can address. With more room, pages that many records change are written
    /// less often.
    pub(crate) fn with_room(data: &'a dyn Storage, room: u64) -> Fold<'a> {
        let most = (room.max(LEAST) / 8).min(u32::MAX.into()) as usize;
        Fold { data, most, pieces: Vec::new(), words: Vec::new(), written: 0, ahead: 0 }
    }

    /// Creates a fold, as [`with_room`](Self::with_room) does, for a file that is probably not in the page
    /// cache.
    pub(crate) fn of_cold(data: &'a dyn Storage, room: u64) -> Fold<'a> {
        Fold { ahead: AHEAD, ..Fold::with_room(data, room) }
    }

    /// Adds the ranges of a record, which is newer than all records added before. Writes the older records
    /// first if the memory is full.
    pub(crate) fn add(&mut self, record: &[u64]) -> io::Result<()> {
        if self.words.len() + record.len() + size_of::<PagePiece>() / 8 * self.pieces.len() > self.most {
            self.write()?;
        }
        ranges(record).for_each(|range| self.add_range(&range));
        Ok(())
    }

    fn add_range(&mut self, range: &Range<'_>) {
        debug_assert!(range.offset >= HEADER_SIZE, "the header is never logged");
        let mut done = 0;
        while done < range.words.len() {
            let offset = range.offset + done as u64 * 8;
            let first = (offset % PAGE) as usize / 8;
            let len = (PAGE_WORDS - first).min(range.words.len() - done);
            let at = (self.words.len() + done) as u32;
            self.pieces.push(PagePiece { page: offset / PAGE, at, first: first as u16, len: len as u16 });
            done += len;
        }
        self.words.extend_from_slice(range.words);
    }

    /// Writes the collected pages in order of their offsets: each page once, and up to [`RUN`] neighbours
    /// together.
    fn write(&mut self) -> io::Result<()> {
        if self.pieces.is_empty() {
            return Ok(());
        }
        self.pieces.sort_unstable_by_key(|piece| (piece.page, piece.at));
        let mut run = vec![0; RUN * PAGE_WORDS];
        let mut rest = &self.pieces[..];
        let (mut runs, mut asked) = (rest.chunk_by(|one, next| next.page <= one.page + 1), 0);
        while let Some(&PagePiece { page: first, .. }) = rest.first() {
            while asked < self.ahead
                && let Some([first, .., last] | [first @ last]) = runs.next()
            {
                let pages = (last.page + 1 - first.page).min(self.ahead);
                self.data.will_read(first.page * PAGE, pages * PAGE);
                asked += pages;
            }
            let mut end = first;
            let goes_on = |piece: &&PagePiece| {
                let fits = piece.page <= end && piece.page < first + RUN as u64;
                if fits {
                    end = piece.page + 1;
                }
                fits
            };
            let pieces;
            (pieces, rest) = rest.split_at(rest.iter().take_while(goes_on).count());
            let pages = &mut run[..(end - first) as usize * PAGE_WORDS];
            if pieces.iter().any(|piece| usize::from(piece.len) < PAGE_WORDS) {
                let read = bytes_mut(pages);
                let have = self.data.read_up_to(read, first * PAGE)?;
                // Pages behind the end of a shorter file are zero.
                read[have..].fill(0);
            }
            for piece in pieces {
                let to = (piece.page - first) as usize * PAGE_WORDS + usize::from(piece.first);
                let (from, len) = (piece.at as usize, usize::from(piece.len));
                pages[to..to + len].copy_from_slice(&self.words[from..from + len]);
            }
            self.data.write_all(bytes(pages), first * PAGE)?;
            self.written += pages.len() as u64 * 8;
            asked = asked.saturating_sub(end - first);
        }
        self.pieces.clear();
        self.words.clear();
        Ok(())
    }

    /// Writes the records that are still in memory, and returns the bytes written in all. The written bytes
    /// are durable after the next sync of the file.
    pub(crate) fn flush_rest(mut self) -> io::Result<u64> {
        self.write()?;
        Ok(self.written)
    }
}
