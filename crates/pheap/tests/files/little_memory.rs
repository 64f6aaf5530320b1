//! Opening a heap that was killed, with less memory than all pages take to which its log stores.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pheap::{Durability, Error, Heap, Options, P, Persist, Result, Root};
use pheap_testkit::*;

const PAGES: usize = 4096;
/// Words of a page.
const WORDS: usize = 512;
/// An eighth of what the pages take.
const LITTLE: u64 = 2 << 20;

#[derive(Persist, Default)]
#[repr(C)]
struct Data<'r> {
    items: Option<P<'r, [u64]>>,
    rounds: u64,
}

fn wal() -> Options {
    small().durability(Durability::Wal).log_limit(64 << 20)
}

/// Changes a word in each page, in transactions of 64 pages.
fn round(root: &Root<Data>) -> Result<()> {
    for first in (0..PAGES).step_by(64) {
        root.txn(|tx, d| {
            let items = tx[d].items.unwrap();
            (first..first + 64).for_each(|page| {
                let element = items.at(tx, page * WORDS);
                tx[element] += 1
            });
            Ok(if first == 0 {
                tx[d].rounds += 1
            })
        })?;
    }
    Ok(())
}

/// Leaves a heap whose log has two rounds, and a transaction that has not ended.
fn killed(path: &Path) -> Result<()> {
    let heap = wal().memory_limit(1 << 30).open(path)?;
    let root: Root<Data> = heap.root("data")?;
    root.txn(|tx, d| Ok(tx[d].items = Some(tx.alloc_slice(PAGES * WORDS, |_| 0u64)?)))?;
    heap.checkpoint()?;
    round(&root)?;
    round(&root)?;
    let _ = root.txn(|tx, d| -> Result<()> {
        tx[d].rounds = 99;
        die()
    });
    unreachable!("it was killed");
}

fn check(heap: &Heap) -> Result<()> {
    assert!(heap.check()?.problems.is_empty());
    heap.existing_root::<Data>("data")?.read(|view, d| {
        let items = &view[view[d].items.unwrap()];
        assert_eq!(view[d].rounds, 2);
        assert!(items.iter().enumerate().all(|(i, &n)| n == if i % WORDS == 0 { 2 } else { 0 }));
    })
}

fn bytes_of(path: &Path) -> [Vec<u8>; 2] {
    [path, &log_of(path)].map(|file| fs::read(file).unwrap())
}

#[test]
fn what_does_not_fit_goes_to_the_file_first() -> Result<()> {
    const TEST: &str = "little_memory::what_does_not_fit_goes_to_the_file_first";
    if let Some((_, path)) = role() {
        return killed(&path);
    }
    let dir = tempdir();
    for durability in [Durability::Wal, Durability::Process] {
        let path = dir.path().join(format!("{durability:?}"));
        run_killed(TEST, "killed", &path);
        let copy = dir.path().join("copy");
        for (limit, private) in [(1 << 30, PAGES as u64 * 4096), (LITTLE, 0)] {
            for (from, to) in [(&path, &copy), (&log_of(&path), &log_of(&copy))] {
                fs::copy(from, to).unwrap();
            }
            let options = wal().durability(durability).memory_limit(limit).restored(true);
            let heap = options.open(&copy)?;
            assert!(heap.stats().replayed_records >= 2 * PAGES as u64 / 64);
            if durability == Durability::Wal {
                let found = heap.stats().private_bytes;
                assert!(private <= found && found <= private + (1 << 20), "{found} bytes");
            }
            check(&heap)?;
            round(&heap.existing_root("data")?)?;
            heap.close()?;
            fs::remove_file(&copy).unwrap();
        }
        // In the file that was killed, which is not checked first.
        let heap = wal().durability(durability).memory_limit(LITTLE).open(&path)?;
        check(&heap)?;
        drop(heap);
        check(&wal().open(&path)?)?;
    }
    Ok(())
}

