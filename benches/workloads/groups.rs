//! The published micro-benchmarks: their workloads and sizes, and the cases that take turns.

use crate::measure::{Plan, Row, interleaved};
use crate::pmdk::Extra;
use crate::{Case, Result, Setup};
use crate::{
    binary_trees, child, fannkuch, fill, floor, nbody, pagerank, pauses, recovery, relocate, replace,
    restart, sps, touch, txn,
};
use pheap::Durability;
use std::time::Duration;

/// Does the job that a workload has started this process for, and never returns. Does nothing in a process
/// that is no child.
pub fn serve() {
    child::serve(restart::JOBS.iter().chain(&recovery::JOBS));
}

/// The cases of one workload and size, which are measured in turns.
pub struct Group {
    /// Name of the workload.
    pub bench: &'static str,
    /// Size of the workload.
    pub n: u64,
    /// A second parameter of the workload.
    pub extra: Extra,
    workload: Workload,
    quick: bool,
}

/// A workload, and how it is measured.
#[derive(Clone, Copy)]
struct Workload {
    cases: fn(&Setup, u64, Extra) -> Result<Vec<Case>>,
    /// Whether the floor takes turns with the cases.
    floor: bool,
    /// Whether heaps with a write-ahead log are measured.
    wal: bool,
    /// For cases that take long: at most this number of runs with one pass each replaces the runs of the
    /// plan.
    runs: Option<usize>,
    /// Size in a smoke test.
    smoke: u64,
}

impl Group {
    /// Returns a group that only has the floor.
    pub fn of_floor() -> Group {
        let workload =
            Workload { cases: |_, _, _| Ok(Vec::new()), floor: true, wal: false, runs: None, smoke: 0 };
        Group { bench: "floor", n: 0, workload, extra: Extra::None, quick: false }
    }

    /// Returns whether the floor takes turns with the cases.
    pub fn has_floor(&self) -> bool {
        self.workload.floor
    }

    /// Returns whether some cases have a heap with a write-ahead log.
    pub fn may_have_log(&self) -> bool {
        self.workload.wal
    }

    /// Returns whether the group has any case with these durabilities.
    pub fn makes_sense(&self, durabilities: &[Durability]) -> bool {
        self.workload.wal || durabilities.iter().any(|&durability| durability != Durability::Wal)
    }

    /// Measures all cases.
    pub fn measure(&self, setup: &Setup, plan: &Plan) -> Result<Vec<Row>> {
        let mut setup = setup.clone();
        let Workload { cases, floor, wal, runs, .. } = self.workload;
        setup.durabilities.retain(|&durability| wal || durability != Durability::Wal);
        let mut cases = cases(&setup, self.n, self.extra)?;
        if let Some(pmdk) = &setup.pmdk {
            cases.extend(pmdk.cases(&setup, self.bench, self.n, self.extra, self.quick)?);
        }
        if floor {
            cases.extend(floor::cases(&setup)?);
        }
        cases.retain(|case| setup.measures(case.system));
        let plan = match runs {
            Some(runs) => Plan { rounds: plan.rounds.min(runs), run: plan.run.min(ONE_PASS), ..*plan },
            None => *plan,
        };
        interleaved(cases, &plan)
    }
}

/// Shorter than any pass, so that a run has one pass.
const ONE_PASS: Duration = Duration::from_nanos(1);

/// Returns the names of the workloads.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = groups(false).iter().map(|group| group.bench).collect();
    names.dedup();
    names
}

/// Returns one group of each workload and second parameter, so small that only its checksums are meaningful.
pub fn smoke_groups() -> Vec<Group> {
    let mut groups = groups(true);
    groups.dedup_by_key(|group| (group.bench, group.extra));
    for group in &mut groups {
        group.n = group.workload.smoke;
    }
    groups
}

