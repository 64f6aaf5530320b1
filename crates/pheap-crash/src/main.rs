//! Explores crash images and prints the failures. The last line of the output is JSON, except after an error
//! and with `threads --barriers`. The exit status is 1 after a failure or an error.

mod lab;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use lab::{Lab, Until};
use pheap_crash::mutate;
use pheap_crash::seeded::{self, Seeded};
use pheap_crash::threads;
use pheap_crash::{Explorer, Limits, Program};

/// Crashes heaps at fences, syncs and acknowledgements, between them, and inside recovery, and checks what is
/// left.
///
/// Explores short programs with many images, then longer ones with fewer. A seed always gives the same order.
#[derive(Parser, Debug)]
#[command(args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Explore about a million images, from the beginning. This is the default.
    #[arg(long)]
    quick: bool,
    /// Explore about this many images, from the beginning.
    #[arg(long, value_name = "N", conflicts_with_all = ["quick", "long"])]
    images: Option<u64>,
    /// Explore for about this many seconds, from where the last run stopped.
    #[arg(long, value_name = "SECONDS", conflicts_with = "quick")]
    long: Option<u64>,
    /// Explore this program only, all of it: "pin: push a; both; kill", or "wal fail-log-sync-1: push a".
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["quick", "long", "images"])]
    program: Option<Program>,
    /// How thoroughly to explore it: quick, wide or thorough.
    #[arg(long, value_name = "LIMITS", default_value = "thorough")]
    limits: String,
    /// The seed of the random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Switch on a bug.
    #[arg(long, value_name = "NAME", value_parser = seeded::parse)]
    bug: Option<pheap::sim::Bug>,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Leaves out each flush, fence, log entry, write, sync, checksum test and lock that its programs reach,
    /// one place in the source at a time, and reports which program notices.
    Mutate(mutate::Args),
    /// Runs two threads in many orders, and crashes them at each point.
    Threads(threads::Args),
}

/// File that records where the last run stopped.
const PROGRESS: &str = "target/pheap-crash.progress";
/// A quick run stops after the program with which it has opened this many images.
const QUICK: u64 = 1_000_000;

/// Examining an image makes many small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn explore(args: &Args) -> Result<bool, String> {
    let explorer = Explorer::new(Limits::named(&args.limits, args.seed)?)?;
    let _seeded = args.bug.map(Seeded::new);
    let mut lab = Lab::new(explorer, args.seed);
    if let Some(program) = &args.program {
        lab.explore(program);
    } else {
        let until = match (args.long, args.images) {
            (Some(seconds), _) => Until::Time(Duration::from_secs(seconds)),
            (None, images) => Until::Images(images.unwrap_or(QUICK)),
        };
        lab.run(until, Path::new(PROGRESS)).map_err(|e| format!("{PROGRESS}: {e}"))?;
    }
    println!("{}", lab.json());
    Ok(lab.has_failed())
}

fn main() -> ExitCode {
    let args = Args::parse();
    let failed = match &args.command {
        Some(Command::Mutate(args)) => mutate::run(args).map(|done| !done),
        Some(Command::Threads(args)) => threads::run(args).map(|done| !done),
        None => explore(&args),
    };
    match failed {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
