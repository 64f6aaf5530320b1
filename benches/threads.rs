//! Readers and writers in threads of one process. Prints JSON lines on standard output.
//!
//! `cargo bench --bench threads -- [--quick] [--only NAME[,NAME]] [--threads N[,N]] [--rounds N]
//! [--durability pmem|process] [--dir DIR] [--disk DIR]`
//!
//! `benches/README.md` explains the rows.

use clap::Parser;
use clap::builder::PossibleValuesParser;
use pheap::Durability;
use pheap_suite::arguments::{arguments, durability};
use pheap_suite::threads::goals::goals;
use pheap_suite::threads::{GROUPS, Setting};
use pheap_suite::{Result, Setup};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// Measures how readers and writers run beside one another; prints JSON lines.
#[derive(Parser)]
#[command(bin_name = "cargo bench --bench threads --")]
struct Args {
    /// Small sizes and short runs.
    #[arg(long)]
    quick: bool,
    /// Only these benchmarks.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = names())]
    only: Vec<String>,
    /// How many threads work alike [default: 1, 2, 4, and up to 16 where there are processors].
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..))]
    threads: Vec<u64>,
    /// Runs of each case [default: 9, or 5].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    rounds: Option<u64>,
    /// Only this durability, where the heap is in memory (both if not given).
    #[arg(long, value_delimiter = ',', value_parser = durability(["pmem", "process"]))]
    durability: Vec<Durability>,
    /// Where heap files go that need no disk [default: /dev/shm, or else the temporary directory].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Where those go that do: a real disk [default: a directory of cargo's, in the target directory].
    #[arg(long)]
    disk: Option<PathBuf>,
    /// Given by cargo bench; means nothing here.
    #[arg(long, hide = true, overrides_with = "bench")]
    bench: bool,
}

fn names() -> PossibleValuesParser {
    GROUPS.map(|group| group.bench).into()
}

fn main() -> Result<()> {
    let Some(args) = arguments::<Args, _>(smoke_test)? else { return Ok(()) };
    let mut setting = if args.quick { quick() } else { full() };
    if let Some(dir) = args.dir {
        setting.memory.dir = dir;
    }
    if let Some(disk) = args.disk {
        setting.disk.dir = disk;
    }
    if !args.durability.is_empty() {
        setting.memory.durabilities = args.durability;
    }
    if let Some(rounds) = args.rounds {
        setting.rounds = rounds as usize;
    }
    if !args.threads.is_empty() {
        setting.threads = args.threads;
    }
    if setting.disk.is_tmpfs() {
        eprintln!("{} is in memory (tmpfs), so nothing waits for a disk there", setting.disk.dir.display());
    }
    let mut out = std::io::stdout().lock();
    let mut told = Vec::new();
    for group in GROUPS {
        if args.only.is_empty() || args.only.iter().any(|name| name == group.bench) {
            let rows = group.measure(&setting)?;
            told.extend(goals(&rows));
            rows.iter().try_for_each(|row| writeln!(out, "{}", row.json()))?;
        }
    }
    told.iter().for_each(|goal| eprintln!("{goal}"));
    Ok(())
}

fn full() -> Setting {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let disk = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    Setting {
        memory: Setup::default(),
        disk: Setup { dir: disk, ..Setup::default() },
        threads: [1, 2, 4, 8, 16].into_iter().filter(|&n| n <= processors.max(4)).collect(),
        time: Duration::from_millis(400),
        keys: 1_000_000,
        rounds: 9,
    }
}

fn quick() -> Setting {
    Setting { time: Duration::from_millis(100), keys: 100_000, rounds: 5, ..full() }
}

/// Runs every case once, for a short time.
fn smoke_test() -> Result<()> {
    let setting =
        Setting { time: Duration::from_millis(5), threads: vec![1, 2], keys: 1000, rounds: 1, ..full() };
    for group in GROUPS {
        goals(&group.measure(&setting)?);
    }
    Ok(())
}
