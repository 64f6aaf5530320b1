//! Timing: cases, interleaved rounds, medians, and JSON rows.
//!
//! A *pass* is one execution of a workload at its size. A *run* has as many passes as are necessary for the
//! resolution of the clock and the scheduler. Runs of all cases of a group take turns (A B C A B C …), so
//! that a slow minute of the machine affects all of them. A row reports the median run, divided by its
//! passes. A slow case takes part in the first rounds only.

use crate::Result;
use std::fmt::{self, Write as _};
use std::ops::AddAssign;
use std::time::{Duration, Instant};

/// Counters of the heap during the timed part: differences of `heap.stats()`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Store fences.
    pub fences: u64,
    /// Cache lines of data written back.
    pub flushed_lines: u64,
    /// Bytes appended to the log.
    pub log_bytes: u64,
}

/// A result that must be the same on every system.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Checksum {
    /// A sum or a count.
    Int(i128),
    /// An energy.
    Float(f64),
}

impl Checksum {
    /// Returns a checksum that depends on the order of the numbers.
    pub fn in_order(numbers: impl Iterator<Item = u64>) -> Checksum {
        let terms = numbers.zip(1..).map(|(number, i): (_, u64)| number.wrapping_mul(i));
        Checksum::Int(terms.fold(0, u64::wrapping_add).into())
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Checksum::Int(sum) => sum.fmt(f),
            Checksum::Float(sum) => sum.fmt(f),
        }
    }
}

/// Further figures of a pass, with their names.
#[derive(Clone, Debug, Default)]
pub struct Notes(Vec<(&'static str, f64)>);

impl Notes {
    /// Returns the figure with this name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|note| note.0 == name).map(|note| note.1)
    }

    fn add(&mut self, name: &'static str, figure: f64) {
        match self.0.iter_mut().find(|note| note.0 == name) {
            Some(note) => note.1 += figure,
            None => self.0.push((name, figure)),
        }
    }
}

/// The result of one pass, or the sum of several.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Time of the timed part.
    pub seconds: f64,
    /// Counters of the heap in the timed part. `None` without a heap.
    pub counts: Option<Counts>,
    /// The checksum, if the workload has one.
    pub checksum: Option<Checksum>,
    /// Further figures.
    pub notes: Notes,
}

impl Sample {
    /// Times `work`, which uses no heap.
    pub fn time<T>(work: impl FnOnce() -> T) -> (Sample, T) {
        let start = Instant::now();
        let out = timed(work);
        let seconds = start.elapsed().as_secs_f64();
        (Sample { seconds, ..Sample::default() }, out)
    }

    /// Adds the checksum.
    pub fn with(self, checksum: Checksum) -> Sample {
        Sample { checksum: Some(checksum), ..self }
    }

    /// Adds a figure.
    pub fn noting(mut self, name: &'static str, figure: f64) -> Sample {
        self.notes.add(name, figure);
        self
    }
}

/// Runs the timed part. It is a separate function, so that a profiler shows where the timed part begins and
/// ends.
#[inline(never)]
fn timed<T>(work: impl FnOnce() -> T) -> T {
    work()
}

impl AddAssign for Sample {
    fn add_assign(&mut self, other: Sample) {
        self.seconds += other.seconds;
        if let Some(new) = other.counts {
            let counts = self.counts.get_or_insert_default();
            counts.fences += new.fences;
            counts.flushed_lines += new.flushed_lines;
            counts.log_bytes += new.log_bytes;
        }
        self.checksum = other.checksum.or(self.checksum);
        other.notes.0.into_iter().for_each(|(name, figure)| self.notes.add(name, figure));
    }
}

/// A workload on one system at one size.
pub struct Case {
    /// `pheap`, `volatile`, `pmdk` or `floor`.
    pub system: &'static str,
    /// The workload.
    pub bench: &'static str,
    /// The variant of the workload, or of the system.
    pub variant: String,
    /// The size: operations in a pass, or a depth.
    pub n: u64,
    /// Number of threads that share the work.
    pub threads: u64,
    /// Executes a number of passes, and returns their sum.
    passes: Box<dyn FnMut(u64) -> Result<Sample>>,
    /// Whether `passes` accepts more than one pass.
    whole_runs: bool,
    expected: Option<Checksum>,
}

impl Case {
    /// Makes a case whose `pass` prepares, times and checks one execution.
    pub fn new(
        system: &'static str,
        bench: &'static str,
        variant: impl Into<String>,
        n: u64,
        mut pass: impl FnMut() -> Result<Sample> + 'static,
    ) -> Case {
        let case = Case::of_runs(system, bench, variant, n, move |_| pass());
        Case { whole_runs: false, ..case }
    }

    /// Makes a case whose passes are executed elsewhere. `passes` gets their number, and adds them up.
    pub fn of_runs(
        system: &'static str,
        bench: &'static str,
        variant: impl Into<String>,
        n: u64,
        passes: impl FnMut(u64) -> Result<Sample> + 'static,
    ) -> Case {
        let (variant, passes) = (variant.into(), Box::new(passes));
        Case { system, bench, variant, n, threads: 1, passes, whole_runs: true, expected: None }
    }

