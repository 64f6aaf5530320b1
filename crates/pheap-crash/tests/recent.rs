//! A transaction caches the values that it found last, and finds them again without a look-up in its write
//! set. Each test has an event after which the cache would be wrong: with the bug, the transaction keeps the
//! cache after it; without the bug, it forgets the cache.

use pheap::sim::Bug;
use pheap::{Durability, Error, Heap, Options, P, Persist, Root, Txn, field, txn};
use pheap_crash::seeded::Seeded;

#[derive(Persist, Default)]
#[repr(C)]
struct Pair {
    a: u64,
    b: u64,
}

#[derive(Persist, Default)]
#[repr(C)]
struct Objects<'r> {
    pair: Option<P<'r, Pair>>,
    large: Option<P<'r, [[u64; 16]]>>,
}

type Handle = Root<Objects<'static>>;

/// Returns a heap that cannot grow, with a pair and a large object for whose old content there is no room.
fn heap() -> (Heap, Handle) {
    const SIZE: u64 = 1 << 20;
    let options = Options::new().durability(Durability::Process).arena_size(SIZE).max_size(SIZE);
    let heap = options.in_memory().unwrap();
    let root: Handle = heap.root("objects").unwrap();
    root.txn(|tx, objects| {
        let pair = tx.alloc(Pair::default())?;
        let large = tx.alloc_slice(4400, |_| [0; 16])?;
        tx[objects] = Objects { pair: Some(pair), large: Some(large) };
        Ok(())
    })
    .unwrap();
    (heap, root)
}

fn pair<'r>(tx: &Txn<'r>, objects: P<'r, Objects<'r>>) -> P<'r, Pair> {
    tx[objects].pair.unwrap()
}

/// Finds a value, the pair or a part of it, several times, so that the transaction caches it.
fn find<'r, T: Persist<At<'r> = T>>(tx: &mut Txn<'r>, value: P<'r, T>, change: impl Fn(&mut T)) {
    (0..3).for_each(|_| change(&mut tx[value]));
}

/// Stores with `#[txn]`, which may look in the cache first.
#[txn]
fn set<'r>(tx: &mut Txn<'r>, pair: P<'r, Pair>, number: u64) {
    tx[pair].b = number;
}

/// Stores in a loop. `happens` runs between the two stores of the last round.
#[txn]
fn set_around<'r>(tx: &mut Txn<'r>, pair: P<'r, Pair>, number: u64, mut happens: impl FnMut(&mut Txn<'r>)) {
    for round in 0..=number {
        tx[pair].a = round;
        if round == number {
            happens(tx);
        }
        tx[pair].b = round;
    }
}

fn values(root: &Handle) -> (u64, u64) {
    root.read(|view, objects| {
        let pair = &view[view[objects].pair.unwrap()];
        (pair.a, pair.b)
    })
    .unwrap()
}

/// Returns whether the next transaction has forgotten the cache of the one before.
fn end() -> bool {
    let (_heap, root) = heap();
    for number in [1, 2] {
        root.txn(|tx, objects| {
            let pair = pair(tx, objects);
            if number == 2 {
                // So that the copy of the pair has another address this time.
                let large = tx[objects].large.unwrap();
                let element = large.at(tx, 0);
                tx[element][0] = 7;
            }
            find(tx, pair, |pair| pair.a = number);
            Ok(())
        })
        .unwrap();
    }
    values(&root) == (2, 0)
}

/// Returns whether a value that was stored after a spill is there.
fn spill() -> bool {
    let (_heap, root) = heap();
    root.txn(|tx, objects| {
        let pair = pair(tx, objects);
        find(tx, pair, |pair| pair.a = 1);
        tx.shared();
        set(tx, pair, 2);
        Ok(())
    })
    .unwrap();
    values(&root) == (1, 2)
}

/// Returns whether a store to a part is seen after a copy of the whole has replaced the copy of the part.
fn wider() -> bool {
    let (_heap, root) = heap();
    root.txn(|tx, objects| {
        let pair = pair(tx, objects);
        find(tx, field!(pair.a), |a| *a = 1);
        tx[pair].b = 2;
        tx[field!(pair.a)] = 3;
        Ok(())
    })
    .unwrap();
    values(&root) == (3, 2)
}

