//! pheap-kv beside other key-value stores, under db_bench's workloads and YCSB's, as JSON lines on standard output.
//!
//! `cargo bench --bench kv -- [--quick] [--only NAME[,NAME]] [--systems NAME[,NAME]] [--dir DIR] [--threads N[,N]] [--sync 0,1] [--values N[,N]] [--table]`
//!
//! See `benches/README.md` for what the rows mean.

mod data;
mod measure;
mod systems;
mod table;
mod workload;

use clap::Parser;
use measure::Plan;
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
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--list") {
        return Ok(());
    }
    // `cargo test --benches` gives no arguments, or `--test`.
    if words.is_empty() || words.iter().any(|word| word == "--test") {
        measure::run(&smoke_test())?;
        return table::run(&smoke_test());
    }
    let args = Args::parse();
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
        // Cargo runs this program elsewhere.
        plan.dir = std::env::var_os("PWD").map_or_else(PathBuf::new, PathBuf::from).join(dir);
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
        dir: default_dir(),
        workloads: Workload::ALL.to_vec(),
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

/// Every case once, small: fails if what was written is not there.
fn smoke_test() -> Plan {
    Plan { entries: 500, run: Duration::from_millis(5), values: vec![100], ..quick() }
}

/// Cargo's directory for the files of this benchmark, or the current one if this program was carried elsewhere.
fn default_dir() -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    if std::fs::create_dir_all(&dir).is_ok() { dir } else { PathBuf::from(".") }
}
