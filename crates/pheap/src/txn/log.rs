//! The log of a region: appends entries, and finds the complete entries after a crash. It holds redo records
//! of short transactions, or the undo entries of one long transaction. (With a write-ahead log it holds undo
//! entries only, in DRAM.)
//!
//! The log is a chain of segments, filled from the front. An entry in it is a whole number of cache lines:
//!
//! | word | |
//! |---|---|
//! | 0 | [checksum] of the other words of the entry, with the [seed](RegionLog::seed) |
//! | 1 | number of words, kind (bit 32: undo) |
//! | then, for each range | heap offset in words (40 bits), length in words (24 bits); then that many words |
//!
//! In a [part](crate::txn::parts) of a record, bit 34 of word 1 is set, and two more words come last: the
//! region (bits 0–31) and number (bits 32–63) of another part, and its generation.
//!
//! The seed holds the heap's salt, the region's id, the log's *generation*, and the entry's number and
//! place. So an entry of an older generation, another log or another heap has a wrong checksum, and so does
//! a torn one. A new generation empties the log once it is durable; no entry is overwritten before that,
//! except that recovery invalidates parts of incomplete records.

#![allow(unsafe_code)]

use std::collections::HashSet;

use super::parts::LogEnd;
use crate::error::{Error, Result};
use crate::faults::{Bug, bug, holds};
use crate::log::checksum;
use crate::log::{EntryKind, StagedEntry, next_part};
use crate::media::Media;
use crate::store::region_header::{REGION_SIZE, RegionHeader};
use crate::store::stored::StoredHeap;
use crate::units::LINE;

/// Words for which each list of this log may keep memory when the log is emptied.
const KEPT: usize = 64 << 10;

/// An undo entry takes no further words once it has this many. (With the heads of its ranges it may have two
/// more, and is then padded to whole lines.)
const PIECE: usize = 4096;

/// A part of the heap that holds entries of a log. Its first word holds the heap offset of the next segment;
/// 0 in the last segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionLogSegment {
    pub(crate) start: u64,
    pub(crate) len: u64,
}

impl RegionLogSegment {
    fn first_entry(&self) -> u64 {
        self.start + LINE as u64
    }

    fn end(&self) -> u64 {
        self.start + self.len
    }
}

/// Returns the first segment of the log of the region at offset `region`: the second half of its header.
pub(crate) fn first_segment(region: u64) -> RegionLogSegment {
    RegionLogSegment { start: region + REGION_SIZE / 2, len: REGION_SIZE / 2 }
}

const _: () = assert!((REGION_SIZE as usize / 2).is_multiple_of(LINE));

/// The log of a region, to which entries are appended.
//
// Premise of the `unsafe` code here: as long as the log is used, the heap is mapped at `base`, and the
// segments are in the heap and belong to this log alone. The callers of `new` and `link` guarantee that.
#[derive(Debug)]
pub(crate) struct RegionLog {
    base: *mut u8,
    header: RegionHeader,
    /// A mix of the heap's salt and the region's id.
    identity: u64,
    segments: Vec<RegionLogSegment>,
    generation: u64,
    /// Index in `segments` of the segment that takes the next entry, if it has room.
    segment: usize,
    /// Heap offset of the next entry.
    at: u64,
    /// Bytes from `at` to the end of the segment.
    left: u64,
    /// Number of the next entry in its generation.
    sequence: u64,
    /// The places of the open transaction's undo entries: heap offsets, or indices in `kept` if there is one.
    undo: Vec<u64>,
    /// The words of the undo entries in a heap with a write-ahead log: there, a region's log holds only the
    /// undo entries of the open transaction, for its rollback, in DRAM. `None` in other heaps.
    kept: Option<Vec<u64>>,
    /// The entry under construction.
    pub(crate) staged: StagedEntry,
}

/// The content of a log that was read after a crash.
pub(crate) struct LogScan {
    pub(crate) kind: EntryKind,
    pub(crate) entries: Vec<*const [u64]>,
    pub(crate) end: LogEnd,
}

