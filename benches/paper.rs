//! Runs the published micro-benchmarks. Prints JSON lines on standard output.
//!
//! `cargo bench --bench paper -- [--quick] [--only NAME[,NAME]] [--systems NAME[,NAME]] [--durability
//! pmem|process|wal] [--dir DIR]`
//!
//! `benches/README.md` explains the rows.

use clap::Parser;
use clap::builder::PossibleValuesParser;
use pheap::Durability;
use pheap_suite::arguments::{arguments, durability};
use pheap_suite::groups::{self, Group, groups};
use pheap_suite::measure::{Plan, Row};
use pheap_suite::pmdk::Pmdk;
use pheap_suite::scratch::SYSTEMS;
use pheap_suite::targets::{Target, targets};
use pheap_suite::{Result, Setup, floor};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Measures pheap beside volatile Rust, PMDK and the floor of the machine; prints JSON lines.
#[derive(Parser)]
#[command(bin_name = "cargo bench --bench paper --")]
struct Args {
    /// Small sizes and few repetitions.
    #[arg(long)]
    quick: bool,
    /// One pass of each case, of a small size: for counting instructions (ci/instructions.py).
    #[arg(long, conflicts_with = "quick")]
    once: bool,
    /// Only these benchmarks.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = names())]
    only: Vec<String>,
    /// Only these systems.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = SYSTEMS, default_values = SYSTEMS)]
    systems: Vec<String>,
    /// Only this durability (all if not given).
    #[arg(long, value_delimiter = ',', value_parser = durability(["pmem", "process", "wal"]))]
    durability: Vec<Durability>,
    /// Where the heap files go [default: /dev/shm, or else the temporary directory].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Given by cargo bench; means nothing here.
    #[arg(long, hide = true, overrides_with = "bench")]
    bench: bool,
}

/// Returns the values of `--only`: the workloads, then the rows of the floor.
fn names() -> PossibleValuesParser {
    groups::names().into_iter().chain(floor::NAMES).into()
}

const FULL: Plan = Plan {
    rounds: 11,
    run: Duration::from_millis(50),
    budget: Duration::from_secs(4),
    slow: Duration::from_secs(2),
    share: Duration::from_secs(4),
};
const QUICK: Plan = Plan {
    rounds: 7,
    run: Duration::from_millis(10),
    budget: Duration::from_millis(1500),
    slow: Duration::from_millis(500),
    share: Duration::from_millis(800),
};
/// One pass of each case, to compare the checksums.
const SMOKE: Plan = Plan::even(1);

fn main() -> Result<()> {
    groups::serve();
    let Some(args) = arguments::<Args, _>(smoke_test)? else { return Ok(()) };
    let (plan, mut groups) = match (args.once, args.quick) {
        (true, _) => (SMOKE, groups::smoke_groups()),
        (_, true) => (QUICK, groups(true)),
        _ => (FULL, groups(false)),
    };
    let setup = setup(&args)?;
    if !args.only.is_empty() {
        groups.retain(|group| args.only.iter().any(|name| name == group.bench));
        let floor_only = |name: &String| floor::NAMES.contains(&name.as_str());
        if args.only.iter().any(floor_only) && !groups.iter().any(Group::has_floor) {
            groups.push(Group::of_floor());
        }
    }
    groups.retain(|group| group.makes_sense(&setup.durabilities));
    let has_log = setup.durabilities.contains(&Durability::Wal) && groups.iter().any(Group::may_have_log);
    if has_log && setup.is_tmpfs() {
        eprintln!("wal: {} is in memory (tmpfs), so nothing waits for a disk there", setup.dir.display());
    }
    measure(&groups, &setup, &plan)
}

fn setup(args: &Args) -> Result<Setup> {
    let mut setup = Setup { systems: args.systems.clone(), ..Setup::default() };
    if let Some(dir) = &args.dir {
        setup.dir.clone_from(dir);
    }
    setup.durabilities = match &args.durability[..] {
        [] => vec![Durability::Pmem, Durability::Process, Durability::Wal],
        some => some.to_vec(),
    };
    if setup.measures("pmdk") {
        setup.pmdk = pmdk()?;
    }
    Ok(setup)
}

fn pmdk() -> Result<Option<Pmdk>> {
    Pmdk::find(Path::new(env!("CARGO_TARGET_TMPDIR")))
}

/// Measures and prints. The rows of the floor come last, because they were measured in turns with several
/// groups.
fn measure(groups: &[Group], setup: &Setup, plan: &Plan) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let mut floor: Vec<Row> = Vec::new();
    let mut met: Vec<Target> = Vec::new();
    for group in groups {
        let rows = group.measure(setup, plan)?;
        met.extend(targets(&rows));
        for row in rows {
            if row.system != "floor" {
                writeln!(out, "{}", row.json())?;
            } else if let Some(pooled) = floor.iter_mut().find(|pooled| pooled.is_of_case(&row)) {
                pooled.seconds.extend(row.seconds);
            } else {
                floor.push(row);
            }
        }
    }
    for row in floor {
        writeln!(out, "{}", row.json())?;
    }
    for target in met {
        eprintln!("{target}");
    }
    Ok(())
}

/// Runs every workload once, with small sizes. Fails if two systems compute different results.
fn smoke_test() -> Result<()> {
    let durabilities = vec![Durability::Pmem, Durability::Process, Durability::Wal];
    let setup = Setup { durabilities, pmdk: pmdk()?, ..Setup::default() };
    for group in groups::smoke_groups() {
        group.measure(&setup, &SMOKE)?;
    }
    Ok(())
}
