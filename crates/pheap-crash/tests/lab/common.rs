//! What the tests share.

use pheap::sim::Bug;
use pheap_crash::mutate::programs::Effort;
use pheap_crash::seeded::Seeded;
use pheap_crash::subset::Breadth;
use pheap_crash::{Explorer, Failure, Limits, Program, Totals};

/// Limits for a few programs: more images than the quick limits have. Transactions run on every other
/// recovered heap that is examined, because they take long.
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

/// Asserts that none of these programs fails, with crashes within [`limits`].
#[track_caller]
pub(crate) fn holds(programs: &[&str]) {
    holds_within(limits(), programs);
}

/// The limits of [`holds_at_a_glance`].
pub(crate) fn glance() -> Limits {
    Limits { after_every: 4, ..Limits::quick(1) }
}

/// Asserts that none of these programs fails, with fewer crashes: for long programs.
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

/// Asserts that this program does not fail.
#[track_caller]
pub(crate) fn explore(explorer: &mut Explorer, program: &Program) {
    if let Err(failure) = explorer.explore(program, false) {
        panic!("{failure}");
    }
}

/// Asserts that each of these programs fails with this bug: without a crash, at a crash during its last
/// operation, or at a crash in the recovery from that.
#[track_caller]
pub(crate) fn breaks(bug: Bug, programs: &[&str]) {
    for text in programs {
        assert!(broken(limits(), bug, text).is_some(), "{bug:?} does no harm to `{text}`");
    }
}

/// Returns such a failure of a program, if these limits with more random subsets find one.
pub(crate) fn broken(limits: Limits, bug: Bug, text: &str) -> Option<Box<Failure>> {
    let mut explorer = explorer(Limits { breadth: Breadth { random: 64, ..limits.breadth }, ..limits });
    let _seeded = Seeded::new(bug);
    explorer.explore(&program(text), true).err()
}
