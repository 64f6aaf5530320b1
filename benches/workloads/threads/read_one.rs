//! `read_one`: reads entries of a small map, each in a separate read transaction, and a thousand in one. The
//! difference is the cost of a read transaction.
//!
//! Times are processor time of the thread, because other load of the processors would change the difference.

use super::rates::Work;
use super::{Map, OPERATIONS, Setting, at_rate, get, map};
use crate::collections::key;
use crate::{Case, Result, scratch};
use pheap::Root;
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Number of entries, and of reads in a transaction. There are few, so that cache misses do not hide the
/// cost.
const ENTRIES: u64 = 1000;

pub(super) fn cases(setting: &Setting) -> Result<Vec<Case>> {
    type Reader = fn(Root<Map>) -> Work<'static>;
    let variants: [(&str, Reader); 2] = [("one", one), ("thousand", thousand)];
    let mut cases = Vec::new();
    for &durability in &setting.memory.durabilities {
        for (variant, work) in variants {
            let name = format!("{}:{variant}", scratch::name(durability));
            let setting = setting.clone();
            cases.push(Case::new("pheap", "read_one", name, OPERATIONS, move || {
                let heap = setting.memory.heap(durability)?;
                let root = map(&heap.heap, "map", ENTRIES)?;
                let mut work = work(root);
                busy(&mut work, setting.time / 4)?;
                Ok(at_rate(busy(&mut work, setting.time)?))
            }));
        }
    }
    Ok(cases)
}

/// Returns the number of operations in a second of processor time.
fn busy(work: &mut Work<'_>, time: Duration) -> Result<f64> {
    let processor = || -> Result<Duration> { Ok(clock_gettime(ClockId::ThreadCPUTime).try_into()?) };
    let (start, before, mut done) = (Instant::now(), processor()?, 0);
    while start.elapsed() < time {
        done += work()?;
    }
    Ok(done as f64 / (processor()? - before).as_secs_f64())
}

fn one(root: Root<Map>) -> Work<'static> {
    let keys: Vec<u64> = (0..ENTRIES).map(key).collect();
    Box::new(move || {
        for &key in &keys {
            black_box(get(&root, key)?);
        }
        Ok(ENTRIES)
    })
}

fn thousand(root: Root<Map>) -> Work<'static> {
    let keys: Vec<u64> = (0..ENTRIES).map(key).collect();
    Box::new(move || {
        root.read(|view, map| {
            for key in &keys {
                black_box(view[map].get(view, key).copied().unwrap_or(0));
            }
        })?;
        Ok(ENTRIES)
    })
}
