//! `txn_empty`: `n` transactions that do nothing. `txn_small`: `n` transactions, each of which sets one 8-byte field
//! of one object, going round 1024 objects of 64 bytes.

use crate::measure::Checksum;
use crate::{Case, Result, Sample, Setup, scratch};
use pheap::{Durability, P, Persist, Root, Txn, txn};
use std::hint::black_box;

/// The objects that `txn_small` goes round.
const OBJECTS: usize = 1024;

/// 64 bytes.
#[derive(Clone, Copy, Debug, Default, Persist)]
#[repr(C)]
struct Object {
    field: u64,
    rest: [u64; 7],
}

/// The root of the heap.
#[derive(Persist)]
#[repr(C)]
struct Objects<'r> {
    objects: P<'r, [Object]>,
}

/// All variants of `txn_empty`.
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

/// All variants of `txn_small`.
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
    for &durability in &setup.durabilities {
        let name = scratch::name(durability);
        cases.push(on_heap(setup, durability, name.into(), n, set)?);
        cases.push(on_heap(setup, durability, format!("{name}:index_mut"), n, set_plainly)?);
    }
    Ok(cases)
}

/// Only the field is logged.
#[txn]
fn set<'r>(tx: &mut Txn<'r>, object: P<'r, Object>, value: u64) {
    tx[object].field = value;
}

/// The same without `#[txn]`: the whole object is made crash-safe.
fn set_plainly<'r>(tx: &mut Txn<'r>, object: P<'r, Object>, value: u64) {
    tx[object].field = value;
}

fn on_heap(
    setup: &Setup,
    durability: Durability,
    variant: String,
    n: u64,
    set: impl for<'r> Fn(&mut Txn<'r>, P<'r, Object>, u64) + Copy + 'static,
) -> Result<Case> {
    let heap = setup.heap(durability)?;
    let root: Root<Objects> = heap
        .heap
        .root_or("objects", |tx| Ok(Objects { objects: tx.alloc_slice(OBJECTS, |_| Object::default())? }))?;
    Ok(Case::new("pheap", "txn_small", variant, n, move || {
        let (sample, ()) = heap.time(|| {
            for i in 0..n {
                root.txn(|tx, p| {
                    let object = tx[p].objects.at(i as usize % OBJECTS);
                    set(tx, object, i);
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        let sum = root.read(|view, p| checksum(&view[view[p].objects]))?;
        Ok(sample.with(sum))
    }))
}

fn checksum(objects: &[Object]) -> Checksum {
    let terms = objects.iter().zip(1..).map(|(object, i): (_, u64)| object.field.wrapping_mul(i));
    Checksum::Int(terms.fold(0, u64::wrapping_add).into())
}
