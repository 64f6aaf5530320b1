//! What the explorer says.

use std::fmt;
use std::time::Duration;

use pheap::sim::Point;

use crate::explore::Limits;
use crate::program::Program;

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Programs that were run.
    pub programs: u64,
    /// Points at which the power failed.
    pub points: u64,
    /// Images that were opened.
    pub images: u64,
    /// Of these, images whose recovery was explored in turn.
    pub deep: u64,
    /// Images that had been seen before, and were not opened.
    pub duplicates: u64,
    /// Programs that failed.
    pub failures: u64,
}

impl Totals {
    /// One line of JSON.
    pub fn json(&self, time: Duration) -> String {
        let Totals { programs, points, images, deep, duplicates, failures } = self;
        let seconds = time.as_secs_f64();
        format!(
            r#"{{"programs":{programs},"points":{points},"images":{images},"deep":{deep},"duplicates":{duplicates},"seconds":{seconds:.1},"failures":{failures}}}"#
        )
    }
}

/// A power failure: where, and what had reached the medium.
#[derive(Debug, Clone)]
pub struct Crash {
    phase: usize,
    point: usize,
    at: &'static str,
    acknowledged: usize,
    /// Words that may have reached the medium, and whether they did.
    words: Vec<(u32, u64, bool)>,
}

impl Crash {
    pub(crate) fn new(phase: usize, number: usize, point: &Point, chosen: &[bool]) -> Crash {
        let words =
            point.pending.iter().zip(chosen).map(|(&(word, value), &chosen)| (word, value, chosen)).collect();
        Crash { phase, point: number, at: point.at, acknowledged: point.acknowledged, words }
    }
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Crash { phase, point, at, acknowledged, words } = self;
        let reached = words.iter().filter(|word| word.2).count();
        write!(
            f,
            "at point {point} after opening {phase} ({at}; {acknowledged} steps acknowledged), when {reached} of {} words had reached the medium",
            words.len()
        )?;
        if words.is_empty() {
            return Ok(());
        }
        // The shorter list.
        let which = reached * 2 <= words.len();
        write!(f, "\n    {}:", if which { "these" } else { "all but these" })?;
        for (word, value, _) in words.iter().filter(|word| word.2 == which).take(24) {
            write!(f, " {:#x}={value:#x}", word * 8)?;
        }
        if words.iter().filter(|word| word.2 == which).count() > 24 {
            write!(f, " …")?;
        }
        Ok(())
    }
}

/// A program that a crash can break.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The program.
    pub program: Program,
    pub(crate) limits: Limits,
    /// The crash, and perhaps one during the recovery from it. None if the program fails without any.
    pub crashes: Vec<Crash>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "FAILURE of the program `{}`", self.program)?;
        for (i, crash) in self.crashes.iter().enumerate() {
            writeln!(
                f,
                "  {} {crash}",
                if i == 0 { "the power fails" } else { "and again in the run after that," }
            )?;
        }
        for line in self.message.lines() {
            writeln!(f, "  {line}")?;
        }
        let Limits { breadth, seed, .. } = self.limits;
        write!(
            f,
            "  replay: cargo run -p pheap-crash -- --program \"{}\" --seed {seed} --exhaustive {} --corners {} --random {}",
            self.program, breadth.exhaustive, breadth.corners, breadth.random
        )
    }
}
