//! `read_in_closure`, `writer_and_reader`: one thread reads the root that another one writes to, both without
//! pauses between their operations.

use super::latencies::{Latencies, READS};
use super::rates::{Work, rates};
use super::{Map, OPERATIONS, Setting, at_rate, get, map};
use crate::collections::key;
use crate::{Case, Result, Sample, scratch};
use pheap::{Durability, Heap, Root};
use std::hint::{black_box, spin_loop};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time that closures take in addition to their changes.
const LONG: Duration = Duration::from_millis(100);
const SHORT: Duration = Duration::from_micros(5);

pub(super) const ENTRIES: u64 = 1000;
/// Number of entries that a transaction changes.
const CHANGES: u64 = 8;
/// Number of reads between two looks at the time.
const READS_AT_ONCE: u64 = 64;

/// Measures the times of reads. The closures sleep, so that the reader has a processor even if there are few.
pub(super) fn long_closures(setting: &Setting) -> Result<Vec<Case>> {
    let time = setting.time.max(8 * LONG);
    let pass = move |[root, _]: [&Root<Map>; 2], variant: &str| {
        let mut latencies = Latencies::new();
        let mut works = vec![timed_reads(root, get, &mut latencies)];
        if variant == "beside" {
            works.push(writer(root, || sleep(LONG)));
        }
        let rate = rates(works, time)?[0];
        Ok(latencies.note(at_rate(rate), READS))
    };
    cases(setting, "read_in_closure", &["alone", "beside"], pass)
}

/// Measures the rates of reads and of transactions.
pub(super) fn short_closures(setting: &Setting) -> Result<Vec<Case>> {
    let time = setting.time;
    let spin = || {
        let start = Instant::now();
        while start.elapsed() < SHORT {
            spin_loop();
        }
    };
    let pass = move |[root, other]: [&Root<Map>; 2], variant: &str| {
        let works = match variant {
            "reader" => vec![reader(root)],
            "writer" => vec![writer(root, spin)],
            "apart" => vec![reader(root), writer(other, spin)],
            _ => vec![reader(root), writer(root, spin)],
        };
        let rates = rates(works, time)?;
        let sample = at_rate(rates[0]);
        Ok(if let [_, writes] = rates[..] { sample.noting("writes_per_second", writes) } else { sample })
    };
    cases(setting, "writer_and_reader", &["reader", "writer", "both", "apart"], pass)
}

/// Returns the cases. A pass gets roots of two heaps.
fn cases(
    setting: &Setting,
    bench: &'static str,
    variants: &[&'static str],
    pass: impl Fn([&Root<Map>; 2], &str) -> Result<Sample> + Copy + 'static,
) -> Result<Vec<Case>> {
    let case = |durability: Durability, variant: &'static str| {
        let (memory, name) = (setting.memory.clone(), format!("{}:{variant}", scratch::name(durability)));
        Case::new("pheap", bench, name, OPERATIONS, move || {
            let heaps = [memory.heap(durability)?, memory.heap(durability)?];
            let [root, other] = heaps.each_ref().map(|heap| map(&heap.heap, "map", ENTRIES));
            pass([&root?, &other?], variant)
        })
    };
    let durabilities = setting.memory.durabilities.iter();
    Ok(durabilities.flat_map(|&durability| variants.iter().map(move |&v| case(durability, v))).collect())
}

/// Reads one entry of the map after the other.
pub(super) fn reader(root: &Root<Map>) -> Work<'static> {
    let (root, mut next) = (root.clone(), 0);
    Box::new(move || {
        for _ in 0..READS_AT_ONCE {
            black_box(get(&root, key(next % ENTRIES))?);
            next += 1;
        }
        Ok(READS_AT_ONCE)
    })
}

/// A function that reads an entry.
pub(super) type Read<M> = fn(&Root<M>, u64) -> pheap::Result<u64>;

/// Reads one entry after the other by `read`, and measures each read.
pub(super) fn timed_reads<'a, M: 'static>(
    root: &Root<M>,
    read: Read<M>,
    latencies: &'a mut Latencies,
) -> Work<'a> {
    let (root, mut next) = (root.clone(), 0);
    Box::new(move || {
        let key = key(next % ENTRIES);
        black_box(latencies.time(|| read(&root, key))?);
        next += 1;
        Ok(1)
    })
}

/// Changes one entry of a map after the other, each in a transaction, always to a new value. Measures each
/// transaction.
pub(super) fn timed_writes<'a, M: 'static>(
    root: &Root<M>,
    put: fn(&Root<M>, u64, u64) -> pheap::Result<()>,
    latencies: &'a mut Latencies,
) -> Work<'a> {
    let (root, mut next) = (root.clone(), 0);
    Box::new(move || {
        latencies.time(|| put(&root, key(next % ENTRIES), !next))?;
        next += 1;
        Ok(1)
    })
}

/// Returns a case on the map that `make` makes in a new heap with a write-ahead log.
pub(super) fn with_log<M: 'static>(
    setting: &Setting,
    bench: &'static str,
    variant: &str,
    make: fn(&Heap) -> pheap::Result<Root<M>>,
    pass: impl Fn(&Root<M>) -> Result<Sample> + 'static,
) -> Case {
    let setup = setting.disk.clone();
    Case::new("pheap", bench, format!("wal:{variant}"), OPERATIONS, move || {
        let heap = setup.heap(Durability::Wal)?;
        pass(&make(&heap.heap)?)
    })
}

/// Changes some entries in a transaction, which also calls `besides`. Each value is new, because an unchanged
/// value would cost nothing.
fn writer(root: &Root<Map>, besides: impl Fn() + Send + 'static) -> Work<'static> {
    let (root, mut next) = (root.clone(), 0);
    Box::new(move || {
        root.txn(|tx, map| {
            for _ in 0..CHANGES {
                map.insert(tx, &key(next % ENTRIES), !next)?;
                next += 1;
            }
            besides();
            Ok(())
        })?;
        Ok(1)
    })
}
