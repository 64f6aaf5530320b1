//! Shrinks failing programs: removes operations, settings and failing calls that do not matter.

use std::time::{Duration, Instant};

use crate::explore::{Explorer, Failure};
use crate::program::Program;

/// Returns the programs that are a little shorter.
fn shorter(program: &Program) -> Vec<Program> {
    let mut all = Vec::new();
    let len = program.ops.len();
    // Removes the first half first: the failure is often in the last operation, or a crash in it.
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

/// Returns the failure of the shortest program found that also fails, perhaps in another way. Searches for
/// `most` at most.
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
