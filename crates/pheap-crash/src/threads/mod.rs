//! Two threads: many orders of their steps, with images of crashes at each point.
//!
//! The threads of a [`program`] run under a [`scheduler`], one at a time. At each step (a lock, an atomic, a
//! store to the medium, a flush, a fence, a write, a sync …) the other thread may go on. [`explore`] runs
//! schedules with few interruptions, all of them if the limits allow it. At each new point, it makes images
//! that crashes can leave, and opens the new ones. It asks the [`model`] whether some order of the operations
//! explains both the results of the threads and the recovered state. Threads that wait for ever are a failure
//! as well.
//!
//! [`barriers`] leaves out protections, one at a time, to see whether a program notices.

pub mod barriers;
pub mod explore;
pub mod model;
pub mod program;
pub mod scheduler;
mod world;

use std::time::Instant;

use crate::subset::Breadth;
use explore::{Exploration, Limits, Seed, Totals};
use program::{PROGRAMS, Program};
use scheduler::Plan;

/// What to do.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// A few schedules of each program.
    #[arg(long)]
    quick: bool,
    /// Only programs whose names contain this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Run this schedule only, and print its steps.
    #[arg(long, value_name = "SCHEDULE", requires = "only")]
    schedule: Option<Plan>,
    /// How often at most a thread is interrupted that could go on.
    #[arg(long, value_name = "N")]
    preemptions: Option<usize>,
    /// How many schedules of each program are run at most.
    #[arg(long, value_name = "N")]
    schedules: Option<usize>,
    /// Leave out protections one at a time instead.
    #[arg(long)]
    barriers: bool,
    /// The seed of the random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Returns the limits for a first look.
pub fn quick(seed: u64) -> Limits {
    let breadth = Breadth { exhaustive: 3, corners: 1, random: 3 };
    Limits { preemptions: 2, schedules: 150, images: 4000, breadth, after_every: 64, seed }
}

/// Returns the limits for a long run: all images of points with up to 14 pending changes.
pub fn full(seed: u64) -> Limits {
    let breadth = Breadth { exhaustive: 14, corners: 32, random: 512 };
    Limits { preemptions: 2, schedules: 20_000, images: 1 << 22, breadth, after_every: 64, seed }
}

/// Returns the limits for finding a mistake.
pub fn patient(seed: u64) -> Limits {
    let breadth = Breadth { exhaustive: 5, corners: 4, random: 12 };
    Limits { preemptions: 3, schedules: 40_000, images: 20_000, breadth, after_every: 8, seed }
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        let Totals { programs, schedules, complete, steps, points, images, repeated, opened, failures } =
            other;
        self.programs += programs;
        self.schedules += schedules;
        self.complete += complete;
        self.steps += steps;
        self.points += points;
        self.images += images;
        self.repeated += repeated;
        self.opened += opened;
        self.failures += failures;
    }
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Totals { programs, schedules, complete, steps, points, images, repeated, opened, failures } =
            self;
        write!(
            f,
            "{programs} programs ({complete} with all schedules), {schedules} schedules, {steps} steps, {points} points, \
             {images} images ({opened} opened; {repeated} with the points that several schedules come to), {failures} failures"
        )
    }
}

/// Explores the programs that `args` select. Returns whether all of them hold, or all mistakes are noticed.
///
/// # Errors
/// If no program matches, or an initial heap cannot be made. With `barriers`, the errors of
/// [`barriers::run`].
pub fn run(args: &Args) -> Result<bool, String> {
    if args.barriers {
        return barriers::run(patient(args.seed));
    }
    let limits = if args.quick { quick(args.seed) } else { full(args.seed) };
    let schedules = args.schedules.unwrap_or(limits.schedules);
    let preemptions = args.preemptions.unwrap_or(limits.preemptions);
    let limits = Limits { schedules, preemptions, ..limits };
    let is_wanted = |program: &&Program| args.only.as_ref().is_none_or(|text| program.name.contains(text));
    let (started, mut all) = (Instant::now(), Totals::default());
    for program in PROGRAMS.iter().filter(is_wanted) {
        let (begun, mut exploration) = (Instant::now(), Exploration::new(*program, limits, Seed::default())?);
        let result = match &args.schedule {
            Some(plan) => exploration.run(plan).map(|steps| {
                steps.iter().enumerate().for_each(|(i, step)| println!("{i:5} {step:?}"));
            }),
            None => exploration.explore(),
        };
        println!("{}: {} ({:.1} s)", program.name, exploration.totals(), begun.elapsed().as_secs_f64());
        if let Err(failure) = result {
            println!("{failure}\n");
        }
        all += exploration.totals();
    }
    if all.programs == 0 {
        return Err("there is no such program".to_owned());
    }
    println!("{all}");
    let Totals { programs, schedules, steps, points, images, repeated, opened, failures, .. } = all;
    println!(
        r#"{{"programs":{programs},"schedules":{schedules},"steps":{steps},"points":{points},"images":{images},"repeated":{repeated},"opened":{opened},"seconds":{:.1},"failures":{failures}}}"#,
        started.elapsed().as_secs_f64()
    );
    Ok(failures == 0)
}
