//! The log that a crash has left can go on when its heap is opened. The opening has the records in memory, so
//! it does not bring them to the heap's file, and rewrites in the log only those that are not known to be on
//! the disk. A later checkpoint brings them to the file, like any other records.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use super::buffer::WalBuffer;
use super::checkpoint::is_worth_folding;
use super::format::{ChecksumSeed, HEAD, LogLayout, LogMark, MARKS, WalSegment, read_mark};
use super::{Wal, WalIdentity, WalSettings, WalTail};
use crate::error::{Error, Result, is_full};
use crate::faults::{Bug, bug};
use crate::os::cpu::bytes;
use crate::os::storage::{Disk, Storage};
use crate::units::PAGE;

/// Least number of free segments with which an opening goes on with the log, so that the records of the
/// opening itself need not wait for room.
const LEAST_FREE: u64 = 2;

impl Wal {
    /// Goes on with the log that `tail` was read from, for a heap that is mapped privately and has the
    /// records of `tail` in memory. The header that was read is durable. On return the records that were read
    /// are durable, and the header may name the new run.
    ///
    /// Returns `None` if `tail` has no log, the log cannot be used with these settings, the disk is full, the
    /// log is too long, or the file system [hides writes](super::HIDES_WRITES). The log then has the same
    /// records as before.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::NoPermission`], [`Error::OutOfSpace`].
    pub(crate) fn resume(
        disk: &Arc<dyn Disk>,
        of: &WalIdentity,
        settings: WalSettings,
        tail: &WalTail,
    ) -> Result<Option<Arc<Wal>>> {
        let Some((log, layout)) = tail.log.clone() else { return Ok(None) };
        let error = |e| Error::making("continuing the log", &disk.log_path(), e);
        let (found, seed) = (&tail.found, ChecksumSeed::new(of.salt, layout));
        let next = found.newest.max(layout.sequence(found.end)) + 1;
        if layout.segment != settings.segment() || layout.positions(next).is_none() {
            return Ok(None);
        }
        let live = tail.live(layout);
        let free = match free_segments(&*log, layout, &live, settings.log_limit) {
            Err(e) if is_full(&e) => None,
            free => free.map_err(error)?,
        };
        let Some(free) = free else { return Ok(None) };
        let (mark, place) = read_mark(&*log, layout, seed).map_err(error)?;
        let begun =
            LogMark { runs: mark.runs + 1, run: disk.nonce().map_err(error)?, before: of.nonce, ..mark };
        let begin = || {
            // The newest mark is written again before the new one, because the disk may not have it. Segments
            // before it are going to be overwritten, so no later opening may begin at an older mark. Records
            // behind it are going to be shown to readers.
            // SURVIVES drop: in no program of the crash lab does the sync of a mark fail, and the log then
            // fill until a segment is used again.
            // SURVIVES delay: in no program of the crash lab does the sync of a mark fail, and the power fail
            // later, between this write and its sync.
            log.write_all(bytes(&mark.to_words(seed)), MARKS[place])?;
            if !bug(Bug::TrustLog) {
                write_unsynced_again(&*log, layout, tail, &live)?;
            }
            tail.check_there(of.salt)?;
            // This sync comes before the other mark is written. If an earlier sync of the newest mark has
            // failed, the disk may not have that mark, and a power failure could then tear both marks.
            // SURVIVES drop: in no program of the crash lab does the sync of a mark fail, and then the power
            // fail in the next opening.
            // SURVIVES delay: in no program of the crash lab does the sync of a mark fail, and then the power
            // fail in the next opening.
            log.sync()?;
            // The new mark goes to the other one of the two places, because a disk may tear the write.
            log.write_all(bytes(&begun.to_words(seed)), MARKS[1 - place])?;
            log.sync()?;
            let last = *free.back().expect("there is one");
            log.shows_writes(layout.file_offset(last + 1) - PAGE)
        };
        if !begin().map_err(error)? {
            // The file system's private mappings do not show writes, so a new log would not do, either.
            return Ok(None);
        }
        let buffer = WalBuffer::begin_run(layout, seed, begun.run, live, free, found.end, next);
        // If there is nothing behind the mark, there is nothing for a checkpoint. Otherwise (records of an
        // incomplete transaction, or first lines of segments whose records are lost) the next checkpoint
        // writes a mark behind them: until then the log must not be cut down.
        let is_clean = found.rest == 0 && found.newest <= layout.sequence(found.end);
        let folded = if begun.folded == found.end && is_clean { buffer.end_position() } else { begun.folded };
        let begun = LogMark { folded, ..begun };
        let wal =
            Wal::from_buffer(disk.clone(), Some(log), of, settings, layout, (begun, 1 - place), buffer)?;
        tail.runs(of.mapped, u64::MAX).for_each(|(offset, bytes)| wal.pages.mark_stored(offset, bytes));
        // SURVIVES unreached: no other thread has the log yet, so none needs this lock.
        let mut state = wal.state.lock();
        state.ages = is_worth_folding(&state);
        drop(state);
        Ok(Some(wal))
    }
}

