//! Logs that are missing, or belong to other heaps.

use crate::report::Said;
use std::path::Path;
use std::sync::Arc;

use pheap::sim::disk::{DiskImage, SimDisk};
use pheap::{Durability, Error, Heap, Options, Root};

use super::{Start, opened, record, set_x};
use crate::program::Setting;
use crate::run::options;
use crate::tuning::SMALL;

/// The bytes of two files.
type HeapAndLog = (Vec<u8>, Vec<u8>);

/// Returns the files of two heaps that are open, as a crash of the process leaves them, and those of the
/// first heap after it was closed and opened again.
pub(super) fn files() -> Result<Vec<HeapAndLog>, String> {
    let folder = pheap_testkit::tempdir();
    let mut made = Vec::new();
    for name in ["one", "two", "one"] {
        let path = folder.path().join(name);
        let heap = file_options().open(&path).said()?;
        let root: Root<u64> = heap.root("n").said()?;
        add_one(&root)?;
        let read = |path: &Path| std::fs::read(path).said();
        made.push((read(&path)?, read(&folder.path().join(format!("{name}.wal")))?));
    }
    Ok(made)
}

fn file_options() -> Options {
    Options::new()
        .tuning(SMALL)
        .arena_size(64 << 10)
        .reserve(16 << 20)
        .durability(Durability::Wal)
        .log_limit(1 << 20)
        .collect_threads(1)
}

fn add_one(root: &Root<u64>) -> Result<(), String> {
    root.txn(|tx, p| {
        tx[p] += 1;
        Ok(())
    })
    .said()
}

pub(super) fn foreign_log(files: &[(Vec<u8>, Vec<u8>)]) -> Result<(), String> {
    let [one, two, again] = files else { return Err("three heaps are needed".to_owned()) };
    let open = |data: &[u8], log: Option<Vec<u8>>| -> (Arc<SimDisk>, pheap::Result<Heap>) {
        let disk = Arc::new(SimDisk::new(DiskImage { data: data.to_vec(), log }));
        let heap = file_options().simulate_disk(&disk);
        (disk, heap)
    };
    let must_be_refused = |what: &str, (_, result): (Arc<SimDisk>, pheap::Result<Heap>)| match result {
        Err(Error::ForeignLog { .. }) => Ok(()),
        Err(error) => Err(format!("{what}: opening says {error}")),
        Ok(_) => Err(format!("{what}: nobody notices")),
    };
    let damaged = |log: &[u8]| {
        let mut log = log.to_vec();
        log[40] ^= 1;
        Some(log)
    };
    must_be_refused("the log of another heap", open(&one.0, Some(two.1.clone())))?;
    must_be_refused("an older log", open(&again.0, Some(one.1.clone())))?;
    // Closes the heap that was not closed.
    let (disk, heap) = open(&one.0, Some(one.1.clone()));
    heap.and_then(|heap| heap.close()).map_err(|error| format!("with its own log: {error}"))?;
    let closed = disk.view();
    if closed.log.is_some() {
        return Err("a heap that was closed has a log".to_owned());
    }
    must_be_refused("closed, with the log of another heap", open(&closed.data, Some(two.1.clone())))?;
    must_be_refused("closed, with the damaged log of another heap", open(&closed.data, damaged(&two.1)))?;
    let (_, heap) = open(&closed.data, damaged(&one.1));
    let heap = heap.map_err(|error| format!("closed, with a damaged log of its own: {error}"))?;
    let root: Root<u64> = heap.root("n").said()?;
    match root.read(|view, p| view[p]) {
        Ok(1) => Ok(()),
        other => Err(format!("closed, with a damaged log of its own, the heap holds {other:?}, not 1")),
    }
}

/// Uses two copies of a heap. Each gets a write-ahead log, and both logs have the same number, because both
/// copies count their logs on from the same header. Opening must refuse the first copy's log for the second
/// copy, and for a copy that is closed, and accept each copy's own log.
pub(super) fn twins(start: Start) -> Result<(), String> {
    let closed = start.content.image();
    let in_use = |copy: u32| {
        let disk = Arc::new(SimDisk::new(closed.clone()));
        disk.set_copy(copy);
        let heap = opened(&disk)?; // open until its files have been read
        set_x(&record(&heap, "a")?, copy.into()).said()?;
        Ok::<DiskImage, String>(disk.view())
    };
    let (one, two) = (in_use(1)?, in_use(2)?);
    for (what, data) in [("another copy", &two.data), ("a copy that is closed", &closed.data)] {
        let disk = Arc::new(SimDisk::new(DiskImage { data: data.clone(), log: one.log.clone() }));
        match options(Setting::default(), None).simulate_disk(&disk) {
            Err(Error::ForeignLog { .. }) if disk.view().log == one.log => {}
            Err(error) => return Err(format!("{what}: opening says {error}, or the log has changed")),
            Ok(_) => return Err(format!("{what}: nobody notices")),
        }
    }
    for (image, expected) in [(one, 1), (two, 2)] {
        let heap = opened(&Arc::new(SimDisk::new(image)))?;
        let found = record(&heap, "a")?.read(|view, p| view[p].x).said()?;
        if found != expected {
            return Err(format!("with its own log, a copy holds {found}, not {expected}"));
        }
    }
    Ok(())
}

/// Removes the log of an open heap. The next commit is then not acknowledged. Closing the heap saves its
/// changes.
pub(super) fn log_removed(start: Start) -> Result<(), String> {
    let disk = Arc::new(SimDisk::new(start.content.image()));
    let heap = opened(&disk)?;
    let root = record(&heap, "a")?;
    set_x(&root, 5).said()?;
    disk.set_log(None);
    match set_x(&root, 6) {
        Err(Error::OutcomeUnknown { .. }) => {}
        other => return Err(format!("a commit that nobody would find: {other:?}")),
    }
    drop(root);
    heap.close().map_err(|error| format!("without its log, closing fails: {error}"))?;
    let heap = opened(&Arc::new(SimDisk::new(disk.durable())))?;
    match record(&heap, "a")?.read(|view, p| view[p].x) {
        Ok(6) => Ok(()),
        other => Err(format!("closed without its log, the heap holds {other:?}, not 6")),
    }
}
