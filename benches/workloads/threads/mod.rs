//! How readers and writers run beside one another, in threads of one process.
//!
//! A run has heaps and threads of its own, for the lock of a root remembers which threads have come to it. It lasts for a set time, so a pass is what
//! was done in that, and `seconds` of a row is what a million operations would take.

mod backups;
mod beside;
mod durable;
pub mod goals;
pub mod latencies;
mod memories;
mod mix;
pub mod rates;
mod read_one;
mod scaling;
mod syncs;
mod together;

use crate::measure::{Plan, Row, interleaved};
use crate::{Case, Result, Sample, Setup, collections};
use pheap::{Heap, PHashMap, Root};
use std::time::Duration;

pub(crate) use together::together;

/// What all workloads have in common.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Where heaps are that need no disk.
    pub memory: Setup,
    /// Where those with a write-ahead log are.
    pub disk: Setup,
    /// Numbers of threads that work alike.
    pub threads: Vec<u64>,
    /// How long a run is.
    pub time: Duration,
    /// Entries of the maps that are compared with other maps.
    pub keys: u64,
    /// Runs of each case.
    pub rounds: usize,
}

/// Workloads that take turns.
pub struct Group {
    /// The workload.
    pub bench: &'static str,
    cases: fn(&Setting) -> Result<Vec<Case>>,
}

/// All of them.
pub const GROUPS: [Group; 18] = [
    Group { bench: "read_in_closure", cases: beside::long_closures },
    Group { bench: "writer_and_reader", cases: beside::short_closures },
    Group { bench: "read_one", cases: read_one::cases },
    Group { bench: "reads", cases: scaling::reads },
    Group { bench: "txn_small", cases: scaling::txn_small },
    Group { bench: "alloc", cases: scaling::alloc },
    Group { bench: "insert", cases: scaling::insert },
    Group { bench: "update_wal", cases: scaling::update_wal },
    Group { bench: "reads_beside_sync", cases: syncs::reads },
    Group { bench: "writes_beside_long_reads", cases: syncs::writes },
    Group { bench: "durable_beside_sync", cases: durable::reads },
    Group { bench: "tasks_beside_sync", cases: durable::tasks },
    Group { bench: "writes_beside_backup", cases: backups::cases },
    Group { bench: "mix", cases: mix::cases },
    Group { bench: "swaps", cases: memories::swaps },
    Group { bench: "set_hash", cases: memories::set_hash },
    Group { bench: "set_tree", cases: memories::set_tree },
    Group { bench: "queue", cases: memories::queue },
];

impl Group {
    /// Measures all cases, in turns.
    pub fn measure(&self, setting: &Setting) -> Result<Vec<Row>> {
        interleaved((self.cases)(setting)?, &Plan::even(setting.rounds))
    }
}

/// What `n` is in all rows.
pub const OPERATIONS: u64 = 1_000_000;

/// A run with so many operations a second. None at all is told as very few, for JSON has no infinity.
pub fn at_rate(rate: f64) -> Sample {
    Sample { seconds: OPERATIONS as f64 / rate.max(1e-3), ..Sample::default() }
}

type Map = PHashMap<'static, u64, u64>;

/// A map of so many entries: keys and their numbers.
fn map(heap: &Heap, name: &str, entries: u64) -> pheap::Result<Root<Map>> {
    let root: Root<Map> = heap.root(name)?;
    let numbers: Vec<u64> = (0..entries).collect();
    for some in numbers.chunks(1000) {
        root.txn(|tx, map| some.iter().try_for_each(|&i| map.insert(tx, &collections::key(i), i).map(drop)))?;
    }
    Ok(root)
}

/// Reads one entry of a map.
#[inline]
fn get(root: &Root<Map>, key: u64) -> pheap::Result<u64> {
    root.read(|view, map| view[map].get(view, &key).copied().unwrap_or(0))
}