/// Returns all groups, at the sizes of the published evaluation, so that results and checksums can be
/// compared. `quick` has smaller sizes.
pub fn groups(quick: bool) -> Vec<Group> {
    let workload = |cases| Workload { cases, floor: false, wal: false, runs: None, smoke: 1_000 };
    let floor = |cases| Workload { floor: true, ..workload(cases) };
    let log = |workload| Workload { wal: true, ..workload };
    let runs = |runs, cases| Workload { runs: Some(runs), ..workload(cases) };
    let smoke = |smoke, workload| Workload { smoke, ..workload };
    // Sizes in MB.
    let filled = |many, cases| smoke(4, runs(many, cases));
    let sizes = |all: &'static [u64], quickly: &'static [u64]| if quick { quickly } else { all };
    let mut groups = Vec::new();
    let mut add = |bench, workload, extras: &[Extra], sizes: &[u64]| {
        for &n in sizes {
            groups.extend(extras.iter().map(|&extra| Group { bench, n, workload, extra, quick }));
        }
    };
    let plain = &[Extra::None];

    let transactions = sizes(&[200_000], &[50_000]);
    add("txn_empty", floor(|setup, n, _| txn::empty(setup, n)), plain, transactions);
    add("txn_small", log(floor(|setup, n, _| txn::small(setup, n))), plain, transactions);
    add("txn_two", log(floor(|setup, n, _| txn::two(setup, n))), plain, transactions);
    let objects = [1, 2, 4, 8, 16].map(Extra::Objects);
    add("txn_objects", log(floor(txn_objects)), &objects, sizes(&[100_000], &[20_000]));
    // The size is a multiple of the stores in a transaction.
    add("touch", workload(|setup, n, _| touch::cases(setup, n)), plain, sizes(&[102_400], &[25_600]));
    let swaps = sizes(&[1_000, 10_000, 100_000, 1_000_000, 10_000_000], &[10_000, 1_000_000]);
    add("sps", log(floor(|setup, n, _| sps::cases(setup, n))), plain, swaps);
    add("sps_recovery", runs(5, |setup, n, _| recovery::cases(setup, n)), plain, swaps);
    let steps = sizes(&[10_000, 100_000, 1_000_000], &[100_000]);
    add("nbody", floor(|setup, n, _| nbody::cases(setup, n)), plain, steps);
    let lengths = sizes(&[7, 8, 9, 10], &[9]);
    add("fannkuch", smoke(7, workload(|setup, n, _| fannkuch::cases(setup, n))), plain, lengths);
    let updates = sizes(&[2_000, 20_000, 200_000], &[2_000, 200_000]);
    add("pagerank", log(workload(|setup, n, _| pagerank::cases(setup, n))), plain, updates);
    let depths = sizes(&[12, 14, 16, 18], &[12, 16]);
    add("binary_trees", log(smoke(6, workload(|setup, n, _| binary_trees::cases(setup, n)))), plain, depths);
    let threads = [1, 2, 4].map(Extra::Threads);
    add("alloc", log(workload(alloc)), &threads, sizes(&[1_000_000], &[200_000]));
    let megabytes = sizes(&[64, 256, 1024], &[64]);
    add("fill_heap", filled(5, |setup, n, _| fill::cases(setup, n)), plain, megabytes);
    add("fill_heap_open", log(filled(5, |setup, n, _| restart::open_cases(setup, n))), plain, megabytes);
    add("fill_heap_marked", filled(5, |setup, n, _| restart::marked_cases(setup, n)), plain, megabytes);
    add("relocate", filled(5, |setup, n, _| relocate::cases(setup, n)), plain, sizes(&[1024], &[256]));
    add("pauses", filled(1, |setup, n, _| pauses::cases(setup, n)), plain, sizes(&[512], &[64]));
    groups
}

fn txn_objects(setup: &Setup, n: u64, extra: Extra) -> Result<Vec<Case>> {
    match extra {
        Extra::Objects(k) => txn::objects(setup, n, k),
        _ => Err("a transaction changes a number of objects".into()),
    }
}

fn alloc(setup: &Setup, n: u64, extra: Extra) -> Result<Vec<Case>> {
    replace::cases(setup, n, extra.threads())
}
