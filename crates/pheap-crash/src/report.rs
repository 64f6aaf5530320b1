//! What the explorer says.

use std::fmt;
use std::time::Duration;

use crate::medium::Moment;

/// Errors as texts.
pub(crate) trait Said<T> {
    /// The error as what it says.
    fn said(self) -> Result<T, String>;
}

impl<T, E: fmt::Display> Said<T> for Result<T, E> {
    fn said(self) -> Result<T, String> {
        self.map_err(|error| error.to_string())
    }
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Programs that were run.
    pub programs: u64,
    /// Points at which the power failed.
    pub points: u64,
    /// Images that were opened.
    pub images: u64,
    /// Of these, images on whose recovery more was run, for no other image had come to the same.
    pub examined: u64,
    /// Of these, images whose recovery was explored in turn.
    pub deep: u64,
    /// Images that had been seen before, and were not opened.
    pub duplicates: u64,
    /// Of the programs, those on a disk with a write-ahead log; and of these, those with a call that fails.
    pub wal_programs: u64,
    /// See [`wal_programs`](Totals::wal_programs).
    pub faults: u64,
    /// Of the images, those that were opened with a write-ahead log.
    pub wal_images: u64,
    /// Programs that failed.
    pub failures: u64,
}

impl Totals {
    /// One line of JSON.
    pub fn json(&self, time: Duration) -> String {
        let Totals { programs, points, images, failures, .. } = self;
        let seconds = time.as_secs_f64();
        format!(
            r#"{{"images":{images},"points":{points},"programs":{programs},"seconds":{seconds:.1},"failures":{failures}}}"#
        )
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { programs, points, images, examined, deep, .. } = self;
        let Totals { duplicates, wal_programs, faults, wal_images, .. } = self;
        write!(
            f,
            "{programs} programs ({wal_programs} with a write-ahead log, {faults} with a call that fails), {points} points, \
             {images} images ({wal_images} with a log; {examined} came to what no other had come to; {deep} were crashed in \
             recovery, too), {duplicates} images seen before"
        )
    }
}

/// A crash: where, and what was left.
#[derive(Debug, Clone)]
pub struct Crash {
    phase: usize,
    point: usize,
    at: &'static str,
    acknowledged: usize,
    /// What may have reached the medium, and whether it did.
    pending: Vec<(String, bool)>,
    /// The process was killed: what it has written is there, up to some call.
    killed: bool,
}

impl Crash {
    pub(crate) fn new(phase: usize, number: usize, moment: &Moment, chosen: &[bool], killed: bool) -> Crash {
        let pending = chosen.iter().enumerate().map(|(i, &chosen)| (moment.name(i), chosen)).collect();
        let acknowledged = moment.acknowledged().0;
        Crash { phase, point: number, at: moment.at(), acknowledged, pending, killed }
    }
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Crash { phase, point, at, acknowledged, pending, killed } = self;
        let reached = pending.iter().filter(|piece| piece.1).count();
        write!(
            f,
            "{} at point {point} after opening {phase} ({at}; {acknowledged} steps acknowledged), when {reached} of {} changes {}",
            if *killed { "the process is killed" } else { "the power fails" },
            pending.len(),
            if *killed { "had been written" } else { "had reached the medium" },
        )?;
        if pending.is_empty() {
            return Ok(());
        }
        // The shorter list.
        let which = reached * 2 <= pending.len();
        write!(f, "\n    {}:", if which { "these" } else { "all but these" })?;
        for (name, _) in pending.iter().filter(|piece| piece.1 == which).take(24) {
            write!(f, " {name}")?;
        }
        if pending.iter().filter(|piece| piece.1 == which).count() > 24 {
            write!(f, " …")?;
        }
        Ok(())
    }
}

/// Says what led to a failure, and what that is.
pub(crate) fn write_crashes(f: &mut fmt::Formatter<'_>, crashes: &[Crash], message: &str) -> fmt::Result {
    for (i, crash) in crashes.iter().enumerate() {
        writeln!(f, "  {}{crash}", if i == 0 { "" } else { "and in the run after that, " })?;
    }
    message.lines().try_for_each(|line| writeln!(f, "  {line}"))
}
