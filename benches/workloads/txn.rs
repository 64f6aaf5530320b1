//! `txn_empty`: `n` transactions that do nothing. `txn_small`: `n` transactions, each of which sets one
//! 8-byte field of one object, going round 1024 objects of 64 bytes. `txn_objects`: each transaction sets one
//! such field in each of the next `k` objects. `txn_two`: each transaction sets one such field in each of two
//! roots.

use crate::measure::Checksum;
use crate::scratch::{self, Scratch};
use crate::{Case, Result, Sample, Setup};
use pheap::{Durability, Heap, Options, P, Persist, Root, SyncPolicy, Txn, txn};
use std::hint::black_box;

/// Number of objects that the transactions go round.
const OBJECTS: usize = 1024;

/// An object of 64 bytes.
#[derive(Clone, Copy, Debug, Default, Persist)]
#[repr(C)]
struct Object {
    field: u64,
    rest: [u64; 7],
}

/// The root of the heap.
#[derive(Persist)]
#[repr(C)]
pub(crate) struct Objects<'r> {
    objects: P<'r, [Object]>,
}

/// Returns all variants of `txn_empty`.
pub fn empty(setup: &Setup, n: u64) -> Result<Vec<Case>> {
    let nothing = move || {
        Ok(Sample::time(|| {
            for i in 0..n {
                black_box(i);
            }
        })
        .0)
    };
    let mut cases = vec![Case::new("volatile", "txn_empty", "loop", n, nothing)];
    for &durability in &setup.durabilities {
        let heap = setup.heap(durability)?;
        let root: Root<u64> = heap.heap.root("number")?;
        let pass = move || {
            let timed = heap.time(|| {
                for _ in 0..n {
                    root.txn(|_, _| Ok(()))?;
                }
                Ok(())
            });
            Ok(timed?.0)
        };
        cases.push(Case::new("pheap", "txn_empty", scratch::name(durability), n, pass));
    }
    Ok(cases)
}

/// Returns all variants of `txn_small`.
pub fn small(setup: &Setup, n: u64) -> Result<Vec<Case>> {
    let mut objects = vec![Object::default(); OBJECTS];
    let pass = move || {
        let (sample, ()) = Sample::time(|| {
            let objects = black_box(&mut objects[..]);
            for i in 0..n {
                objects[i as usize % OBJECTS].field = i;
            }
        });
        Ok(sample.with(checksum(&objects)))
    };
    let mut cases = vec![Case::new("volatile", "txn_small", "vec", n, pass)];
    for (options, name) in setup.modes() {
        cases.push(small_on_heap(setup, &options, name.into(), n, set)?);
        cases.push(small_on_heap(setup, &options, format!("{name}:index_mut"), n, set_plainly)?);
    }
    for (options, name) in setup.undo_modes() {
        cases.push(small_on_heap(setup, &options, format!("{name}:undo"), n, set)?);
    }
    if setup.durabilities.contains(&Durability::Wal) {
        let options = Options::new().durability(Durability::Wal).sync_policy(SyncPolicy::OnDemand);
        cases.push(small_on_heap(setup, &options, "wal:on_demand".into(), n, set)?);
    }
    Ok(cases)
}

/// Returns all variants of `txn_objects` with `k` objects in a transaction.
pub fn objects(setup: &Setup, n: u64, k: u64) -> Result<Vec<Case>> {
    let k = k as usize;
    let mut objects = vec![Object::default(); OBJECTS];
    let pass = move || {
        let (sample, ()) = Sample::time(|| {
            for i in 0..n {
                let objects = black_box(&mut objects[..]);
                for j in 0..k {
                    objects[next(i, j, k)].field = i;
                }
            }
        });
        Ok(sample.with(checksum(&objects)).noting("k", k as f64))
    };
    let mut cases = vec![Case::new("volatile", "txn_objects", format!("vec:k{k}"), n, pass)];
    for (options, name) in setup.modes() {
        cases.push(objects_on_heap(setup, &options, format!("{name}:k{k}"), n, k)?);
    }
    for (options, name) in setup.undo_modes() {
        cases.push(objects_on_heap(setup, &options, format!("{name}:k{k}:undo"), n, k)?);
    }
    Ok(cases)
}

