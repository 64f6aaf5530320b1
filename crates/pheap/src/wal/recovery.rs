//! The records that a crash has left in the log of a heap that is about to be opened.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::WalIdentity;
use super::fold::Fold;
use super::format::{
    ChecksumSeed, Head, LogLayout, MARKS, ReadLog, WalSegment, cut_lengths, each_record, read_all, read_head,
    read_mark, read_on,
};
use super::resume::write_unsynced_again;
use crate::error::{Error, Result};
use crate::faults::holds;
use crate::os::storage::{Disk, Storage};
use crate::units::HEADER_SIZE;
use crate::units::LINE;

/// The records of a log that may be missing in the heap's file. They stay in the log, and are read again each
/// time they are needed.
#[derive(Debug, Default)]
pub(crate) struct WalTail {
    pub(super) found: ReadLog,
    /// The log and its layout, if the heap needs it.
    pub(super) log: Option<(Arc<dyn Storage>, LogLayout)>,
}

impl WalTail {
    /// Reads the log of this heap, if the heap needs one. Otherwise checks that no foreign file has the log's
    /// name. Changes nothing.
    ///
    /// # Errors
    /// [`Error::LogMissing`], [`Error::ForeignLog`], [`Error::Corrupt`] if the log is cut off or damaged, or
    /// a record lies outside the heap, [`Error::Io`].
    pub(crate) fn read(disk: &dyn Disk, of: &WalIdentity) -> Result<WalTail> {
        let path = &disk.log_path();
        let error = |e| Error::io(format!("reading {}", path.display()), e);
        let foreign = |why: &str| Error::ForeignLog { path: path.to_owned(), why: why.to_owned() };
        if !of.in_use {
            let Some((log, head)) = open(disk, path)? else { return Ok(WalTail::default()) };
            return match head {
                Head::Nothing => Ok(WalTail::default()),
                Head::Damaged(uuid) if holds(is_part(uuid, of.uuid), true) => Ok(WalTail::default()),
                Head::Damaged(_) => Err(foreign("it belongs to another heap")),
                // A log of this heap was left by a crash: after its use ended and before it was removed, or
                // while it was made.
                // SURVIVES drop: without this check of the uuid, the nonce of another heap's log still
                // differs. If that log was never used, it is removed, and no record is lost (though its heap,
                // if it was killed before it wrote a record, then opens with `LogMissing`). The check gives
                // the right reason.
                Head::Log(layout) if !holds(layout.uuid, of.uuid) => {
                    Err(foreign("it belongs to another heap"))
                }
                Head::Log(layout) if layout.id > of.id + 1 => Err(foreign("it is newer than the heap")),
                Head::Log(layout) if is_own(&*log, layout, of).map_err(error)? => Ok(WalTail::default()),
                Head::Log(layout) if layout.id == of.id + 1 && is_unused(&*log, layout).map_err(error)? => {
                    Ok(WalTail::default())
                }
                Head::Log(_) => Err(foreign(OF_A_COPY)),
                Head::Foreign(why) => Err(foreign(why)),
            };
        }
        let (log, layout) = own_log(disk, of)?;
        let found = read_all(&*log, layout, ChecksumSeed::new(of.salt, layout)).map_err(error)?;
        // A follower does not make this check of a log that another process writes to: a segment's first line
        // may be newer than the records that were read before.
        if let Some(offset) = found.lost(layout) {
            return Err(Error::corrupt(format!(
                "the log is damaged behind byte {offset}, so synced records cannot be read; nothing was \
                 changed"
            )));
        }
        check_extent(found.extent.as_ref(), of.mapped)?;
        Ok(WalTail { found, log: Some((log, layout)) })
    }

