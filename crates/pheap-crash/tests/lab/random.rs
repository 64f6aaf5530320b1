//! Random programs.

use crate::common::{self, explorer};
use pheap::sim::Bug;
use pheap_crash::Program;
use pheap_crash::program::alphabet::{alphabet, settings};
use pheap_crash::schedule::Stage;
use pheap_crash::seeded::Seeded;
use pheap_crash::{Explorer, Limits};
use pheap_testkit::Rng;

fn explore(explorer: &mut Explorer, len: usize, count: usize, seed: u64) {
    let mut rng = Rng::new(&[seed, len as u64]);
    let mut explored = 0;
    while explored < count {
        let setting = settings()[rng.below(settings().len())];
        let ops = alphabet(setting);
        let program =
            Program { setting, failing: None, ops: (0..len).map(|_| ops[rng.below(ops.len())]).collect() };
        if program.is_sensible() {
            explored += 1;
            common::explore(explorer, &program);
        }
    }
}

#[test]
fn programs_of_four_to_eight_operations() {
    let mut explorer = explorer(Limits::quick(2));
    for len in 4..=8 {
        explore(&mut explorer, len, 8, 2);
    }
}

/// Random programs find this bug in used heaps of limited size, without a crash.
#[test]
fn a_rollback_into_a_span_that_was_swept_is_found_by_chance() {
    const PROGRAMS: usize = 2000;
    let explorer = explorer(Limits::quick(1));
    let programs = (0..).map(|i| Stage::random(1, i)).filter(|program| program.setting.is_short_of_room());
    let found = {
        let _seeded = Seeded::new(Bug::RollbackToSwept);
        programs.take(PROGRAMS).enumerate().find(|(_, program)| explorer.run(program).is_err())
    };
    let (number, program) = found.expect("a program that finds it");
    println!("number {number} finds it: {program}");
    assert!(explorer.run(&program).is_ok());
}
