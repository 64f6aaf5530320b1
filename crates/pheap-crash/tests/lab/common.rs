//! What the tests share.

use pheap::sim::Bug;
use pheap_crash::mutate::programs::Effort;
use pheap_crash::seeded::Seeded;
use pheap_crash::subset::Breadth;
use pheap_crash::{Explorer, Failure, Limits, Program, Totals};

/// Limits for a few programs: more than the quick run of many programs explores. Transactions follow every
/// other recovery, and take as long as all the rest. Each night, `.ci/nightly more_crashes` explores more
/// images.
pub(crate) fn limits() -> Limits {
    let thorough = Effort::Thorough.limits();
    Limits { after_every: 2, breadth: Breadth { random: 6, ..thorough.breadth }, ..thorough }
}

pub(crate) fn explorer(limits: Limits) -> Explorer {
    Explorer::new(limits).unwrap_or_else(|error| panic!("{error}"))
}

fn program(text: &str) -> Program {
    let program: Program = text.parse().unwrap_or_else(|error| panic!("{error}"));
    assert!(program.is_sensible(), "`{text}` has an operation that has nothing to work on");
    program
}

/// No crash breaks any of these programs.
#[track_caller]
pub(crate) fn holds(programs: &[&str]) {
    holds_within(limits(), programs);
}

/// Those of [`holds_at_a_glance`].
pub(crate) fn glance() -> Limits {
    Limits { after_every: 4, ..Limits::quick(1) }
}

/// No crash breaks any of these programs, of those that a quick look finds: for long ones.
#[track_caller]
pub(crate) fn holds_at_a_glance(programs: &[&str]) {
    holds_within(glance(), programs);
}

#[track_caller]
pub(crate) fn holds_within(limits: Limits, programs: &[&str]) -> Totals {
    let mut explorer = explorer(limits);
    programs.iter().for_each(|text| explore(&mut explorer, &program(text)));
    assert!(explorer.totals().images > 10, "there was hardly anything to explore");
    explorer.totals()
}

/// No crash breaks this program.
#[track_caller]
pub(crate) fn explore(explorer: &mut Explorer, program: &Program) {
    if let Err(failure) = explorer.explore(program, false) {
        panic!("{failure}");
    }
}

/// Asserts that each of these programs fails with this bug: at a crash during its last operation, or at a
/// crash in the recovery from that.
#[track_caller]
pub(crate) fn breaks(bug: Bug, programs: &[&str]) {
    for text in programs {
        assert!(broken(limits(), bug, text).is_some(), "{bug:?} does no harm to `{text}`");
    }
}

/// How such a crash breaks it within these limits, if it does.
pub(crate) fn broken(limits: Limits, bug: Bug, text: &str) -> Option<Box<Failure>> {
    let mut explorer = explorer(Limits { breadth: Breadth { random: 64, ..limits.breadth }, ..limits });
    let _seeded = Seeded::new(bug);
    explorer.explore(&program(text), true).err()
}
