//! The file of an open heap is removed, renamed, or replaced.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

use std::fs;
use std::path::Path;

use pheap::{Durability, Error, Heap, Options, Result, Root};
use pheap_testkit::*;

const KINDS: [Durability; 2] = [Durability::Process, Durability::Pmem];

fn is_removed<T>(result: Result<T>, path: &Path) {
    match result {
        Err(error @ Error::Removed { .. }) => {
            let text = error.to_string();
            assert!(text.contains("Heap::backup") && text.contains(&path.display().to_string()), "{text}");
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("nobody has noticed"),
    }
}

fn grow(root: &Root<u64>) -> Result<()> {
    root.txn(|tx, _| tx.alloc_slice(2 * MIB as usize / 8, |_| 1u64).map(drop))
}

fn value(options: &Options, path: &Path) -> Result<u64> {
    let heap = options.open(path)?;
    let value = heap.existing_root::<u64>("n")?.read(|view, n| view[n])?;
    heap.close()?;
    Ok(value)
}

/// Each call that waits for a disk returns an error, and the advice of its message works: no committed change
/// is lost.
#[test]
fn a_heap_whose_file_was_removed_says_so_and_is_saved() -> Result<()> {
    let remove = |path: &Path| fs::remove_file(path).unwrap();
    let replace = |path: &Path| {
        let other = path.with_extension("other");
        small().open(&other).unwrap().close().unwrap();
        fs::rename(&other, path).unwrap();
    };
    for (kind, way) in KINDS.into_iter().flat_map(|kind| ["removed", "replaced"].map(|way| (kind, way))) {
        println!("{kind:?}, {way}");
        let dir = tempdir();
        let (path, saved) = (dir.path().join("x"), dir.path().join("saved"));
        let options = small().durability(kind);
        let heap = options.open(&path)?;
        let root: Root<u64> = heap.root("n")?;
        root.txn(|tx, n| Ok(tx[n] = 1))?;
        heap.sync()?;
        heap.checkpoint()?;
        if way == "removed" {
            remove(&path)
        } else {
            replace(&path)
        }
        root.txn(|tx, n| Ok(tx[n] = 2))?;
        is_removed(heap.sync(), &path);
        is_removed(heap.checkpoint(), &path);
        is_removed(grow(&root), &path);
        // It was rolled back, and others go on.
        root.txn(|tx, n| Ok(tx[n] += 1))?;
        is_removed(heap.clone().close(), &path);
        root.txn(|tx, n| Ok(tx[n] += 1))?;
        heap.backup(&saved)?;
        if way == "removed" {
            heap.backup(&path)?; // to the same path
        }
        is_removed(heap.close(), &path);
        drop(root); // the last handle
        assert_eq!(value(&options, &saved)?, 4);
        if way == "removed" {
            assert_eq!(value(&options, &path)?, 4);
        }
    }
    Ok(())
}

/// With a log, too: no sync, checkpoint or close reports success.
#[test]
fn a_heap_with_a_log_whose_file_was_removed_is_not_synced() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = small().durability(Durability::Wal).open(&path)?;
    let root: Root<u64> = heap.root("n")?;
    fs::remove_file(&path).unwrap();
    let _ = root.txn(|tx, n| Ok(tx[n] = 2));
    assert!(heap.sync().is_err());
    assert!(heap.checkpoint().is_err());
    assert!(heap.close().is_err());
    Ok(())
}

/// The last handle says so, too, and then the heap is closed.
#[test]
fn the_last_handle_says_so() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = small().open(&path)?;
    fs::remove_file(&path).unwrap();
    is_removed(heap.close(), &path);
    small().open(&path)?.close()
}

/// Another name is as good.
#[test]
fn a_heap_that_was_renamed_is_closed() -> Result<()> {
    for kind in [Durability::Process, Durability::Pmem] {
        let dir = tempdir();
        let [path, other, link] = ["x", "y", "z"].map(|name| dir.path().join(name));
        let options = small().durability(kind);
        let fill = |heap: &Heap| -> Result<()> {
            let root: Root<u64> = heap.root("n")?;
            root.txn(|tx, n| Ok(tx[n] += 1))?;
            grow(&root)
        };
        let heap = options.open(&path)?;
        fs::rename(&path, &other).unwrap();
        fill(&heap)?;
        fs::hard_link(&other, &link).unwrap();
        fs::remove_file(&other).unwrap();
        fill(&heap)?;
        heap.sync()?;
        heap.close()?;
        assert_eq!(value(&options, &link)?, 2);
    }
    Ok(())
}

/// Readers lose nothing.
#[test]
fn a_reader_does_not_mind() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    small().open(&path)?.close()?;
    let heap = small().read_only(true).open(&path)?;
    fs::remove_file(&path).unwrap();
    heap.sync()?;
    heap.close()
}
