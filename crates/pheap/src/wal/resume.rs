//! The log that a crash has left goes on when its heap is opened: its records are in memory then. They are not brought to the heap's file, and written again only as far as they are not
//! known to be on the disk. A checkpoint folds them some time later, like any others.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use super::buffer::Buffer;
use super::checkpoint::is_worth_folding;
use super::format::{HEAD, Layout, MARKS, Mark, Seed, Segment, read_mark};
use super::{Settings, Wal, WalIdentity, WalTail};
use crate::error::{Error, Result, is_full};
use crate::faults::{Bug, bug};
use crate::os::cpu::bytes;
use crate::os::storage::{Disk, Storage};
use crate::units::PAGE;

/// Segments that an opening finds free: so what it records itself waits for nothing.
const LEAST_FREE: u64 = 2;

impl Wal {
    /// Goes on with the log that `tail` was read of, for a heap that is mapped privately with all that `tail` says. The header that was read is durable. When this returns, so is all that
    /// was read of the log, and the header may name the new run.
    ///
    /// `None` if the log cannot be used with these settings, or the disk is full, or the log as long as it may be. Then it says what it has said before.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn resume(
        disk: &Arc<dyn Disk>,
        of: &WalIdentity,
        settings: Settings,
        tail: &WalTail,
    ) -> Result<Option<Arc<Wal>>> {
        let Some((log, layout)) = tail.log.clone() else { return Ok(None) };
        let error = |e| Error::making("going on with the log", &disk.log_path(), e);
        let (found, seed) = (&tail.found, Seed::new(of.salt, layout));
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
        let begun = Mark { runs: mark.runs + 1, run: disk.nonce().map_err(error)?, before: of.nonce, ..mark };
        let begin = || {
            // First of all: what is before the mark is going to be overwritten, and what is behind it to be shown.
            // SURVIVES drop: no program of the lab has the sync of a mark fail, and fills the log then until a segment is used again. SURVIVES delay: nor has it the power fail between.
            log.write_all(bytes(&mark.to_words(seed)), MARKS[place])?;
            if !bug(Bug::TrustLog) {
                write_unsynced_again(&*log, layout, tail, &live)?;
            }
            tail.check_there(of.salt)?;
            // Before the other mark is written: if the sync of this one has failed, the disk may have none, and a power failure could tear both.
            // SURVIVES drop: no program of the lab has the sync of a mark fail, and the power in the opening after that. SURVIVES delay: for the same reason.
            log.sync()?;
            // Then over the other one, for a disk may tear what it writes.
            log.write_all(bytes(&begun.to_words(seed)), MARKS[1 - place])?;
            log.sync()?;
            let last = *free.back().expect("there is one");
            log.shows_writes(layout.file_offset(last + 1) - PAGE)
        };
        if !begin().map_err(error)? {
            return Ok(None); // and a new one will not do, either
        }
        let buffer = Buffer::begin(layout, seed, begun.run, live, free, found.end, next);
        let folded = if begun.folded == found.end { buffer.end() } else { begun.folded };
        let begun = Mark { folded, ..begun };
        let wal = Wal::of(disk.clone(), Some(log), of, settings, layout, (begun, 1 - place), buffer)?;
        tail.runs(of.mapped, u64::MAX).for_each(|(offset, bytes)| wal.pages.note(offset, bytes));
        // SURVIVES unreached: nobody else has the log yet.
        let mut state = wal.state.lock();
        state.ages = is_worth_folding(&state);
        drop(state);
        Ok(Some(wal))
    }
}

/// The places of the segments that are not `live`: some, at least. `None` if the log is too long to have them.
fn free_segments(
    log: &dyn Storage,
    layout: Layout,
    live: &[Segment],
    log_limit: u64,
) -> io::Result<Option<VecDeque<u64>>> {
    let have = log.len()?.saturating_sub(HEAD) / layout.segment;
    let add = LEAST_FREE.saturating_sub(have - live.len() as u64);
    // Each opening takes a segment, and a program that never lives long makes no checkpoint, which alone would give them back.
    if add > 0 && have + add > log_limit / layout.segment + LEAST_FREE {
        return Ok(None);
    }
    log.fill_holes(layout.file_offset(have))?;
    if add > 0 {
        log.extend(layout.file_offset(have), layout.file_offset(have + add))?;
    }
    let is_free = |place: &u64| live.iter().all(|segment| segment.place != *place);
    Ok(Some((0..have + add).filter(is_free).collect()))
}

/// Writes once more what was read of a log, as far as the segments do not say that it was synced.
pub(super) fn write_unsynced_again(
    log: &dyn Storage,
    layout: Layout,
    tail: &WalTail,
    live: &[Segment],
) -> io::Result<()> {
    let found = &tail.found;
    // Of the page in which that ends, some may have been written since.
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
                return Ok(()); // somebody has made the file shorter, and what was read of it is not there
            }
            // SURVIVES delay: it comes behind the sync then, and is made durable by that of the new mark.
            log.write_all(&bytes[..have], at)?;
            at += have as u64;
        }
    }
    Ok(())
}
