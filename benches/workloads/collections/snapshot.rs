//! `snap_map_take` and `snap_map_beside`: snapshots of a `PSnapMap`, compared with a `BTreeMap` of std under
//! a lock.

use super::{in_pieces, key, shuffled};
use crate::measure::Checksum;
use crate::scratch::name;
use crate::{Case, Result, Sample, Setup};
use pheap::{PSnapMap, Root, Snapshot};
use std::collections::BTreeMap;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

type Map = PSnapMap<'static, u64, u64>;

fn filled(root: &Root<Map>, n: u64) -> pheap::Result<()> {
    in_pieces(n, 1000, |from, to| root.txn(|tx, map| map.extend(tx, (from..to).map(|i| (key(i), i)))))
}

fn take(root: &Root<Map>) -> pheap::Result<Snapshot<u64, u64>> {
    root.read(|view, map| map.snapshot(view))?
}

/// Takes and drops `n` snapshots of a map with `n` entries.
pub fn snap_map_take(setup: &Setup, n: u64) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for &durability in &setup.durabilities {
        let heap = setup.heap(durability)?;
        let root = heap.heap.root("map")?;
        filled(&root, n)?;
        cases.push(Case::new("pheap", "snap_map_take", name(durability), n, move || {
            let take = || (0..n).try_for_each(|_| take(&root).map(drop));
            let (sample, ()) = heap.time(take)?;
            Ok(sample.with(Checksum::Int(0)))
        }));
    }
    Ok(cases)
}

/// Runs `work` while another thread calls `write` again and again.
fn beside<R>(write: impl Fn(u64) + Sync, work: impl FnOnce() -> R) -> R {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| (0..).take_while(|_| !done.load(Ordering::Relaxed)).for_each(&write));
        let result = work();
        done.store(true, Ordering::Relaxed);
        result
    })
}

/// Looks up `n` keys in random order while another thread sets values, one in a transaction. The lookups use
/// one snapshot, or take a lock each time.
pub fn snap_map_beside(setup: &Setup, n: u64) -> Result<Vec<Case>> {
    const BENCH: &str = "snap_map_beside";
    let order = shuffled(n);
    let mut cases = Vec::new();
    {
        let order = order.clone();
        let map: RwLock<BTreeMap<u64, u64>> = RwLock::new((0..n).map(|i| (key(i), i)).collect());
        cases.push(Case::new("volatile", BENCH, "std", n, move || {
            let write = |i: u64| {
                map.write().expect("no panic").insert(key(i % n), i % n);
            };
            let look = |i: &u32| i128::from(map.read().expect("no panic")[&key(u64::from(*i))]);
            let (sample, sum) = beside(write, || Sample::time(|| order.iter().map(look).sum()));
            Ok(sample.with(Checksum::Int(sum)))
        }));
    }
    for &durability in &setup.durabilities {
        for by_snapshot in [true, false] {
            let heap = setup.heap(durability)?;
            let root: Root<Map> = heap.heap.root("map")?;
            filled(&root, n)?;
            let order = order.clone();
            let variant = format!("{}{}", name(durability), if by_snapshot { "" } else { ":read" });
            cases.push(Case::new("pheap", BENCH, variant, n, move || {
                let write = |i: u64| {
                    root.txn(|tx, map| map.insert(tx, &key(i % n), &(i % n)).map(drop))
                        .expect("there is room");
                };
                let all = || -> pheap::Result<i128> {
                    if by_snapshot {
                        let look = |i: &u32, map: &pheap::collections::snap::SnapRef<'_, '_, u64, u64>| {
                            map.get(&key(u64::from(*i))).copied().map_or(0, i128::from)
                        };
                        return take(&root)?.read(|map| order.iter().map(|i| look(i, &map)).sum());
                    }
                    order
                        .iter()
                        .map(|&i| {
                            let look = root.read(|view, map| map.get(view, &key(u64::from(i))).copied());
                            look.map(|value| value.map_or(0, i128::from))
                        })
                        .sum()
                };
                let (sample, sum) = beside(write, || heap.time(all))?;
                Ok(sample.with(Checksum::Int(sum)))
            }));
        }
    }
    Ok(cases)
}
