//! Goes through the schedule, and prints what happens.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use pheap_crash::progress::Progress;
use pheap_crash::schedule::{Faults, Kind, Place, STAGES, Stage, fingerprint};
use pheap_crash::shrink::shrink;
use pheap_crash::{Explorer, Limits, Program, Totals};
use pheap_testkit::Rng;

/// How long a shorter program is sought after a failure.
const SHRINK: Duration = Duration::from_secs(20);

/// When to stop.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    /// From the beginning, after so many images.
    Images(u64),
    /// From where the last run stopped, after so long.
    Time(Duration),
}

/// An exploration.
pub(crate) struct Lab {
    explorer: Explorer,
    started: Instant,
    seed: u64,
    most_failures: u64,
    verbose: bool,
}

impl Lab {
    /// Stops after `most_failures`.
    pub(crate) fn new(explorer: Explorer, seed: u64, most_failures: u64, verbose: bool) -> Lab {
        Lab { explorer, started: Instant::now(), seed, most_failures, verbose }
    }

    /// What was done, as a line of JSON.
    pub(crate) fn json(&self) -> String {
        self.explorer.totals().json(self.started.elapsed())
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.explorer.totals().failures > 0
    }

    /// Explores all of a program.
    pub(crate) fn explore(&mut self, program: &Program) {
        self.explore_one(program, false);
        println!("{}", self.explorer.totals());
    }

    fn explore_one(&mut self, program: &Program, last_only: bool) {
        let before = self.explorer.totals();
        let result = self.explorer.explore(program, last_only);
        let done = self.explorer.totals().since(before);
        if self.verbose {
            println!("{program}  ({} points, {} images)", done.points, done.images);
        }
        if let Err(failure) = result {
            let first = failure.program.clone();
            let failure = shrink(&self.explorer, failure, SHRINK);
            println!("{failure}");
            if failure.program != first {
                println!("  found with `{first}`");
            }
            println!();
        }
    }

    /// Explores a program of a stage, and some of its calls that can fail.
    fn explore_with_faults(&mut self, program: &Program, stage: &Stage) {
        let limits = (stage.limits)(self.seed);
        self.explorer.set_limits(limits);
        self.explore_one(program, !matches!(stage.kind, Kind::Random));
        if !program.setting.wal {
            return;
        }
        let mut rng = Rng::new(&[self.seed, program.ops.len() as u64, self.explorer.totals().programs]);
        let most = match stage.faults {
            Faults::All => usize::MAX,
            Faults::Some(n) => n,
            Faults::OneIn(n) => usize::from(rng.below(n) == 0),
        };
        if most == 0 {
            return;
        }
        // A program that fails without any has been reported.
        let mut failing = self.explorer.failing(program).unwrap_or_default();
        while failing.len() > most {
            failing.swap_remove(rng.below(failing.len()));
        }
        self.explorer.set_limits(Limits::quick(self.seed));
        failing.iter().for_each(|program| self.explore_one(program, false));
    }

    /// Explores the programs of the schedule.
    ///
    /// # Errors
    /// If the file with the progress cannot be read or written.
    pub(crate) fn run(&mut self, until: Until, path: &Path) -> io::Result<()> {
        let fingerprint = fingerprint(self.seed);
        let mut so_far = Progress { fingerprint, ..Progress::default() };
        if let Until::Time(_) = until {
            match Progress::read(path, fingerprint)? {
                Some(found) => so_far = found,
                None => println!("from the beginning: {} says nothing about this schedule", path.display()),
            }
        }
        let mut place = so_far.place;
        while let Some(stage) = STAGES.get(place.stage) {
            let before = (self.explorer.totals(), Instant::now());
            let (len, next) = self.stage(stage, place, until);
            let done = self.explorer.totals().since(before.0);
            let of = len.map_or("programs".to_owned(), |len| format!("of {len} programs"));
            println!(
                "{:?}: {} {of}, with failing calls {}: {} points, {} images, {:.1} s",
                stage.kind,
                next.program - place.program,
                done.programs,
                done.points,
                done.images,
                before.1.elapsed().as_secs_f64()
            );
            let ends = len == Some(next.program);
            place = if ends { Place { stage: place.stage + 1, program: 0 } } else { next };
            if !ends {
                break;
            }
        }
        let totals = self.explorer.totals();
        println!("{totals}");
        let all = Progress {
            fingerprint,
            place,
            done: so_far.done.plus(totals),
            time: so_far.time + self.started.elapsed(),
        };
        if so_far.done != Totals::default() {
            println!(
                "with what was done before: {} programs, {} points, {} images, {} failures, {} s",
                all.done.programs,
                all.done.points,
                all.done.images,
                all.done.failures,
                all.time.as_secs()
            );
        }
        all.write(path)
    }

    /// Explores programs of a stage from a place on. Returns how many it has, if there is an end, and the place after the last one that was explored.
    fn stage(&mut self, stage: &Stage, mut place: Place, until: Until) -> (Option<usize>, Place) {
        let programs = stage.programs(self.seed);
        let len = (stage.kind != Kind::Random).then_some(programs.len());
        while len.is_none_or(|len| place.program < len) && !self.is_over(until) {
            match programs.get(place.program) {
                Some(program) => self.explore_with_faults(program, stage),
                None => self.explore_with_faults(&Stage::random(self.seed, place.program), stage),
            }
            place.program += 1;
        }
        (len, place)
    }

    fn is_over(&self, until: Until) -> bool {
        let totals = self.explorer.totals();
        totals.failures >= self.most_failures
            || match until {
                Until::Images(images) => totals.images >= images,
                Until::Time(time) => self.started.elapsed() >= time,
            }
    }
}