    /// Sets the number of threads.
    pub fn threads(self, threads: u64) -> Case {
        Case { threads, ..self }
    }

    /// Executes passes, and returns their sum. All passes of a case must have the same checksum.
    pub fn run(&mut self, passes: u64) -> Result<Sample> {
        let mut sum = Sample::default();
        let (times, each) = if self.whole_runs { (1, passes) } else { (passes, 1) };
        for _ in 0..times {
            let sample = (self.passes)(each).map_err(|error| format!("{}: {error}", self.name()))?;
            if self.expected.is_some() && self.expected != sample.checksum {
                return Err(format!("{}: the checksum changes from pass to pass", self.name()).into());
            }
            self.expected = sample.checksum;
            sum += sample;
        }
        Ok(sum)
    }

    /// Returns the time of `passes` passes, for `iter_custom` of criterion.
    pub fn time(&mut self, passes: u64) -> Duration {
        match self.run(passes) {
            Ok(sample) => Duration::from_secs_f64(sample.seconds),
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns the system and the variant, for criterion.
    pub fn label(&self) -> String {
        format!("{}-{}", self.system, self.variant)
    }

    fn name(&self) -> String {
        format!("{} {} {} {}", self.bench, self.n, self.system, self.variant)
    }

    /// Warms up, and returns the number of passes that make a run. If the first pass takes as long as
    /// `plan.slow`, it counts as the first run.
    fn calibrate(&mut self, plan: &Plan) -> Result<(u64, Option<Sample>)> {
        let length = plan.run.as_secs_f64();
        let (mut total, mut fastest, mut passes) = (0.0, f64::INFINITY, 1);
        while total < length {
            let start = Instant::now();
            let sample = self.run(passes)?;
            if passes == 1 && start.elapsed() >= plan.slow {
                return Ok((1, Some(sample)));
            }
            let seconds = sample.seconds.max(1e-9);
            total += seconds;
            fastest = fastest.min(seconds / passes as f64);
            passes *= 2;
        }
        Ok(((length / fastest).ceil().max(1.0) as u64, None))
    }
}

/// Number of runs that a quick case gets even if the budget is used up.
const FEW: usize = 3;

/// Number and length of runs.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Number of runs of each case.
    pub rounds: usize,
    /// Shortest time of a run.
    pub run: Duration,
    /// No round starts when this time is over, so a group may have fewer rounds. A case still gets three runs
    /// if they take at most half of this time.
    pub budget: Duration,
    /// A case whose first pass takes as long as this is not warmed up: the pass was its first run.
    pub slow: Duration,
    /// No run of a case starts if all of its runs would take longer than this, so a row may have fewer runs
    /// than others.
    pub share: Duration,
}

impl Plan {
    /// Returns a plan with this number of rounds, in which each case has one pass.
    pub const fn even(rounds: usize) -> Plan {
        let all = Duration::MAX;
        Plan { rounds, run: Duration::ZERO, budget: all, slow: all, share: all }
    }
}

/// Returns the middle value, or the mean of the two in the middle.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    (low + high) / 2.0
}

/// The processors that the program is built for: all of its architecture, or this one. (Current ones have SSE
/// 3, and a program for all processors does not use it.)
const BUILD: &str = if cfg!(target_feature = "sse3") { "native" } else { "generic" };

/// A measured case.
#[derive(Clone, Debug)]
pub struct Row {
    /// See [`Case::system`].
    pub system: &'static str,
    /// See [`Case::bench`].
    pub bench: &'static str,
    /// See [`Case::variant`].
    pub variant: String,
    /// See [`Case::n`].
    pub n: u64,
    /// See [`Case::threads`].
    pub threads: u64,
    /// Seconds of a pass, with one entry for each run.
    pub seconds: Vec<f64>,
    /// Counters of the average pass.
    pub counts: Option<Counts>,
    /// The checksum, the same in each pass.
    pub checksum: Option<Checksum>,
    /// Further figures of a pass, with one entry for each run.
    pub notes: Vec<Notes>,
}

impl Row {
    /// Returns the nanoseconds of an operation in one round.
    pub fn nanos(&self, round: usize) -> f64 {
        self.seconds[round] * 1e9 / self.n as f64
    }

    /// Returns whether both rows belong to one case.
    pub fn is_of_case(&self, other: &Row) -> bool {
        let case = |row: &Row| (row.system, row.bench, row.variant.clone(), row.n, row.threads);
        case(self) == case(other)
    }

    /// Returns the median of the runs, in seconds.
    pub fn median(&self) -> f64 {
        median(self.seconds.iter().copied())
    }

    /// Returns the median of a further figure.
    pub fn note(&self, name: &str) -> Option<f64> {
        let figures: Option<Vec<f64>> = self.notes.iter().map(|notes| notes.get(name)).collect();
        Some(median(figures.filter(|figures| !figures.is_empty())?.into_iter()))
    }