/// Returns all variants of `txn_two`: alone, and `:mixed` with a transaction over one of the roots after
/// each.
pub fn two(setup: &Setup, n: u64) -> Result<Vec<Case>> {
    let mut roots = [(); 2].map(|()| vec![Object::default(); OBJECTS]);
    let pass = move || {
        let (sample, ()) = Sample::time(|| {
            for i in 0..n {
                black_box(&mut roots).iter_mut().for_each(|objects| objects[i as usize % OBJECTS].field = i);
            }
        });
        Ok(sample.with(checksum(&roots[1])))
    };
    let mut cases = vec![Case::new("volatile", "txn_two", "vec", n, pass)];
    for (options, name) in setup.modes() {
        cases.push(two_on_heap(setup, &options, name.into(), n, false)?);
        cases.push(two_on_heap(setup, &options, format!("{name}:mixed"), n, true)?);
    }
    Ok(cases)
}

/// Returns the index of object `j` of the `k` objects of transaction `i`.
#[inline]
fn next(i: u64, j: usize, k: usize) -> usize {
    (i as usize * k + j) % OBJECTS
}

/// Sets the field, by an assignment that `#[txn]` rewrites.
#[txn]
fn set<'r>(tx: &mut Txn<'r>, object: P<'r, Object>, value: u64) {
    tx[object].field = value;
}

/// Sets the field without `#[txn]`: the whole object is made crash-safe.
fn set_plainly<'r>(tx: &mut Txn<'r>, object: P<'r, Object>, value: u64) {
    tx[object].field = value;
}

/// Sets the field of each of the `k` objects of transaction `i`, as [`set`] does.
#[txn]
fn set_all<'r>(tx: &mut Txn<'r>, objects: P<'r, [Object]>, i: u64, k: usize) {
    for j in 0..k {
        let object = objects.at(tx, next(i, j, k));
        tx[object].field = i;
    }
}

fn small_on_heap(
    setup: &Setup,
    options: &Options,
    variant: String,
    n: u64,
    set: impl for<'r> Fn(&mut Txn<'r>, P<'r, Object>, u64) + Copy + 'static,
) -> Result<Case> {
    let (heap, root) = new_objects(setup, options)?;
    Ok(Case::new("pheap", "txn_small", variant, n, move || {
        let (sample, ()) = heap.time(|| {
            for i in 0..n {
                root.txn(|tx, p| {
                    let object = tx[p].objects.at(tx, i as usize % OBJECTS);
                    set(tx, object, i);
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        Ok(sample.with(root.read(|view, p| checksum(&view[view[p].objects]))?))
    }))
}

fn objects_on_heap(setup: &Setup, options: &Options, variant: String, n: u64, k: usize) -> Result<Case> {
    let (heap, root) = new_objects(setup, options)?;
    Ok(Case::new("pheap", "txn_objects", variant, n, move || {
        let (sample, ()) = heap.time(|| {
            for i in 0..n {
                root.txn(|tx, p| {
                    let objects = tx[p].objects;
                    set_all(tx, objects, i, k);
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        let sum = root.read(|view, p| checksum(&view[view[p].objects]))?;
        Ok(sample.with(sum).noting("k", k as f64))
    }))
}

fn two_on_heap(setup: &Setup, options: &Options, variant: String, n: u64, mixed: bool) -> Result<Case> {
    let (heap, one) = new_objects(setup, options)?;
    let other = root(&heap.heap, "others")?;
    Ok(Case::new("pheap", "txn_two", variant, n, move || {
        let (sample, ()) = heap.time(|| {
            for i in 0..n {
                pheap::txn((&one, &other), |((ta, a), (tb, b))| {
                    let (a, b) = (ta[a].objects, tb[b].objects);
                    set(ta, a.at(ta, i as usize % OBJECTS), i);
                    set(tb, b.at(tb, i as usize % OBJECTS), i);
                    Ok(())
                })?;
                if mixed {
                    set_one(&one, i)?;
                }
            }
            Ok(())
        })?;
        Ok(sample.with(other.read(|view, p| checksum(&view[view[p].objects]))?))
    }))
}

fn new_objects(setup: &Setup, options: &Options) -> Result<(Scratch, Root<Objects<'static>>)> {
    let heap = setup.heap_with(options)?;
    let root = root(&heap.heap, "objects")?;
    Ok((heap, root))
}

/// Makes a root with the objects.
pub(crate) fn root(heap: &Heap, name: &str) -> pheap::Result<Root<Objects<'static>>> {
    heap.root_or(name, |tx| Ok(Objects { objects: tx.alloc_slice(OBJECTS, |_| Object::default())? }))
}

/// Runs transaction `i` of `txn_small`.
#[inline]
pub(crate) fn set_one(root: &Root<Objects<'static>>, i: u64) -> pheap::Result<()> {
    root.txn(|tx, p| {
        let object = tx[p].objects.at(tx, i as usize % OBJECTS);
        set(tx, object, i);
        Ok(())
    })
}

fn checksum(objects: &[Object]) -> Checksum {
    Checksum::in_order(objects.iter().map(|object| object.field))
}
