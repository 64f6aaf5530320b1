//! Shrinks failing programs: removes operations, settings and the failing call if the program fails without
//! them.

use std::time::{Duration, Instant};

use crate::explore::{Explorer, Failure};
use crate::program::Program;

/// Returns the sensible programs that have fewer operations, one setting less, or no failing call.
fn shorter(program: &Program) -> Vec<Program> {
    let mut all = Vec::new();
    let len = program.ops.len();
    // Removes the first half first, because the last operation often matters.
    for (from, to) in [(0, len / 2), (len / 2, len)].into_iter().filter(|_| len > 3) {
        let mut ops = program.ops.clone();
        ops.drain(from..to);
        all.push(Program { ops, ..program.clone() });
    }
    for i in 0..len {
        let mut ops = program.ops.clone();
        ops.remove(i);
        all.push(Program { ops, ..program.clone() });
    }
    if program.failing.is_some() {
        all.push(Program { failing: None, ..program.clone() });
    }
    let simpler = program.setting.simpler().into_iter();
    all.extend(simpler.map(|setting| Program { setting, ..program.clone() }));
    all.retain(Program::is_sensible);
    all
}

/// Returns the failure of the shortest program found that also fails, perhaps in another way. Begins no
/// further program after the time `most`.
pub fn shrink(explorer: &Explorer, failure: Box<Failure>, most: Duration) -> Box<Failure> {
    let started = Instant::now();
    let mut best = failure;
    'again: loop {
        for program in shorter(&best.program) {
            if started.elapsed() > most {
                return best;
            }
            // Uses a new explorer, so that the failure can be replayed.
            if let Err(failure) = explorer.anew(best.limits).explore(&program, false) {
                best = failure;
                continue 'again;
            }
        }
        return best;
    }
}
