//! Files that grow before a transaction needs that.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use pheap::{Heap, Options, P, Persist, Result, Root};
use pheap_testkit::*;

/// Blocks of 16 KiB.
#[derive(Persist, Default)]
#[repr(C)]
struct Data<'r> {
    newest: Option<P<'r, Block<'r>>>,
    count: u64,
}

#[derive(Persist)]
#[repr(C)]
struct Block<'r> {
    next: Option<P<'r, Block<'r>>>,
    values: [u64; 2000],
}

fn add(root: &Root<Data>) -> Result<()> {
    root.txn(|tx, d| {
        let values = [tx[d].count; 2000];
        let block = tx.alloc(Block { next: tx[d].newest, values })?;
        tx[d].newest = Some(block);
        Ok(tx[d].count += 1)
    })
}

/// Asserts that all blocks that were added are there. Returns their number.
fn check(heap: &Heap) -> Result<u64> {
    assert!(heap.check()?.is_clean());
    let root: Root<Data> = heap.existing_root("data")?;
    root.read(|view, d| {
        let (mut next, mut left) = (view[d].newest, view[d].count);
        while let Some(block) = next {
            left -= 1;
            assert_eq!(view[block].values, [left; 2000]);
            next = view[block].next;
        }
        assert_eq!(left, 0);
        view[d].count
    })
}

/// Opens a heap, and fills it until it has grown once.
fn grown(options: &Options, path: &Path) -> Result<(Heap, Root<Data<'static>>)> {
    let heap = options.open(path)?;
    let root: Root<Data> = heap.root("data")?;
    let before = heap.stats().growth_waits;
    while heap.stats().growth_waits == before {
        assert_eq!(heap.stats().ahead_bytes, 0, "small heaps may never need more");
        add(&root)?;
    }
    Ok((heap, root))
}

/// Bytes by which a heap grows that has so many.
fn step(file_bytes: u64) -> u64 {
    (file_bytes / 2 / MIB * MIB).max(MIB)
}

/// Fills a heap until it has fewer free bytes than half of its newest arena.
fn fill(heap: &Heap, root: &Root<Data>) -> Result<()> {
    let (mut before, file_bytes) = (MIB, heap.stats().file_bytes);
    while before + step(before) < file_bytes {
        before += step(before);
    }
    while heap.stats().free_bytes >= step(before) / 2 {
        add(root)?;
    }
    Ok(())
}

/// Waits until the file has the next arena.
fn wait_until_ahead(heap: &Heap) {
    let start = Instant::now();
    while heap.stats().ahead_bytes != step(heap.stats().file_bytes) {
        assert!(start.elapsed() < Duration::from_secs(100), "nothing was made ready");
        std::thread::yield_now();
    }
}

/// [`grown`] and [`fill`], and waits until the file has the next arena.
fn ahead(options: &Options, path: &Path) -> Result<(Heap, Root<Data<'static>>)> {
    let (heap, root) = grown(options, path)?;
    fill(&heap, &root)?;
    wait_until_ahead(&heap);
    Ok((heap, root))
}

fn len(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

#[test]
fn nobody_waits_for_it() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let (heap, root) = grown(&small(), &path)?;
    let before = heap.stats();
    for _ in 0..5 {
        fill(&heap, &root)?;
        wait_until_ahead(&heap);
        let file_bytes = heap.stats().file_bytes;
        let next = file_bytes + step(file_bytes);
        assert_eq!(len(&path), next);
        while heap.stats().file_bytes == file_bytes {
            add(&root)?;
        }
        assert_eq!(heap.stats().file_bytes, next);
    }
    let stats = heap.stats();
    assert_eq!((before.file_bytes, stats.file_bytes), (2 * MIB, 13 * MIB)); // 3, 4, 6, and 9
    assert_eq!(stats.growth_waits, before.growth_waits);
    // More than is ready is waited for.
    fill(&heap, &root)?;
    wait_until_ahead(&heap);
    root.txn(|tx, _| tx.alloc_slice(MIB as usize, |_| 0u64).map(drop))?;
    assert_eq!(heap.stats().growth_waits, before.growth_waits + 1);
    assert_eq!(heap.stats().file_bytes, stats.file_bytes + 9 * MIB);
    let count = check(&heap)?;
    drop(root);
    heap.close()?;
    assert_eq!(check(&small().open(&path)?)?, count);
    Ok(())
}

