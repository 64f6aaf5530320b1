//! No space: the transaction is rolled back, and the heap goes on.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use pheap::{Durability, Error, Options, P, Result, Root};
use pheap_testkit::sample::*;
use pheap_testkit::*;

/// Allocates a slice in each transaction until there is no space. Returns the error. The heap is full, but
/// usable.
fn fill(root: &Root<Record>) -> Error {
    for round in 0.. {
        let result = root.txn(|tx, r| {
            tx[r].number += 1;
            let items = tx.alloc_slice(4000, |i| i as u64 + round)?;
            tx[r].items = Some(items);
            Ok(())
        });
        if let Err(error) = result {
            // The first one that did not fit was rolled back.
            root.read(|view, r| {
                assert_eq!(view[r].number, round);
                assert_eq!(view[view[r].items.unwrap()][3999], 3999 + round - 1);
            })
            .unwrap();
            root.txn(|tx, r| Ok(tx[r].number += 1)).unwrap();
            assert_eq!(root.read(|view, r| view[r].number).unwrap(), round + 1);
            return error;
        }
        assert!(round < 10_000, "no end");
    }
    unreachable!()
}

/// Fills a heap, then reopens and checks it. Returns the error of the filling.
fn fill_and_reopen(options: &Options, path: &Path) -> Error {
    let heap = options.open(path).unwrap();
    let root: Root<Record> = heap.root("record").unwrap();
    let error = fill(&root);
    let number = root.read(|view, r| view[r].number).unwrap();
    drop(root);
    heap.close().unwrap();
    let heap = options.open(path).unwrap();
    let root: Root<Record> = heap.root("record").unwrap();
    assert_eq!(root.read(|view, r| view[r].number).unwrap(), number);
    assert!(heap.stats().file_bytes >= 2 * MIB && heap.check().unwrap().is_clean());
    // A removed root gives its space back.
    heap.remove_root("record").unwrap();
    let root: Root<Record> = heap.root("record").unwrap();
    root.txn(|tx, r| {
        let items = tx.alloc_slice(4000, |i| i as u64)?;
        tx[r].items = Some(items);
        Ok(())
    })
    .unwrap();
    error
}

#[test]
fn the_maximal_size_is_reached() {
    let dir = tempdir();
    let path = dir.path().join("x");
    let error = fill_and_reopen(&small().max_size(3 * MIB), &path);
    assert!(matches!(&error, Error::OutOfSpace { reason } if reason.contains("maximal size")), "{error}");
    // Closing the heap has cut off the space of removed objects.
    assert_eq!(fs::metadata(&path).unwrap().len(), MIB);
    assert!(matches!(small().max_size(1000).in_memory(), Err(Error::OutOfSpace { .. })));
    let none = small().max_size(1000).open(dir.path().join("y"));
    assert!(matches!(none, Err(Error::OutOfSpace { .. })));
}

#[test]
fn the_reservation_is_full() {
    let dir = tempdir();
    let error = fill_and_reopen(&small().reserve(4 * MIB), &dir.path().join("x"));
    assert!(
        matches!(error, Error::ReservationFull { need, reserved } if need == 5 * MIB && reserved == 4 * MIB),
        "{error}"
    );
    let heap = small().reserve(4 * MIB).in_memory().unwrap();
    assert!(matches!(fill(&heap.root("r").unwrap()), Error::ReservationFull { .. }));
}

#[test]
fn the_file_may_not_grow() {
    if let Some((_, path)) = role() {
        let limit = libc::rlimit { rlim_cur: 3 << 20, rlim_max: 3 << 20 };
        // A write beyond the limit would end the process by a signal.
        // SAFETY: a plain system call, in a separate process.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
        let error = fill_and_reopen(&small(), &path);
        assert!(matches!(&error, Error::OutOfSpace { reason } if reason.contains("growing")), "{error}");
        assert_eq!(fs::metadata(&path).unwrap().len(), MIB);
        return;
    }
    let dir = tempdir();
    run_well("space::the_file_may_not_grow", "limited", &dir.path().join("x"));
}

#[test]
fn the_disk_is_full() {
    if let Some((_, path)) = role() {
        if !mount_tmpfs(&path, c"size=3500k") {
            return;
        }
        let error = fill_and_reopen(&small(), &path.join("x"));
        assert!(matches!(&error, Error::OutOfSpace { reason } if reason.contains("growing")), "{error}");
        assert_eq!(fs::metadata(path.join("x")).unwrap().len(), MIB);
        // No room for a heap at all.
        fs::write(path.join("rest"), vec![1; 2400 << 10]).unwrap();
        assert!(matches!(small().open(path.join("y")), Err(Error::OutOfSpace { .. })));
        return;
    }
    let dir = tempdir();
    run_well("space::the_disk_is_full", "mounter", dir.path());
}

