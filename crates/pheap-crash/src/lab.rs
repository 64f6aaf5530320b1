//! Explores the programs of the schedule, or one program, and prints the progress.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use pheap_crash::schedule::{Faults, Kind, Place, STAGES, Stage, fingerprint};
use pheap_crash::shrink::shrink;
use pheap_crash::{Explorer, Limits, Program};
use pheap_testkit::Rng;

/// Time after which the search for a shorter program that fails begins no further program.
const SHRINK: Duration = Duration::from_secs(20);

/// After this many failures, a run of the schedule begins no further program.
const FAILURES: u64 = 5;

/// When to stop. A run also stops after [`FAILURES`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    /// Begins with the first program, and begins no further one after this many images.
    Images(u64),
    /// Begins where the last run stopped, and begins no further program after this time.
    Time(Duration),
}

/// An exploration.
pub(crate) struct Lab {
    explorer: Explorer,
    started: Instant,
    seed: u64,
}

impl Lab {
    pub(crate) fn new(explorer: Explorer, seed: u64) -> Lab {
        Lab { explorer, started: Instant::now(), seed }
    }

    /// Returns the totals as a line of JSON.
    pub(crate) fn json(&self) -> String {
        self.explorer.totals().json(self.started.elapsed())
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.explorer.totals().failures > 0
    }

    /// Explores a program, with its opening and all its operations, and prints the totals.
    pub(crate) fn explore(&mut self, program: &Program) {
        self.explore_one(program, false);
        println!("{}", self.explorer.totals());
    }

    fn explore_one(&mut self, program: &Program, last_only: bool) {
        if let Err(failure) = self.explorer.explore(program, last_only) {
            let first = failure.program.clone();
            let failure = shrink(&self.explorer, failure, SHRINK);
            println!("{failure}");
            if failure.program != first {
                println!("  found with `{first}`");
            }
            println!();
        }
    }

    /// Explores a program of a stage. If it is on a disk, explores it again with some of its calls failing.
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
        // If the program fails without a failing call, the failure was already reported.
        let mut failing = self.explorer.failing(program).unwrap_or_default();
        while failing.len() > most {
            failing.swap_remove(rng.below(failing.len()));
        }
        self.explorer.set_limits(Limits::quick(self.seed));
        failing.iter().for_each(|program| self.explore_one(program, false));
    }

    /// Explores the programs of the schedule, and writes the place that it has reached to the file `path`.
    ///
    /// # Errors
    /// If the file or its folder cannot be written.
    pub(crate) fn run(&mut self, until: Until, path: &Path) -> io::Result<()> {
        let (fingerprint, mut place) = (fingerprint(self.seed), Place::default());
        if let Until::Time(_) = until {
            match Place::read(path, fingerprint) {
                Some(found) => place = found,
                None => println!("from the beginning: {} says nothing about this schedule", path.display()),
            }
        }
        while let Some(stage) = STAGES.get(place.stage) {
            let (before, started) = (self.explorer.totals(), Instant::now());
            let (len, next) = self.stage(stage, place, until);
            let done = self.explorer.totals();
            let of = len.map_or("programs".to_owned(), |len| format!("of {len} programs"));
            println!(
                "{:?}: {} {of}, with failing calls {}: {} points, {} images, {:.1} s",
                stage.kind,
                next.program - place.program,
                done.programs - before.programs,
                done.points - before.points,
                done.images - before.images,
                started.elapsed().as_secs_f64()
            );
            let ends = len == Some(next.program);
            place = if ends { Place { stage: place.stage + 1, program: 0 } } else { next };
            if !ends {
                break;
            }
        }
        println!("{}", self.explorer.totals());
        place.write(path, fingerprint)
    }

    /// Explores programs of a stage from a place on. Returns the number of the stage's programs, or `None` if
    /// they are endless; and the place after the last explored program.
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
        totals.failures >= FAILURES
            || match until {
                Until::Images(images) => totals.images >= images,
                Until::Time(time) => self.started.elapsed() >= time,
            }
    }
}
