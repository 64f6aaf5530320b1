//! Compares pheap-kv with other key-value stores under the workloads of db_bench and YCSB. Prints JSON lines
//! on standard output.
//!
//! `cargo bench --bench kv -- [--quick] [--only NAME[,NAME]] [--systems NAME[,NAME]] [--dir DIR] [--threads
//! N[,N]] [--sync 0,1] [--values N[,N]] [--table]`
//!
//! `benches/README.md` explains the rows.

mod data;
mod measure;
mod systems;
mod table;
mod workload;

use clap::{Parser, ValueEnum as _};
use measure::Plan;
use pheap_suite::arguments::arguments;
use pheap_suite::disk;
use std::path::PathBuf;
use std::time::Duration;
use systems::{Room, System};
use workload::Workload;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

/// Measures key-value stores; prints JSON lines.
#[derive(Parser)]
#[command(bin_name = "cargo bench --bench kv --")]
struct Args {
    /// Small sizes, short runs, no repetitions.
    #[arg(long)]
    quick: bool,
    /// redb's own table instead of the workloads, of `--entries` [default: 5 million, or 20,000].
    #[arg(long)]
    table: bool,
    /// Only these workloads.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Workload>,
    /// Only these systems [default: all that are there].
    #[arg(long, value_delimiter = ',')]
    systems: Vec<System>,
    /// Where the files go [default: a directory of cargo's, in the target directory].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// How many threads.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<usize>,
    /// Whether each write is synced.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1])]
    sync: Vec<u8>,
    /// Bytes of a value, in db_bench's workloads.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 400, 800])]
    values: Vec<usize>,
    /// Entries [default: a million, or 20,000].
    #[arg(long)]
    entries: Option<u64>,
    /// MiB that a store may use for a cache of its own.
    #[arg(long, default_value_t = 1024)]
    cache: usize,
    /// MiB that pheap-kv's log may have.
    #[arg(long, default_value_t = 128)]
    log: u64,
    /// Seconds that a run takes [default: 3, or 0.3].
    #[arg(long)]
    seconds: Option<f64>,
    /// Runs of each case [default: 3, or 1].
    #[arg(long)]
    rounds: Option<usize>,
    /// Given by cargo bench; means nothing here.
    #[arg(long, hide = true, overrides_with = "bench")]
    bench: bool,
}

fn main() -> Result<()> {
    let smoke_test = || {
        measure::run(&smoke_test())?;
        table::run(&smoke_test())
    };
    let Some(args) = arguments::<Args, _>(smoke_test)? else { return Ok(()) };
    let mut plan = if args.quick { quick() } else { full() };
    plan.threads = args.threads;
    plan.sync = args.sync.into_iter().map(|sync| sync != 0).collect();
    plan.values = args.values;
    if !args.only.is_empty() {
        plan.workloads = args.only;
    }
    if !args.systems.is_empty() {
        plan.systems = args.systems;
    }
    if let Some(dir) = args.dir {
        plan.dir = disk::of_caller(&dir);
    }
    if args.table && !args.quick {
        plan.entries = table::ENTRIES;
    }
    plan.entries = args.entries.unwrap_or(plan.entries);
    plan.run = args.seconds.map_or(plan.run, Duration::from_secs_f64);
    plan.room = Room { cache: args.cache << 20, log: args.log << 20 };
    plan.rounds = args.rounds.unwrap_or(plan.rounds);
    if plan.threads.contains(&0) || plan.entries == 0 {
        return Err("--threads, --entries: at least one".into());
    }
    if args.table { table::run(&plan) } else { measure::run(&plan) }
}

fn full() -> Plan {
    Plan {
        dir: disk::of_cargo(env!("CARGO_TARGET_TMPDIR")),
        workloads: Workload::value_variants().to_vec(),
        systems: System::all_there(),
        threads: vec![1, 2],
        sync: vec![false, true],
        values: vec![100, 400, 800],
        entries: 1_000_000,
        room: Room { cache: 1 << 30, log: 128 << 20 },
        run: Duration::from_secs(3),
        rounds: 3,
    }
}

fn quick() -> Plan {
    Plan { entries: 20_000, run: Duration::from_millis(300), rounds: 1, ..full() }
}

/// Returns a plan of one short run of each case, with small sizes. The run fails if written entries are
/// missing.
fn smoke_test() -> Plan {
    Plan { entries: 500, run: Duration::from_millis(5), values: vec![100], ..quick() }
}
