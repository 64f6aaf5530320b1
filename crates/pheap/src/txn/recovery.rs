//! What happens to the logs when a heap is opened.
//!
//! 1. Each log is [read](read_logs): its complete entries, of its current generation. Nothing is written yet, so that a heap that turns out
//!    to be damaged stays as it is.
//! 2. Redo records are copied to their places, oldest first; undo entries newest first. Doing so twice changes nothing more, so
//!    a crash meanwhile is a crash like any other.
//! 3. When that is durable, each log gets a new generation, also if there was nothing to do: a complete record may lie behind
//!    a torn one, and must not come back to life.

use super::commit::restore;
use super::log::{Kind, Log, Range, ranges};
use crate::error::{Error, Result};
use crate::heap::header::HEADER_SIZE;
use crate::media::{Bug, Media, bug};

/// What the logs held.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Recovered {
    /// Redo records that were replayed.
    pub(crate) replayed: u64,
    /// Undo entries that were rolled back.
    pub(crate) rolled_back: u64,
}

/// What a crash left in the logs. It stays where it is: an entry may be as large as the largest object.
#[derive(Debug)]
pub(crate) struct Found {
    recovered: Recovered,
    /// In the order in which they are copied to their places. They lie in the mapped logs, which nobody writes to: see [`read_logs`].
    entries: Vec<*const [u64]>,
}

impl Found {
    fn entries(&self) -> impl Iterator<Item = &[u64]> {
        // SAFETY: by the promise of `read_logs`.
        self.entries.iter().map(|&entry| unsafe { &*entry })
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
    let mut found = Found { recovered: Recovered::default(), entries: Vec::new() };
    for log in logs {
        let (kind, mut entries) = log.scan()?;
        match kind {
            Kind::Redo => found.recovered.replayed += entries.len() as u64,
            Kind::Undo => {
                found.recovered.rolled_back += entries.len() as u64;
                entries.reverse();
            }
        }
        found.entries.append(&mut entries);
    }
    // Not even a damaged entry may write to those that come after it.
    let mut of_logs: Vec<_> = logs.iter().flat_map(Log::places).collect();
    of_logs.sort_unstable();
    let in_log = |range: &Range<'_>| {
        let before = of_logs.partition_point(|&(start, _)| start < range.end());
        of_logs[..before].last().is_some_and(|&(_, end)| end > range.offset)
    };
    if found.ranges().any(|range| range.offset < HEADER_SIZE || range.end() > mapped || in_log(&range)) {
        return Err(Error::corrupt("a log entry lies outside of the heap"));
    }
    Ok(found)
}

/// Writes what was found in `logs` to the heap that is mapped at `base`, and empties them.
///
/// # Safety
/// Nobody else accesses the heap, which has not changed since the logs were read. `found` is of these logs.
pub(crate) unsafe fn replay(
    media: &Media,
    base: *mut u8,
    logs: &mut [Log],
    found: &Found,
) -> Result<Recovered> {
    if bug(Bug::RecoveryResetsFirst) {
        reset(media, logs);
    }
    for entry in found.entries() {
        // SAFETY: the ranges were checked when they were read.
        unsafe { restore(media, base, entry) };
    }
    media.fence();
    media.check_fences()?;
    // A heap with a write-ahead log was closed before, with empty logs, and keeps them in volatile memory.
    if media.wal().is_none() && !bug(Bug::RecoveryResetsFirst) && !bug(Bug::KeepGeneration) {
        reset(media, logs);
    }
    media.check_fences()?;
    Ok(found.recovered)
}

fn reset(media: &Media, logs: &mut [Log]) {
    logs.iter_mut().for_each(|log| log.reset_unfenced(media));
    media.fence();
}
