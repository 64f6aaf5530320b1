//! Texts of the explorer: totals, crashes and failures.

use std::fmt;
use std::time::Duration;

use crate::medium::Moment;

/// Converts errors to texts.
pub(crate) trait Said<T> {
    /// Converts the error to its text.
    fn said(self) -> Result<T, String>;
}

impl<T, E: fmt::Display> Said<T> for Result<T, E> {
    fn said(self) -> Result<T, String> {
        self.map_err(|error| error.to_string())
    }
}

/// Counters of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Programs explored.
    pub programs: u64,
    /// Points explored.
    pub points: u64,
    /// Images that were opened, without those opened again to use them.
    pub images: u64,
    /// Images opened whose recovered heap was examined. Most equalled no earlier one.
    pub examined: u64,
    /// Images opened whose recovery was explored in turn.
    pub deep: u64,
    /// Images that equalled earlier ones, and were not opened again.
    pub duplicates: u64,
    /// Programs on a disk with a write-ahead log.
    pub wal_programs: u64,
    /// Programs with a call that fails.
    pub faults: u64,
    /// Images opened on a disk, where heaps have a write-ahead log.
    pub wal_images: u64,
    /// Programs that failed.
    pub failures: u64,
}

impl Totals {
    /// Formats the totals as one line of JSON.
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

/// A crash: its place, and the changes that it left.
#[derive(Debug, Clone)]
pub struct Crash {
    phase: usize,
    point: usize,
    at: &'static str,
    acknowledged: usize,
    /// The pending changes, and whether the crash left them.
    pending: Vec<(String, bool)>,
    /// Whether the process was killed. Its stores or writes up to some moment are there.
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
        // Lists the changes that are left or those that are not, whichever are fewer.
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

/// Writes the crashes that led to a failure, and its message.
pub(crate) fn write_crashes(f: &mut fmt::Formatter<'_>, crashes: &[Crash], message: &str) -> fmt::Result {
    for (i, crash) in crashes.iter().enumerate() {
        writeln!(f, "  {}{crash}", if i == 0 { "" } else { "and in the run after that, " })?;
    }
    message.lines().try_for_each(|line| writeln!(f, "  {line}"))
}
