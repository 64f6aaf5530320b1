//! What the tests share.
#![allow(dead_code, unreachable_pub)] // not every test uses all of it, and each has a copy

use pheap::sim::Bug;
use pheap_crash::mutate::child::Effort;
use pheap_crash::seeded::Seeded;
use pheap_crash::subset::Breadth;
use pheap_crash::{Explorer, Failure, Limits, Program};

/// More than the quick run of many programs, for a few.
pub fn limits() -> Limits {
    Effort::Thorough.limits()
}

pub fn explorer(limits: Limits) -> Explorer {
    Explorer::new(limits).unwrap_or_else(|error| panic!("{error}"))
}

fn program(text: &str) -> Program {
    let program: Program = text.parse().unwrap_or_else(|error| panic!("{error}"));
    assert!(program.is_sensible(), "`{text}` has an operation that has nothing to work on");
    program
}

/// No crash breaks any of these programs.
#[track_caller]
pub fn holds(programs: &[&str]) {
    holds_within(limits(), programs);
}

/// No crash breaks any of these programs, of those that a quick look finds: for long ones.
#[track_caller]
pub fn holds_at_a_glance(programs: &[&str]) {
    holds_within(Limits { after_every: 4, ..Limits::quick(1) }, programs);
}

#[track_caller]
fn holds_within(limits: Limits, programs: &[&str]) {
    let mut explorer = explorer(limits);
    for text in programs {
        if let Err(failure) = explorer.explore(&program(text), false) {
            panic!("{failure}");
        }
    }
    assert!(explorer.totals().images > 10, "there was hardly anything to explore");
}

/// With this bug, a crash during the last operation of this program breaks it, or a crash in the recovery from that.
#[track_caller]
pub fn breaks(bug: Bug, text: &str) -> Failure {
    breaks_or_not(bug, text).unwrap_or_else(|| panic!("{bug:?} does no harm to `{text}`"))
}

/// As [`breaks`], if it does.
pub fn breaks_or_not(bug: Bug, text: &str) -> Option<Failure> {
    breaks_within(limits(), bug, text)
}

/// As [`breaks`], if it does within these limits.
pub fn breaks_within(limits: Limits, bug: Bug, text: &str) -> Option<Failure> {
    let mut explorer = explorer(Limits { breadth: Breadth { random: 64, ..limits.breadth }, ..limits });
    let _seeded = Seeded::new(bug);
    explorer.explore(&program(text), true).err().map(|failure| *failure)
}