/// The old content of a transaction does not fit into the space that is left. The transaction goes on in
/// memory, and fails in the end.
#[test]
fn the_undo_log_cannot_grow() -> Result<()> {
    const N: usize = 75_000; // 600 kB of 1 MiB
    let dir = tempdir();
    let path = dir.path().join("x");
    for pin in [false, true] {
        let _ = fs::remove_file(&path);
        let options = small().max_size(MIB).pin_undo(pin);
        let heap = options.open(&path)?;
        let root: Root<Record> = heap.root("record")?;
        root.txn(|tx, r| {
            let items = tx.alloc_slice(N, |i| i as u64)?;
            tx[r].items = Some(items);
            Ok(())
        })?;
        for whole in [true, false] {
            let mut ended = false;
            let result = root.txn(|tx, r| {
                let s = tx[r].items.unwrap();
                tx[r].number = 1;
                if whole {
                    tx[s].fill(5);
                } else {
                    for i in 0..N {
                        let e = s.at(tx, i);
                        tx[e] = 5;
                    }
                }
                // It reads its own stores: in one piece, in others, and when they overlap.
                assert_eq!(tx[r].number, 1);
                assert!(tx[s].iter().all(|&n| n == 5));
                assert_eq!(tx[s.at(tx, N / 2)], 5);
                tx.slice_mut(s, 10..20).fill(6);
                let old: &[u64] = &tx[s];
                assert_eq!((old[9], old[10], old[19], old[20]), (5, 6, 6, 5));
                tx.swap(s.at(tx, 0), s.at(tx, 10));
                assert_eq!((tx[s.at(tx, 0)], tx[s][10]), (6, 5));
                assert_eq!(old_sum(&tx[s]), 5 * N as u64 + 10);
                ended = true;
                Ok(())
            });
            assert!(matches!(result, Err(Error::OutOfSpace { .. })), "{result:?}");
            assert!(ended);
            root.read(|view, r| {
                assert_eq!(view[r].number, 0);
                assert!(view[view[r].items.unwrap()].iter().enumerate().all(|(i, &n)| n == i as u64));
            })?;
        }
        root.txn(|tx, r| {
            let e = tx[r].items.unwrap().at(tx, 77);
            tx[e] = 1;
            tx[r].number = 2;
            Ok(())
        })?;
        drop(root);
        heap.close()?;
        let heap = options.open(&path)?;
        let root: Root<Record> = heap.root("record")?;
        let seen = root.read(|view, r| {
            (view[r].number, view[view[r].items.unwrap()][77], view[view[r].items.unwrap()][78])
        })?;
        assert_eq!(seen, (2, 1, 78));
        heap.close()?;
    }
    Ok(())
}

/// A transaction that reads its copies again and again leaves them and writes in place, unless the undo log
/// has no room for the old content.
#[test]
fn copies_that_fit_stay_if_the_undo_log_cannot_grow() -> Result<()> {
    const N: usize = 75_000; // 600 kB of 1 MiB
    const PART: usize = 125;
    let heap = small().max_size(MIB).in_memory()?;
    let root: Root<Record> = heap.root("record")?;
    root.txn(|tx, r| {
        let items = tx.alloc_slice(N, |_| 1)?;
        Ok(tx[r].items = Some(items))
    })?;
    root.txn(|tx, r| {
        let items = tx[r].items.unwrap();
        (0..N).step_by(PART).for_each(|i| tx.slice_mut(items, i..i + PART)[0] = 2);
        Ok(assert_eq!((0..100_000).map(|i| tx[items.at(tx, i % 2)]).sum::<u64>(), 150_000))
    })?;
    assert_eq!(root.read(|view, r| old_sum(&view[view[r].items.unwrap()]))?, (N + N / PART) as u64);
    Ok(())
}

fn old_sum(items: &[u64]) -> u64 {
    items.iter().sum()
}

#[test]
fn an_object_that_no_heap_can_hold() -> Result<()> {
    let heap = small().in_memory()?;
    let root: Root<Record> = heap.root("record")?;
    root.txn(|tx, r| {
        let too_large = tx.alloc_slice::<u64>(usize::MAX / 2, |_| unreachable!()).unwrap_err();
        assert!(matches!(too_large, Error::TooLarge { .. }));
        assert!(matches!(tx.alloc_slice::<u64>(1 << 46, |_| unreachable!()), Err(Error::TooLarge { .. })));
        assert!(matches!(
            tx.alloc_slice::<u64>(1 << 40, |_| unreachable!()),
            Err(Error::ReservationFull { .. })
        ));
        tx[r].number = 1; // and the transaction goes on
        Ok(())
    })?;
    assert_eq!(root.read(|view, r| view[r].number)?, 1);
    Ok(())
}

