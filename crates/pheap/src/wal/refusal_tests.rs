//! Tests: a log that has failed or is missing, and a heap that is closed.

use std::fs;
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::log::Range;
use crate::units::HEADER_SIZE;
use crate::{Durability, Options, Root};

/// A heap with a log, in a temporary folder.
struct Setup {
    folder: tempfile::TempDir,
    heap: Heap,
}

impl Setup {
    fn new() -> Setup {
        let folder = tempfile::tempdir().unwrap();
        let heap = Setup::open(&folder);
        let root: Root<u64> = heap.root("n").unwrap();
        root.txn(|tx, n| {
            tx[n] = 7;
            Ok(())
        })
        .unwrap();
        Setup { folder, heap }
    }

    fn open(folder: &tempfile::TempDir) -> Heap {
        let options = Options::new().durability(Durability::Wal).arena_size(1 << 20).reserve(1 << 30);
        options.log_limit(1 << 20).open(folder.path().join("heap")).unwrap()
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("heap.wal")
    }

    /// Makes a checkpoint, and returns the first `words` words behind the header in the heap's file.
    fn saved(&self, words: usize) -> Vec<u64> {
        self.heap.checkpoint().unwrap();
        let file = fs::read(self.folder.path().join("heap")).unwrap();
        let (bytes, _) = file[HEADER_SIZE as usize..].as_chunks();
        bytes[..words].iter().map(|&bytes| u64::from_ne_bytes(bytes)).collect()
    }

    /// Records words as metadata.
    fn record_metadata(&self, words: &[u64]) -> Result<()> {
        let range = Range { offset: HEADER_SIZE, words };
        self.heap.inner().wal().unwrap().append(words.len() + 1, std::iter::once(range), true).map(drop)
    }
}

/// Metadata cannot be recorded, because another file has the log's name. Closing the heap still saves the
/// acknowledged commits.
#[test]
fn a_misplaced_log_is_no_broken_disk_when_metadata_find_it_full() {
    let setup = Setup::new();
    // The log has to grow for so many words.
    let words = setup.saved(20_000);
    let other = setup.folder.path().join("other");
    fs::write(&other, b"precious").unwrap();
    fs::rename(&other, setup.log()).unwrap();
    let recorded = setup.record_metadata(&words);
    assert!(matches!(recorded, Err(Error::Misplaced { .. })), "{recorded:?}");
    let log = setup.log();
    let Setup { folder, heap } = setup;
    heap.close().unwrap();
    fs::remove_file(log).unwrap();
    let root: Root<u64> = Setup::open(&folder).root("n").unwrap();
    assert_eq!(root.read(|view, n| view[n]).unwrap(), 7);
}

/// A thread makes a checkpoint while another one has begun to close the heap, whose log is misplaced. Closing
/// gets over that. But until the heap is closed, a crash would lose the commits that the checkpoint should
/// keep, so the checkpoint fails.
#[test]
fn who_makes_a_checkpoint_beside_a_close_is_told_of_a_misplaced_log() {
    let setup = Setup::new();
    let other = setup.folder.path().join("other");
    fs::write(&other, b"precious").unwrap();
    fs::rename(&other, setup.log()).unwrap();
    setup.heap.inner().wal().unwrap().begin_to_close();
    let made = setup.heap.checkpoint();
    assert!(matches!(made, Err(Error::Misplaced { .. })), "{made:?}");
    setup.heap.close().unwrap();
    assert_eq!(fs::read(setup.folder.path().join("heap.wal")).unwrap(), b"precious");
}

/// A thread that is about to sync has seen that the heap is open. The syncing thread goes on after another
/// thread has closed the heap and removed the log.
#[test]
fn who_comes_too_late_makes_no_log() {
    let setup = Setup::new();
    let wal = setup.heap.inner().wal().unwrap().clone();
    let log = setup.log();
    setup.heap.close().unwrap();
    assert!(!log.exists());
    wal.sync().unwrap();
    wal.checkpoint(|| {}).unwrap();
    assert!(!log.exists(), "nobody will need it");
}
