//! Explores crash images and prints what it finds. The last line is JSON; the exit status is 1 if anything failed.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use pheap_crash::alphabet::{all, alphabet, settings};
use pheap_crash::program::Setting;
use pheap_crash::rng::Rng;
use pheap_crash::seeded::{self, Seeded};
use pheap_crash::{Explorer, Limits, Program};

/// Crashes heaps at every fence, sync and acknowledgement, and inside recovery, and checks what is left.
///
/// Explores programs of one operation, programs of two for most of the time, then random ones of three until it is over.
#[derive(Parser, Debug)]
struct Args {
    /// Explore all subsets of the pending words, if there are at most two to the power of this.
    #[arg(long, value_name = "BITS")]
    exhaustive: Option<u32>,
    /// Else so many words alone, all but one, and the first few.
    #[arg(long, value_name = "N")]
    corners: Option<usize>,
    /// And so many random subsets.
    #[arg(long, value_name = "N")]
    random: Option<usize>,
    /// After one in so many recoveries, transactions run on the heap and the power fails again.
    #[arg(long, value_name = "N")]
    after_every: Option<u64>,
    /// Operations of a program, at most.
    #[arg(long, value_name = "N", default_value_t = 3)]
    ops: usize,
    /// Explore all programs of up to so many operations, however long it takes.
    #[arg(long)]
    all: bool,
    /// How long to explore, unless `--all` says otherwise.
    #[arg(long, value_name = "SECONDS", default_value_t = 50)]
    seconds: u64,
    /// For what is random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Explore this program only, all of it: "pin: push a; both; kill", or "wal fail-log-sync-1: push a".
    #[arg(long, value_name = "TEXT")]
    program: Option<Program>,
    /// Switch on a bug.
    #[arg(long, value_name = "NAME", value_parser = seeded::parse)]
    bug: Option<pheap::sim::Bug>,
    /// Let a call fail in every so manyth program on a disk, some in each of one operation, and all of those with `--all`.
    #[arg(long, value_name = "N", default_value_t = 4)]
    faults: usize,
    /// Print each program.
    #[arg(long, short)]
    verbose: bool,
    /// Stop after so many failures.
    #[arg(long, value_name = "N", default_value_t = 5)]
    failures: u64,
}

impl Args {
    fn limits(&self) -> Limits {
        let mut limits = match self.program {
            Some(_) => Limits::thorough(self.seed, 14),
            None => Limits::quick(self.seed),
        };
        limits.after_every = self.after_every.unwrap_or(limits.after_every);
        let breadth = &mut limits.breadth;
        breadth.exhaustive = self.exhaustive.unwrap_or(breadth.exhaustive);
        breadth.corners = self.corners.unwrap_or(breadth.corners);
        breadth.random = self.random.unwrap_or(breadth.random);
        limits
    }
}

/// Explores programs and prints what happens.
struct Session {
    explorer: Explorer,
    started: Instant,
    args: Args,
}

impl Session {
    /// Returns whether to go on. `faults`: how many of the calls that can fail do.
    fn explore(&mut self, program: &Program, last_only: bool, faults: usize, rng: &mut Rng) -> bool {
        let mut go_on = self.explore_one(program, last_only);
        if !program.setting.wal || faults == 0 {
            return go_on;
        }
        // A program that fails without any has been reported.
        let mut failing = self.explorer.failing(program).unwrap_or_default();
        while failing.len() > faults {
            failing.swap_remove(rng.below(failing.len()));
        }
        for program in failing {
            go_on = go_on && self.explore_one(&program, false);
        }
        go_on
    }

    fn explore_one(&mut self, program: &Program, last_only: bool) -> bool {
        let before = self.explorer.totals();
        let result = self.explorer.explore(program, last_only);
        let now = self.explorer.totals();
        if self.args.verbose {
            let (points, images) = (now.points - before.points, now.images - before.images);
            println!("{program}  ({points} points, {images} images)");
        }
        if let Err(failure) = result {
            println!("{failure}\n");
        }
        now.failures < self.args.failures
    }

    /// In a random order, so that each of them has its turn some day if there is no time for all.
    fn explore_all(&mut self, len: usize, deadline: Duration) -> bool {
        let started = Instant::now();
        let before = self.explorer.totals();
        let mut rng = Rng::new(&[self.args.seed, len as u64]);
        let mut programs: Vec<Program> =
            settings().into_iter().flat_map(|setting| all(setting, len)).collect();
        for i in (1..programs.len()).rev() {
            programs.swap(i, rng.below(i + 1));
        }
        for program in &programs {
            if self.started.elapsed() > deadline {
                break;
            }
            let faults = match len {
                _ if self.args.faults == 0 => 0,
                _ if self.args.all && len <= 1 => usize::MAX,
                0 => usize::MAX,
                1 => 4,
                _ => self.some_faults(&mut rng),
            };
            if !self.explore(program, true, faults, &mut rng) {
                return false;
            }
        }
        let now = self.explorer.totals();
        println!(
            "{} of {} programs of {len} operations: {} points, {} images, {:.1} s",
            now.programs - before.programs,
            programs.len(),
            now.points - before.points,
            now.images - before.images,
            started.elapsed().as_secs_f64()
        );
        true
    }

    fn explore_some(&mut self, len: usize, deadline: Duration) -> bool {
        let before = self.explorer.totals();
        let mut rng = Rng::new(&[self.args.seed, len as u64]);
        let programs: Vec<Vec<pheap_crash::program::Op>> =
            settings().iter().map(|&setting| alphabet(setting)).collect();
        while self.started.elapsed() < deadline {
            // Most without a setting, or with a log only.
            let plain = settings().iter().position(|s| s.wal).unwrap_or(0);
            let number = match rng.below(8) {
                0..2 => 0,
                2..4 => plain,
                _ => rng.below(programs.len()),
            };
            let setting: Setting = settings()[number];
            let ops = (0..len).map(|_| programs[number][rng.below(programs[number].len())]).collect();
            let program = Program { setting, failing: None, ops };
            let faults = self.some_faults(&mut rng);
            if program.is_sensible() && !self.explore(&program, len <= 3, faults, &mut rng) {
                return false;
            }
        }
        let now = self.explorer.totals();
        println!(
            "{} random programs of {len} operations: {} points, {} images",
            now.programs - before.programs,
            now.points - before.points,
            now.images - before.images,
        );
        true
    }

    fn some_faults(&self, rng: &mut Rng) -> usize {
        usize::from(self.args.faults > 0 && rng.below(self.args.faults) == 0)
    }

    fn run(&mut self) {
        if let Some(program) = self.args.program.clone() {
            self.explore_one(&program, false);
            return;
        }
        let seconds = Duration::from_secs(self.args.seconds);
        for len in 0..=self.args.ops {
            let go_on = match len {
                _ if self.args.all => self.explore_all(len, Duration::MAX),
                0..=2 => self.explore_all(len, seconds * 2 / 3),
                _ => self.explore_some(len, seconds),
            };
            if !go_on {
                println!("stopped after {} failures", self.explorer.totals().failures);
                return;
            }
        }
    }
}

/// An image takes hundreds of small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = Args::parse();
    let started = Instant::now();
    let explorer = match Explorer::new(args.limits()) {
        Ok(explorer) => explorer,
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let _seeded = args.bug.map(Seeded::new);
    let mut session = Session { explorer, started, args };
    session.run();
    let totals = session.explorer.totals();
    println!("{}", totals.json(started.elapsed()));
    if totals.failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