impl RegionLog {
    /// Makes the log of the region with this header. The log counts as empty: if the generation has entries,
    /// a new generation must be durable before anything is appended.
    ///
    /// # Safety
    /// As long as the log is used, the heap is mapped at `base`, and `segments` are in the heap and belong to
    /// this log alone.
    pub(crate) unsafe fn new(
        base: *mut u8,
        header: RegionHeader,
        generation: u64,
        identity: u64,
        segments: Vec<RegionLogSegment>,
    ) -> RegionLog {
        let at = segments[0].first_entry();
        let left = segments[0].end() - at;
        RegionLog {
            base,
            header,
            identity,
            segments,
            generation,
            segment: 0,
            at,
            left,
            sequence: 0,
            undo: Vec::new(),
            kept: None,
            staged: StagedEntry::default(),
        }
    }

    /// Follows the chain of segments from `first`. `span_len` returns the length of the log span at an
    /// offset.
    pub(crate) fn chain(
        stored: StoredHeap<'_>,
        first: RegionLogSegment,
        span_len: impl Fn(u64) -> Option<u64>,
    ) -> Result<Vec<RegionLogSegment>> {
        let (mut chain, mut known) = (vec![first], HashSet::from([first.start]));
        loop {
            let last = chain[chain.len() - 1];
            let [next] = stored.read_words(last.start)?;
            if next == 0 {
                return Ok(chain);
            }
            let Some(len) = span_len(next).filter(|_| known.insert(next)) else {
                return Err(Error::corrupt(format!("the log segment at byte {} leads nowhere", last.start)));
            };
            chain.push(RegionLogSegment { start: next, len });
        }
    }

    /// Keeps entries in DRAM from now on. The log is empty.
    pub(crate) fn keep_in_memory(&mut self) {
        self.kept = Some(Vec::new());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sequence == 0
    }

    /// Returns the bytes of all segments.
    pub(crate) fn capacity(&self) -> u64 {
        self.segments.iter().map(|seg| seg.len).sum()
    }

    /// Returns the parts of the heap (offset, bytes) that the log occupies: its segments, and the region's
    /// header, which has the first segment.
    pub(crate) fn spans(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let first = self.segments[0].start + self.segments[0].len - REGION_SIZE;
        self.segments[1..].iter().map(|seg| (seg.start, seg.len)).chain([(first, REGION_SIZE)])
    }

    /// Adds a segment to the chain. The link is durable after the next fence, like entries in the segment.
    /// Lines that were flushed before this call are durable before the link.
    ///
    /// # Safety
    /// The pages of `segment` belong to this log alone, and are mapped.
    pub(crate) unsafe fn link(&mut self, media: &Media, segment: RegionLogSegment) {
        let last = self.segments[self.segments.len() - 1];
        let first_word = |of: RegionLogSegment| self.base.wrapping_add(of.start as usize).cast::<u64>();
        let (new, link) = (first_word(segment), first_word(last));
        // The new segment must durably mark the end of the chain (next segment 0) before the chain leads to
        // it.
        // SAFETY: the caller guarantees that `segment` is mapped. Its first line holds no entries.
        unsafe { media.store_word(new, 0) };
        media.persist(new.cast(), 8);
        // SAFETY: `last` is a segment of this log, so it is mapped. Its first line holds no entries.
        unsafe { media.store_word(link, segment.start) };
        media.flush(link.cast(), 8);
        self.segments.push(segment);
    }

