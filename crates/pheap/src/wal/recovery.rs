//! What a crash has left in the log of a heap that is about to be opened.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::WalIdentity;
use super::fold::Fold;
use super::format::{
    Found, Head, Layout, MARKS, Seed, Segment, each_record, read_all, read_head, read_mark, read_on,
};
use super::resume::write_unsynced_again;
use crate::error::{Error, Result};
use crate::faults::holds;
use crate::os::storage::{Disk, Storage};
use crate::units::HEADER_SIZE;
use crate::units::LINE;

/// The records of a log that are not in the heap's file yet, or not for sure. They stay in the log, and are read once more
/// where they are needed.
#[derive(Debug, Default)]
pub(crate) struct WalTail {
    pub(super) found: Found,
    /// Where they are, if the heap needs them.
    pub(super) log: Option<(Arc<dyn Storage>, Layout)>,
}

impl WalTail {
    /// Reads the log of this heap, if it needs one. Changes nothing.
    ///
    /// # Errors
    /// [`Error::LogMissing`], [`Error::ForeignLog`], [`Error::Corrupt`] if it cannot be replayed, [`Error::Io`].
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
                // Left by a crash between the end of its use and its removal, or while it was made.
                // SURVIVES drop: it is not the heap's own by its nonce, either, and one that was never used has nothing to lose (though the heap that was killed before it wrote
                // anything to it would say that it is missing). This is to say what it is.
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
        let found = read_all(&*log, layout, Seed::new(of.salt, layout)).map_err(error)?;
        check_extent(found.extent.as_ref(), of.mapped)?;
        Ok(WalTail { found, log: Some((log, layout)) })
    }

    /// Whether the heap's file has everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.log.is_none() || self.found.transactions == 0
    }

    /// Bytes of the pages that the records store to.
    pub(crate) fn bytes(&self) -> u64 {
        if self.is_empty() { 0 } else { self.found.pages.bytes() }
    }

    /// These pages, of a heap of `mapped` bytes: runs (offset, bytes) of at most `most` bytes, in order.
    pub(crate) fn runs(&self, mapped: u64, most: u64) -> impl Iterator<Item = (u64, u64)> {
        self.found.pages.runs(if self.is_empty() { 0 } else { mapped }, most)
    }

    /// The segments that have them. Those behind the end have nothing that counts.
    pub(super) fn live(&self, layout: Layout) -> Vec<Segment> {
        let Found { end, segments, .. } = &self.found;
        segments.iter().filter(|segment| layout.start(segment.sequence) < *end).copied().collect()
    }

    /// Calls `visit` with each record, oldest first.
    ///
    /// # Errors
    /// Those of `visit`, those of the operating system, or that the log does not hold any more what was found there.
    pub(crate) fn each_record(&self, visit: impl FnMut(&[u64]) -> io::Result<()>) -> io::Result<()> {
        let Some((log, layout)) = &self.log else { return Ok(()) };
        let Found { begin, end, segments, .. } = &self.found;
        each_record(&**log, *layout, segments, *begin..*end, visit)
    }

    /// The tail of a log whose `transactions` are all in the heap's file.
    pub(crate) fn folded(transactions: u64) -> WalTail {
        WalTail { found: Found { transactions, ..Found::default() }, log: None }
    }

    /// Number of transactions.
    pub(crate) fn transactions(&self) -> u64 {
        self.found.transactions
    }

    /// Makes durable what was read, for it is going to be shown: a process that was killed may have left it in the page cache only.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn sync(&self) -> io::Result<()> {
        // SURVIVES unreached: programs of the lab open no heap only to read it; a test of `heap/open/simulated.rs` does.
        self.log.iter().filter(|_| !self.is_empty()).try_for_each(|(log, _)| log.sync())
    }

    /// Fails if the log does not say any more what was read of it, and written again since: after a sync has failed, the page cache may forget at any time what the disk has never got. Who
    /// relied on it would append behind records that nobody finds.
    pub(super) fn check_there(&self, salt: u64) -> io::Result<()> {
        let Some((log, layout)) = &self.log else { return Ok(()) };
        let (found, seed) = (&self.found, Seed::new(salt, *layout));
        let (mark, _) = read_mark(&**log, *layout, seed)?;
        let mut again = Found::behind(found.synced.clamp(found.begin, found.end));
        read_on(&**log, *layout, seed, &mut again, &mut ())?;
        if (mark.folded, again.end) != (found.begin, found.end) {
            let why = "what was read there a moment ago is gone, for the disk has failed before; open the heap again";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(())
    }
}

