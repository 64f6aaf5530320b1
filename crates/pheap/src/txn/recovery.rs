//! Replays the logs of regions when a heap is opened.
//!
//! 1. Each log is [read](read_logs): the complete entries of its present generation. Nothing is written yet,
//!    so that a heap that turns out to be damaged stays as it is. Parts of incomplete records are [left
//!    out](parts).
//! 2. Redo records are copied to their places, oldest first, and undo entries newest first. Doing so twice
//!    gives the same result, so a crash during recovery is like any other. Parts of incomplete records are
//!    taken back, because the new generation of another log would make them count.
//! 3. When that is durable, each log gets a new generation, even if there was nothing to do: a complete
//!    record may lie behind a torn one, and must not become valid again. Logs of heaps that are only read,
//!    and of heaps with a write-ahead log, keep their generation.

#![allow(unsafe_code)]

use super::log::{LogScan, RegionLog};
use super::parts::{LogEnd, incomplete};
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::log::{EntryKind, Range, ranges};
use crate::media::Media;
use crate::os::mapping::Mapping;
use crate::stats::Stats;
use crate::units::HEADER_SIZE;
use crate::units::LINE;

/// The number of entries that were recovered.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct RecoveredCounts {
    /// Redo records that were replayed.
    pub(crate) replayed: u64,
    /// Undo entries that were rolled back.
    pub(crate) rolled_back: u64,
}

impl RecoveredCounts {
    pub(crate) fn add_to(self, stats: &mut Stats) {
        stats.replayed_records += self.replayed;
        stats.rolled_back_entries += self.rolled_back;
    }
}

/// The entries of all logs after a crash. They are not copied, because they may be large.
#[derive(Debug)]
pub(crate) struct FoundEntries {
    recovered: RecoveredCounts,
    extent: RangesExtent,
    /// Heap offsets of the parts of incomplete records. Each is the last entry of its log.
    torn: Vec<u64>,
    /// The entries, in the order in which they are copied to their places, without those in `torn`. They lie
    /// in the mapped logs, which only [`replay`] writes to (see [`read_logs`]), and it copies these entries
    /// before it resets the logs.
    entries: Vec<*const [u64]>,
}

impl FoundEntries {
    fn entries(&self) -> impl Iterator<Item = &[u64]> {
        // SAFETY: the caller of `read_logs`, the only function that makes a `FoundEntries`, guarantees that
        // the logs stay mapped, and that no thread writes to them, as long as this exists.
        self.entries.iter().map(|&entry| unsafe { &*entry })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.torn.is_empty()
    }

    /// Returns the ranges that will be written, in this order.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<'_>> {
        self.entries().flat_map(ranges)
    }
}

/// Reads all logs of a heap that is mapped up to `mapped`.
///
/// # Errors
/// [`Error::Corrupt`] if the logs cannot be replayed.
///
/// # Safety
/// As long as the result exists, the logs stay mapped, and only [`replay`] writes to the heap.
pub(crate) unsafe fn read_logs(logs: &[RegionLog], mapped: u64) -> Result<FoundEntries> {
    let (recovered, extent) =
        (RecoveredCounts::default(), RangesExtent { ranges: 0, start: u64::MAX, end: 0 });
    let mut found = FoundEntries { recovered, extent, torn: Vec::new(), entries: Vec::new() };
    let mut scans = Vec::with_capacity(logs.len());
    for log in logs {
        // The ranges of an entry are examined while it is in the cache: all entries together may not fit.
        scans.push(log.scan(|entry| ranges(entry).for_each(|range| found.extent.add(&range)))?);
    }
    let ends: Vec<LogEnd> = scans.iter().map(|scan| scan.end).collect();
    for ((log, LogScan { kind, mut entries, .. }), is_torn) in logs.iter().zip(scans).zip(incomplete(&ends)) {
        if is_torn {
            found.torn.extend(entries.pop().map(|entry| log.offset_of(entry)));
        }
        match kind {
            EntryKind::Redo => found.recovered.replayed += entries.len() as u64,
            EntryKind::Undo => {
                found.recovered.rolled_back += entries.len() as u64;
                entries.reverse();
            }
        }
        found.entries.append(&mut entries);
    }
    if found.extent.ranges > 0 && (found.extent.start < HEADER_SIZE || found.extent.end > mapped) {
        return Err(Error::corrupt("a log entry lies outside of the heap"));
    }
    Ok(found)
}

/// The number of the ranges in all entries, and the part of the heap (offsets) in which the ranges lie.
#[derive(Debug)]
struct RangesExtent {
    ranges: u64,
    start: u64,
    end: u64,
}

impl RangesExtent {
    fn add(&mut self, range: &Range<'_>) {
        let RangesExtent { ranges, start, end } = *self;
        *self =
            RangesExtent { ranges: ranges + 1, start: start.min(range.offset), end: end.max(range.end()) };
    }
}