/// A log is made twice as long each time, but only if there is room for that.
#[test]
fn a_log_takes_what_is_left() {
    let heap =
        small().arena_size(32 << 10).reserve(4 * MIB).durability(Durability::Process).in_memory().unwrap();
    let root: Root<Option<P<[u64]>>> = heap.root("numbers").unwrap();
    let len = 1700 << 7;
    root.txn(|tx, root| {
        let numbers = tx.alloc_slice(len, |i| i as u64)?;
        Ok(tx[root] = Some(numbers))
    })
    .unwrap();
    root.txn(|tx, root| {
        let numbers = tx[root].unwrap();
        for i in 0..len {
            let number = numbers.get(tx, i).unwrap();
            tx[number] += 1;
        }
        Ok(())
    })
    .unwrap();
}

/// The process may write less of a file than the heap has (`ulimit -f`), where a write ends it.
#[test]
fn the_process_may_write_less_than_the_heap_has() {
    const TEST: &str = "space::the_process_may_write_less_than_the_heap_has";
    let wal = || small().durability(Durability::Wal);
    let numbers = |options: Options, path: &Path| {
        options.open(path)?.existing_root::<Record>("record")?.read(|view, r| view[r].number)
    };
    if let Some((_, path)) = role() {
        let limit = libc::rlimit { rlim_cur: MIB, rlim_max: MIB };
        // SAFETY: a plain system call, in a separate process.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
        let error = numbers(wal(), &path).unwrap_err();
        assert!(
            matches!(error, Error::OutOfSpace { .. }) && error.to_string().contains("ulimit -f"),
            "{error}"
        );
        for memory in [MIB, 1 << 30] {
            let error = numbers(wal().follower(true).memory_limit(memory), &path).unwrap_err();
            // With the larger limit, a file on the disk may be what has no space.
            let is_right = match &error {
                Error::MemoryLimit { need, .. } => memory < 2 * need,
                error => memory > MIB && matches!(error, Error::OutOfSpace { .. }),
            };
            assert!(is_right, "{error}");
        }
        assert_eq!(numbers(wal().read_only(true), &path).unwrap(), 7);
        let heap = small().durability(Durability::Process).open(&path).unwrap();
        let error = heap.backup(path.with_extension("copy")).unwrap_err();
        assert!(matches!(error, Error::OutOfSpace { .. } | Error::Io { .. }), "{error}");
        return heap.close().unwrap();
    }
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = wal().open(&path).unwrap();
    let root: Root<Record> = heap.root("record").unwrap();
    root.txn(|tx, r| {
        tx[r].number = 7;
        tx[r].items = Some(tx.alloc_slice(MIB as usize, |i| i as u64)?);
        Ok(())
    })
    .unwrap();
    drop(root);
    heap.close().unwrap();
    run_well(TEST, "limited", &path);
    assert_eq!(numbers(wal(), &path).unwrap(), 7);
}

/// A sparse file in a tmpfs without space: to look at a hole would take some, or end the process.
#[test]
fn a_sparse_copy_is_read_where_there_is_no_space() -> Result<()> {
    if let Some((_, path)) = role() {
        if !mount_tmpfs(&path, c"size=24m") {
            return Ok(());
        }
        let (heap, copy) = (path.join("heap"), path.join("copy"));
        let open = small().open(&heap)?;
        open.root_or::<P<[u64]>>("zeros", |tx| tx.alloc_slice(1 << 20, |_| 0u64))?;
        open.backup(&copy)?;
        open.close()?;
        let space = || fs::metadata(&copy).unwrap().blocks() * 512;
        let before = space();
        assert!(before < 4 << 20, "it is sparse");
        fs::write(path.join("rest"), vec![1; 30 << 20]).unwrap_err();
        for options in
            [small().read_only(true), small().follower(true), small().read_only(true).base(0x2000_0000_0000)]
        {
            let heap = options.open(&copy)?;
            assert!(heap.check()?.is_clean());
            heap.existing_root::<P<[u64]>>("zeros")?
                .read(|view, p| assert!(view[view[p]].iter().all(|&n| n == 0)))?;
        }
        assert_eq!(space(), before);
        // A heap that is opened to be changed needs its space.
        assert!(matches!(small().open(&copy), Err(Error::OutOfSpace { .. })));
        return Ok(());
    }
    let dir = tempdir();
    run_well("space::a_sparse_copy_is_read_where_there_is_no_space", "mounted", dir.path());
    Ok(())
}
