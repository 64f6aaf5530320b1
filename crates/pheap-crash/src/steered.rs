//! Crashes that an input chooses, for fuzzing. The [`Script`] chooses the program, the point at which the
//! power fails or the process is killed, the image, the operations after it, and the crashes in these.
//!
//! The explorer tries many crashes at each point. Here the input has a few crashes, which a fuzzer chooses.

mod keep;
mod mutate;
mod script;

use std::fmt;

pub use keep::{Keep, Mask};
pub use mutate::Words;
pub use script::{Crash, Script};

use crate::fault::Failing;
use crate::medium::Snapshot;
use crate::model::State;
use crate::program::{Op, Program};
use crate::report;
use crate::run::{Opening, Ready, Run, Trace, catching, ready, run};

/// Runs scripts.
#[derive(Debug)]
pub struct Steered {
    ready: Ready,
}

/// A crash that a heap has survived. A fuzzer can keep the inputs that lead to new values of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Survived {
    /// Number of crashes before it.
    pub depth: usize,
    /// The operation that was running; `None` for the opening.
    pub op: Option<Op>,
    /// Name of the event of the point.
    pub at: &'static str,
    /// Whether the process was killed.
    pub killed: bool,
    /// Index of the recovered state among the allowed ones, at most 3.
    pub found: usize,
    /// Whether the image has some of the pending changes and not all.
    pub torn: bool,
}

/// A script that has found a bug.
#[derive(Debug)]
pub struct Broken {
    /// The script. Its program is without the operations that have nothing to work on, and may have a similar
    /// failing call. What was left out of the runs after crashes is still there.
    pub script: Script,
    /// The crashes, the first one first. Empty if the program fails without a crash.
    pub crashes: Vec<report::Crash>,
    /// The error, for people.
    pub message: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "FAILURE of the script\n\n{}", self.script)?;
        report::write_crashes(f, &self.crashes, &self.message)?;
        write!(f, "  other crashes: cargo run -p pheap-crash -- --program \"{}\"", self.script.program)
    }
}

/// A run that may be crashed, and the crashes that led to it.
struct Level {
    trace: Trace,
    /// The operations of the run. The first one has the number 1 in the trace.
    ops: Vec<Op>,
    /// States that are also allowed until the opening is acknowledged.
    first: Vec<State>,
    /// The crashes that led here.
    crashes: Vec<report::Crash>,
}

impl Steered {
    /// Makes the initial heaps of programs.
    ///
    /// # Errors
    /// If one of the initial heaps cannot be made.
    pub fn new() -> Result<Steered, String> {
        Ok(Steered { ready: ready()? })
    }

    /// Runs a script. Returns the crashes that the heap has survived.
    ///
    /// # Errors
    /// The first failure.
    pub fn run(&self, script: &Script) -> Result<Vec<Survived>, Box<Broken>> {
        let program = sensible(script.program.clone());
        let script = Script { program, crashes: script.crashes.clone() };
        let mut crashes = Vec::new();
        let mut survived = Vec::new();
        self.run_all(&script, &mut crashes, &mut survived)
            .map_err(|message| Box::new(Broken { script, crashes, message }))?;
        Ok(survived)
    }

    fn run_all(
        &self,
        script: &Script,
        crashes: &mut Vec<report::Crash>,
        survived: &mut Vec<Survived>,
    ) -> Result<(), String> {
        let mut trace = run(&script.program, &self.ready)?;
        if script.program.failing.is_some() && points(&trace).is_empty() {
            // The points before the failing call are not explored, and there are no others: most likely no
            // call failed. Runs the program without it.
            trace = run(&Program { failing: None, ..script.program.clone() }, &self.ready)?;
        }
        let ops = script.program.ops.clone();
        let mut levels = vec![Level { trace, ops, first: Vec::new(), crashes: Vec::new() }];
        for crash in &script.crashes {
            levels.truncate(crash.depth + 1);
            let Some(level) = levels.last() else { continue };
            crashes.clone_from(&level.crashes);
            if let Some(next) = recover(level, levels.len() - 1, crash, crashes, survived)? {
                levels.push(next);
            }
        }
        Ok(())
    }
}

/// Returns the points that are explored: number of the phase, and number of the point in it.
fn points(trace: &Trace) -> Vec<(usize, usize)> {
    let of = |(number, phase): (usize, &crate::run::Phase)| {
        let explored = phase.points.iter().enumerate().filter(|(_, (_, op))| op.is_some());
        explored.map(|(at, _)| (number, at)).collect::<Vec<_>>()
    };
    trace.phases.iter().enumerate().flat_map(of).collect()
}

