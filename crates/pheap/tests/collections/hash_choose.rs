//! Random entries of hash maps and sets: the choice finds each entry as often as the others.
//!
//! The tests compare the sum of squares that Pearson's test computes. A fair choice should exceed the bound
//! about once in 10^17 runs.

use std::collections::HashMap;

use pheap::collections::HashKey;
use pheap::{Heap, Options, P, PHashMap, PHashSet, Root, Txn};
use pheap_testkit::rng::Rng;

use crate::hash::Clumsy;

/// How many times each entry is chosen, on average.
const TIMES: usize = 200;

fn assert_fair(counts: &HashMap<u64, u64>, keys: impl ExactSizeIterator<Item = u64>) {
    let n = keys.len();
    let expected = TIMES as f64;
    let off: f64 = keys.map(|k| (counts.get(&k).copied().unwrap_or(0) as f64 - expected).powi(2)).sum();
    // Laurent and Massart, "Adaptive estimation of a quadratic functional by model selection", 2000, lemma 1.
    let bound = n as f64 + 2.0 * (40.0 * n as f64).sqrt() + 80.0;
    assert_eq!(counts.values().sum::<u64>(), (n * TIMES) as u64);
    assert!(off / expected < bound, "{} of {bound} with {n} entries", off / expected);
}

/// Tests that a map of these keys, of which each has itself as value, is fair to them.
fn test<'r, K: HashKey<'r>>(tx: &Txn<'r>, map: P<'r, PHashMap<'r, K, u64>>) {
    let mut rng = Rng::new(&[7, map.len(tx) as u64]);
    let mut counts = HashMap::new();
    for _ in 0..map.len(tx) * TIMES {
        let (key, value) = map.choose(tx, || rng.next_u64()).expect("an entry");
        assert!(map.get(tx, key) == Some(value));
        *counts.entry(*value).or_default() += 1;
    }
    assert_fair(&counts, map.values(tx).copied().collect::<Vec<_>>().into_iter());
}

fn maps<K: for<'r> pheap::Persist<At<'r> = K> + for<'r> HashKey<'r, Query = K>>(
    run: impl for<'r> FnOnce(&mut Txn<'r>, P<'r, PHashMap<'r, K, u64>>) -> pheap::Result<()>,
) {
    let heap = Options::new().reserve(1 << 28).in_memory().unwrap();
    let root: Root<PHashMap<K, u64>> = heap.root("map").unwrap();
    root.txn(run).unwrap();
    root.txn(|tx, map| {
        test(tx, map);
        Ok(())
    })
    .unwrap();
}

#[test]
fn maps_of_all_sizes() {
    for n in (1..12).chain([27, 28, 60, 300, 1000, 6000]) {
        maps::<u64>(|tx, map| map.extend(tx, (0..n).map(|k| (k, k))));
    }
}

/// Some buckets are for few bits of the hash, others for many: a part of the entries has hashes with the same
/// beginning.
#[test]
fn buckets_of_different_depth() {
    for (all, near, far) in [(1_000, 200, 20), (40_000, 500, 500), (40_000, 900, 100)] {
        maps::<u64>(|tx, map| {
            let other = tx.alloc(PHashMap::<u64, u64>::new())?;
            other.extend(tx, (0..all).map(|k| (k, k)))?;
            // In the order of hashes.
            let near: Vec<(u64, u64)> = other.iter(tx).take(near).map(|(k, v)| (*k, *v)).collect();
            map.extend(tx, near)?;
            map.extend(tx, (all..all + far).map(|k| (k, k)))
        });
    }
}

#[test]
fn most_entries_have_been_removed() {
    for left in [1, 2, 30] {
        maps::<u64>(|tx, map| {
            map.extend(tx, (0..8000).map(|k| (k, k)))?;
            map.retain(tx, |k, _| *k < left);
            Ok(())
        });
    }
}

#[test]
fn chains_of_buckets() {
    maps::<Clumsy<1>>(|tx, map| map.extend(tx, (0..200).map(|k| (Clumsy(k), k))));
    maps::<Clumsy<20>>(|tx, map| map.extend(tx, (0..800).map(|k| (Clumsy(k), k))));
}

#[test]
fn sets_and_nothing() {
    let heap = Heap::in_memory().unwrap();
    let map: Root<PHashMap<u64, u64>> = heap.root("map").unwrap();
    let set: Root<PHashSet<P<str>>> = heap.root("set").unwrap();
    map.read(|view, map| assert!(map.choose(view, || unreachable!("nothing to choose from")).is_none()))
        .unwrap();
    map.txn(|tx, map| {
        map.extend(tx, (0..2000).map(|k| (k, k)))?;
        map.retain(tx, |_, _| false);
        assert!(map.choose(tx, || unreachable!("nothing to choose from")).is_none());
        Ok(())
    })
    .unwrap();
    for n in [3, 100] {
        set.txn(|tx, set| set.extend(tx, (0..n).map(|k| k.to_string()))).unwrap();
        set.read(|view, set| {
            let mut rng = Rng::new(&[n]);
            let mut counts = HashMap::new();
            for _ in 0..n as usize * TIMES {
                let element = set.choose(view, || rng.next_u64()).expect("an element");
                *counts.entry(element.parse().unwrap()).or_default() += 1;
            }
            assert_fair(&counts, (0..n).collect::<Vec<_>>().into_iter());
        })
        .unwrap();
    }
}
