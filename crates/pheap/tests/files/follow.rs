//! Heaps that are read while a writer has them open.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use pheap::{Durability, Error, Heap, Options, P, Persist, Result, Root, SyncPolicy};
use pheap_testkit::*;

fn writer() -> Options {
    small().durability(Durability::Wal).sync_policy(SyncPolicy::OnDemand)
}

fn follower() -> Options {
    small().follower(true)
}

fn number(heap: &Heap) -> Result<u64> {
    heap.existing_root::<u64>("n")?.read(|view, n| view[n])
}

#[test]
fn a_heap_that_is_open_is_seen_and_stays_as_it_is() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = writer().open(&path)?;
    let root: Root<u64> = heap.root("n")?;
    for mode in [0o600, 0o444] {
        for file in [&path, &log_of(&path)] {
            fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
        }
        root.txn(|tx, n| Ok(tx[n] += 1))?;
        let files = || [&path, &log_of(&path)].map(|file| fs::read(file).unwrap());
        let before = files();
        let seen = follower().verify(true).open(&path)?;
        let info = seen.info();
        assert!(info.followed && info.in_use == Some(Durability::Wal) && info.offered.is_none());
        assert!(matches!(seen.root::<u64>("other"), Err(Error::ReadOnly)));
        assert_eq!(number(&seen)?, number(&heap)?);
        // It does not change, whatever the writer does.
        let then = number(&seen)?;
        assert!(files() == before);
        root.txn(|tx, n| Ok(tx[n] += 1))?;
        heap.checkpoint()?;
        assert_eq!((number(&seen)?, number(&heap)?), (then, then + 1));
        let copy = dir.path().join(format!("copy {mode}"));
        seen.backup(&copy)?;
        assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, mode);
        assert_eq!(number(&small().open(copy)?)?, then);
    }
    assert!(!heap.info().followed);
    heap.close()
}

#[test]
fn a_follower_keeps_nobody_from_opening_the_heap() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("x");
    for options in [writer(), small()] {
        let heap = options.open(&path)?;
        heap.root::<u64>("n")?.txn(|tx, n| Ok(tx[n] += 1))?;
        heap.close()?;
        let closed = follower().open(&path)?;
        let heap = options.open(&path)?;
        assert_eq!((closed.info().in_use, number(&closed)?), (None, number(&heap)?));
        heap.close()?;
    }
    Ok(())
}

#[derive(Persist, Default)]
#[repr(C)]
struct Node<'r> {
    next: Option<P<'r, Node<'r>>>,
    number: u64,
}

/// The addresses of a heap become free while a copy of it, at other addresses, is verified. The machine
/// decides when that happens, so the test tries often.
#[test]
fn a_copy_stays_where_it_was_verified() -> Result<()> {
    const NODES: u64 = 100_000;
    const ROUNDS: u32 = 20;
    let dir = tempdir();
    let path = dir.path().join("x");
    let heap = writer().open(&path)?;
    heap.root::<Node>("list")?.txn(|tx, list| {
        for number in 0..NODES {
            let next = tx[list].next;
            tx[list].next = Some(tx.alloc(Node { next, number })?);
        }
        Ok(())
    })?;
    heap.close()?;
    let follow = || follower().verify(true).open(&path);
    let mut takes = Duration::ZERO;
    for round in 0..=ROUNDS {
        let heap = writer().open(&path)?;
        let copy = thread::scope(|scope| {
            let start = Instant::now();
            let copy = scope.spawn(follow);
            if round > 0 {
                thread::sleep(takes * round / ROUNDS);
                drop(heap);
                return copy.join().unwrap();
            }
            let copy = copy.join().unwrap();
            takes = start.elapsed();
            copy
        })?;
        copy.existing_root::<Node>("list")?.read(|view, list| {
            let nodes = std::iter::successors(view[list].next, |&node| view[node].next);
            assert_eq!(nodes.map(|node| view[node].number).sum::<u64>(), NODES * (NODES - 1) / 2);
        })?;
    }
    Ok(())
}

#[test]
fn what_cannot_be_followed_is_said() -> Result<()> {
    let dir = tempdir();
    let path = |name: &str| dir.path().join(name);
    let refused = |path: &Path| follower().open(path).expect_err("it cannot be followed");
    for durability in [Durability::Process, Durability::Pmem] {
        let path = path(&format!("{durability:?}"));
        let heap = match small().durability(durability).open(&path) {
            Err(Error::Unsupported(_)) => continue,
            opened => opened?,
        };
        let error = refused(&path);
        assert!(matches!(error, Error::NotFollowed { .. }), "{error:?}");
        let says = error.to_string();
        assert!(says.contains(&format!("`Durability::{durability:?}`")) && says.contains("Wal"), "{says}");
        heap.close()?;
        follower().open(&path)?;
    }
    assert!(matches!(refused(&path("nothing")), Error::Io { .. }));
    fs::write(path("text"), "hello").unwrap();
    assert!(matches!(refused(&path("text")), Error::NotAHeap { .. }));

    let heap = writer().open(path("x"))?;
    let copy = path("copy");
    fs::copy(path("x"), &copy).unwrap();
    fs::copy(log_of(&path("x")), log_of(&copy)).unwrap();
    assert!(matches!(refused(&copy), Error::Copied { .. }));
    fs::remove_file(log_of(&path("x"))).unwrap();
    assert!(matches!(refused(&path("x")), Error::LogMissing { .. }));
    drop(heap);
    Ok(())
}

/// A backup next to the log of another heap is refused, also by a follower.
#[test]
fn a_copy_beside_a_log_of_another_heap_is_refused() -> Result<()> {
    let dir = tempdir();
    let [path, copy] = ["heap", "copy"].map(|name| dir.path().join(name));
    let heap = writer().open(&path)?;
    heap.root_or::<u64>("number", |_| Ok(7))?;
    heap.backup(&copy)?;
    let other = writer().open(dir.path().join("other"))?;
    other.root_or::<u64>("number", |_| Ok(8))?;
    fs::copy(log_of(&dir.path().join("other")), log_of(&copy)).unwrap();
    for options in [writer(), writer().read_only(true), follower()] {
        let refused = options.open(&copy);
        assert!(matches!(refused, Err(Error::ForeignLog { .. })), "{refused:?}");
    }
    Ok(())
}
