//! The published micro-benchmarks, as JSON lines on standard output.
//!
//! `cargo bench --bench paper -- [--quick] [--only NAME[,NAME]] [--durability pmem|process] [--dir DIR]`
//!
//! See `benches/README.md` for what the rows mean.

use clap::Parser;
use pheap::Durability;
use pheap_suite::measure::{Plan, Row, interleaved};
use pheap_suite::targets::{Target, targets};
use pheap_suite::{Case, Result, Setup, child};
use pheap_suite::{binary_trees, fannkuch, fill, floor, nbody, pauses, relocate, replace, restart, sps, txn};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// Measures pheap beside volatile Rust and the floor of the machine; prints JSON lines.
#[derive(Parser)]
#[command(bin_name = "cargo bench --bench paper --")]
struct Args {
    /// Small sizes and few repetitions; ends within two minutes.
    #[arg(long)]
    quick: bool,
    /// Only these benchmarks.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = NAMES)]
    only: Vec<String>,
    /// Only this durability (both if not given).
    #[arg(long, value_delimiter = ',')]
    durability: Vec<Medium>,
    /// Where the heap files go [default: /dev/shm, or else the temporary directory].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Given by cargo bench; means nothing here.
    #[arg(long, hide = true, overrides_with = "bench")]
    bench: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Medium {
    Pmem,
    Process,
}

impl From<Medium> for Durability {
    fn from(medium: Medium) -> Durability {
        match medium {
            Medium::Pmem => Durability::Pmem,
            Medium::Process => Durability::Process,
        }
    }
}

/// What `--only` knows: the workloads, then the rows of the floor.
const NAMES: [&str; 15] = [
    "txn_empty",
    "txn_small",
    "sps",
    "nbody",
    "fannkuch",
    "binary_trees",
    "alloc",
    "fill_heap",
    "fill_heap_open",
    "fill_heap_marked",
    "relocate",
    "pauses",
    "nt_line",
    "nt_5_lines",
    "clwb_line",
];

/// The cases of one workload and size, which are measured in turns.
struct Group {
    bench: &'static str,
    n: u64,
    cases: fn(&Setup, u64) -> Result<Vec<Case>>,
    /// Whether the floor takes turns with them.
    floor: bool,
    /// For cases that take long: this many runs of one pass each, instead of those of the plan.
    runs: Option<usize>,
}

impl Group {
    fn measure(&self, setup: &Setup, plan: &Plan) -> Result<Vec<Row>> {
        let mut cases = (self.cases)(setup, self.n)?;
        if self.floor {
            cases.extend(floor::cases(setup)?);
        }
        let plan = match self.runs {
            Some(runs) => Plan { rounds: plan.rounds.min(runs), run: plan.run.min(ONE_PASS), ..*plan },
            None => *plan,
        };
        interleaved(cases, &plan)
    }
}

/// The workloads at the sizes of the published evaluation, so that results and checksums can be compared.
fn groups(quick: bool) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut add = |bench, cases, floor, runs, sizes: &[u64]| {
        groups.extend(sizes.iter().map(|&n| Group { bench, n, cases, floor, runs }));
    };
    let sizes = |all: &'static [u64], quickly: &'static [u64]| if quick { quickly } else { all };
    add("txn_empty", txn::empty, true, None, &[1_000_000]);
    add("txn_small", txn::small, true, None, &[1_000_000]);
    let swaps = sizes(&[1_000, 10_000, 100_000, 1_000_000, 10_000_000], &[1_000, 10_000, 100_000, 1_000_000]);
    add("sps", sps::cases, true, None, swaps);
    add("nbody", nbody::cases, true, None, sizes(&[10_000, 100_000, 1_000_000], &[10_000, 100_000]));
    add("fannkuch", fannkuch::cases, false, None, sizes(&[7, 8, 9, 10], &[7, 8, 9]));
    add("binary_trees", binary_trees::cases, false, None, sizes(&[12, 14, 16, 18], &[12, 16]));
    add("alloc", replace::cases, false, None, sizes(&[2_000_000], &[500_000]));
    let megabytes = sizes(&[64, 256, 1024], &[64]);
    add("fill_heap", fill::cases, false, Some(5), megabytes);
    add("fill_heap_open", restart::open_cases, false, Some(5), megabytes);
    add("fill_heap_marked", restart::marked_cases, false, Some(5), megabytes);
    add("relocate", relocate::cases, false, Some(5), sizes(&[1024], &[256]));
    add("pauses", pauses::cases, false, Some(1), sizes(&[512], &[64]));
    groups
}

const FULL: Plan = Plan { rounds: 11, run: Duration::from_millis(50), budget: Duration::from_secs(60) };
const QUICK: Plan = Plan { rounds: 7, run: Duration::from_millis(20), budget: Duration::from_millis(4500) };
/// Shorter than any pass.
const ONE_PASS: Duration = Duration::from_nanos(1);
/// One pass of each case: only the checksums matter.
const SMOKE: Plan = Plan { rounds: 1, run: Duration::ZERO, budget: Duration::ZERO };

fn main() -> Result<()> {
    child::serve();
    let args: Vec<String> = std::env::args().skip(1).collect();
    if called_by_cargo_test(&args) {
        let listing = args.iter().any(|arg| arg == "--list");
        return if listing { Ok(()) } else { smoke_test() };
    }
    let args = Args::parse();
    let mut setup = Setup::default();
    if let Some(dir) = args.dir {
        setup.dir = dir;
    }
    if !args.durability.is_empty() {
        setup.durabilities = args.durability.iter().map(|&medium| medium.into()).collect();
    }
    let plan = if args.quick { QUICK } else { FULL };
    let mut groups = groups(args.quick);
    if !args.only.is_empty() {
        groups.retain(|group| args.only.iter().any(|name| name == group.bench));
        let floor_only = |name: &String| floor::NAMES.contains(&name.as_str());
        if args.only.iter().any(floor_only) && !groups.iter().any(|group| group.floor) {
            groups.push(Group {
                bench: "floor",
                n: 0,
                cases: |_, _| Ok(Vec::new()),
                floor: true,
                runs: None,
            });
        }
    }
    measure(&groups, &setup, &plan)
}

/// Measures and prints. Rows of the floor come last: they have taken turns with every group.
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

/// `cargo test --benches` runs this program without the arguments of either `cargo bench` or this program.
fn called_by_cargo_test(args: &[String]) -> bool {
    let ours = ["--bench", "--quick", "--only", "--durability", "--dir", "--help", "-h"];
    let given = |arg: &String| ours.contains(&arg.split('=').next().unwrap_or(arg));
    args.iter().any(|arg| arg == "--test") || !args.iter().any(given)
}

/// Every workload once, small: fails if any two systems compute different results.
fn smoke_test() -> Result<()> {
    let setup = Setup::default();
    for mut group in groups(true) {
        group.n = match group.bench {
            "fannkuch" => 7,
            "binary_trees" => 6,
            "fill_heap" | "fill_heap_open" | "fill_heap_marked" | "relocate" | "pauses" => 4,
            _ => 1_000,
        };
        group.measure(&setup, &SMOKE)?;
    }
    Ok(())
}
