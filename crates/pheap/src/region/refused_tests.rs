//! Tests of heaps whose program installs a filter of system calls that refuses the fence, after a thread has
//! become the owner of a lock.

#![allow(clippy::unit_arg)] // transactions of one assignment

use std::thread;

use crate::sync::fence::{heavy, tests::forbid};
use crate::{Durability, Error, Heap, Options, Root};

#[test]
fn a_heap_fails_if_nobody_knows_who_is_inside_of_it() {
    if heavy().is_err() {
        return;
    }
    for durability in [Durability::Process, Durability::Wal] {
        let dir = tempfile::tempdir().unwrap();
        let open = || Options::new().durability(durability).open(dir.path().join("heap"));
        let heap = open().unwrap();
        let root: Root<u64> = heap.root("number").unwrap();
        let other: Root<u64> = heap.root("other").unwrap();
        root.txn(|tx, n| Ok(tx[n] += 1)).unwrap();
        let fails =
            |result: Result<(), Error>| assert!(matches!(result, Err(Error::Failed { .. })), "{result:?}");
        // A thread that has the region as the owner of its lock continues.
        root.txn(|tx, n| {
            thread::scope(|scope| {
                scope.spawn(|| {
                    forbid();
                    fails(root.read(|_, _| ()));
                    fails(root.txn(|_, _| Ok(())));
                    fails(crate::txn((&other, &root), |_| Ok(())));
                    fails(heap.backup(dir.path().join("copy")));
                    fails(heap.close());
                });
            });
            Ok(tx[n] += 1)
        })
        .unwrap();
        assert!(matches!(root.read(|_, _| ()), Err(Error::Closed)));
        let again = open().map(drop);
        assert!(matches!(again, Err(Error::AlreadyOpen { .. })), "{again:?}");
        drop((heap, root, other));
        let number: Root<u64> = open().unwrap().root("number").unwrap();
        assert_eq!(number.read(|view, n| view[n]).unwrap(), 2);
    }
}

#[test]
fn a_collection_that_cannot_lock_a_region_fails_the_heap() {
    if heavy().is_err() {
        return;
    }
    let heap = Heap::in_memory().unwrap();
    let root: Root<u64> = heap.root("number").unwrap();
    root.txn(|tx, n| Ok(tx[n] += 1)).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            forbid();
            let collected = heap.collect();
            assert!(matches!(collected, Err(Error::Failed { .. })), "{collected:?}");
        });
    });
    assert!(matches!(root.read(|_, _| ()), Err(Error::Failed { .. })));
}
