//! Heaps that are only looked at.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

use std::fs;

use pheap::{Error, Options, P, Persist, Result, Root};
use pheap_testkit::*;

#[derive(Persist, Default)]
#[repr(C)]
struct Data<'r> {
    items: Option<P<'r, [u64]>>,
    count: u64,
}

fn reader() -> Options {
    small().read_only(true)
}

fn seen(options: &Options, path: &std::path::Path) -> Result<(u64, u64)> {
    let heap = options.open(path)?;
    let root: Root<Data> = heap.existing_root("data")?;
    let seen = root.read(|view, d| (view[d].count, view[view[d].items.unwrap()].iter().sum::<u64>()))?;
    assert!(matches!(root.txn(|_, _| Ok(())), Err(Error::ReadOnly)) == options_are_for_reading(options));
    heap.close()?;
    Ok(seen)
}

fn options_are_for_reading(options: &Options) -> bool {
    format!("{options:?}").contains("read_only: true")
}

#[test]
fn after_a_kill_it_recovers_in_memory() -> Result<()> {
    const TEST: &str = "readonly::after_a_kill_it_recovers_in_memory";
    if let Some((role, path)) = role() {
        let heap = small().pin_undo(role.contains("long")).open(&path)?;
        let root: Root<Data> = heap.root("data")?;
        root.txn(|tx, d| {
            let items = tx.alloc_slice(1000, |_| 1)?;
            tx[d].items = Some(items);
            Ok(())
        })?;
        for _ in 0..5 {
            root.txn(|tx, d| Ok(tx[d].count += 1))?;
        }
        if role.contains("inside") {
            let _ = root.txn(|tx, d| -> Result<()> {
                let items = tx[d].items.unwrap();
                tx[items].fill(7);
                tx[d].count = 99;
                die()
            });
        }
        die();
    }
    let dir = tempdir();
    for role in ["short", "long", "inside short", "inside long"] {
        let path = dir.path().join(role.replace(' ', "-"));
        run_killed(TEST, role, &path);
        let before = fs::read(&path).unwrap();
        for _ in 0..2 {
            assert_eq!(seen(&reader(), &path)?, (5, 1000), "{role}");
            assert!(fs::read(&path).unwrap() == before, "{role}: the file was changed");
        }
        // A writer sees the same, and changes the file.
        assert_eq!(seen(&small(), &path)?, (5, 1000), "{role}");
        assert!(fs::read(&path).unwrap() != before);
        assert_eq!(seen(&reader(), &path)?, (5, 1000), "{role}");
    }
    Ok(())
}

/// The record was written, and none of its data.
#[test]
fn a_record_is_replayed_in_memory() -> Result<()> {
    let dir = tempdir();
    let (path, copy) = (dir.path().join("x"), dir.path().join("copy"));
    let heap = small().open(&path)?;
    let root: Root<u64> = heap.root("n")?;
    root.txn(|tx, n| Ok(tx[n] = 1))?;
    let mut image = fs::read(&path).unwrap();
    root.txn(|tx, n| Ok(tx[n] = 2))?;
    let after = fs::read(&path).unwrap();
    let log = find(&after, b"\x89PREGIO\n")[0] + PAGE;
    image[log..log + PAGE].copy_from_slice(&after[log..log + PAGE]);
    forget_file(&mut image);
    fs::write(&copy, &image).unwrap();
    drop((root, heap));
    let heap = reader().open(&copy)?;
    assert!(heap.stats().replayed_records > 0);
    assert_eq!(heap.existing_root::<u64>("n")?.read(|view, n| view[n])?, 2);
    drop(heap);
    assert!(fs::read(&copy).unwrap() == image);
    Ok(())
}

#[test]
fn two_readers_in_two_processes() -> Result<()> {
    const TEST: &str = "readonly::two_readers_in_two_processes";
    if let Some((_, path)) = role() {
        let heap = reader().open(&path)?;
        let root: Root<u64> = heap.existing_root("n")?;
        assert_eq!(root.read(|view, n| view[n])?, 5);
        ready_and_wait(&path);
        assert_eq!(root.read(|view, n| view[n])?, 5);
        return Ok(());
    }
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = small().open(&path)?;
    heap.root_or::<u64>("n", |_| Ok(5))?;
    heap.close()?;
    let before = fs::read(&path).unwrap();
    let child = start(TEST, "reader", &path);
    let heap = reader().open(&path).unwrap();
    assert_eq!(heap.existing_root::<u64>("n").unwrap().read(|view, n| view[n]).unwrap(), 5);
    // As long as they have the heap, there is no writer, and no second handle in this process.
    assert!(matches!(reader().open(&path), Err(Error::AlreadyOpen { .. })));
    heap.close().unwrap();
    assert!(matches!(small().open(&path), Err(Error::Locked { .. })));
    reader().open(&path).unwrap().close().unwrap();
    release(child);
    assert!(fs::read(&path).unwrap() == before);
    small().open(&path)?.close()
}

#[test]
fn a_writer_keeps_readers_out() -> Result<()> {
    const TEST: &str = "readonly::a_writer_keeps_readers_out";
    if let Some((_, path)) = role() {
        assert!(matches!(reader().open(&path), Err(Error::Locked { .. })));
        return Ok(());
    }
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = small().open(&path)?;
    run_well(TEST, "reader", &path);
    heap.close()
}