/// One that has grown before it was opened need not wait once more.
#[test]
fn a_heap_that_was_closed_meanwhile() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let (heap, root) = grown(&small(), &path)?;
    drop(root);
    heap.close()?;
    let heap = small().open(&path)?;
    let root: Root<Data> = heap.root("data")?;
    fill(&heap, &root)?;
    wait_until_ahead(&heap);
    let file_bytes = heap.stats().file_bytes;
    while heap.stats().file_bytes == file_bytes {
        add(&root)?;
    }
    assert_eq!(heap.stats().growth_waits, 0);
    check(&heap).map(drop)
}

#[test]
fn what_was_not_needed_is_cut_off() -> Result<()> {
    let dir = tempdir();
    let (path, copy) = (dir.path().join("x"), dir.path().join("copy"));
    let (heap, root) = ahead(&small(), &path)?;
    let file_bytes = heap.stats().file_bytes;
    assert_eq!(len(&path), file_bytes + MIB);
    heap.backup(&copy)?;
    assert_eq!(len(&copy), file_bytes);
    drop(root);
    heap.close()?;
    assert_eq!(len(&path), file_bytes);
    assert_eq!(check(&small().open(&path)?)?, check(&small().open(&copy)?)?);
    Ok(())
}

#[test]
fn a_killed_program_may_have_left_it() -> Result<()> {
    const TEST: &str = "ahead::a_killed_program_may_have_left_it";
    if let Some((_, path)) = role() {
        let _kept = ahead(&small(), &path)?;
        die();
    }
    let dir = tempdir();
    for grows in [false, true] {
        let path = dir.path().join(format!("{grows}"));
        run_killed(TEST, "killed", &path);
        let heap = small().open(&path)?;
        let file_bytes = heap.stats().file_bytes;
        assert_eq!(len(&path), file_bytes + MIB);
        // The rest of the file is not zero, but new space of the heap must be.
        let rest = vec![0xa5; MIB as usize];
        File::options().write(true).open(&path).unwrap().write_all_at(&rest, file_bytes).unwrap();
        if grows {
            let root: Root<Data> = heap.root("data")?;
            while heap.stats().file_bytes == file_bytes {
                add(&root)?;
            }
            root.txn(|tx, _| tx.alloc_slice(1, |_| 0u8).map(drop))?;
        }
        let (count, file_bytes) = (check(&heap)?, heap.stats().file_bytes);
        heap.close()?;
        assert_eq!(len(&path), file_bytes);
        assert_eq!(check(&small().open(&path)?)?, count);
    }
    Ok(())
}

#[test]
fn not_beyond_the_limits() -> Result<()> {
    if let Some((role, path)) = role() {
        let mut options = small();
        if role == "maximal size" {
            options = options.max_size(2 * MIB);
        } else {
            // A write beyond the limit kills the process.
            let limit = libc::rlimit { rlim_cur: 2 * MIB, rlim_max: 2 * MIB };
            // SAFETY: a plain system call, in a separate process.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
        }
        let (heap, root) = grown(&options, &path)?;
        fill(&heap, &root)?;
        drop(root);
        let file_bytes = heap.stats().file_bytes;
        heap.close()?; // waits for the thread, if there is one
        assert_eq!((file_bytes, len(&path)), (2 * MIB, 2 * MIB));
        return Ok(());
    }
    let dir = tempdir();
    for role in ["maximal size", "file size"] {
        run_well("ahead::not_beyond_the_limits", role, &dir.path().join(role));
    }
    Ok(())
}
