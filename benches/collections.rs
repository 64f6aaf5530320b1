//! Compares pheap's collections with those of std. Prints JSON lines on standard output.
//!
//! `cargo bench --bench collections -- [--quick] [--only NAME[,NAME]] [--durability pmem|process] [--dir DIR]
//! [--n N]`
//!
//! `benches/README.md` explains the rows.

use clap::Parser;
use pheap::Durability;
use pheap_suite::arguments::{arguments, durability};
use pheap_suite::collections::{self, Op};
use pheap_suite::measure::{Plan, Row, interleaved, median};
use pheap_suite::{Case, Result, Setup, floor};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// Measures pheap's collections beside those of std; prints JSON lines.
#[derive(Parser)]
#[command(bin_name = "cargo bench --bench collections --")]
struct Args {
    /// Few repetitions.
    #[arg(long)]
    quick: bool,
    /// Only rows whose names begin with one of these.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Only this durability (both if not given).
    #[arg(long, value_delimiter = ',', value_parser = durability(["pmem", "process"]))]
    durability: Vec<Durability>,
    /// Where the heap files go [default: /dev/shm, or else the temporary directory].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Entries, and operations.
    #[arg(long, default_value_t = 1_000_000)]
    n: u64,
    /// Given by cargo bench; means nothing here.
    #[arg(long, hide = true, overrides_with = "bench")]
    bench: bool,
}

type Cases = fn(&Setup, Op, u64) -> Result<Vec<Case>>;

const COLLECTIONS: [(&str, &str, Cases); 7] = [
    ("hash_map", "u64", collections::hash_map_u64),
    ("hash_map", "str", collections::hash_map_str),
    ("btree_map", "u64", collections::btree_map_u64),
    ("btree_map", "str", collections::btree_map_str),
    ("snap_map", "u64", collections::snap_map_u64),
    ("snap_map", "str", collections::snap_map_str),
    ("vec", "u64", collections::vec_u64),
];

type SnapshotCases = fn(&Setup, u64) -> Result<Vec<Case>>;

/// Benchmarks of snapshots of a map.
const SNAPSHOTS: [(&str, SnapshotCases); 2] =
    [("snap_map_take", collections::snap_map_take), ("snap_map_beside", collections::snap_map_beside)];

const OPS: [(&str, Op); 5] = [
    ("get", Op::Get),
    ("insert", Op::Insert),
    ("grow", Op::Grow),
    ("remove", Op::Remove),
    ("iterate", Op::Iterate),
];

const FULL: Plan = Plan { run: Duration::from_millis(50), budget: Duration::from_secs(60), ..Plan::even(7) };
const QUICK: Plan = Plan { run: Duration::from_millis(1), budget: Duration::from_secs(4), ..Plan::even(3) };

fn main() -> Result<()> {
    let Some(args) = arguments::<Args, _>(smoke_test)? else { return Ok(()) };
    let mut setup = Setup::default();
    if let Some(dir) = args.dir {
        setup.dir = dir;
    }
    if !args.durability.is_empty() {
        setup.durabilities = args.durability;
    }
    let plan = if args.quick { QUICK } else { FULL };
    let mut out = std::io::stdout().lock();
    let mut targets = Vec::new();
    let wanted =
        |row: &str| args.only.is_empty() || args.only.iter().any(|only| row.starts_with(only.as_str()));
    for (collection, keys, cases) in COLLECTIONS {
        for (name, op) in OPS {
            let name = match (collection, name) {
                ("vec", "insert") => "push",
                ("vec", "remove") => "pop",
                _ => name,
            };
            let row = format!("{collection}_{name}_{keys}");
            if !wanted(&row) {
                continue;
            }
            let mut cases = cases(&setup, op, args.n)?;
            if op == Op::Insert {
                cases.extend(floor::cases(&setup)?);
            }
            let rows = interleaved(cases, &plan)?;
            targets.extend(judge(&rows, op));
            for row in rows.iter().filter(|row| row.system != "floor") {
                writeln!(out, "{}", row.json())?;
            }
        }
    }
    for (name, cases) in SNAPSHOTS {
        if wanted(name) {
            for row in interleaved(cases(&setup, args.n)?, &plan)? {
                writeln!(out, "{}", row.json())?;
            }
        }
    }
    targets.iter().for_each(|target| eprintln!("{target}"));
    Ok(())
}

/// Compares the rows of one operation with their targets.
fn judge(rows: &[Row], op: Op) -> Vec<String> {
    let find = |bench: &str| rows.iter().find(|row| row.bench == bench);
    let Some(std) = rows.iter().find(|row| row.system == "volatile") else { return Vec::new() };
    let mut verdicts = Vec::new();
    // A map with versions writes much more than one without, so it has no target for changes.
    let changes = matches!(op, Op::Insert | Op::Grow);
    let judged = |row: &&Row| row.system == "pheap" && !(changes && row.bench.starts_with("snap_map"));
    for row in rows.iter().filter(judged) {
        let batched = row.variant.ends_with(":1000");
        // Compares each round with its own bound, because the speed of a shared machine drifts.
        let times = |bound: &Row| {
            let rounds = row.seconds.len().min(bound.seconds.len());
            median((0..rounds).map(|i| row.nanos(i) / bound.nanos(i)))
        };
        let (what, reached, most) = match (op, find("nt_line")) {
            (Op::Get, _) if batched => ("x std, reads", times(std), 1.2),
            (Op::Iterate, _) => ("x std, reads", times(std), 1.2),
            (Op::Insert, _) if batched => ("x std, inserts in batches", times(std), 2.0),
            (Op::Insert, Some(line)) if row.variant == "pmem" => {
                ("x a durable line, single inserts", times(line), 3.0)
            }
            (Op::Grow, _) => {
                let note = |name| row.note(name).unwrap_or(0.0);
                ("x the median, p99.99 of single inserts", note("p9999") / note("p50").max(1.0), 20.0)
            }
            _ => continue,
        };
        let verdict = if reached <= most { "ok" } else { "MISSED" };
        verdicts.push(format!(
            "{:<24} {:<13} {reached:>8.2} {what}, at most {most} {verdict}",
            row.bench, row.variant
        ));
    }
    verdicts
}

/// Runs every case once, with small sizes. Fails if two systems compute different results.
fn smoke_test() -> Result<()> {
    let (setup, once) = (Setup::default(), Plan::even(1));
    for (_, _, cases) in COLLECTIONS {
        for (_, op) in OPS {
            interleaved(cases(&setup, op, 1000)?, &once)?;
        }
    }
    for (_, cases) in SNAPSHOTS {
        interleaved(cases(&setup, 1000)?, &once)?;
    }
    Ok(())
}
