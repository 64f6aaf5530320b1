//! What happens to the logs when a heap is opened.
//!
//! 1. Each log is read: its complete entries, of its current generation.
//! 2. Redo records are copied to their places, oldest first; undo entries newest first. Doing so twice changes nothing more, so
//!    a crash meanwhile is a crash like any other.
//! 3. When that is durable, each log gets a new generation, also if there was nothing to do: a complete record may lie behind
//!    a torn one, and must not come back to life.

use super::commit::restore;
use super::log::{Kind, Log, ranges};
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

/// Recovers all logs of a heap that is mapped at `base` up to `mapped`.
///
/// # Safety
/// Nobody else accesses the heap.
pub(crate) unsafe fn recover(
    media: &Media,
    base: *mut u8,
    mapped: u64,
    logs: &mut [Log],
) -> Result<Recovered> {
    let mut found = Vec::new();
    for log in logs.iter() {
        let (kind, entries) = log.scan()?;
        for range in entries.iter().flat_map(|entry| ranges(entry)) {
            if range.offset < HEADER_SIZE || range.offset + range.words.len() as u64 * 8 > mapped {
                return Err(Error::corrupt("a log entry lies outside of the heap"));
            }
        }
        found.push((kind, entries));
    }
    if bug(Bug::RecoveryResetsFirst) {
        reset(media, logs);
    }
    let mut recovered = Recovered::default();
    for (kind, mut entries) in found {
        match kind {
            Kind::Redo => recovered.replayed += entries.len() as u64,
            Kind::Undo => {
                recovered.rolled_back += entries.len() as u64;
                entries.reverse();
            }
        }
        for entry in &entries {
            // SAFETY: the ranges were checked above.
            unsafe { restore(media, base, entry) };
        }
    }
    media.fence();
    if !bug(Bug::RecoveryResetsFirst) && !bug(Bug::KeepGeneration) {
        reset(media, logs);
    }
    Ok(recovered)
}

fn reset(media: &Media, logs: &mut [Log]) {
    logs.iter_mut().for_each(|log| log.reset_unfenced(media));
    media.fence();
}
