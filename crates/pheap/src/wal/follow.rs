//! The log of a heap that another process has open: read while records are appended, and while checkpoints bring them to the heap's file and use their segments again.

use std::sync::Arc;

use super::format::{Found, Head, Layout, Seed, read_head, read_mark, read_on};
use super::recovery::own_log;
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
    error: String,
}

impl LiveLog {
    /// Finds the log, and where to begin. From now on, whatever is read of the heap's file has all records before that position. Of those behind it, it has what checkpoints have
    /// come to: to replay them makes a state of it, if they are [read](Self::read_on) after the file.
    ///
    /// # Errors
    /// [`Error::LogMissing`], [`Error::ForeignLog`], [`Error::Io`].
    pub(crate) fn open(disk: &dyn Disk, of: &WalIdentity) -> Result<LiveLog> {
        let (log, layout) = own_log(disk, of)?;
        let (seed, error) = (Seed::new(of.salt, layout), format!("reading {}", disk.log_path().display()));
        let (mark, _) = read_mark(&*log, layout, seed).map_err(|e| Error::io(&*error, e))?;
        Ok(LiveLog { log, layout, seed, found: Found::behind(mark.folded), error })
    }

    /// Reads all that was appended before this is called, and perhaps more. A checkpoint begins when its records are in the log, so whatever has reached the heap's file until now is among
    /// them.
    ///
    /// `false` if there is no telling: records may have been overwritten before they were read, or the log has gone on in another file.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn read_on(&mut self) -> Result<bool> {
        let LiveLog { log, layout, seed, found, error } = self;
        let error = |e| Error::io(&**error, e);
        if bug(Bug::FollowOnce) && found.transactions > 0 {
            return Ok(true);
        }
        for _ in 0..ROUNDS {
            let before = found.end;
            read_on(&**log, *layout, *seed, found).map_err(error)?;
            // After the records. A segment is used again when a mark behind it has been written, and the old file of a log loses its head before anything is appended to the new one.
            let (mark, _) = read_mark(&**log, *layout, *seed).map_err(error)?;
            if read_head(&**log).map_err(error)? != Head::Log(*layout) && !bug(Bug::OverlookNewLog) {
                return Ok(false);
            }
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

    /// What was read, for a heap of `mapped` bytes.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it cannot be replayed there.
    pub(crate) fn into_tail(self, mapped: u64) -> Result<WalTail> {
        WalTail { found: self.found, log: Some((self.log, self.layout)) }.within(mapped)
    }
}