    /// Formats the row as one line of JSON.
    pub fn json(&self) -> String {
        let min = self.seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let max = self.seconds.iter().copied().fold(0.0, f64::max);
        let mut line = format!(
            r#"{{"system":"{}","bench":"{}","variant":"{}","n":{},"threads":{},"seconds":{:.9},"min":{min:.9},"max":{max:.9},"reps":{}"#,
            self.system,
            self.bench,
            self.variant,
            self.n,
            self.threads,
            self.median(),
            self.seconds.len(),
        );
        if let Some(Counts { fences, flushed_lines, log_bytes }) = self.counts {
            let _ =
                write!(line, r#","fences":{fences},"flushed_lines":{flushed_lines},"log_bytes":{log_bytes}"#);
        }
        if let Some(checksum) = self.checksum {
            let _ = write!(line, r#","checksum":{checksum}"#);
        }
        let names = self.notes.first().into_iter().flat_map(|notes| &notes.0).map(|note| note.0);
        for (name, figure) in names.filter_map(|name| Some((name, self.note(name)?))) {
            let decimals = if figure.fract() == 0.0 { 0 } else { 9 };
            let _ = write!(line, r#","{name}":{figure:.decimals$}"#);
        }
        let _ = write!(line, r#","build":"{BUILD}"}}"#);
        line
    }
}

/// A case during the measurement.
struct Turns {
    case: Case,
    /// Number of passes of a run.
    passes: u64,
    /// The run that the calibration has made, if it counts.
    first: Option<Sample>,
    /// Seconds of a pass, with one entry for each run.
    seconds: Vec<f64>,
    /// Further figures of a pass, with one entry for each run.
    notes: Vec<Notes>,
    sum: Sample,
    /// Time of all runs, including untimed parts, and time of the last run.
    spent: Duration,
    last: Duration,
}

impl Turns {
    fn new(mut case: Case, plan: &Plan) -> Result<Turns> {
        let start = Instant::now();
        let (passes, first) = case.calibrate(plan)?;
        let spent = if first.is_some() { start.elapsed() } else { Duration::ZERO };
        Ok(Turns {
            case,
            passes,
            first,
            seconds: Vec::new(),
            notes: Vec::new(),
            sum: Sample::default(),
            spent,
            last: spent,
        })
    }

    /// Makes one run, unless all runs with it would take longer than `share`.
    fn turn(&mut self, round: usize, share: Duration) -> Result<()> {
        let mut sample = if let Some(first) = self.first.take() {
            first
        } else if round > 0 && self.spent + self.last > share {
            return Ok(());
        } else {
            let start = Instant::now();
            let sample = self.case.run(self.passes)?;
            self.last = start.elapsed();
            self.spent += self.last;
            sample
        };
        self.seconds.push(sample.seconds / self.passes as f64);
        let mut notes = std::mem::take(&mut sample.notes);
        notes.0.iter_mut().for_each(|note| note.1 /= self.passes as f64);
        self.notes.push(notes);
        self.sum += sample;
        Ok(())
    }

    fn row(self) -> Row {
        let total = self.passes * self.seconds.len() as u64;
        let average = |count: u64| (count as f64 / total as f64).round() as u64;
        let counts = self.sum.counts.map(|counts| Counts {
            fences: average(counts.fences),
            flushed_lines: average(counts.flushed_lines),
            log_bytes: average(counts.log_bytes),
        });
        let Case { system, bench, variant, n, threads, .. } = self.case;
        let (seconds, notes, checksum) = (self.seconds, self.notes, self.sum.checksum);
        Row { system, bench, variant, n, threads, seconds, counts, checksum, notes }
    }
}

/// Measures the cases of a group in turns. All cases of one bench and size must have the same checksum.
pub fn interleaved(cases: Vec<Case>, plan: &Plan) -> Result<Vec<Row>> {
    let mut cases: Vec<Turns> =
        cases.into_iter().map(|case| Turns::new(case, plan)).collect::<Result<_>>()?;
    let start = Instant::now();
    for round in 0..plan.rounds {
        let is_late = round > 0 && start.elapsed() > plan.budget;
        if is_late && round >= FEW {
            break;
        }
        let share = if is_late { plan.share.min(plan.budget / 2) } else { plan.share };
        for case in &mut cases {
            case.turn(round, share)?;
        }
    }
    let rows: Vec<Row> = cases.into_iter().map(Turns::row).collect();
    agree(&rows)?;
    Ok(rows)
}

/// Returns an error unless all rows of one bench and size have the same checksum.
fn agree(rows: &[Row]) -> Result<()> {
    for row in rows {
        let first = rows
            .iter()
            .find(|first| (first.bench, first.n) == (row.bench, row.n) && first.checksum.is_some())
            .unwrap_or(row);
        if let (Some(expected), Some(found)) = (first.checksum, row.checksum)
            && expected != found
        {
            let Row { system, bench, variant, n, .. } = row;
            let other = format!("{} {}", first.system, first.variant);
            return Err(
                format!("{bench} {n}: {system} {variant} computed {found}, {other} {expected}").into()
            );
        }
    }
    Ok(())
}