#[test]
fn a_heap_that_is_only_read_is_copied_to_a_file() -> Result<()> {
    const TEST: &str = "little_memory::a_heap_that_is_only_read_is_copied_to_a_file";
    if let Some((_, path)) = role() {
        return killed(&path);
    }
    let dir = tempdir();
    let (path, folder) = (dir.path().join("x"), dir.path().join("folder"));
    run_killed(TEST, "killed", &path);
    let before = bytes_of(&path);
    for options in [wal().read_only(true), wal().follower(true)] {
        let little = options.clone().memory_limit(LITTLE).temp_dir(&folder);
        let error = little.open(&path).unwrap_err();
        assert!(error.to_string().contains(folder.to_str().unwrap()), "{error}");
        if let Error::MemoryLimit { need, .. } = error {
            check(&options.clone().memory_limit(2 * need).temp_dir(&folder).open(&path)?)?;
        }
        fs::create_dir(&folder).unwrap();
        let heap = little.open(&path)?;
        check(&heap)?;
        assert!(matches!(heap.root::<u64>("new"), Err(Error::ReadOnly)));
        heap.backup(dir.path().join("backup"))?;
        check(&wal().open(dir.path().join("backup"))?)?;
        fs::remove_file(dir.path().join("backup")).unwrap();
        heap.close()?;
        assert!(fs::read_dir(&folder).unwrap().next().is_none());
        fs::remove_dir(&folder).unwrap();
    }
    // Moved as well, for its addresses are taken.
    fs::create_dir(&folder).unwrap();
    let first = wal().read_only(true).memory_limit(LITTLE).temp_dir(&folder).open(&path)?;
    let second = wal().follower(true).memory_limit(LITTLE).temp_dir(&folder).open(&path)?;
    check(&first)?;
    check(&second)?;
    assert!(bytes_of(&path) == before);
    Ok(())
}

/// What a copy has no space for is an error when it is made, and not the end of the process that looks at it.
#[test]
fn a_copy_has_the_space_of_the_heap() -> Result<()> {
    let dir = tempdir();
    let (path, folder) = (dir.path().join("x"), dir.path().join("folder"));
    fs::create_dir(&folder).unwrap();
    let heap = wal().open(&path)?;
    let root: Root<Data> = heap.root("data")?;
    root.txn(|tx, d| Ok(tx[d].items = Some(tx.alloc_slice(PAGES * WORDS, |_| 0u64)?)))?;
    heap.checkpoint()?;
    let copy = wal().follower(true).memory_limit(LITTLE).temp_dir(&folder).open(&path)?;
    let open = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let inside = |fd: &PathBuf| fs::read_link(fd).is_ok_and(|file| file.starts_with(&folder));
    let space = open.filter(inside).map(|fd| fs::metadata(fd).unwrap().blocks() * 512).max().unwrap();
    assert!(space >= fs::metadata(&path).unwrap().len(), "{space} bytes");
    drop(copy);
    heap.close()
}

/// The message says how much memory is needed. With twice as much, no file is needed.
#[test]
fn with_the_memory_that_is_needed_no_file_is() -> Result<()> {
    const TEST: &str = "little_memory::with_the_memory_that_is_needed_no_file_is";
    if let Some((_, path)) = role() {
        return killed(&path);
    }
    let dir = tempdir();
    let (path, open) = (dir.path().join("killed"), dir.path().join("open"));
    run_killed(TEST, "killed", &path);
    // A log with more records than wait in memory.
    let heap = wal().open(&open)?;
    let root: Root<Data> = heap.root("data")?;
    for i in 0..20 {
        root.txn(|tx, d| Ok(tx[d].items = Some(tx.alloc_slice(64 << 10, |_| i)?)))?;
    }
    // The addresses of both are taken.
    let first = wal().follower(true).open(&path)?;
    for (options, path) in [(wal().read_only(true), &path), (wal().follower(true), &open)] {
        let options = options.temp_dir(dir.path().join("nowhere"));
        let Err(Error::MemoryLimit { need, .. }) = options.clone().memory_limit(LITTLE).open(path) else {
            panic!("there is no folder for a copy");
        };
        let heap = options.memory_limit(2 * need).open(path)?;
        assert!(heap.check()?.problems.is_empty());
    }
    drop(first);
    heap.close()
}

