//! Compares collections with those of std: insert, get, remove, iterate, with keys in random order.
//!
//! On the heap each operation is a separate transaction (or read), or 1000 of them share one. An iteration is
//! one read. The collections of std have no transactions.

mod map;
mod snapshot;
mod vec;

use crate::scratch;
use crate::{Rng, SEED};
use crate::{Sample, Setup};
use pheap::Durability;
use std::time::Instant;

pub use map::{btree_map_str, btree_map_u64, hash_map_str, hash_map_u64, snap_map_str, snap_map_u64};
pub use snapshot::{snap_map_beside, snap_map_take};
pub use vec::vec_u64;

/// Numbers of operations in a transaction.
const TOGETHER: [u64; 2] = [1, 1000];

/// The operation of a pass.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Op {
    /// Inserts all keys into an empty collection, which grows.
    Insert,
    /// The same, with the time of each single insertion.
    Grow,
    /// Looks up all keys. All are there.
    Get,
    /// Removes all keys.
    Remove,
    /// Iterates over all entries.
    Iterate,
}

/// Returns the variants of a heap: its durability, and the number of operations that share a transaction.
fn variants(setup: &Setup, op: Op) -> Vec<(Durability, u64)> {
    let together: &[u64] = match op {
        Op::Iterate => &[0],
        Op::Grow => &[1],
        _ => &TOGETHER,
    };
    setup.durabilities.iter().flat_map(|&d| together.iter().map(move |&t| (d, t))).collect()
}

/// Returns the name of a variant: `pmem`, or `pmem:1000` if that many operations share a transaction.
fn variant(durability: Durability, together: u64) -> String {
    match together {
        0 | 1 => scratch::name(durability).to_owned(),
        _ => format!("{}:{together}", scratch::name(durability)),
    }
}

/// Returns key `i`: a pseudo-random number.
pub(crate) fn key(i: u64) -> u64 {
    Rng::from_seed(i).next_u64()
}

/// Returns the numbers below `n` in random order.
fn shuffled(n: u64) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..n as u32).collect();
    let mut rng = Rng::from_seed(SEED);
    for i in (1..numbers.len()).rev() {
        numbers.swap(i, rng.scaled(i as u64 + 1) as usize);
    }
    numbers
}

/// Runs `work` on consecutive ranges of `0..n`, each of `together` operations.
fn in_pieces(
    n: u64,
    together: u64,
    mut work: impl FnMut(u64, u64) -> pheap::Result<()>,
) -> pheap::Result<()> {
    let together = together.max(1);
    (0..n.div_ceil(together)).try_for_each(|i| work(i * together, (i * together + together).min(n)))
}

/// Times each of `n` operations. The notes are `p50`, `p9999` and `max`, in nanoseconds.
fn each(n: u64, mut op: impl FnMut(u64) -> pheap::Result<()>) -> pheap::Result<Sample> {
    let mut times = Vec::with_capacity(n as usize);
    for i in 0..n {
        let start = Instant::now();
        op(i)?;
        times.push(start.elapsed().as_nanos() as u32);
    }
    let seconds = times.iter().map(|&t| f64::from(t)).sum::<f64>() / 1e9;
    times.sort_unstable();
    let at = |share: f64| f64::from(times[((n - 1) as f64 * share) as usize]);
    let sample = Sample { seconds, ..Sample::default() };
    Ok(sample.noting("p50", at(0.5)).noting("p9999", at(0.9999)).noting("max", at(1.0)))
}