    /// Returns whether the heap's file has everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.log.is_none() || self.found.transactions == 0
    }

    /// Returns the bytes of the heap's pages to which the records, and perhaps an incomplete transaction,
    /// store.
    pub(crate) fn bytes(&self) -> u64 {
        if self.is_empty() { 0 } else { self.found.pages.bytes() }
    }

    /// Returns the pages that the records, and perhaps an incomplete transaction, store to, in a heap of
    /// `mapped` bytes, as runs (offset, bytes) of at most `most` bytes, in order.
    pub(crate) fn runs(&self, mapped: u64, most: u64) -> impl Iterator<Item = (u64, u64)> {
        self.found.pages.runs(if self.is_empty() { 0 } else { mapped }, most)
    }

    /// Returns the segments that have the records of the tail. Segments behind its end have no record that
    /// counts.
    pub(super) fn live(&self, layout: LogLayout) -> Vec<WalSegment> {
        let ReadLog { end, segments, .. } = &self.found;
        segments.iter().filter(|segment| layout.start(segment.sequence) < *end).copied().collect()
    }

    /// Calls `visit` with each record, oldest first.
    ///
    /// # Errors
    /// Those of `visit`, those of the operating system, or an error if the log does not hold the records any
    /// more.
    pub(crate) fn each_record(&self, visit: impl FnMut(&[u64]) -> io::Result<()>) -> io::Result<()> {
        let Some((log, layout)) = &self.log else { return Ok(()) };
        let ReadLog { begin, end, segments, .. } = &self.found;
        each_record(&**log, *layout, segments, *begin..*end, visit)
    }

    /// Creates the tail of a log whose `transactions` are all in the heap's file.
    pub(crate) fn folded(transactions: u64) -> WalTail {
        WalTail { found: ReadLog { transactions, ..ReadLog::default() }, log: None }
    }

    /// Returns the number of complete transactions in the tail.
    pub(crate) fn transactions(&self) -> u64 {
        self.found.transactions
    }

    /// Makes the records of the tail durable before the heap shows them. A killed process may have left them
    /// in the page cache only.
    ///
    /// # Errors
    /// The error of the operating system.
    pub(crate) fn sync(&self) -> io::Result<()> {
        // SURVIVES unreached: no program of the crash lab opens a heap only to read it; a test of
        // `heap/open/simulated.rs` does.
        self.log.iter().filter(|_| !self.is_empty()).try_for_each(|(log, _)| log.sync())
    }

    /// Fails if the log no longer has the records that were read and then written again, or has another mark.
    /// After a failed sync, the page cache may forget at any time records that the disk has never got. The
    /// next opening would not find records that were appended behind such a gap.
    pub(super) fn check_there(&self, salt: u64) -> io::Result<()> {
        let Some((log, layout)) = &self.log else { return Ok(()) };
        let (found, seed) = (&self.found, ChecksumSeed::new(salt, *layout));
        let (mark, _) = read_mark(&**log, *layout, seed)?;
        let mut again = ReadLog::behind(found.synced.clamp(found.begin, found.end));
        read_on(&**log, *layout, seed, &mut again, &mut ())?;
        if (mark.folded, again.end) != (found.begin, found.end) {
            let why = "the log lost records that were read a moment ago, because the disk failed earlier; \
                open the heap again";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(())
    }
}

/// Fails if the records store to the heap's header, or outside the heap, which has `mapped` bytes.
pub(super) fn check_extent(extent: Option<&std::ops::Range<u64>>, mapped: u64) -> Result<()> {
    if extent.is_some_and(|extent| extent.start < HEADER_SIZE || extent.end > mapped) {
        return Err(Error::corrupt("a record of the log lies outside of the heap"));
    }
    Ok(())
}

/// Opens the file that has the name of the log, if there is such a file, and reads its head.
fn open(disk: &dyn Disk, path: &Path) -> Result<Option<(Arc<dyn Storage>, Head)>> {
    // The name may lead to something else than an ordinary file, or be a link.
    let is_none = |e: &io::Error| {
        matches!(e.raw_os_error(), Some(libc::ELOOP | libc::EISDIR | libc::ESPIPE | libc::ENXIO))
    };
    let opened = disk.open_log().and_then(|log| {
        let Some(log) = log else { return Ok(None) };
        let head = read_head(&*log)?;
        Ok(Some((log, head)))
    });
    opened.map_err(|e| {
        if is_none(&e) {
            Error::ForeignLog { path: path.to_owned(), why: "it is not a regular file".to_owned() }
        } else {
            Error::io(format!("reading {}", path.display()), e)
        }
    })
}

