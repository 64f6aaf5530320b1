//! `pauses`: a table of `n` MB of live objects. A writer replaces them in many small transactions, while the
//! heap collects the old ones. Measures the lengths of the collections' slices, and of the transactions.

use crate::replace::{MEAN_BYTES, Objects, Table, Writer};
use crate::scratch::{self, heap_in};
use crate::{Case, Result, Sample, Setup};
use pheap::{Durability, Options, Root, Stats};
use std::time::{Duration, Instant};

/// Number of replacements in a transaction.
const AT_ONCE: u64 = 10;
/// Number of collections to wait for, and the longest time for that.
const COLLECTIONS: u64 = 3;
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of transactions between two looks at the statistics.
const LOOK: u64 = 10_000;

/// Returns all variants of `n` MB.
pub fn cases(setup: &Setup, n: u64) -> Result<Vec<Case>> {
    let case = |&durability: &Durability| {
        let setup = setup.clone();
        Case::new("pheap", "pauses", scratch::name(durability), n, move || pass(&setup, durability, n))
    };
    Ok(setup.durabilities.iter().map(case).collect())
}

fn pass(setup: &Setup, durability: Durability, n: u64) -> Result<Sample> {
    let live = (n << 20) / MEAN_BYTES;
    let dir = setup.folder()?;
    let options = Options::new().durability(durability);
    let heap = options.open(heap_in(&dir))?;
    Table::new(&heap.root("table")?, live)?;
    heap.close()?;
    // The heap is opened again, so that the statistics do not include the filling.
    let heap = options.open(heap_in(&dir))?;
    heap.wait_ready()?;
    let root: Root<Objects> = heap.existing_root("table")?;
    let mut writer = Writer::new(Table::found(root, live));

    let before = heap.stats();
    let mut latencies = Vec::new();
    let (start, mut last) = (Instant::now(), Instant::now());
    loop {
        for _ in 0..LOOK {
            writer.transaction(AT_ONCE)?;
            let now = Instant::now();
            latencies.push((now - last).as_nanos() as u32);
            last = now;
        }
        let stats = heap.stats();
        last = Instant::now();
        if stats.collections >= before.collections + COLLECTIONS || start.elapsed() > PATIENCE {
            break;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let stats = heap.stats();
    heap.close()?;
    let sample = Sample { seconds, ..Sample::default() }
        .noting("transactions", latencies.len() as f64)
        .noting("collections", (stats.collections - before.collections) as f64)
        .noting("collecting_seconds", (stats.collecting - before.collecting).as_secs_f64())
        .noting("growth_waits", (stats.growth_waits - before.growth_waits) as f64)
        .noting("file_bytes", stats.file_bytes as f64);
    Ok(transactions(slices(sample, &stats), latencies))
}

/// Upper bounds of the ranges of the histogram, in microseconds.
const STEPS: [(u64, &str); 8] = [
    (1, "slices_to_1us"),
    (4, "slices_to_4us"),
    (16, "slices_to_16us"),
    (64, "slices_to_64us"),
    (256, "slices_to_256us"),
    (1024, "slices_to_1ms"),
    (4096, "slices_to_4ms"),
    (u64::MAX, "slices_longer"),
];

/// Adds the figures of the collections' slices.
fn slices(sample: Sample, stats: &Stats) -> Sample {
    let pauses = &stats.pauses;
    let sample = sample
        .noting("slices", pauses.count() as f64)
        .noting("slice_p50", pauses.quantile(0.5).as_secs_f64())
        .noting("slice_p99", pauses.quantile(0.99).as_secs_f64())
        .noting("slice_p999", pauses.quantile(0.999).as_secs_f64())
        .noting("slice_max", pauses.longest().as_secs_f64());
    let mut from = 0;
    STEPS.iter().fold(sample, |sample, &(to, name)| {
        let within = |bound: &Duration| (from..to).contains(&(bound.as_nanos() as u64 / 1000));
        let count: u64 = pauses.buckets().filter(|(bound, _)| within(bound)).map(|(_, count)| count).sum();
        from = to;
        sample.noting(name, count as f64)
    })
}

/// Adds the figures of the transactions, including slices.
fn transactions(sample: Sample, mut nanos: Vec<u32>) -> Sample {
    nanos.sort_unstable();
    let quantile = |share: f64| f64::from(nanos[(share * (nanos.len() - 1) as f64).round() as usize]) * 1e-9;
    sample
        .noting("txn_p50", quantile(0.5))
        .noting("txn_p99", quantile(0.99))
        .noting("txn_p999", quantile(0.999))
        .noting("txn_p9999", quantile(0.9999))
        .noting("txn_max", quantile(1.0))
        .noting("txns_over_2ms", nanos.iter().filter(|&&nanos| nanos > 2_000_000).count() as f64)
}