/// Fails if the records store to bytes outside of the heap, which has `mapped` bytes.
pub(super) fn check_extent(extent: Option<&std::ops::Range<u64>>, mapped: u64) -> Result<()> {
    if extent.is_some_and(|extent| extent.start < HEADER_SIZE || extent.end > mapped) {
        return Err(Error::corrupt("a record of the log lies outside of the heap"));
    }
    Ok(())
}

/// What has the name of the log, if anything has, and what its beginning says.
fn open(disk: &dyn Disk, path: &Path) -> Result<Option<(Arc<dyn Storage>, Head)>> {
    // Not a file at all, or a link to one, perhaps.
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
            Error::ForeignLog { path: path.to_owned(), why: "it is no ordinary file".to_owned() }
        } else {
            Error::io(format!("reading {}", path.display()), e)
        }
    })
}

/// The log of this heap, which needs it.
///
/// # Errors
/// [`Error::LogMissing`], [`Error::ForeignLog`], [`Error::Io`].
pub(super) fn own_log(disk: &dyn Disk, of: &WalIdentity) -> Result<(Arc<dyn Storage>, Layout)> {
    let path = disk.log_path();
    let foreign = |why: &str| Err(Error::ForeignLog { path: path.clone(), why: why.to_owned() });
    match open(disk, &path)? {
        None | Some((_, Head::Nothing)) => Err(Error::LogMissing { path }),
        Some((_, Head::Foreign(why))) => foreign(why),
        Some((_, Head::Damaged(_))) => foreign("its head is damaged"),
        // SURVIVES drop: its nonce is not the header's, either. This is to say what it is.
        Some((_, Head::Log(layout))) if !holds(layout.uuid, of.uuid) => foreign("it belongs to another heap"),
        // SURVIVES drop: as for another heap's.
        Some((_, Head::Log(layout))) if !holds(layout.id, of.id) => {
            foreign("it is an older or newer one of the same heap")
        }
        Some((log, Head::Log(layout))) => {
            let is_own = is_own(&*log, layout, of);
            if is_own.map_err(|e| Error::io(format!("reading {}", path.display()), e))? {
                Ok((log, layout))
            } else {
                foreign(OF_A_COPY)
            }
        }
    }
}

const OF_A_COPY: &str = "it is that of a copy of the heap";

/// Whether a log with the right number is the one that the header names, and not one that another copy of the heap has counted alike, nor a copy from an earlier time: each opening
/// begins a run.
fn is_own(log: &dyn Storage, layout: Layout, of: &WalIdentity) -> io::Result<bool> {
    let (mark, _) = read_mark(log, layout, Seed::new(of.salt, layout))?;
    Ok(holds([mark.run, mark.before].contains(&of.nonce), true))
}

/// Whether this is what a head that was never completed may say of a uuid: a disk has any words of it.
fn is_part(found: u128, uuid: u128) -> bool {
    [0, 64].iter().all(|half| [0, (uuid >> half) as u64].contains(&((found >> half) as u64)))
}

/// Whether nothing was ever written to a log but its head: a heap that was going to use it did not come to that.
fn is_unused(log: &dyn Storage, layout: Layout) -> io::Result<bool> {
    // A record begins a segment, and a checkpoint has seen one.
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

/// Brings what a crash has left in the log to the heap's file, durably. Doing so twice changes nothing more.
/// `salt` is the heap's. `room` is how many bytes of memory this may take.
pub(crate) fn fold_tail(disk: &dyn Disk, leftover: &WalTail, salt: u64, room: u64) -> io::Result<()> {
    let data = disk.data();
    if let Some((log, layout)) = leftover.log.as_ref().filter(|_| !leftover.is_empty()) {
        write_unsynced_again(&**log, *layout, leftover, &leftover.live(*layout))?;
        leftover.check_there(salt)?;
        // A part of a record must not reach the heap's file before all of it is on the disk.
        log.sync()?;
        let mut fold = Fold::of_cold(&*data, room);
        leftover.each_record(|record| fold.add(record))?;
        fold.finish()?;
    }
    data.sync()
}

/// Makes durable what was read of the heap's file, from here on: it is written once more, as it is. It may be in the page
/// cache only: a process that was killed has not synced it; and if a sync has failed, the next one finds nothing to do.
/// Holes are written, too: pages that were written when a sync failed may be holes on the disk.
pub(crate) fn write_again(file: &dyn Storage, from: u64) -> io::Result<()> {
    let mut bytes = vec![0; file.len()?.min(1 << 20) as usize];
    let mut at = from;
    loop {
        let n = file.read_up_to(&mut bytes, at)?;
        if n == 0 {
            return file.sync();
        }
        // SURVIVES delay: the next sync makes it durable, which is that of what is written next. The power would have to go before that, when a sync had failed before.
        file.write_all(&bytes[..n], at)?;
        at += n as u64;
    }
}
