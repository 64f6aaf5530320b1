//! `reads_beside_sync`, `writes_beside_long_reads`: a root of a heap with a write-ahead log. Its writer waits
//! for the disk at each commit.

use super::beside::{ENTRIES, Read, timed_reads, timed_writes, with_log};
use super::latencies::{Latencies, READS, WRITES};
use super::rates::{Work, rates};
use super::{Map, OPERATIONS, Setting, at_rate, get, map};
use crate::{Case, Result, Sample};
use pheap::{Heap, Root};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time of a long read.
pub(super) const LONG: Duration = Duration::from_millis(10);

/// The block that `floor` writes before each sync, and the number of blocks after which it starts over.
const BLOCK: [u8; 4096] = [1; 4096];
const BLOCKS: u64 = 1024;

/// Measures the times of reads, alone and with a writer, and the time of writing and syncing a block.
pub(super) fn reads(setting: &Setting) -> Result<Vec<Case>> {
    let (setup, time) = (setting.disk.clone(), 3 * setting.time);
    let floor = Case::new("floor", "reads_beside_sync", "write_and_sync", OPERATIONS, move || {
        synced_blocks(setup.folder()?.path(), time)
    });
    let alone = with_log(setting, "reads_beside_sync", "alone", filled, move |root| {
        let mut latencies = Latencies::new();
        let rate = rates(vec![timed_reads(root, get, &mut latencies)], time)?[0];
        Ok(latencies.note(at_rate(rate), READS))
    });
    let beside = |variant, read: Read<Map>| {
        with_log(setting, "reads_beside_sync", variant, filled, move |root| {
            let (mut reads, mut writes) = (Latencies::new(), Latencies::new());
            let works = vec![timed_reads(root, read, &mut reads), timed_writes(root, put, &mut writes)];
            let rate = rates(works, time)?[0];
            Ok(writes.note(reads.note(at_rate(rate), READS), WRITES))
        })
    };
    let deferred = |root: &Root<Map>, key| {
        let (value, _) = root.read_deferred(|view, map| view[map].get(view, &key).copied().unwrap_or(0))?;
        Ok(value)
    };
    Ok(vec![floor, alone, beside("beside", get), beside("deferred", deferred)])
}

/// Measures the times of transactions, alone and with two threads that are nearly always in a read, where
/// they sleep.
pub(super) fn writes(setting: &Setting) -> Result<Vec<Case>> {
    let time = setting.time.max(50 * LONG);
    let writes = |variant, readers| {
        with_log(setting, "writes_beside_long_reads", variant, filled, move |root| {
            let mut latencies = Latencies::new();
            let mut works = vec![timed_writes(root, put, &mut latencies)];
            works.extend((0..readers).map(|_| long_reader(root)));
            rates(works, time)?;
            // There are too few transactions for a rate.
            let sample = latencies.note(Sample::default(), WRITES);
            let seconds = sample.notes.get("write_mean").unwrap_or(0.0) * OPERATIONS as f64;
            Ok(Sample { seconds, ..sample })
        })
    };
    Ok(vec![writes("alone", 0), writes("beside", 2)])
}

fn filled(heap: &Heap) -> pheap::Result<Root<Map>> {
    map(heap, "map", ENTRIES)
}

fn put(root: &Root<Map>, key: u64, value: u64) -> pheap::Result<()> {
    root.txn(|tx, map| map.insert(tx, &key, value).map(drop))
}

fn long_reader(root: &Root<Map>) -> Work<'static> {
    let root = root.clone();
    Box::new(move || root.read(|_, _| sleep(LONG)).map(|()| 1))
}

/// Writes and syncs blocks: the smallest possible durable transactions.
fn synced_blocks(dir: &Path, time: Duration) -> Result<Sample> {
    let file = File::create_new(dir.join("blocks"))?;
    (0..BLOCKS).try_for_each(|i| file.write_all_at(&BLOCK, i * BLOCK.len() as u64))?;
    file.sync_all()?;
    let mut latencies = Latencies::new();
    let (start, mut next) = (Instant::now(), 0);
    while start.elapsed() < time {
        latencies.time(|| {
            file.write_all_at(&BLOCK, next % BLOCKS * BLOCK.len() as u64)?;
            file.sync_data()
        })?;
        next += 1;
    }
    Ok(latencies.note(at_rate(next as f64 / start.elapsed().as_secs_f64()), WRITES))
}
