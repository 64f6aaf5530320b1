//! A program with its crashes, and its text.
//!
//! ```text
//! wal small: push a; grow a; kill
//! at 17 mask a3f0 | pin: set a; push b
//! > at 2 but 3 | push a
//! at 40 kill 5
//! ```
//!
//! The first line is the program. Each following line is a crash of the program: the point, the pending
//! changes that the crash leaves, and the operations on the heap after the recovery. A line that begins with
//! `>` is a crash of the run that the previous line starts: during its recovery, or after it.
//!
//! Any text is a script. Unknown parts, and parts above the limits of [`Script`], are left out.

use std::fmt;

use super::keep::Keep;
use crate::program::{One, Op, Program, Setting};

/// A crash, and the run after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crash {
    /// Number of crashes before it: 0 for a crash of the program.
    pub depth: usize,
    /// Number of the point, modulo the number of points.
    pub at: usize,
    /// The pending changes that are left.
    pub keep: Keep,
    /// The setting that the heap is then opened with, and the operations on it.
    pub then: Program,
}

/// A program and some crashes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Script {
    /// The program.
    pub program: Program,
    /// The crashes of the program, and those of the runs after them.
    pub crashes: Vec<Crash>,
}

impl Script {
    /// Largest number of operations of the program.
    pub const OPS: usize = 8;
    /// Largest number of operations after a crash.
    pub const THEN: usize = 3;
    /// Largest number of crashes.
    pub const CRASHES: usize = 6;
    /// Largest number of crashes of which each happens in the run after the one before.
    pub const DEPTH: usize = 3;

    /// Parses a text.
    pub fn parse(text: &str) -> Script {
        let mut lines = text.lines();
        let program = program(lines.next().unwrap_or_default(), Script::OPS);
        let crashes = lines.filter(|line| !line.trim().is_empty()).take(Script::CRASHES).map(crash).collect();
        let mut script = Script { program, crashes };
        script.settle();
        script
    }

    /// Cuts the script down to the limits.
    pub(super) fn settle(&mut self) {
        self.program.ops.truncate(Script::OPS);
        self.crashes.truncate(Script::CRASHES);
        let mut deepest = 0;
        for crash in &mut self.crashes {
            crash.depth = crash.depth.min(deepest);
            deepest = (crash.depth + 1).min(Script::DEPTH - 1);
            crash.then.ops.truncate(Script::THEN);
        }
        // Keeps the first of these operations, because they take long.
        let ops = self.crashes.iter_mut().map(|crash| &mut crash.then.ops).chain([&mut self.program.ops]);
        let mut repeated = false;
        ops.for_each(|ops| ops.retain(|op| !is_repeated(*op) || !std::mem::replace(&mut repeated, true)));
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.program)?;
        self.crashes.iter().try_for_each(|crash| writeln!(f, "{crash}"))
    }
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Crash { depth, at, keep, then } = self;
        write!(f, "{}at {at} {keep}", "> ".repeat(*depth))?;
        if *then == Program::default() { Ok(()) } else { write!(f, " | {then}") }
    }
}

/// Returns whether an operation is one of those of which a script has one at most: they make many
/// transactions.
pub(super) fn is_repeated(op: Op) -> bool {
    matches!(op, Op::One(One::Burst | One::Fill | One::Churn, _))
}

/// Parses a program. Unknown parts of the text are left out.
fn program(text: &str, most: usize) -> Program {
    let (words, ops) = text.split_once(':').unwrap_or(("", text));
    let mut program = Program::default();
    // Word by word, so that only unknown words are left out.
    let known = |words: &str| format!("{words}:").parse::<Program>().ok();
    let mut good = String::new();
    for word in words.split_whitespace() {
        let with = format!("{good} {word}");
        if let Some(read) = known(&with) {
            (program, good) = (read, with);
        }
    }
    let ops = ops.split(';').filter_map(|op| op.parse::<Op>().ok());
    program.ops = ops.take(most).collect();
    program
}

fn crash(line: &str) -> Crash {
    let (place, then) = line.split_once('|').unwrap_or((line, ""));
    let depth = place.chars().take_while(|c| *c == '>' || c.is_whitespace()).filter(|c| *c == '>').count();
    let mut words = place.trim_start_matches(|c: char| c == '>' || c.is_whitespace()).split_whitespace();
    let at = match words.next() {
        Some("at") => words.next().and_then(|n| n.parse().ok()).unwrap_or(0),
        _ => 0,
    };
    let keep = Keep::parse(words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut then = program(then, Script::THEN);
    then.setting = opened(then.setting);
    Crash { depth, at, keep, then }
}

/// Returns the setting without the flags of an initial heap, and without `full`.
pub(super) fn opened(setting: Setting) -> Setting {
    let Setting { pin, eager, moved, wal, lazy, small, short, .. } = setting;
    Setting { pin, eager, moved, wal, lazy, small, short, ..Setting::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_its_text() {
        let text = "\
wal small fail-log-sync-2: push a; grow a; kill
at 17 mask a3f0 | pin: set a; push b
> at 2 but 3 | push a
> > at 0 none
at 40 kill 5
";
        let script = Script::parse(text);
        assert_eq!(script.to_string(), text);
        assert_eq!(script.crashes.iter().map(|crash| crash.depth).collect::<Vec<_>>(), [0, 1, 2, 0]);
    }

    #[test]
    fn any_text_is_a_script() {
        let same = |text: &str, as_if: &str| assert_eq!(Script::parse(text).to_string(), as_if);
        same("", "\n");
        same("\n\n\u{1}at\n", "\nat 0 none\n");
        same("odd wal fail-nothing wal: set a; nonsense; ; push  a\n", "wal: set a; push a\n");
        same("set a\n>>>> at 7 mask 0xZf|empty full pin: push b", "set a\nat 7 mask 0f | pin: push b\n");
        same("set a\nat x first 3", "set a\nat 0 first 3\n");
        same("burst a; set a; fill b", "burst a; set a\n");
        same(&"set a;".repeat(100), &(["set a"; Script::OPS].join("; ") + "\n"));
    }
}
