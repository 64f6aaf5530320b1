//! Files that give space back while their heap is open: holes where pages are free.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pheap::{Durability, Heap, Options, P, PVec, Result, Root, SyncPolicy, field};
use pheap_testkit::*;

#[derive(pheap::Persist, Default)]
#[repr(C)]
struct Blocks<'r> {
    all: PVec<'r, P<'r, [u64]>>,
}

type Handle = Root<Blocks<'static>>;

/// Blocks of a mebibyte each.
const BLOCKS: u64 = 96;
const WORDS: usize = (1 << 20) / 8 - 1;

fn options() -> Options {
    Options::new().durability(Durability::Wal)
}

/// Mebibytes that the file has of the disk.
fn space(path: &Path) -> u64 {
    (fs::metadata(path).unwrap().blocks() * 512) >> 20
}

/// Returns whether the file system is a tmpfs, for which most of these tests are skipped.
fn is_in_memory(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mount = |line: &str| {
        let mut words = line.split(' ');
        Some((words.nth(1)?.to_owned(), words.next()?.to_owned()))
    };
    let path = fs::canonicalize(path).unwrap();
    let of = mounts.lines().filter_map(mount).filter(|(at, _)| path.starts_with(at));
    of.max_by_key(|(at, _)| at.len()).is_some_and(|(_, kind)| kind == "tmpfs")
}

fn fill(root: &Handle, value: u64) -> Result<()> {
    add(root, BLOCKS, value)
}

fn add(root: &Handle, blocks: u64, value: u64) -> Result<()> {
    for _ in 0..blocks {
        root.txn(|tx, blocks| {
            let block = tx.alloc_slice(WORDS, |i| value + i as u64)?;
            field!(blocks.all).push(tx, block)
        })?;
    }
    Ok(())
}

/// Leaves the first blocks, and frees what others had.
fn leave(heap: &Heap, root: &Handle, left: usize) -> Result<()> {
    root.txn(|tx, blocks| {
        field!(blocks.all).truncate(tx, left);
        Ok(())
    })?;
    heap.collect()
}

fn holds(heap: &Heap, values: &[u64]) -> Result<()> {
    let root: Handle = heap.existing_root("blocks")?;
    root.read(|view, blocks| {
        assert_eq!(view[blocks].all.len(), values.len());
        for (&block, value) in view[blocks].all.iter(view).zip(values) {
            assert!(view[block].iter().enumerate().all(|(i, &word)| word == value + i as u64), "{value}");
        }
    })?;
    let report = heap.check()?;
    assert!(report.is_clean(), "{report}");
    Ok(())
}

fn values(n: usize, value: u64) -> Vec<u64> {
    vec![value; n]
}

#[test]
fn space_is_given_back_and_taken_again() -> Result<()> {
    for policy in [SyncPolicy::EveryCommit, SyncPolicy::OnDemand] {
        let dir = tempdir();
        let (path, copy) = (dir.path().join("heap"), dir.path().join("copy"));
        let heap = options().sync_policy(policy).open(&path)?;
        if is_in_memory(&path) {
            return Ok(());
        }
        let root: Handle = heap.root("blocks")?;
        fill(&root, 1)?;
        heap.checkpoint()?;
        let (len, full) = (fs::metadata(&path).unwrap().len(), space(&path));
        assert!(full >= BLOCKS, "{full}");
        leave(&heap, &root, 10)?;
        heap.checkpoint()?;
        let left = space(&path);
        println!("{full} MiB, then {left}");
        assert!(left < full - BLOCKS / 2, "{full} MiB, then {left}");
        assert_eq!(fs::metadata(&path).unwrap().len(), len);
        holds(&heap, &values(10, 1))?;

        // A backup copies the heap with its holes, and a follower opens it.
        heap.backup(&copy)?;
        holds(&options().follower(true).open(&path)?, &values(10, 1))?;
        holds(&options().verify(true).open(&copy)?, &values(10, 1))?;

        // It is used again, in place.
        fill(&root, 5)?;
        let both = [values(10, 1), values(BLOCKS as usize, 5)].concat();
        holds(&heap, &both)?;
        heap.checkpoint()?;
        assert!(space(&path) >= BLOCKS);
        holds(&options().follower(true).open(&path)?, &both)?;
        leave(&heap, &root, 20)?;
        heap.checkpoint()?;
        let both = [values(10, 1), values(10, 5)].concat();
        let left = space(&path);
        heap.close()?;

        // The next opening leaves it like that, and new blocks take it again.
        let heap = options().verify(true).open(&path)?;
        assert!(space(&path) <= left + 1, "{left} MiB, then {}", space(&path));
        holds(&heap, &both)?;
        let root: Handle = heap.root("blocks")?;
        fill(&root, 9)?;
        leave(&heap, &root, 20)?;
        heap.close()?;

        // With `Process`, stores go to the mapped file itself. So the opening fills the holes: the file has
        // disk space for its whole length.
        let len = fs::metadata(&path).unwrap().len();
        let heap = Options::new().durability(Durability::Process).open(&path)?;
        assert!(space(&path) >= len >> 20);
        holds(&heap, &both)?;
        heap.close()?;
    }
    Ok(())
}