    /// Whether there is room for the staged entry.
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        self.kept.is_some() || self.place_for_entry(self.staged.bytes()).is_some()
    }

    /// Returns the segment and offset for an entry of `bytes` bytes: the present place, or the beginning of a
    /// later segment.
    #[inline(always)]
    fn place_for_entry(&self, bytes: u64) -> Option<(usize, u64)> {
        if bytes <= self.left { Some((self.segment, self.at)) } else { self.place_later(bytes) }
    }

    #[cold]
    fn place_later(&self, bytes: u64) -> Option<(usize, u64)> {
        let later = self.segments.iter().enumerate().skip(self.segment + 1);
        later
            .map(|(i, seg)| (i, seg.first_entry(), seg.end()))
            .find(|(_, at, end)| at + bytes <= *end)
            .map(|(i, at, _)| (i, at))
    }

    /// Appends the staged entry, for which there [is room](Self::has_room). It is durable after the next
    /// fence, unless this log keeps its entries in DRAM.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn append(&mut self, media: &Media) {
        if media.drops_entry() {
            return;
        }
        if let Some(kept) = &mut self.kept {
            self.undo.push(kept.len() as u64);
            self.staged.note_length();
            kept.extend_from_slice(&self.staged.words);
            self.sequence += 1;
            return;
        }
        let (segment, at) = self.place_for_entry(self.staged.bytes()).expect("the caller has made room");
        let seed = self.seed(self.sequence, at);
        let words = self.staged.seal();
        words[0] = checksum(seed, &words[..words[1] as u32 as usize]);
        // SAFETY: `place_for_entry` has found room for `words` at `at`, in a segment, which belongs to this
        // log alone.
        unsafe { media.append(self.base.wrapping_add(at as usize).cast(), words) };
        if words[1] >> 32 & 1 == 1 {
            self.undo.push(at);
        }
        self.segment = segment;
        self.at = at + words.len() as u64 * 8;
        self.left = self.segments[segment].end() - self.at;
        self.sequence += 1;
    }

    /// Appends the old content of these ranges (address, bytes; whole words) as undo entries, and then
    /// passes one fence, unless this log keeps its entries in DRAM. `grow` links a segment with room for at
    /// least the given number of bytes.
    ///
    /// # Safety
    /// The ranges are mapped, belong to the transaction's regions, and have definite bytes.
    #[track_caller]
    pub(crate) unsafe fn append_undo(
        &mut self,
        media: &Media,
        ranges: &[(usize, usize)],
        mut grow: impl FnMut(&mut RegionLog, u64) -> Result<()>,
    ) -> Result<()> {
        self.staged.begin_entry(EntryKind::Undo);
        for &(addr, bytes) in ranges {
            let (mut offset, mut words) = (addr - self.base.addr(), bytes / 8);
            let mut src = std::ptr::with_exposed_provenance::<u64>(addr);
            while words > 0 {
                if self.staged.words.len() >= PIECE {
                    self.append_with_room(media, &mut grow)?;
                    self.staged.begin_entry(EntryKind::Undo);
                }
                let n = words.min(PIECE + 1 - self.staged.words.len());
                // SAFETY: `src` and `n` words from it are within one of the ranges, which the caller
                // guarantees to be mapped, with definite bytes.
                unsafe { self.staged.add(offset as u64, src, n) };
                (offset, src, words) = (offset + n * 8, src.wrapping_add(n), words - n);
            }
        }
        if !self.staged.is_empty() {
            self.append_with_room(media, &mut grow)?;
        }
        if self.kept.is_none() && !bug(Bug::NoFenceAfterUndo) {
            media.fence();
        }
        Ok(())
    }

    #[track_caller]
    fn append_with_room(
        &mut self,
        media: &Media,
        grow: &mut impl FnMut(&mut RegionLog, u64) -> Result<()>,
    ) -> Result<()> {
        if !self.has_room() {
            grow(self, self.staged.bytes())?;
        }
        self.append(media);
        Ok(())
    }

    /// Empties the log by making the next generation durable; or only clears the log, if it keeps its entries
    /// in DRAM. All words that the entries cover must be durable before the call.
    #[track_caller]
    pub(crate) fn reset(&mut self, media: &Media) {
        self.undo.clear();
        self.undo.shrink_to(KEPT);
        self.sequence = 0;
        if let Some(kept) = &mut self.kept {
            kept.clear();
            kept.shrink_to(KEPT);
            return;
        }
        self.reset_unfenced(media);
        media.fence();
        self.segment = 0;
        self.at = self.segments[0].first_entry();
        self.left = self.segments[0].end() - self.at;
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the number of the next entry in its generation.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The part of [`reset`](Self::reset) that stores the next generation, without the fence. Recovery passes
    /// one fence for all logs.
    #[track_caller]
    pub(crate) fn reset_unfenced(&mut self, media: &Media) {
        self.generation += 1;
        self.header.set_generation(media, self.generation);
    }

    #[inline]
    fn seed(&self, sequence: u64, at: u64) -> u64 {
        // Odd multipliers: different generations, numbers or places never give the same product.
        self.identity
            ^ self.generation.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ sequence.wrapping_mul(0xd6e8_feb8_6659_fd93)
            ^ at.wrapping_mul(0xa076_1d64_78bd_642f)
    }

    /// Returns the undo entries of the open transaction, newest first.
    pub(crate) fn undo_entries(&self) -> impl Iterator<Item = &[u64]> {
        self.undo.iter().rev().map(|&at| self.entry_at(at))
    }

    fn entry_at(&self, at: u64) -> &[u64] {
        if let Some(kept) = &self.kept {
            let entry = &kept[at as usize..];
            return &entry[..entry[1] as u32 as usize];
        }
        let entry = self.base.wrapping_add(at as usize).cast::<u64>();
        // SAFETY: `at` is the offset of an entry that this log has written, in a mapped segment, and an entry
        // has a second word.
        let len = unsafe { entry.wrapping_add(1).read() } as u32 as usize;
        // SAFETY: the entry has `len` words, and this log writes nothing there before it is reset.
        unsafe { std::slice::from_raw_parts(entry, len) }
    }

    /// Reads the complete entries of the present generation after a crash, and calls `look` with each of
    /// them.
    pub(crate) fn scan(&self, mut look: impl FnMut(&[u64])) -> Result<LogScan> {
        let mut entries: Vec<*const [u64]> = Vec::new();
        let (mut kind, mut next) = (EntryKind::Redo, None);
        let (mut segment, mut at) = (0, self.segments[0].first_entry());
        'entries: loop {
            let sequence = entries.len() as u64;
            let here = std::iter::once((segment, at));
            let later = (segment + 1..self.segments.len()).map(|i| (i, self.segments[i].first_entry()));
            for (i, start) in here.chain(later) {
                if let Some(entry) = self.complete_entry(start, self.segments[i].end(), sequence) {
                    let this = if entry[1] >> 32 & 1 == 1 { EntryKind::Undo } else { EntryKind::Redo };
                    if !entries.is_empty() && this != kind {
                        return Err(Error::corrupt("a log holds entries of two kinds"));
                    }
                    (kind, next) = (this, next_part(entry));
                    (segment, at) = (i, start + (entry.len() as u64 * 8).next_multiple_of(LINE as u64));
                    look(entry);
                    entries.push(entry);
                    continue 'entries;
                }
            }
            let end = LogEnd {
                region: self.header.id(),
                generation: self.generation,
                entries: entries.len() as u64,
                next,
            };
            return Ok(LogScan { kind, entries, end });
        }
    }

    /// Returns the heap offset of an entry that `scan` has returned.
    pub(crate) fn offset_of(&self, entry: *const [u64]) -> u64 {
        (entry.cast::<u64>().addr() - self.base.addr()) as u64
    }

    fn complete_entry(&self, at: u64, end: u64, sequence: u64) -> Option<&[u64]> {
        if at + LINE as u64 > end {
            return None;
        }
        let entry = self.base.wrapping_add(at as usize).cast::<u64>();
        // SAFETY: the line at `at` ends before `end`, as was just checked, so it is in a segment, and
        // segments are mapped.
        let len = unsafe { entry.wrapping_add(1).read() } as u32 as u64;
        if len < 2 || at + len * 8 > end {
            return None;
        }
        // SAFETY: `len` words from `entry` end at or before `end`, as was just checked, so they are in the
        // segment, which is mapped. Nothing is written there while the log is read.
        let words = unsafe { std::slice::from_raw_parts(entry, len as usize) };
        holds(words[0], checksum(self.seed(sequence, at), words)).then_some(words)
    }
}

// The format is little-endian, and checksums are taken over memory without conversion.
const _: () = assert!(cfg!(target_endian = "little"), "pheap supports little-endian machines only");