/// Opens the log of a heap that needs it, and checks that it is the log that the header names.
///
/// # Errors
/// [`Error::LogMissing`], [`Error::ForeignLog`], [`Error::Corrupt`] if the log is cut off, [`Error::Io`].
pub(super) fn own_log(disk: &dyn Disk, of: &WalIdentity) -> Result<(Arc<dyn Storage>, LogLayout)> {
    let path = disk.log_path();
    let foreign = |why: &str| Err(Error::ForeignLog { path: path.clone(), why: why.to_owned() });
    match open(disk, &path)? {
        None | Some((_, Head::Nothing)) => Err(Error::LogMissing { path }),
        Some((_, Head::Foreign(why))) => foreign(why),
        Some((_, Head::Damaged(_))) => foreign("its head is damaged"),
        // SURVIVES drop: without this check of the uuid, the nonce of another heap's log still differs. The
        // check gives the right reason.
        Some((_, Head::Log(layout))) if !holds(layout.uuid, of.uuid) => foreign("it belongs to another heap"),
        // SURVIVES drop: without this check of the number, the nonce of another log of this heap still
        // differs. The check gives the right reason.
        Some((_, Head::Log(layout))) if !holds(layout.id, of.id) => {
            foreign("it is an older or newer log of the same heap")
        }
        Some((log, Head::Log(layout))) => {
            let error = |e| Error::io(format!("reading {}", path.display()), e);
            let cut = cut_lengths(&*log, layout, ChecksumSeed::new(of.salt, layout));
            if let Some((len, whole)) = cut.map_err(error)? {
                return Err(Error::corrupt(format!(
                    "the log is cut off: it has {len} of at least {whole} bytes, and nothing was changed"
                )));
            }
            if is_own(&*log, layout, of).map_err(error)? { Ok((log, layout)) } else { foreign(OF_A_COPY) }
        }
    }
}

const OF_A_COPY: &str = "it is the log of a copy of the heap";

/// Returns whether a log of this heap is the one that the header names. The log may instead be that of
/// another copy of the heap, with the same number, or a copy of the heap's log from an earlier time. The run
/// tells them apart, because each opening that begins a log, or goes on with one, begins a run.
fn is_own(log: &dyn Storage, layout: LogLayout, of: &WalIdentity) -> io::Result<bool> {
    let (mark, _) = read_mark(log, layout, ChecksumSeed::new(of.salt, layout))?;
    Ok(holds([mark.run, mark.before].contains(&of.nonce), true))
}

/// Returns whether `found` may be the uuid in an unfinished head of the heap's log, of which the disk may
/// have any words.
fn is_part(found: u128, uuid: u128) -> bool {
    [0, 64].iter().all(|half| [0, (uuid >> half) as u64].contains(&((found >> half) as u64)))
}

/// Returns whether only the head of a log was ever written: a heap was about to use the log, and did not.
fn is_unused(log: &dyn Storage, layout: LogLayout) -> io::Result<bool> {
    // Before a segment's first record comes its first line. Each checkpoint that copies records writes a
    // mark, and so does each opening that goes on with the log. So in an unused log, marks and first lines
    // are zero.
    let segments = layout.segments(log)?.into_iter().map(|index| layout.file_offset(index));
    for place in MARKS.into_iter().chain(segments) {
        let mut line = [0; LINE];
        log.read_up_to(&mut line, place)?;
        if line != [0; LINE] {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Brings the records of the tail to the heap's file, durably. Doing so a second time changes nothing more.
/// `salt` is the heap's secret. `room` is the number of bytes of memory that this may take.
pub(crate) fn fold_tail(disk: &dyn Disk, leftover: &WalTail, salt: u64, room: u64) -> io::Result<()> {
    let data = disk.data();
    if let Some((log, layout)) = leftover.log.as_ref().filter(|_| !leftover.is_empty()) {
        write_unsynced_again(&**log, *layout, leftover, &leftover.live(*layout))?;
        leftover.check_there(salt)?;
        // All of a transaction must be on the disk before any part of it reaches the heap's file.
        log.sync()?;
        let mut fold = Fold::of_cold(&*data, room);
        leftover.each_record(|record| fold.add(record))?;
        fold.flush_rest()?;
    }
    data.sync()
}

/// Makes the content of a file durable, from the offset `from` on, by writing it again unchanged. A sync
/// alone does not suffice: a killed process may have left the content in the page cache only, and after a
/// failed sync the next sync finds nothing to do. Holes are written, too, because pages that were written
/// when a sync failed may be holes on the disk.
pub(crate) fn write_again(file: &dyn Storage, from: u64) -> io::Result<()> {
    let mut bytes = vec![0; file.len()?.min(1 << 20) as usize];
    let mut at = from;
    loop {
        let n = file.read_up_to(&mut bytes, at)?;
        if n == 0 {
            return file.sync();
        }
        // SURVIVES delay: the sync after the next one makes a delayed write durable. A fault shows only if
        // the power fails before that, after an earlier sync has failed.
        file.write_all(&bytes[..n], at)?;
        at += n as u64;
    }
}
