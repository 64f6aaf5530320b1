//! Files of an enormous length that are mostly holes: opening them takes no more time, memory or space than
//! their content.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use pheap::{Durability, Error, Result, Root};
use pheap_testkit::sample::*;
use pheap_testkit::*;

/// More than these tests could read, or store.
const HUGE: u64 = 8 << 40;

/// Makes a file this long, with a hole at its end.
fn stretch(path: &Path, len: u64) -> File {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
    file.set_len(len).unwrap();
    file
}

#[test]
fn zeros_without_an_end() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    stretch(&path, HUGE).write_all_at(b"data", HUGE - 4).unwrap();
    assert!(matches!(small().open(&path), Err(Error::NotAHeap { .. })));
    stretch(&path, HUGE - 4);
    let _root: Root<u64> = small().open(&path)?.root("n")?;
    assert!(fs::metadata(&path).unwrap().len() < HUGE);
    Ok(())
}

#[test]
fn a_log_without_an_end() -> Result<()> {
    let dir = tempdir();
    let (path, killed) = (dir.path().join("x"), dir.path().join("killed"));
    let heap = small().durability(Durability::Wal).open(&path)?;
    let root: Root<u64> = heap.root("n")?;
    root.txn(|tx, n| {
        tx[n] = 7;
        Ok(())
    })?;
    copy_as_killed(&path, &killed);
    fs::copy(log_of(&path), log_of(&killed)).unwrap();
    let log = stretch(&log_of(&killed), HUGE);
    let heap = small().open(&killed)?;
    assert_eq!(heap.existing_root::<u64>("n")?.read(|view, n| view[n])?, 7);
    assert!(log.metadata().unwrap().blocks() * 512 < 8 * MIB, "it has got space for what was not written");
    Ok(())
}

/// Space that is not there is not begun to be taken.
#[test]
fn a_heap_that_no_disk_has_room_for() {
    let dir = tempdir();
    let path = dir.path().join("x");
    enormous(&path);
    let before = fs::metadata(&path).unwrap().blocks();
    let opened = small().open(&path);
    assert!(matches!(opened, Err(Error::OutOfSpace { .. })), "{opened:?}");
    assert_eq!(fs::metadata(&path).unwrap().blocks(), before);
}

/// Opening a damaged heap takes no space for its file, either. (In a tmpfs it does: there, reading a hole
/// takes space.)
#[test]
fn a_damaged_heap_gets_no_space() {
    let dir = tempdir();
    let (path, copy) = (dir.path().join("x"), dir.path().join("copy"));
    let mut bytes = sample(&path);
    let region = find(&bytes, b"\x89PREGIO\n")[0];
    bytes[region + 8] ^= 1;
    let file = stretch(&copy, bytes.len() as u64);
    for (number, page) in bytes.chunks(PAGE).enumerate().filter(|(_, page)| page.iter().any(|&b| b != 0)) {
        file.write_all_at(page, (number * PAGE) as u64).unwrap();
    }
    file.sync_all().unwrap();
    let blocks = || fs::metadata(&copy).unwrap().blocks();
    let before = blocks();
    assert!(matches!(small().open(&copy), Err(Error::Corrupt { .. })));
    // SAFETY: plain data, which the call fills.
    let is_tmpfs = unsafe {
        let mut stat: libc::statfs = std::mem::zeroed();
        libc::fstatfs(std::os::fd::AsRawFd::as_raw_fd(&file), &raw mut stat) == 0
            && stat.f_type == 0x0102_1994
    };
    assert!(is_tmpfs || blocks() == before, "{} for {before}", blocks());
}
