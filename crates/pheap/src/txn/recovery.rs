//! Replaying the logs of regions when a heap is opened.
//!
//! 1. Each log is [read](read_logs): its complete entries, of its current generation. Nothing is written yet, so that a heap that turns out
//!    to be damaged stays as it is.
//!    Of records that have parts in several logs, those that are not complete are [left out](parts).
//! 2. Redo records are copied to their places, oldest first; undo entries newest first. Doing so twice changes nothing more, so
//!    a crash meanwhile is a crash like any other. Parts of records that are not complete are taken back: the other part is told by a newer log, too.
//! 3. When that is durable, each log gets a new generation, also if there was nothing to do: a complete record may lie behind
//!    a torn one, and must not come back to life.

#![allow(unsafe_code)]

use super::log::{Log, Scan};
use super::parts::{LogEnd, incomplete};
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::log::{Kind, Range, ranges};
use crate::media::Media;
use crate::os::mapping::Mapping;
use crate::stats::Stats;
use crate::units::HEADER_SIZE;
use crate::units::LINE;

/// What the logs held.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Recovered {
    /// Redo records that were replayed.
    pub(crate) replayed: u64,
    /// Undo entries that were rolled back.
    pub(crate) rolled_back: u64,
}

impl Recovered {
    pub(crate) fn add_to(self, stats: &mut Stats) {
        stats.replayed_records += self.replayed;
        stats.rolled_back_entries += self.rolled_back;
    }
}

/// What a crash left in the logs. It stays where it is: an entry may be as large as the largest object.
#[derive(Debug)]
pub(crate) struct Found {
    recovered: Recovered,
    extent: Extent,
    /// Where parts of records are that are not complete. They are the last of their logs.
    torn: Vec<u64>,
    /// In the order in which they are copied to their places. They lie in the mapped logs, which nobody writes to: see [`read_logs`].
    entries: Vec<*const [u64]>,
}

impl Found {
    fn entries(&self) -> impl Iterator<Item = &[u64]> {
        // SAFETY: the logs stay mapped, and nobody writes to them as long as there is this: the premises of `read_logs`, which alone makes it.
        self.entries.iter().map(|&entry| unsafe { &*entry })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.torn.is_empty()
    }

    /// What is going to be written, in this order.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<'_>> {
        self.entries().flat_map(ranges)
    }
}

/// Reads all logs of a heap that is mapped up to `mapped`.
///
/// # Errors
/// If they could not be replayed.
///
/// # Safety
/// As long as there is what this returns, the logs stay mapped, and nobody but [`replay`] writes to the heap.
pub(crate) unsafe fn read_logs(logs: &[Log], mapped: u64) -> Result<Found> {
    let (recovered, extent) = (Recovered::default(), Extent { ranges: 0, start: u64::MAX, end: 0 });
    let mut found = Found { recovered, extent, torn: Vec::new(), entries: Vec::new() };
    let mut scans = Vec::with_capacity(logs.len());
    for log in logs {
        // Each entry is looked at while it is at hand: all of them together may fit into no cache.
        scans.push(log.scan(|entry| ranges(entry).for_each(|range| found.extent.add(&range)))?);
    }
    let ends: Vec<LogEnd> = scans.iter().map(|scan| scan.end).collect();
    for ((log, Scan { kind, mut entries, .. }), is_torn) in logs.iter().zip(scans).zip(incomplete(&ends)) {
        if is_torn {
            found.torn.extend(entries.pop().map(|entry| log.offset_of(entry)));
        }
        match kind {
            Kind::Redo => found.recovered.replayed += entries.len() as u64,
            Kind::Undo => {
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

/// The part of the heap that ranges lie in.
#[derive(Debug)]
struct Extent {
    ranges: u64,
    start: u64,
    end: u64,
}

impl Extent {
    fn add(&mut self, range: &Range<'_>) {
        let Extent { ranges, start, end } = *self;
        *self = Extent { ranges: ranges + 1, start: start.min(range.offset), end: end.max(range.end()) };
    }
}

/// Writes what was found in `logs` to their heap, and empties them.
///
/// # Safety
/// Nobody else accesses the heap, which has not changed since the logs were read. `found` is of these logs, and none of its ranges lies over one of them.
pub(crate) unsafe fn replay(
    media: &Media,
    mapping: &Mapping,
    logs: &mut [Log],
    found: &Found,
) -> Result<Recovered> {
    if bug(Bug::RecoveryResetsFirst) {
        reset(media, logs);
    }
    if !bug(Bug::KeepTornParts) {
        // SAFETY: entries of logs, which are mapped; nobody else accesses the heap, the caller's premise.
        unsafe { take_back(media, mapping, found) };
    }
    // SAFETY: that the ranges are in what is mapped was checked when they were read; nobody else accesses the heap, the caller's premise.
    unsafe { copy_to_places(media, mapping, found) };
    media.fence();
    media.check_fences()?;
    // A heap with a write-ahead log was made ready for it, with empty logs, and keeps them in volatile
    // memory. To one that is only read, nothing is appended, and its pages stay those of the file.
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

/// Makes the parts of records that are not complete entries that were never whole, before any log gets a new generation: by that, the other parts would tell a complete record.
///
/// # Safety
/// The logs are mapped, and nobody else accesses them.
unsafe fn take_back(media: &Media, mapping: &Mapping, found: &Found) {
    for &at in &found.torn {
        let checksum = mapping.base().wrapping_add(at as usize).cast::<u64>();
        // SAFETY: the first word of an entry, which is mapped, and which nobody else accesses: the caller's premises.
        let right = unsafe { checksum.read() };
        // SAFETY: the same.
        unsafe { media.store_word(checksum, !right) };
        media.flush(checksum.cast(), 8);
    }
}

/// Words of a range that is written past the cache, and whose pages are worth a system call.
const LONG: usize = 8 << 10 >> 3;

/// Copies all ranges to their places, and starts to flush them.
///
/// # Safety
/// The ranges are mapped, and nobody else accesses them.
unsafe fn copy_to_places(media: &Media, mapping: &Mapping, found: &Found) {
    let base = mapping.base();
    let Extent { start, end, .. } = found.extent;
    let mut lines = DenseLines::of(&found.extent);
    if lines.is_some() {
        mapping.populate_around(start, end - start);
    }
    for range in found.ranges() {
        let place = base.wrapping_add(range.offset as usize);
        if range.words.len() >= LONG {
            mapping.populate_again(range.offset, range.words.len() as u64 * 8);
            // SAFETY: words of a range, which is mapped, and which nobody else accesses: the caller's premises.
            unsafe { media.store_through(place.cast(), range.words) };
            continue;
        }
        // SAFETY: words of a range, which is mapped, and which nobody else accesses: the caller's premises.
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

/// Lines of a part of the heap in which a transaction has changed so much that each line is flushed once, not for each change.
struct DenseLines {
    /// Number of the first line.
    first: u64,
    bits: Vec<u64>,
}

impl DenseLines {
    /// None yet. `None` if the ranges are few, and far from one another.
    fn of(extent: &Extent) -> Option<DenseLines> {
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

    /// Offsets in the heap.
    fn offsets(&self) -> impl Iterator<Item = usize> {
        let lines = (0..).zip(&self.bits).flat_map(|(word, &bits)| {
            (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| word * 64 + bit)
        });
        lines.map(|number: u64| (self.first + number) as usize * LINE)
    }
}

fn reset(media: &Media, logs: &mut [Log]) {
    logs.iter_mut().for_each(|log| log.reset_unfenced(media));
    media.fence();
}
