//! The log of a heap that another process has open. It is read while that process appends records, brings
//! them to the heap's file by checkpoints, and uses their segments again.

use std::io;
use std::sync::Arc;

use super::fold::Fold;
use super::format::{ChecksumSeed, LogLayout, ReadLog, read_mark, read_on};
use super::recovery::{check_extent, own_log};
use super::stream::{self, MakeSpillFile, QueuedRecords, records};
use super::{WalIdentity, WalTail};
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::os::storage::{Disk, Storage};

/// Largest number of attempts to read to the end of a log whose end moves during each attempt.
const ROUNDS: u32 = 100;

/// A log that another process writes.
#[derive(Debug)]
pub(crate) struct LiveLog {
    log: Arc<dyn Storage>,
    layout: LogLayout,
    seed: ChecksumSeed,
    found: ReadLog,
    /// The records that were read. They are kept because the writer may overwrite them in the log.
    records: QueuedRecords,
    /// Bytes of the heap that were copied since [`read_on_beside`](Self::read_on_beside) last read the log.
    copied: u64,
    error: String,
}

impl LiveLog {
    /// Opens the log, and reads the mark: the position from which records are needed. Pages of the heap's
    /// file that are read from now on have all records before that position, and perhaps parts of later ones
    /// that checkpoints write. To make one state of the pages, [read](Self::read_on) the log after them, and
    /// replay its records.
    ///
    /// `spill` makes a file for records that do not fit into memory.
    ///
    /// # Errors
    /// [`Error::LogMissing`], [`Error::ForeignLog`], [`Error::Corrupt`] if the log is cut off, [`Error::Io`].
    pub(crate) fn open(disk: &dyn Disk, of: &WalIdentity, spill: MakeSpillFile) -> Result<LiveLog> {
        let (log, layout) = own_log(disk, of)?;
        let (seed, error) =
            (ChecksumSeed::new(of.salt, layout), format!("reading {}", disk.log_path().display()));
        let (mark, _) = read_mark(&*log, layout, seed).map_err(|e| Error::io(&*error, e))?;
        let records = QueuedRecords::new(spill, stream::MOST);
        Ok(LiveLog { log, layout, seed, found: ReadLog::behind(mark.folded), records, copied: 0, error })
    }

    /// Reads all records that were written to the log before this call, and perhaps more. A checkpoint begins
    /// when its records are in the log, so the records that are read include all records that have reached
    /// the heap's file by now.
    ///
    /// Returns `false` if records may have been overwritten before they were read.
    ///
    /// # Errors
    /// The error of the operating system.
    pub(crate) fn read_on(&mut self) -> Result<bool> {
        let LiveLog { log, layout, seed, found, records, error, .. } = self;
        let error = |e| Error::io(&**error, e);
        if bug(Bug::FollowOnce) && found.transactions > 0 {
            return Ok(true);
        }
        for _ in 0..ROUNDS {
            let before = found.end;
            read_on(&**log, *layout, *seed, found, records).map_err(error)?;
            // The mark is read after the records: a segment is used again only after a mark behind its
            // records was written.
            let (mark, _) = read_mark(&**log, *layout, *seed).map_err(error)?;
            if mark.folded <= found.end || bug(Bug::OverlookLap) {
                return Ok(true);
            }
            // The mark is ahead of the records that were read, and this attempt has read no transaction: the
            // log ended here when it was read, or the next record was overwritten.
            if found.end == before {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// [`read_on`](Self::read_on) after `copied` more bytes of the heap were copied. If the log ends in a
    /// long incomplete transaction, this reads on only after as many copied bytes, because each time it reads
    /// all of the transaction again.
    ///
    /// # Errors
    /// See [`read_on`](Self::read_on).
    pub(crate) fn read_on_beside(&mut self, copied: u64) -> Result<bool> {
        self.copied += copied;
        if self.copied < self.found.rest {
            return Ok(true);
        }
        self.copied = 0;
        self.read_on()
    }

    /// Makes the records that were read durable, and returns the tail of the log for a copy of the heap that
    /// [gets](Self::fold) them. The copy has `mapped` bytes.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a record lies outside the heap, [`Error::Io`].
    pub(crate) fn tail(&self, mapped: u64) -> Result<WalTail> {
        check_extent(self.found.extent.as_ref(), mapped)?;
        let transactions = self.found.transactions;
        if transactions > 0 {
            // SURVIVES unreached: the crash lab follows no heap; a test of `heap/open/simulated.rs` does.
            self.log.sync().map_err(|e| Error::io(&*self.error, e))?;
        }
        Ok(WalTail::folded(transactions))
    }

    /// Writes the records that were read to `data`, a copy of the heap. `room` is the number of bytes of
    /// memory that this may take.
    ///
    /// # Errors
    /// The error of the operating system.
    pub(crate) fn fold(mut self, data: &dyn Storage, room: u64) -> io::Result<()> {
        let mut fold = Fold::with_room(data, room);
        loop {
            let words = self.records.take_records()?;
            if words.is_empty() {
                return fold.flush_rest().map(drop);
            }
            records(&words).try_for_each(|record| fold.add(record))?;
        }
    }
}
