//! Compares pheap with other embedded stores, on the same disk and in the same run. Prints JSON lines on
//! standard output.
//!
//! `cargo bench --bench stores -- [--quick] [--only NAME[,NAME]] [--dir DIR] [--threads N[,N]]`
//!
//! `benches/README.md` explains the rows.

mod beside;
mod cases;
mod plan;
mod report;
mod run;
mod systems;
mod trace;

use clap::{Parser, ValueEnum as _};
use pheap_suite::arguments::arguments;
use pheap_suite::disk;
use plan::{Bench, Plan};
use std::path::PathBuf;
use std::time::Duration;
use systems::System;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

/// Measures pheap beside other embedded stores; prints JSON lines.
#[derive(Parser)]
#[command(bin_name = "cargo bench --bench stores --")]
struct Args {
    /// Small sizes, short runs, no repetitions.
    #[arg(long)]
    quick: bool,
    /// Only these benchmarks.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<Bench>,
    /// Only these systems.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    systems: Vec<System>,
    /// Where the files go: a real disk [default: a directory of cargo's, in the target directory].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// How many threads update values.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 16])]
    threads: Vec<usize>,
    /// How many entries are inserted [default: a million, or 50,000].
    #[arg(long, value_name = "N")]
    inserts: Option<usize>,
    /// What this program runs under strace.
    #[arg(long, hide = true, num_args = 5)]
    child: Option<Vec<String>>,
    /// Given by cargo bench; means nothing here.
    #[arg(long, hide = true, overrides_with = "bench")]
    bench: bool,
}

fn main() -> Result<()> {
    let Some(args) = arguments::<Args, _>(|| cases::measure(&smoke_test()))? else { return Ok(()) };
    if let Some(child) = args.child {
        return trace::serve(&child);
    }
    let mut plan = if args.quick { quick() } else { full() };
    if !args.only.is_empty() {
        plan.benches = args.only;
    }
    plan.threads = args.threads;
    plan.inserts = args.inserts.unwrap_or(plan.inserts);
    if !args.systems.is_empty() {
        plan.systems = args.systems;
    }
    if let Some(dir) = args.dir {
        plan.dir = disk::of_caller(&dir);
    }
    if plan.threads.contains(&0) {
        return Err("--threads: at least one".into());
    }
    cases::measure(&plan)
}

fn full() -> Plan {
    Plan {
        dir: disk::of_cargo(env!("CARGO_TARGET_TMPDIR")),
        benches: Bench::value_variants().to_vec(),
        systems: System::value_variants().to_vec(),
        threads: vec![1, 2, 4, 16],
        repeats: 3,
        run: Duration::from_millis(1000),
        values_synced: 1000,
        values_unsynced: 100_000,
        inserts: 1_000_000,
        traced: 128,
    }
}

fn quick() -> Plan {
    let run = Duration::from_millis(300);
    Plan { repeats: 1, run, values_unsynced: 10_000, inserts: 50_000, traced: 64, ..full() }
}

/// Returns a plan of one short run of each case, with small sizes. The run fails if written entries are
/// missing.
fn smoke_test() -> Plan {
    let run = Duration::from_millis(10);
    Plan {
        run,
        threads: vec![1, 3],
        values_synced: 10,
        values_unsynced: 10,
        inserts: 3000,
        traced: 0,
        ..quick()
    }
}