/// Crashes a run, recovers, and runs the following operations. Returns `None` if the run has no explored
/// points.
fn recover(
    level: &Level,
    depth: usize,
    crash: &Crash,
    crashes: &mut Vec<report::Crash>,
    survived: &mut Vec<Survived>,
) -> Result<Option<Level>, String> {
    let trace = &level.trace;
    let points = points(trace);
    let Some(&(number, at)) = crash.at.checked_rem(points.len()).map(|at| &points[at]) else {
        return Ok(None);
    };
    let phase = &trace.phases[number];
    let mut medium = Snapshot::new(phase.start.clone());
    phase.points[..=at].iter().for_each(|(point, _)| medium.advance(point));
    let (point, op) = &phase.points[at];
    let since = at.checked_sub(1).map_or(0, |before| phase.points[before].0.acknowledged().0);

    let kept = crash.keep.choose(point);
    crashes.push(report::Crash::new(number, at, point, &kept.chosen, kept.killed));
    let allowed = if kept.killed {
        let all = kept.chosen.iter().all(|&chosen| chosen);
        trace.allowed_when_killed(point, all, since)
    } else {
        trace.allowed(point)
    };
    let opening = point.acknowledged().0 == 0;
    let allowed: Vec<&State> = allowed.iter().chain(if opening { &level.first[..] } else { &[] }).collect();
    // The changes of a killed process are not durable when the heap is opened, and may be lost until that is
    // acknowledged. What the killed process had read may be lost, too.
    let first = match kept.killed {
        true if opening => [trace.allowed_after_kill(point, since), &level.first].concat(),
        true => trace.allowed_after_kill(point, since).to_vec(),
        false => Vec::new(),
    };
    let mut content = medium.left(point, &kept.chosen, kept.killed);
    if crash.then.setting.wal {
        content = content.on_disk();
    }

    let then = settled(crash.then.clone(), kept.killed);
    let generation = depth as u64 + 2;
    let mut run = Run::open(Opening::of(&then), content, None, generation)?;
    let Some(found) = allowed.iter().position(|state| *state == run.state()) else {
        return Err(not_allowed(&allowed, run.state()));
    };
    survived.push(Survived {
        depth,
        op: op.and_then(|op| level.ops.get(op.checked_sub(1)?).copied()),
        at: point.at(),
        killed: kept.killed,
        found: found.min(3),
        torn: kept.chosen.contains(&true) && kept.chosen.contains(&false),
    });
    let after = |error: String| format!("after a recovery, {error}");
    let mut ops = Vec::new();
    for &op in &then.ops {
        if run.applies(op) {
            ops.push(op);
            catching(|| run.op(op)).map_err(after)?;
        }
    }
    // A check writes the heap's pending changes before, and the failing call could be one of these writes.
    if then.failing.is_none() {
        run.check().map_err(after)?;
    }
    let trace = run.finish().map_err(after)?;
    Ok(Some(Level { trace, ops, first, crashes: crashes.clone() }))
}

/// Returns the program without operations that have nothing to work on. Replaces the failing call by a
/// similar one if programs like this are not tried with it.
fn sensible(program: Program) -> Program {
    let mut sensible = Program { ops: Vec::new(), ..program };
    for op in program.ops {
        sensible.ops.push(op);
        if !sensible.is_sensible() {
            sensible.ops.pop();
        }
    }
    sensible.failing = sensible.failing.and_then(|failing| possible(failing, &sensible));
    sensible
}

/// Returns the operations after a crash. Replaces the failing call by a similar one if programs like this are
/// not tried with it. After `killed`, drops a failing call after which the page cache forgets data, because
/// the writes of the killed process would be lost.
fn settled(then: Program, killed: bool) -> Program {
    let mut like = then.clone();
    like.setting.moved = true;
    let failing = then
        .failing
        .and_then(|failing| possible(failing, &like))
        .filter(|failing| !(killed && failing.evict));
    Program { failing, ..then }
}

/// Returns the failure if it is one of those that are [tried](Program::failures), or else a similar one.
fn possible(failing: Failing, program: &Program) -> Option<Failing> {
    let all =
        program.failures(
            |which, call| {
                if (which, call) == (failing.which, failing.call) { failing.after + 1 } else { 0 }
            },
        );
    let mut same = all.into_iter().filter(|other| other.after == failing.after);
    same.clone().find(|other| *other == failing).or_else(|| same.next())
}

fn not_allowed(allowed: &[&State], found: &State) -> String {
    let mut text = "the state is none of those that may be found\n".to_owned();
    for (n, state) in allowed.iter().enumerate() {
        text += &format!(" {n}:\n{}", state.difference(found));
    }
    text
}
