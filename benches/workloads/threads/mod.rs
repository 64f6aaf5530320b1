//! Readers and writers in concurrent threads of one process.
//!
//! A run of pheap has new heaps, and the threads of a run are new, because the lock of a root adapts to the
//! threads that take it. Most runs last for a set time. A pass is the work done in that time, and `seconds`
//! of a row is the time of a million operations at its rate.

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

/// Settings of all workloads.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Setup of heaps that need no disk.
    pub memory: Setup,
    /// Setup of heaps with a write-ahead log.
    pub disk: Setup,
    /// Numbers of threads that do the same work.
    pub threads: Vec<u64>,
    /// Time of a run.
    pub time: Duration,
    /// Number of entries of the maps that are compared with other maps.
    pub keys: u64,
    /// Number of runs of each case.
    pub rounds: usize,
}

/// Cases that take turns.
pub struct Group {
    /// Name of the workload.
    pub bench: &'static str,
    cases: fn(&Setting) -> Result<Vec<Case>>,
}

/// All groups.
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
    /// Measures all cases in turns.
    pub fn measure(&self, setting: &Setting) -> Result<Vec<Row>> {
        interleaved((self.cases)(setting)?, &Plan::even(setting.rounds))
    }
}

/// The `n` of all rows.
pub const OPERATIONS: u64 = 1_000_000;

/// Returns the sample of a run with this number of operations per second. A rate of zero becomes a very small
/// one, because JSON has no infinity.
pub fn at_rate(rate: f64) -> Sample {
    Sample { seconds: OPERATIONS as f64 / rate.max(1e-3), ..Sample::default() }
}

type Map = PHashMap<'static, u64, u64>;

/// Makes a map with this number of entries, which lead from keys to their numbers.
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