/// Returns whether a transaction that cannot be logged any more sees its own stores, until it is rolled back.
fn doom() -> bool {
    let (_heap, root) = heap();
    let mut seen = 0;
    let result = root.txn(|tx, objects| {
        let pair = pair(tx, objects);
        find(tx, pair, |pair| pair.a = 1);
        let large = tx[objects].large.unwrap();
        // Many copies, and then a store to a range too long for a copy.
        (0..3000).for_each(|i| {
            let element = large.at(tx, i);
            tx[element][0] = 7
        });
        find(tx, pair, |pair| pair.a = 1);
        tx[large].fill([8; 16]);
        set(tx, pair, 2);
        seen = tx[field!(pair.b)];
        Ok(())
    });
    assert!(matches!(result, Err(Error::OutOfSpace { .. })), "there was room for the log: {result:?}");
    assert_eq!(values(&root), (0, 0));
    seen == 2
}

/// Returns whether a value that was read before it was written is read from its copy afterwards.
fn copy() -> bool {
    let (_heap, root) = heap();
    root.txn(|tx, objects| {
        let pair = pair(tx, objects);
        // So that the transaction has a copy: without any, it would look for none.
        let large = tx[objects].large.unwrap();
        let element = large.at(tx, 0);
        tx[element][0] = 7;
        assert_eq!(tx[pair].a, 0);
        tx[field!(pair.a)] = 1;
        Ok(tx[pair].a == 1)
    })
    .unwrap()
}

/// A long transaction has written to a value in place, and then its log cannot grow. Returns whether later
/// stores to the value go to private memory instead.
fn doom_in_place() -> bool {
    let (_heap, root) = heap();
    let mut seen = (0, 0);
    let result = root.txn(|tx, objects| {
        let pair = pair(tx, objects);
        let large = tx[objects].large.unwrap();
        let element = large.at(tx, 0);
        tx[element][0] = 7;
        tx.shared();
        find(tx, pair, |pair| pair.a = 1);
        tx[large].fill([8; 16]);
        tx[field!(pair.a)] = 2;
        set(tx, pair, 3);
        seen = (tx[pair].a, tx[field!(pair.b)]);
        Ok(())
    });
    assert!(matches!(result, Err(Error::OutOfSpace { .. })), "there was room for the log: {result:?}");
    assert_eq!(values(&root), (0, 0));
    seen == (2, 3)
}

/// A function with a loop caches its pointers. Returns whether it forgets them when the transaction spills.
fn spill_in_a_loop() -> bool {
    let (_heap, root) = heap();
    root.txn(|tx, objects| {
        let pair = pair(tx, objects);
        set_around(tx, pair, 3, |tx| {
            tx.shared();
        });
        Ok(())
    })
    .unwrap();
    values(&root) == (3, 3)
}

/// The same when the log of the transaction cannot grow.
fn doom_in_a_loop() -> bool {
    let (_heap, root) = heap();
    let mut seen = 0;
    let result = root.txn(|tx, objects| {
        let pair = pair(tx, objects);
        let large = tx[objects].large.unwrap();
        let element = large.at(tx, 0);
        tx[element][0] = 7;
        tx.shared();
        find(tx, pair, |pair| pair.a = 1);
        set_around(tx, pair, 3, |tx| {
            tx[large].fill([8; 16]);
            tx[field!(pair.b)] = 9; // to private memory
        });
        seen = tx[field!(pair.b)];
        Ok(())
    });
    assert!(matches!(result, Err(Error::OutOfSpace { .. })), "there was room for the log: {result:?}");
    seen == 3
}

/// The same when a copy of the whole object replaces the copy of a part. (A nested part needs no such test: a
/// part that begins, or is rolled back, has another brand.)
fn wider_in_a_loop() -> bool {
    #[txn]
    fn set_part<'r>(tx: &mut Txn<'r>, part: P<'r, u64>, pair: P<'r, Pair>) {
        for round in 0..4 {
            tx[part] = round;
            if round == 2 {
                tx[pair].b = 2;
            }
        }
    }
    let (_heap, root) = heap();
    root.txn(|tx, objects| {
        let pair = pair(tx, objects);
        set_part(tx, field!(pair.a), pair);
        Ok(())
    })
    .unwrap();
    values(&root) == (3, 2)
}

#[test]
fn what_is_not_forgotten_is_noticed() {
    let causes: [(fn() -> bool, Bug); 9] = [
        (end, Bug::RecentAfterEnd),
        (spill, Bug::RecentAfterSpill),
        (wider, Bug::RecentAfterWider),
        (doom, Bug::RecentAfterDoom),
        (doom_in_place, Bug::RecentAfterDoom),
        (copy, Bug::RecentAfterCopy),
        (spill_in_a_loop, Bug::RecentAfterSpill),
        (doom_in_a_loop, Bug::RecentAfterDoom),
        (wider_in_a_loop, Bug::RecentAfterWider),
    ];
    for (is_right, bug) in causes {
        assert!(is_right(), "without {bug:?}");
        let _seeded = Seeded::new(bug);
        assert!(!is_right(), "{bug:?} is not noticed");
    }
}
