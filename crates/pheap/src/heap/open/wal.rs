//! What a write-ahead log needs of the heap's file before it is opened again, whatever that is opened as.

use std::io;

use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::os::storage::{Disk, Storage};
use crate::store::header::{Header, SLOT_SIZE, Use, is_torn};
use crate::units::{HEADER_SIZE, PAGE};
use crate::wal::{WalTail, fold_tail, write_again};

/// Brings what a crash has left in the log to the heap's file, and marks that as closed. The log is left to the caller, who may [retire](retire_old_log) it then.
/// `room` is how many bytes of memory that may take.
pub(super) fn settle(header: &mut Header, disk: &dyn Disk, tail: &WalTail, room: u64) -> Result<()> {
    let salt = header.salt;
    let close = |header: &mut Header| {
        header.in_use = Use::Closed;
        header.live_slots = (0, 0);
        write_header(header, disk)
    };
    let settled = if bug(Bug::CloseBeforeFold) {
        close(header).and_then(|()| fold_tail(disk, tail, salt, room))
    } else {
        write_header_again(&*disk.data(), header.slot())
            .and_then(|()| fold_tail(disk, tail, salt, room))
            .and_then(|()| close(header))
    };
    settled.map_err(|e| Error::writing("bringing the log to the heap's file", e))
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
        write_header(header, disk).map_err(|e| Error::writing("writing the header", e))?;
    }
    remove_old_log(disk)
}

/// Removes a log that no heap needs.
pub(super) fn remove_old_log(disk: &dyn Disk) -> Result<()> {
    let removed = disk.open_log().and_then(|log| log.map_or(Ok(()), |log| disk.remove_log(&*log)));
    removed.map_err(|e| Error::io(format!("removing the old log {}", disk.log_path().display()), e))
}

/// Makes durable what was read of the heap's file: the newest header, or the `whole` of it. A process that was killed may have left it to the kernel; and if a sync has failed,
/// the page cache may say what the disk has in part only, and the next sync finds nothing to do. So it is written once more, as it is. While the next header is written, a disk that
/// tears sectors must have one that is whole.
///
/// The whole file, if it was changed in place and not closed: pointers that the page cache has moved, and logs and entries that it has emptied, are not looked at again, and
/// a header that is written next would rely on them.
pub(super) fn make_durable(disk: &dyn Disk, header: &Header, whole: bool) -> Result<()> {
    let data = disk.data();
    let durable = write_header_again(&*data, header.slot()).and_then(|()| {
        if whole && !bug(Bug::TrustPageCache) { write_again(&*data, HEADER_SIZE) } else { data.sync() }
    });
    durable.map_err(|e| Error::writing("syncing the heap's file", e))
}

/// Writes the header that was read, in this slot, as it is, for the next sync. If the other slot is torn, it is erased: the next header goes there, and should that be torn, too, the one and what is left of the other could be a header
/// together, which was the first one's. That may name what nobody knows of any more.
fn write_header_again(data: &dyn Storage, slot: usize) -> io::Result<()> {
    let at = slot as u64 * PAGE;
    let mut bytes = [0; SLOT_SIZE];
    let len = data.read_up_to(&mut bytes, at)?;
    data.write_all(&bytes[..len], at)?;
    let other = PAGE - at;
    let len = data.read_up_to(&mut bytes, other)?;
    if is_torn(&bytes[..len]) {
        // SURVIVES drop: which words of two headers make one depends on random numbers in them; there is a test below. SURVIVES delay: as above.
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
