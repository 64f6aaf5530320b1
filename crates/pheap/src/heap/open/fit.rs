//! Keeps an opening within its limit of private memory: half of [`Options::memory_limit`].
//!
//! The records in the log of a killed program are stored to private pages, because the heap's file must not
//! have a part of a transaction. If these pages are too many, the log is brought to the file first, like in a
//! checkpoint. A heap that is only read is copied instead, with the log's records; neither of its files is
//! written to.

use std::sync::Arc;

use super::copy::{self, HeapCopy};
use super::found::{FoundHeap, SurveyedHeap, moved_bytes};
use super::place::FilePlace;
use super::{plan, wal};
use crate::error::{Error, Result};
use crate::os::file_system::is_tmpfs;
use crate::os::holes::has_holes;
use crate::units::HEADER_SIZE;
use crate::wal::{Fold, WalTail};

/// Surveys a heap, and calls `then` with the result. If the memory does not suffice, first brings the heap's
/// log to its file, or, if the heap is only read, makes a copy of the heap. Also makes a copy of a heap in a
/// tmpfs that is only read and has holes.
pub(super) fn survey<R>(
    mut found: FoundHeap<'_>,
    then: impl FnOnce(SurveyedHeap<'_>) -> Result<R>,
) -> Result<R> {
    let FoundHeap { options, place, ref tail, .. } = found;
    let Some(disk) = place.disk() else { return then(found.survey()?) };
    // Looking up the memory limit takes a while, so skip it if nothing depends on it.
    if tail.is_empty() && !options.read_only {
        return then(found.survey()?);
    }
    let most = options.memory() / 2;
    let mut need = tail.bytes();
    if !options.read_only {
        if need > most {
            // Some reasons to refuse the opening are looked for first: if one applies, the heap's file stays
            // as it is.
            plan::chosen(options, place, &found.header)?;
            if place.file().is_some() {
                found.moves()?;
            }
            let path = place.path().display();
            tracing::info!(
                %path,
                bytes = need,
                "brings the log to the heap's file: its pages are too many for memory"
            );
            wal::settle(&mut found.header, &**disk, tail, most)?;
            found.tail = Arc::new(WalTail::folded(tail.transactions()));
        }
        return then(found.survey()?);
    }
    let Some(file) = place.file().filter(|_| !place.is_copy()) else { return then(found.survey()?) };
    // In a tmpfs, a read of a hole takes space, and ends the process if there is none.
    let has_holes = is_tmpfs(file) && has_holes(file, found.header.mapped);
    if has_holes {
        need = found.header.mapped;
    } else if need <= most {
        let surveyed = found.clone().survey()?;
        need += surveyed.private_bytes();
        if need <= most {
            return then(surveyed);
        }
    } else if found.moves()? {
        need += moved_bytes(place, &found.header);
    }
    let FoundHeap { header, tail, .. } = found;
    let path = place.path();
    // The records that the heap is going to show must be durable.
    tail.sync().map_err(|e| Error::io(format!("syncing {}", disk.log_path().display()), e))?;
    let takes = copy::space(file).map_err(|e| Error::io(format!("looking at {}", path.display()), e))?;
    let copy = HeapCopy::create(options, path, file, takes + tail.bytes(), need)?;
    if !copy.pages(&*disk.data(), HEADER_SIZE..header.mapped, &mut || Ok(true))? {
        let have = disk.data().len().unwrap_or(0);
        return Err(Error::Truncated { path: path.to_owned(), have, need: header.mapped });
    }
    let file = copy.replay_log(header.mapped, |copy, room| {
        let mut fold = Fold::with_room(copy, room);
        tail.each_record(|record| fold.add(record))?;
        fold.flush_rest().map(drop)
    })?;
    let copy = FilePlace { path, file, is_copy: true, disk: disk.clone() };
    then(
        FoundHeap { options, place: &copy, header, tail: Arc::new(WalTail::folded(tail.transactions())) }
            .survey()?,
    )
}
