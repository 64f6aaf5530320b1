//! `sps`: `n` random swaps of an array of `n` u64, all in one transaction. The array is filled outside the
//! timed part.

use crate::measure::Checksum;
use crate::scratch::Scratch;
use crate::{Case, Result, Sample, Setup};
use crate::{Rng, SEED};
use pheap::{Heap, Options, P, Persist, Root, Txn, txn};
use std::rc::Rc;

/// The root of the heap.
#[derive(Persist)]
#[repr(C)]
pub(crate) struct Array<'r> {
    pub(crate) items: P<'r, [u64]>,
}

/// The way in which a transaction makes the swaps.
#[derive(Clone, Copy)]
pub(crate) enum Swaps {
    /// Makes the whole array crash-safe once, then swaps in an ordinary slice.
    SliceMut,
    /// Each swap makes its two elements crash-safe, by `tx.swap`.
    Element,
    /// Each swap makes its two elements crash-safe, by assignments under `#[txn]`.
    ElementTxn,
}

/// Returns all variants at size `n`.
pub fn cases(setup: &Setup, n: u64) -> Result<Vec<Case>> {
    let mut cases = vec![volatile(n)];
    let all =
        [(Swaps::SliceMut, "slice_mut"), (Swaps::Element, "element"), (Swaps::ElementTxn, "element_txn")];
    for (options, name) in setup.modes() {
        cases.extend(on_heap(setup, &options, name, n, &all)?);
    }
    for (options, name) in setup.undo_modes() {
        cases.extend(on_heap(setup, &options, name, n, &[(Swaps::Element, "element:undo")])?);
    }
    Ok(cases)
}

/// Returns variants that share one array.
fn on_heap(
    setup: &Setup,
    options: &Options,
    name: &str,
    n: u64,
    variants: &[(Swaps, &str)],
) -> Result<Vec<Case>> {
    let heap = Rc::new(setup.heap_with(options)?);
    let root = Rc::new(array(&heap.heap, n)?);
    let case = |&(swaps, suffix): &(Swaps, &str)| {
        let (heap, root) = (heap.clone(), root.clone());
        Case::new("pheap", "sps", format!("{name}:{suffix}"), n, move || pass(&heap, &root, n, swaps))
    };
    Ok(variants.iter().map(case).collect())
}

/// Returns the array of a heap. Creates and fills it if necessary.
pub(crate) fn array(heap: &Heap, n: u64) -> pheap::Result<Root<Array<'static>>> {
    heap.root_or("array", |tx| Ok(Array { items: tx.alloc_slice(n as usize, |i| i as u64)? }))
}

fn volatile(n: u64) -> Case {
    let mut array = vec![0; n as usize];
    Case::new("volatile", "sps", "vec", n, move || {
        fill(&mut array);
        let (sample, ()) = Sample::time(|| random_pairs(n, |i, j| array.swap(i, j)));
        Ok(sample.with(checksum(&array)))
    })
}

fn pass(heap: &Scratch, root: &Root<Array<'static>>, n: u64, swaps: Swaps) -> Result<Sample> {
    root.txn(|tx, p| {
        let items = tx[p].items;
        fill(tx.slice_mut(items, ..));
        Ok(())
    })?;
    let (sample, ()) = heap.time(|| {
        root.txn(|tx, p| {
            let items = tx[p].items;
            swap_all(tx, items, n, swaps);
            Ok(())
        })
    })?;
    let sum = root.read(|view, p| checksum(&view[view[p].items]))?;
    Ok(sample.with(sum))
}

/// Makes all swaps.
pub(crate) fn swap_all<'r>(tx: &mut Txn<'r>, items: P<'r, [u64]>, n: u64, swaps: Swaps) {
    match swaps {
        Swaps::SliceMut => {
            let slice = tx.slice_mut(items, ..);
            random_pairs(n, |i, j| slice.swap(i, j));
        }
        Swaps::Element => random_pairs(n, |i, j| tx.swap(items.at(tx, i), items.at(tx, j))),
        Swaps::ElementTxn => random_pairs(n, |i, j| exchange(tx, items, i, j)),
    }
}

#[txn]
fn exchange<'r>(tx: &mut Txn<'r>, items: P<'r, [u64]>, i: usize, j: usize) {
    let (x, y) = (tx[items][i], tx[items][j]);
    tx[items][i] = y;
    tx[items][j] = x;
}

#[inline]
fn random_pairs(n: u64, mut swap: impl FnMut(usize, usize)) {
    let mut rng = Rng::from_seed(SEED);
    for _ in 0..n {
        let (i, j) = (rng.scaled(n), rng.scaled(n));
        swap(i as usize, j as usize);
    }
}

fn fill(array: &mut [u64]) {
    for (item, i) in array.iter_mut().zip(0..) {
        *item = i;
    }
}

pub(crate) fn checksum(array: &[u64]) -> Checksum {
    Checksum::in_order(array.iter().copied())
}