/// A heap that is only opened and closed again is not written to, not even the pages that say which objects
/// are live.
#[test]
fn a_heap_that_is_only_looked_at_stays_as_it_is() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("heap");
    let heap = options().open(&path)?;
    let root: Handle = heap.root("blocks")?;
    fill(&root, 1)?;
    leave(&heap, &root, 1)?;
    heap.close()?;
    let before = (fs::read(&path).unwrap(), space(&path));
    let heap = options().open(&path)?;
    heap.checkpoint()?;
    holds(&heap, &values(1, 1))?;
    heap.close()?;
    assert!((fs::read(&path).unwrap(), space(&path)) == before);
    Ok(())
}

/// If much is free, the checkpoint in the background gives it back without a request.
#[test]
fn a_checkpoint_in_the_background_gives_much_back() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("heap");
    let heap = options().open(&path)?;
    if is_in_memory(&path) {
        return Ok(());
    }
    let root: Handle = heap.root("blocks")?;
    fill(&root, 1)?;
    leave(&heap, &root, 3)?;
    // As long as it takes.
    while space(&path) > BLOCKS / 2 {
        thread::sleep(Duration::from_millis(50));
    }
    holds(&heap, &values(3, 1))?;
    heap.close()
}

/// Transactions take and free pages while checkpoints make holes in the free space.
#[test]
fn holes_beside_transactions() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("heap");
    let heap = options().sync_policy(SyncPolicy::OnDemand).open(&path)?;
    let root: Handle = heap.root("blocks")?;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let checkpoints = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                heap.checkpoint().unwrap();
            }
        });
        let work = (0..12).try_for_each(|round| {
            for i in 0..16 {
                root.txn(|tx, blocks| {
                    let block = tx.alloc_slice(WORDS, |word| round * 16 + i + word as u64)?;
                    field!(blocks.all).push(tx, block)
                })?;
            }
            let expected: Vec<u64> = (0..round * 4).map(|i| i / 4 * 16 + i % 4).collect();
            let last: Vec<u64> = (0..16).map(|i| round * 16 + i).collect();
            holds(&heap, &[expected, last].concat())?;
            leave(&heap, &root, (round as usize + 1) * 4)
        });
        done.store(true, Ordering::Relaxed);
        checkpoints.join().unwrap();
        work
    })?;
    let expected: Vec<u64> = (0..48).map(|i| i / 4 * 16 + i % 4).collect();
    holds(&options().follower(true).open(&path)?, &expected)?;
    heap.close()?;
    holds(&options().verify(true).open(&path)?, &expected)
}

/// After a power failure, free pages that the log writes to may have no space on the disk. Opening takes that
/// space, because a checkpoint could not.
#[test]
fn what_the_log_writes_to_has_space() -> Result<()> {
    const TEST: &str = "holes::what_the_log_writes_to_has_space";
    let options = || options().sync_policy(SyncPolicy::OnDemand).log_limit(1 << 30);
    if let Some((_, path)) = role() {
        let heap = options().open(&path)?;
        let root: Handle = heap.root("blocks")?;
        add(&root, 32, 1)?;
        leave(&heap, &root, 4)?;
        heap.checkpoint()?;
        add(&root, 24, 5)?;
        leave(&heap, &root, 4)?;
        heap.sync()?;
        die();
    }
    let dir = tempdir();
    let path = dir.path().join("heap");
    run_killed(TEST, "killed", &path);
    if is_in_memory(&path) {
        return Ok(());
    }
    // The disk has not heard of the space that was taken again.
    let bytes = fs::read(&path).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(0).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    for (at, page) in bytes.chunks(4096).enumerate().filter(|(_, page)| page.iter().any(|&b| b != 0)) {
        file.write_all_at(page, at as u64 * 4096).unwrap();
    }
    file.sync_all().unwrap();
    let heap = options().open(&path)?;
    let before = space(&path);
    assert!(before < bytes.len() as u64 >> 20, "what the log does not write to is a hole still");
    heap.checkpoint()?;
    assert!(space(&path) <= before, "{before} MiB, then {}", space(&path));
    holds(&heap, &values(4, 1))?;
    heap.close()
}
