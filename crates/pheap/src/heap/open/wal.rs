//! Opening and closing a heap with a write-ahead log.
//!
//! Such a heap is always opened from a file that is complete, closed, and where it is to be mapped. What a crash has left in a log is brought to
//! the file [first](settle), whatever the heap is opened as; logs of regions (of a heap that was in use as another one) are replayed, and pointers
//! moved, [in the file](prepare), which each fence syncs. Only then a new log is made, and the header says that it counts.

use std::io;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::heap::open::builder::Builder;
use crate::heap::open::place::Place;
use crate::heap::options::Options;
use crate::media::{Medium, SyncedFile};
use crate::os::mapping::{Backing, Mapping};
use crate::os::storage::Disk;
use crate::store::header::{Header, SLOT_SIZE, Use};
use crate::store::relocate;
use crate::units::HEADER_SIZE;
use crate::units::PAGE;
use crate::wal::{Settings, Wal, WalTail, fold_tail, write_again};

/// Brings what a crash has left in the log to the heap's file, and marks that as closed. A log that the heap does not need is left to the caller, who
/// may [retire](retire_old_log) it then: the heap is good.
pub(super) fn settle(
    place: &Place<'_>,
    header: Header,
    disk: &Arc<dyn Disk>,
    leftover: &WalTail,
) -> Result<Header> {
    let needs_log = header.in_use == Use::Wal;
    if !needs_log && disk.open_log().is_ok_and(|log| log.is_none()) {
        return Ok(header);
    }
    // Before anything changes: is this a good heap?
    let mapping = relocate::reserve(None, &header, Backing::Private { file: place.file.clone() })?;
    drop(Builder::existing(mapping, Medium::Process, header.clone(), leftover)?);
    if needs_log { settle_checked(header, &**disk, leftover) } else { Ok(header) }
}

/// [`settle`], of a heap that was found good.
pub(super) fn settle_checked(mut header: Header, disk: &dyn Disk, leftover: &WalTail) -> Result<Header> {
    let settled = write_header_again(disk, &header).and_then(|()| fold_tail(disk, leftover)).and_then(|()| {
        header.in_use = Use::Closed;
        header.live_slots = (0, 0);
        write_header(&mut header, disk)
    });
    settled.map_err(|e| Error::io("bringing the log to the heap's file", e))?;
    Ok(header)
}

/// Writes both slots: if one is damaged later, the other must not say that there is a log.
fn write_header(header: &mut Header, disk: &dyn Disk) -> io::Result<()> {
    for _ in 0..2 {
        header.sequence += 1;
        disk.data().write_all(&header.to_bytes(), header.slot() as u64 * PAGE)?;
        disk.data().sync()?; // one at a time, for a disk may tear what it writes
    }
    Ok(())
}

/// Removes a log that the header says is not needed any more.
pub(super) fn retire_old_log(header: &mut Header, disk: &dyn Disk) -> Result<()> {
    if disk.open_log().is_ok_and(|log| log.is_some()) {
        make_durable(disk, header, false)?;
        // Both slots: should one be damaged later, the other must not say that there is a log.
        write_header(header, disk).map_err(|e| Error::io("writing the header", e))?;
    }
    remove_old_log(disk)
}

/// Removes a log that no heap needs.
pub(super) fn remove_old_log(disk: &dyn Disk) -> Result<()> {
    let removed = disk.open_log().and_then(|log| log.map_or(Ok(()), |log| disk.remove_log(&*log)));
    removed.map_err(|e| Error::io(format!("removing the old log {}", disk.log_path().display()), e))
}

/// Makes a heap in an empty file, and closes it.
pub(super) fn create(mapping: Mapping, synced: SyncedFile, header: Header) -> Result<Header> {
    close(Builder::new(mapping, Medium::Synced(Arc::new(synced)), header)?)
}

