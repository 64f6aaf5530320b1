//! The log of a heap that another process has open: read while records are appended, and while checkpoints bring them to the heap's file and use their segments again.

use std::io;
use std::sync::Arc;

use super::fold::Fold;
use super::format::{Found, Layout, Seed, read_mark, read_on};
use super::recovery::{check_extent, own_log};
use super::stream::{self, Queued, Spill, records};
use super::{WalIdentity, WalTail};
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::os::storage::{Disk, Storage};

/// How often reading on goes on when the log has moved meanwhile.
const ROUNDS: u32 = 100;

/// A log that somebody else writes.
#[derive(Debug)]
pub(crate) struct LiveLog {
    log: Arc<dyn Storage>,
    layout: Layout,
    seed: Seed,
    found: Found,
    /// What was read, for it may be overwritten.
    records: Queued,
    /// Bytes of the heap that were copied since.
    copied: u64,
    error: String,
}

impl LiveLog {
    /// Finds the log, and where to begin. From now on, whatever is read of the heap's file has all records before that position. Of those behind it, it has what checkpoints have
    /// come to: to replay them makes a state of it, if they are [read](Self::read_on) after the file.
    ///
    /// `spill` makes a file for records that are too many for memory.
    ///
    /// # Errors
    /// [`Error::LogMissing`], [`Error::ForeignLog`], [`Error::Io`].
    pub(crate) fn open(disk: &dyn Disk, of: &WalIdentity, spill: Spill) -> Result<LiveLog> {
        let (log, layout) = own_log(disk, of)?;
        let (seed, error) = (Seed::new(of.salt, layout), format!("reading {}", disk.log_path().display()));
        let (mark, _) = read_mark(&*log, layout, seed).map_err(|e| Error::io(&*error, e))?;
        let records = Queued::new(spill, stream::MOST);
        Ok(LiveLog { log, layout, seed, found: Found::behind(mark.folded), records, copied: 0, error })
    }

    /// Reads all that was appended before this is called, and perhaps more. A checkpoint begins when its records are in the log, so whatever has reached the heap's file until now is among
    /// them.
    ///
    /// `false` if records may have been overwritten before they were read.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn read_on(&mut self) -> Result<bool> {
        let LiveLog { log, layout, seed, found, records, error, .. } = self;
        let error = |e| Error::io(&**error, e);
        if bug(Bug::FollowOnce) && found.transactions > 0 {
            return Ok(true);
        }
        for _ in 0..ROUNDS {
            let before = found.end;
            read_on(&**log, *layout, *seed, found, records).map_err(error)?;
            // After the records: a segment is used again when a mark behind it has been written.
            let (mark, _) = read_mark(&**log, *layout, *seed).map_err(error)?;
            if mark.folded <= found.end || bug(Bug::OverlookLap) {
                return Ok(true);
            }
            // The end of the log, when it was read; or what has overwritten the next record.
            if found.end == before {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// [`read_on`](Self::read_on) after so many bytes of the heap were copied, but not each time where the
    /// log ends in a long transaction that is not complete: all of that is read each time.
    ///
    /// # Errors
    /// Those of `read_on`.
    pub(crate) fn read_on_beside(&mut self, copied: u64) -> Result<bool> {
        self.copied += copied;
        if self.copied < self.found.rest {
            return Ok(true);
        }
        self.copied = 0;
        self.read_on()
    }

    /// What was read, for a heap of `mapped` bytes, once it is written to a copy of it. It is durable when this returns.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it cannot be replayed there, [`Error::Io`].
    pub(crate) fn tail(&self, mapped: u64) -> Result<WalTail> {
        check_extent(self.found.extent.as_ref(), mapped)?;
        let transactions = self.found.transactions;
        if transactions > 0 {
            // SURVIVES unreached: no heap is followed in the lab; a test of `heap/open/simulated.rs` does.
            self.log.sync().map_err(|e| Error::io(&*self.error, e))?;
        }
        Ok(WalTail::folded(transactions))
    }

    /// Writes what was read to a copy of the heap. `room` is how many bytes of memory this may take.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn fold(mut self, data: &dyn Storage, room: u64) -> io::Result<()> {
        let mut fold = Fold::with_room(data, room);
        loop {
            let words = self.records.take()?;
            if words.is_empty() {
                return fold.finish().map(drop);
            }
            records(&words).try_for_each(|record| fold.add(record))?;
        }
    }
}