/// The last transaction has records in several segments, and the end of the log is lost.
#[test]
fn segments_behind_the_end_do_not_count() -> Result<()> {
    const TEST: &str = "little_memory::segments_behind_the_end_do_not_count";
    const PIECE: usize = 1 << 20;
    if let Some((_, path)) = role() {
        let heap = wal().memory_limit(1 << 30).open(&path)?;
        let root: Root<Data> = heap.root("data")?;
        for item in [1, 2] {
            root.txn(|tx, d| Ok(tx[d].items = Some(tx.alloc_slice(PAGES * WORDS, |_| item)?)))?;
        }
        die();
    }
    let dir = tempdir();
    let path = dir.path().join("x");
    run_killed(TEST, "killed", &path);
    // What a power failure may leave.
    let mut log = fs::read(log_of(&path)).unwrap();
    let end = log.iter().rposition(|&byte| byte != 0).unwrap();
    log[end - PIECE..].fill(0);
    let copy = dir.path().join("copy");
    for (durability, limit) in [(Durability::Process, 1 << 30), (Durability::Wal, LITTLE)] {
        fs::copy(&path, &copy).unwrap();
        fs::write(log_of(&copy), &log).unwrap();
        let heap = wal().durability(durability).memory_limit(limit).restored(true).open(&copy)?;
        heap.existing_root::<Data>("data")?.read(|view, d| {
            assert!(view[view[d].items.unwrap()].iter().all(|&item| item == 1));
        })?;
        heap.close()?;
        fs::remove_file(&copy).unwrap();
    }
    Ok(())
}

/// A closed heap has no log. To be moved, it is written to.
#[test]
fn a_heap_that_is_read_elsewhere_is_copied_to_a_file() -> Result<()> {
    let dir = tempdir();
    let (path, copy) = (dir.path().join("x"), dir.path().join("copy"));
    let heap = wal().open(&path)?;
    let root: Root<Data> = heap.root("data")?;
    root.txn(|tx, d| Ok(tx[d].items = Some(tx.alloc_slice(PAGES * WORDS, |_| 0u64)?)))?;
    round(&root)?;
    round(&root)?;
    heap.backup(&copy)?;
    let reader = wal().read_only(true).memory_limit(LITTLE);
    let error = reader.clone().temp_dir(dir.path().join("nowhere")).open(&copy).unwrap_err();
    let Error::MemoryLimit { need, .. } = error else { panic!("{error}") };
    assert!(need >= PAGES as u64 * 4096);
    check(&reader.clone().temp_dir(dir.path()).open(&copy)?)?;
    check(&reader.memory_limit(2 * need).temp_dir(dir.path().join("nowhere")).open(&copy)?)?;
    heap.close()
}

/// A heap that is refused because of the options stays unchanged, though opening it would bring its log to
/// the file.
#[test]
fn what_is_refused_is_not_changed() -> Result<()> {
    const TEST: &str = "little_memory::what_is_refused_is_not_changed";
    if let Some((_, path)) = role() {
        return killed(&path);
    }
    let dir = tempdir();
    let path = dir.path().join("x");
    run_killed(TEST, "killed", &path);
    let before = bytes_of(&path);
    let error = wal().memory_limit(LITTLE).base(3 << 12).open(&path).unwrap_err();
    assert!(matches!(error, Error::InvalidOption(_)), "{error}");
    assert!(bytes_of(&path) == before);
    check(&wal().memory_limit(LITTLE).open(&path)?)
}
