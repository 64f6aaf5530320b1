//! `fannkuch`: fannkuch-redux of the Benchmarks Game, over bytes. On the heap the three arrays are one
//! object, and the whole run is one transaction.

use crate::measure::Checksum;
use crate::{Case, Result, Sample, Setup, scratch};
use pheap::{Durability, P, Persist, Root, Txn, txn};
use std::hint::black_box;

/// Room for the largest permutation.
const MAX: usize = 16;

/// The three arrays.
#[derive(Clone, Copy, Debug, Default, Persist)]
#[repr(C)]
struct State {
    flipped: [u8; MAX],
    permutation: [u8; MAX],
    count: [u8; MAX],
}

/// Returns all variants for permutations of `n` elements.
pub fn cases(setup: &Setup, n: u64) -> Result<Vec<Case>> {
    assert!((2..MAX as u64).contains(&n));
    let volatile = move || {
        let mut state = State::default();
        let (sample, sum) = Sample::time(|| in_place(black_box(&mut state), n as usize));
        Ok(sample.with(Checksum::Int(sum.into())))
    };
    let mut cases = vec![Case::new("volatile", "fannkuch", "array", n, volatile)];
    for &durability in &setup.durabilities {
        let name = scratch::name(durability);
        cases.push(on_heap(setup, durability, name.into(), n, |tx, p, n| in_place(&mut tx[p], n))?);
        cases.push(on_heap(setup, durability, format!("{name}:element_txn"), n, by_element)?);
    }
    Ok(cases)
}

fn on_heap(
    setup: &Setup,
    durability: Durability,
    variant: String,
    n: u64,
    run: impl for<'r> Fn(&mut Txn<'r>, P<'r, State>, usize) -> i32 + Copy + 'static,
) -> Result<Case> {
    let heap = setup.heap(durability)?;
    let root: Root<State> = heap.heap.root("state")?;
    Ok(Case::new("pheap", "fannkuch", variant, n, move || {
        let (sample, sum) = heap.time(|| root.txn(|tx, p| Ok(run(tx, p, n as usize))))?;
        Ok(sample.with(Checksum::Int(sum.into())))
    }))
}

/// Runs the algorithm on ordinary arrays, or on a `&mut` that covers all of them. Returns the checksum of the
/// flips. It has loops over bytes, because `reverse` and `rotate_left` take longer on such short arrays. It
/// is compiled once, so that the volatile and the persistent variant run the same code.
#[inline(never)]
fn in_place(state: &mut State, n: usize) -> i32 {
    let State { flipped, permutation, count } = state;
    for (element, i) in permutation[..n].iter_mut().zip(0..) {
        *element = i;
    }
    let (mut sum, mut sign, mut r) = (0, 1, n);
    loop {
        while r != 1 {
            count[r - 1] = r as u8;
            r -= 1;
        }
        for (to, from) in flipped[..n].iter_mut().zip(permutation.iter()) {
            *to = *from;
        }
        while flipped[0] != 0 {
            let (mut i, mut j) = (0, usize::from(flipped[0]));
            while i < j {
                flipped.swap(i, j);
                i += 1;
                j -= 1;
            }
            sum += sign;
        }
        sign = -sign;
        loop {
            if r == n {
                return sum;
            }
            let first = permutation[0];
            for i in 0..r {
                permutation[i] = permutation[i + 1];
            }
            permutation[r] = first;
            count[r] -= 1;
            if count[r] > 0 {
                break;
            }
            r += 1;
        }
    }
}

/// Runs the same algorithm, and assigns each element by itself under `#[txn]`.
#[txn]
fn by_element<'r>(tx: &mut Txn<'r>, p: P<'r, State>, n: usize) -> i32 {
    for i in 0..n {
        tx[p].permutation[i] = i as u8;
    }
    let (mut sum, mut sign, mut r) = (0, 1, n);
    loop {
        while r != 1 {
            tx[p].count[r - 1] = r as u8;
            r -= 1;
        }
        for i in 0..n {
            let element = tx[p].permutation[i];
            tx[p].flipped[i] = element;
        }
        while tx[p].flipped[0] != 0 {
            let (mut i, mut j) = (0, usize::from(tx[p].flipped[0]));
            while i < j {
                let (x, y) = (tx[p].flipped[i], tx[p].flipped[j]);
                tx[p].flipped[i] = y;
                tx[p].flipped[j] = x;
                i += 1;
                j -= 1;
            }
            sum += sign;
        }
        sign = -sign;
        loop {
            if r == n {
                return sum;
            }
            let first = tx[p].permutation[0];
            for i in 0..r {
                let next = tx[p].permutation[i + 1];
                tx[p].permutation[i] = next;
            }
            tx[p].permutation[r] = first;
            tx[p].count[r] -= 1;
            if tx[p].count[r] > 0 {
                break;
            }
            r += 1;
        }
    }
}