/// Returns the places of the log's segments that are not `live`, at least [`LEAST_FREE`]. Makes the log
/// longer if need be. Returns `None` if the log would become too long.
fn free_segments(
    log: &dyn Storage,
    layout: LogLayout,
    live: &[WalSegment],
    log_limit: u64,
) -> io::Result<Option<VecDeque<u64>>> {
    let have = log.len()?.saturating_sub(HEAD) / layout.segment;
    let add = LEAST_FREE.saturating_sub(have - live.len() as u64);
    // Each opening takes at least one segment, and only a checkpoint frees segments. A program that is always
    // killed early makes no checkpoint, so its log must not grow without limit.
    if add > 0 && have + add > log_limit / layout.segment + LEAST_FREE {
        return Ok(None);
    }
    log.fill_holes(layout.file_offset(have))?;
    // If a sync has failed, the file may be shorter on the disk. The caller's sync gives it its length there
    // only if its last page is written again. A log that is cut off was refused, so there is a last page.
    let (mut page, end) = ([0; PAGE as usize], layout.file_offset(have) - PAGE);
    let bytes = log.read_up_to(&mut page, end)?;
    // SURVIVES drop: the simulated disk of the crash lab gets the length with the next sync, even if an
    // earlier one has failed.
    // SURVIVES delay: the simulated disk of the crash lab gets the length with the next sync, even if an
    // earlier one has failed.
    log.write_all(&page[..bytes], end)?;
    if add > 0 {
        log.extend(layout.file_offset(have), layout.file_offset(have + add))?;
    }
    let is_free = |place: &u64| live.iter().all(|segment| segment.place != *place);
    Ok(Some((0..have + add).filter(is_free).collect()))
}

/// Writes the records of `tail` to the log again, except those that a segment's first line calls synced.
pub(super) fn write_unsynced_again(
    log: &dyn Storage,
    layout: LogLayout,
    tail: &WalTail,
    live: &[WalSegment],
) -> io::Result<()> {
    let found = &tail.found;
    // The page in which the synced records end may have been written since that sync, so the whole page is
    // written again.
    let from = found.synced & !(PAGE - 1);
    for (number, segment) in live.iter().enumerate() {
        let start = layout.start(segment.sequence);
        let end = live.get(number + 1).map_or(found.end, |next| next.previous_end);
        let place = |position: u64| layout.file_offset(segment.place) + (position - start);
        let (mut at, end) = (place(from.max(start)), place(end));
        let mut bytes = vec![0; 256 << 10];
        while at < end {
            let most = bytes.len().min((end - at) as usize);
            let have = log.read_up_to(&mut bytes[..most], at)?;
            if have == 0 {
                // The file has become shorter since it was read. `check_there` then finds that the records
                // are gone.
                return Ok(());
            }
            // SURVIVES delay: a delayed write comes behind the next sync, and the sync of the new mark makes
            // it durable.
            log.write_all(&bytes[..have], at)?;
            at += have as u64;
        }
    }
    Ok(())
}
