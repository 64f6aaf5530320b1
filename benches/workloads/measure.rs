//! Timing: cases, interleaved rounds, medians, and JSON rows.
//!
//! A *pass* is one execution of a workload at its size. A *run* is as many passes as it takes to be long enough
//! for the clock and the scheduler. Runs of all cases of a group take turns (A B C A B C …), so that a slow minute
//! of the machine hits all of them; a row reports the median run, divided by its passes. A case that is slow takes part in
//! the first rounds only.

use crate::Result;
use std::fmt::{self, Write as _};
use std::ops::AddAssign;
use std::time::{Duration, Instant};

/// What the heap did during the timed part, from differences of `heap.stats()`.
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
    /// A sum of numbers that their order is part of.
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

/// Further figures of a pass, by name.
#[derive(Clone, Debug, Default)]
pub struct Notes(Vec<(&'static str, f64)>);

impl Notes {
    /// The figure of this name.
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

/// One pass, or several added up.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The timed part.
    pub seconds: f64,
    /// What the heap counted in the timed part; none without a heap.
    pub counts: Option<Counts>,
    /// The result, where the workload has one.
    pub checksum: Option<Checksum>,
    /// Whatever else there is to say.
    pub notes: Notes,
}

impl Sample {
    /// Times `work`, which has no heap to count anything.
    pub fn time<T>(work: impl FnOnce() -> T) -> (Sample, T) {
        let start = Instant::now();
        let out = timed(work);
        let seconds = start.elapsed().as_secs_f64();
        (Sample { seconds, ..Sample::default() }, out)
    }

    /// Adds the result.
    pub fn with(self, checksum: Checksum) -> Sample {
        Sample { checksum: Some(checksum), ..self }
    }

    /// Adds a figure.
    pub fn noting(mut self, name: &'static str, figure: f64) -> Sample {
        self.notes.add(name, figure);
        self
    }
}

/// Does the work. A function of its own, for a profiler to see where the timed part begins and ends.
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

/// One row to be: a workload on one system at one size.
pub struct Case {
    /// `pheap`, `volatile`, `pmdk` or `floor`.
    pub system: &'static str,
    /// The workload.
    pub bench: &'static str,
    /// How the workload is written, or on what it runs.
    pub variant: String,
    /// The size: operations in a pass, or a depth.
    pub n: u64,
    /// How many threads share the work.
    pub threads: u64,
    /// Executes so many passes, and adds them up.
    passes: Box<dyn FnMut(u64) -> Result<Sample>>,
    /// Whether it may be asked for more than one pass.
    whole_runs: bool,
    expected: Option<Checksum>,
}

impl Case {
    /// A case whose `pass` prepares, times and checks one execution.
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

    /// A case whose passes are executed elsewhere: `passes` gets their number, and adds them up itself.
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

    /// The same, said to be of so many threads.
    pub fn threads(self, threads: u64) -> Case {
        Case { threads, ..self }
    }

    /// `passes` passes added up; all passes of a case must have the same checksum.
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

    /// The timed part of `passes` passes, as criterion's `iter_custom` wants it.
    pub fn time(&mut self, passes: u64) -> Duration {
        match self.run(passes) {
            Ok(sample) => Duration::from_secs_f64(sample.seconds),
            Err(error) => panic!("{error}"),
        }
    }

    /// The system and the variant, for criterion.
    pub fn label(&self) -> String {
        format!("{}-{}", self.system, self.variant)
    }

    fn name(&self) -> String {
        format!("{} {} {} {}", self.bench, self.n, self.system, self.variant)
    }

    /// Warms up, and finds out how many passes make a run. If one pass takes as long as `plan.slow`, that was the first run.
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

/// So many runs a median is worth having of, where they are quick.
const FEW: usize = 3;

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Runs of each case.
    pub rounds: usize,
    /// The shortest run.
    pub run: Duration,
    /// No round starts when they have taken as long as this, so a group may end with fewer rounds; but cases of which three runs take no more than half of it have these.
    pub budget: Duration,
    /// A case whose first pass takes as long as this is not warmed up: it was its first run.
    pub slow: Duration,
    /// No run of a case starts if it would have taken more than this in all, so a row may have fewer runs than others.
    pub share: Duration,
}

impl Plan {
    /// So many rounds, in which all cases take part with one pass each.
    pub const fn even(rounds: usize) -> Plan {
        let all = Duration::MAX;
        Plan { rounds, run: Duration::ZERO, budget: all, slow: all, share: all }
    }
}

/// The middle value, or the mean of the two in the middle.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    (low + high) / 2.0
}

/// Which processors the program is built for: all of its architecture, or this one. (Today's have SSE 3, and
/// a program for all processors does not use it.)
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
    /// Seconds a pass, one entry a run.
    pub seconds: Vec<f64>,
    /// Counts of the average pass.
    pub counts: Option<Counts>,
    /// The result, the same in each pass.
    pub checksum: Option<Checksum>,
    /// Further figures a pass, one entry a run.
    pub notes: Vec<Notes>,
}

impl Row {
    /// Nanoseconds an operation in one round.
    pub fn nanos(&self, round: usize) -> f64 {
        self.seconds[round] * 1e9 / self.n as f64
    }

    /// Whether both are of one case.
    pub fn is_of_case(&self, other: &Row) -> bool {
        let case = |row: &Row| (row.system, row.bench, row.variant.clone(), row.n, row.threads);
        case(self) == case(other)
    }

    /// The median of the runs.
    pub fn median(&self) -> f64 {
        median(self.seconds.iter().copied())
    }

    /// The median of a further figure.
    pub fn note(&self, name: &str) -> Option<f64> {
        let figures: Option<Vec<f64>> = self.notes.iter().map(|notes| notes.get(name)).collect();
        Some(median(figures.filter(|figures| !figures.is_empty())?.into_iter()))
    }

    /// One JSON object on one line.
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

/// A case that is being measured.
struct Turns {
    case: Case,
    /// Passes of a run.
    passes: u64,
    /// The run that calibration has been.
    first: Option<Sample>,
    /// Seconds a pass, one entry a run.
    seconds: Vec<f64>,
    /// Further figures a pass, one entry a run.
    notes: Vec<Notes>,
    sum: Sample,
    /// What all runs have taken, untimed parts included, and what the last one has.
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

    /// One run, unless all would take more than `share` with it.
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

/// An error unless rows of one bench and size have one checksum.
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
