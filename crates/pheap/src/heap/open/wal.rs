//! Settles or removes an old write-ahead log, and makes the heap's file durable, before an opening with any
//! durability goes on.

use std::io;

use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::os::storage::{Disk, Storage};
use crate::store::header::{Header, HeapUse, SLOT_SIZE, is_torn};
use crate::units::{HEADER_SIZE, PAGE};
use crate::wal::{WalTail, fold_tail, write_again};

/// Brings the records that a crash has left in the log to the heap's file, and marks the heap as closed. The
/// log stays; the caller may [retire](retire_old_log) it afterwards. `room` is the number of bytes of memory
/// that this function may take.
pub(super) fn settle(header: &mut Header, disk: &dyn Disk, tail: &WalTail, room: u64) -> Result<()> {
    let salt = header.salt;
    let close = |header: &mut Header| {
        header.in_use = HeapUse::Closed;
        header.live_slots = (0, 0);
        write_header(header, disk)
    };
    let settled = if bug(Bug::CloseBeforeFold) {
        close(header).and_then(|()| fold_tail(disk, tail, salt, room))
    } else {
        write_header_again(&*disk.data(), header.slot_number())
            .and_then(|()| fold_tail(disk, tail, salt, room))
            .and_then(|()| close(header))
    };
    settled.map_err(|e| Error::writing("bringing the log to the heap's file", e))
}

/// Writes the header to both slots, with the next two sequence numbers, and syncs each. If one slot is
/// damaged later, the other must not say that there is a log.
fn write_header(header: &mut Header, disk: &dyn Disk) -> io::Result<()> {
    for _ in 0..2 {
        header.sequence += 1;
        disk.data().write_all(&header.to_bytes(), header.slot_number() as u64 * PAGE)?;
        disk.data().sync()?; // one slot at a time, because a disk may tear the slot that is being written
    }
    Ok(())
}

/// Removes the log of a heap whose `header` says that the heap needs no log, after both slots in the file say
/// so.
pub(super) fn retire_old_log(header: &mut Header, disk: &dyn Disk) -> Result<()> {
    if disk.open_log().is_ok_and(|log| log.is_some()) {
        make_durable(disk, header, false)?;
        // Write both slots: if one is damaged later, the other must not say that there is a log.
        write_header(header, disk).map_err(|e| Error::writing("writing the header", e))?;
    }
    remove_old_log(disk)
}

/// Removes the file that has the name of the heap's log, if there is one. No heap needs that log.
pub(super) fn remove_old_log(disk: &dyn Disk) -> Result<()> {
    let removed = disk.open_log().and_then(|log| log.map_or(Ok(()), |log| disk.remove_log(&*log)));
    removed.map_err(|e| Error::io(format!("removing the old log {}", disk.log_path().display()), e))
}

/// Makes durable what was read of the heap's file: the newest header, or the `whole` file. A killed process
/// may have left its writes in the page cache. And if a sync has failed, the page cache may have data that
/// the disk has only in part, and the next sync finds nothing to do. So the data are rewritten, unchanged.
/// While the next header is written, a disk that tears sectors must have one whole header.
///
/// The whole file is rewritten if it was changed in place and not closed: recovery does not look again at
/// pointers that are already swizzled, or at logs and span-table entries that are already emptied, even if
/// only the page cache has these changes. The next header would rely on them.
pub(super) fn make_durable(disk: &dyn Disk, header: &Header, whole: bool) -> Result<()> {
    let data = disk.data();
    let durable = write_header_again(&*data, header.slot_number()).and_then(|()| {
        if whole && !bug(Bug::TrustPageCache) { write_again(&*data, HEADER_SIZE) } else { data.sync() }
    });
    durable.map_err(|e| Error::writing("syncing the heap's file", e))
}

/// Rewrites the header in the slot number `slot` unchanged, so that the next sync covers it. If the other
/// slot is torn, it is erased, because the next header goes there. If the write of that header was torn, too,
/// its written part and the rest of the older torn header could together be a valid header: the older one,
/// which may name a log run that no mark names any more.
fn write_header_again(data: &dyn Storage, slot: usize) -> io::Result<()> {
    let at = slot as u64 * PAGE;
    let mut bytes = [0; SLOT_SIZE];
    let len = data.read_up_to(&mut bytes, at)?;
    data.write_all(&bytes[..len], at)?;
    let other = PAGE - at;
    let len = data.read_up_to(&mut bytes, other)?;
    if is_torn(&bytes[..len]) {
        // SURVIVES drop: a torn header that stays here does harm only if the next one is torn, too, and words
        // of both make a valid header. Whether they can depends on random numbers in them; there is a test
        // below.
        // SURVIVES delay: words of two torn headers would have to make a valid one. Whether they can depends
        // on random numbers in them.
        data.write_all(&[0; SLOT_SIZE][..len], other)?;
    }
    Ok(())
}

const _: () = assert!(HEADER_SIZE == 2 * PAGE);

#[cfg(all(test, not(pheap_loom)))]
mod tests {
    use super::*;
    use crate::store::header::tests::header;
    use crate::wal::tests::InMemory;

    #[test]
    fn what_a_torn_write_has_left_of_the_other_slot_is_erased() {
        let [whole, other] = [4, 5].map(|sequence| header(sequence).to_bytes());
        let mut torn = other.clone();
        torn[16..24].fill(0);
        for slot in [0, 1] {
            for (there, stays) in [(&other, true), (&torn, false)] {
                let file = InMemory::default();
                let place = |slot: usize| slot as u64 * PAGE;
                let data: &dyn Storage = &file;
                data.write_all(&whole, place(slot)).unwrap();
                data.write_all(there, place(1 - slot)).unwrap();
                write_header_again(data, slot).unwrap();
                let read = |slot| {
                    let mut bytes = [1; SLOT_SIZE];
                    assert_eq!(data.read_up_to(&mut bytes, place(slot)).unwrap(), SLOT_SIZE);
                    bytes
                };
                assert_eq!(read(slot)[..], whole);
                assert_eq!(read(1 - slot)[..], if stays { other.clone() } else { vec![0; SLOT_SIZE] });
            }
        }
    }
}