/// Makes durable what was read of the heap's file: the newest header, or the `whole` of it. A process that was killed may have left it to the kernel; and if a sync has failed,
/// the page cache may say what the disk has in part only, and the next sync finds nothing to do. So it is written once more, as it is. While the next header is written, a disk that
/// tears sectors must have one that is whole.
///
/// The whole file, if it was changed in place and not closed: pointers that the page cache has moved, and logs and entries that it has emptied, are not looked at again, and
/// a header that is written next would rely on them.
fn make_durable(disk: &dyn Disk, header: &Header, whole: bool) -> Result<()> {
    let data = disk.data();
    let durable = write_header_again(disk, header).and_then(|()| {
        if whole && !bug(Bug::TrustPageCache) { write_again(&*data, HEADER_SIZE) } else { data.sync() }
    });
    durable.map_err(|e| Error::io("syncing the heap's file", e))
}

/// Writes the header that was read as it is, for the next sync.
fn write_header_again(disk: &dyn Disk, header: &Header) -> io::Result<()> {
    let (data, at) = (disk.data(), header.slot() as u64 * PAGE);
    let mut bytes = [0; SLOT_SIZE];
    let len = data.read_up_to(&mut bytes, at)?;
    data.write_all(&bytes[..len], at)
}

/// Makes a heap durable that is going to be used without a log, in a file that a sync of may have failed; all of it if that was when it was [prepared](prepare). (A file `in_memory`
/// outlives no power failure.)
pub(super) fn make_durable_to_map(disk: &dyn Disk, header: &Header, in_memory: bool) -> Result<()> {
    if bug(Bug::TrustHeader) {
        return Ok(());
    }
    make_durable(disk, header, header.in_use == Use::Prepared && !in_memory)
}

/// Makes a heap durable that is going to be [prepared](prepare).
pub(super) fn make_durable_to_prepare(disk: &dyn Disk, header: &Header) -> Result<()> {
    make_durable(disk, header, header.in_use != Use::Closed)
}

/// Replays the logs of regions and moves pointers, in the file, and closes the heap.
fn prepare(place: &Place<'_>, header: Header, disk: &dyn Disk) -> Result<Header> {
    make_durable_to_prepare(disk, &header)?;
    let medium = Medium::Synced(Arc::new(SyncedFile::new(disk.data())));
    close(place.open(medium, false, header)?)
}

/// Ends the use of a heap that was opened for this. It is complete, but for its header, which goes on to say that the heap is in use as it was here: a crash before the
/// one that names the log leaves a heap that is prepared again.
pub(super) fn close(builder: Builder) -> Result<Header> {
    Ok(Header { in_use: Use::Closed, ..builder.into_header()? })
}

/// Opens a heap whose log is settled.
pub(super) fn open(
    options: &Options,
    place: &Place<'_>,
    mut header: Header,
    disk: &Arc<dyn Disk>,
) -> Result<Builder> {
    let mut base = place.base;
    loop {
        let backing = Backing::Logged { file: place.file.clone(), path: place.path.to_owned() };
        let mapping = relocate::reserve(base, &header, backing)?;
        let at = mapping.base().addr() as u64;
        if header.in_use == Use::Closed && header.bases == [at] {
            tracing::info!(path = %place.path.display(), medium = "Wal", "opened a heap");
            return open_at(options, mapping, header, disk);
        }
        drop(mapping);
        header = prepare(&Place { base: Some(at), ..*place }, header, &**disk)?;
        base = place.base;
    }
}

/// Opens a closed heap where it is mapped.
pub(super) fn open_at(
    options: &Options,
    mapping: Mapping,
    mut header: Header,
    disk: &Arc<dyn Disk>,
) -> Result<Builder> {
    let settings = Settings {
        policy: options.sync_policy,
        log_limit: options.log_limit,
        memory_limit: options.memory_limit,
    };
    make_durable(&**disk, &header, false)?;
    retire_old_log(&mut header, &**disk)?;
    let wal = Wal::create(disk.clone(), header.wal_identity(), settings)?;
    wal.set_base(mapping.base().addr());
    let opened = Builder::existing(mapping, Medium::Wal(wal.clone()), header, &WalTail::default());
    if let Some(error) = wal.failure() {
        return Err(error); // the header may say by now that the log counts
    }
    opened.inspect_err(|_| wal.remove())
}

const _: () = assert!(HEADER_SIZE == 2 * PAGE);
