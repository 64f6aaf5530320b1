//! Bugs of nested parts that leave something behind or take something away. No crash shows them, but the
//! transaction itself reads wrong values.

#![allow(clippy::unit_arg)] // transactions of one assignment

use pheap::sim::Bug;
use pheap::{Durability, Error, Heap, Options, P, PSnapMap, Persist, Root, Txn, field, txn};
use pheap_crash::seeded::Seeded;

#[derive(Persist, Default)]
#[repr(C)]
struct Objects<'r> {
    number: u64,
    /// Makes the object so large that a store to a field does not copy the whole object.
    gap: [u64; 32],
    versions: PSnapMap<'r, u64, u64>,
    large: Option<P<'r, [[u64; 16]]>>,
}

type Handle = Root<Objects<'static>>;

/// Returns a heap that cannot grow. It has an object for whose old content there is no room.
fn heap() -> (Heap, Handle) {
    const SIZE: u64 = 1 << 20;
    let options = Options::new().durability(Durability::Process).arena_size(SIZE).max_size(SIZE);
    let heap = options.in_memory().unwrap();
    let root: Handle = heap.root("objects").unwrap();
    root.txn(|tx, objects| Ok(tx[objects].large = Some(tx.alloc_slice(4200, |_| [0; 16])?))).unwrap();
    (heap, root)
}

/// Overwrites that object. Its old content cannot be logged, so the transaction cannot be committed.
fn doom<'r>(tx: &mut Txn<'r>, objects: P<'r, Objects<'r>>) {
    let large = tx[objects].large.unwrap();
    tx[large].fill([8; 16]);
}

fn fail<T>() -> pheap::Result<T> {
    Err(Error::abort("it is to fail"))
}

/// Returns whether a map that changes its new nodes in place goes on after a part was rolled back, in a
/// transaction that cannot be logged.
fn doomed_map() -> bool {
    let (_heap, root) = heap();
    let mut seen = None;
    let result = root.txn(|tx, objects| {
        let versions = field!(objects.versions);
        versions.insert(tx, &1, &1)?;
        tx.nested(objects, |tx, objects| {
            field!(objects.versions).insert(tx, &1, &2)?;
            doom(tx, objects);
            fail::<()>()
        })
        .unwrap_err();
        versions.insert(tx, &1, &3)?;
        Ok(seen = versions.get(tx, &1).copied())
    });
    assert!(matches!(result, Err(Error::OutOfSpace { .. })), "there was room for the log: {result:?}");
    seen == Some(3)
}

/// Returns whether a transaction that cannot be logged rolls a part back.
fn doomed() -> bool {
    let (_heap, root) = heap();
    let mut seen = 0;
    let result = root.txn(|tx, objects| {
        set(tx, objects, 1);
        tx.nested(objects, |tx, objects| {
            set(tx, objects, 2);
            doom(tx, objects);
            fail::<()>()
        })
        .unwrap_err();
        Ok(seen = tx[objects].number)
    });
    assert!(matches!(result, Err(Error::OutOfSpace { .. })), "there was room for the log: {result:?}");
    seen == 1
}

#[txn]
fn set<'r>(tx: &mut Txn<'r>, objects: P<'r, Objects<'r>>, number: u64) {
    tx[objects].number = number;
}

/// Returns whether the first store of a transaction is rolled back. `#[txn]` makes it, to a field, in a
/// nested part.
fn first_store(long: bool) -> bool {
    let heap = Options::new().pin_undo(long).in_memory().unwrap();
    let root: Handle = heap.root("objects").unwrap();
    root.txn(|tx, objects| {
        tx.nested(objects, |tx, objects| {
            set(tx, objects, 1);
            fail::<()>()
        })
        .unwrap_err();
        Ok(tx[objects].number == 0)
    })
    .unwrap()
}

#[test]
fn what_is_wrong_is_noticed() {
    let causes: [(fn() -> bool, Bug); 4] = [
        (doomed, Bug::DoomKeepsChanges),
        (doomed_map, Bug::DoomCopiesFresh),
        (|| first_store(false), Bug::SavepointForgetsFields),
        (|| first_store(true), Bug::SavepointForgetsFields),
    ];
    for (is_right, bug) in causes {
        assert!(is_right(), "without {bug:?}");
        let _seeded = Seeded::new(bug);
        assert!(!is_right(), "{bug:?} is not noticed");
    }
}