/// Stores the words of the entries that were found in `logs` in the heap. Empties the logs, except in a heap
/// that is only read or has a write-ahead log.
///
/// # Errors
/// If a fence has failed.
///
/// # Safety
/// No other thread accesses the heap, which has not changed since the logs were read. `found` is of these
/// logs, and none of its ranges overlaps one of them.
pub(crate) unsafe fn replay(
    media: &Media,
    mapping: &Mapping,
    logs: &mut [RegionLog],
    found: &FoundEntries,
) -> Result<RecoveredCounts> {
    if bug(Bug::RecoveryResetsFirst) {
        reset(media, logs);
    }
    if !bug(Bug::KeepTornParts) {
        // SAFETY: `found.torn` has offsets of entries in the logs, which are mapped. The caller guarantees
        // that no other thread accesses the heap.
        unsafe { take_back(media, mapping, found) };
    }
    // SAFETY: `read_logs` has checked that all ranges are within the mapping. The caller guarantees that no
    // other thread accesses the heap.
    unsafe { copy_to_places(media, mapping, found) };
    media.fence();
    media.check_fences()?;
    // With `Wal`, the heap was prepared with empty logs, and the undo entries of these logs are kept in DRAM.
    // In a heap that is only read, no entry is ever appended.
    if media.wal().is_none()
        && !mapping.is_read_only()
        && !bug(Bug::RecoveryResetsFirst)
        && !bug(Bug::KeepGeneration)
    {
        reset(media, logs);
    }
    media.check_fences()?;
    Ok(found.recovered)
}

/// Invalidates the parts of incomplete records, before any log gets a new generation: that generation would
/// make the other parts of the record count.
///
/// # Safety
/// The logs are mapped, and no other thread accesses them.
unsafe fn take_back(media: &Media, mapping: &Mapping, found: &FoundEntries) {
    for &at in &found.torn {
        let checksum = mapping.base().wrapping_add(at as usize).cast::<u64>();
        // SAFETY: `checksum` is the first word of an entry of a log. The caller guarantees that it is mapped,
        // and that no other thread accesses it.
        let right = unsafe { checksum.read() };
        // SAFETY: `checksum` is the word that was just read.
        unsafe { media.store_word(checksum, !right) };
        media.flush(checksum.cast(), 8);
    }
}

/// Number of words (8 KiB) from which on a range is written past the cache, if the medium can, and a system
/// call for the range's pages is worthwhile.
const LONG: usize = 8 << 10 >> 3;

/// Copies all ranges to their places, and starts to flush them.
///
/// # Safety
/// The ranges of `found` are mapped, and no other thread accesses them.
unsafe fn copy_to_places(media: &Media, mapping: &Mapping, found: &FoundEntries) {
    let base = mapping.base();
    let RangesExtent { start, end, .. } = found.extent;
    let mut lines = DenseLines::for_extent(&found.extent);
    if lines.is_some() {
        mapping.populate_around(start, end - start);
    }
    for range in found.ranges() {
        let place = base.wrapping_add(range.offset as usize);
        if range.words.len() >= LONG {
            mapping.populate_again(range.offset, range.words.len() as u64 * 8);
            // SAFETY: the caller guarantees that the words of `range` are mapped, and that no other thread
            // accesses them.
            unsafe { media.store_through(place.cast(), range.words) };
            continue;
        }
        // SAFETY: the caller guarantees that the words of `range` are mapped, and that no other thread
        // accesses them.
        unsafe { media.store_words(place.cast(), range.words) };
        match &mut lines {
            Some(lines) => lines.add(&range),
            None => media.flush(place, range.words.len() * 8),
        }
    }
    for offset in lines.iter().flat_map(DenseLines::offsets) {
        media.flush(base.wrapping_add(offset), LINE);
    }
}

/// The lines to flush, if the ranges lie so densely that each line should be flushed once, and not for each
/// range.
struct DenseLines {
    /// Number of the cache line that the first bit of `bits` stands for.
    first: u64,
    bits: Vec<u64>,
}

impl DenseLines {
    /// Returns an empty set of lines, or `None` if the ranges are few and far from one another.
    fn for_extent(extent: &RangesExtent) -> Option<DenseLines> {
        let first = extent.start / LINE as u64;
        let lines = extent.end.div_ceil(LINE as u64).checked_sub(first)?;
        (lines < 64 * extent.ranges).then(|| DenseLines { first, bits: vec![0; lines.div_ceil(64) as usize] })
    }

    fn add(&mut self, range: &Range<'_>) {
        for line in range.offset / LINE as u64..range.end().div_ceil(LINE as u64) {
            let number = line - self.first;
            self.bits[(number / 64) as usize] |= 1 << (number % 64);
        }
    }

    /// Returns the heap offsets of the lines.
    fn offsets(&self) -> impl Iterator<Item = usize> {
        let lines = (0..).zip(&self.bits).flat_map(|(word, &bits)| {
            (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| word * 64 + bit)
        });
        lines.map(|number: u64| (self.first + number) as usize * LINE)
    }
}

fn reset(media: &Media, logs: &mut [RegionLog]) {
    logs.iter_mut().for_each(|log| log.reset_unfenced(media));
    media.fence();
}
