//! Seeded bugs: each is found by a small set of programs, or by the situations. All of these pass without a
//! bug.

use crate::common::{explore, explorer};
use pheap::sim::Bug;
use pheap_crash::Program;
use pheap_crash::mutate::situations::Situation;
use pheap_crash::program::alphabet::{all, settings};
use pheap_crash::seeded::{BUGS, Seeded};
use pheap_crash::{Failure, Limits};

/// A few longer programs, and all of one operation: in memory, or on a disk.
fn programs(wal: bool) -> impl Iterator<Item = Program> {
    let on_disk = [
        "wal: set a; set a",
        "wal: set a; close; set a; set b",
        "wal lazy: set a; close; set b; checkpoint; set a",
        "wal: push a; checkpoint; set a",
        "wal lazy: set a; set b",
        "wal lazy: push a; checkpoint; push b",
        "wal lazy small: fill a; torn",
        "wal lazy small: burst a; fill b; torn; set a",
        "wal small: fill a; checkpoint; fill b; push a",
        "wal eager: push a; cut a; churn a",
        "wal: remove b; checkpoint; create b; both",
        "wal: migrate a; checkpoint; migrate a; push a",
        "wal small: push a; fill b; fill b; fill b; fill b",
        "wal small: push a; set-amid-checkpoint; push a",
        // For a log that goes on in another segment without having grown, because growth syncs it.
        "wal lazy: fill a; fill b; stuff a; stuff a; stuff a; stuff a; stuff a; stuff a; stuff a; fill b",
    ];
    let in_memory = [
        "set a; both",
        "set b; both",
        "both; set a",
        "both; set b",
        "full: grow a; burst b; burst b; burst b; burst b; burst b; burst b; burst b; replace b; replace b; \
         replace b; replace b; replace b; replace b; replace b; both; both; both; both; both",
        "both; many a",
        "both; many b",
        "both; remove b",
        "set a; set a",
        "set b; remove b",
        "push a; pop a; collect; stuff a",
        "push a; pop-free a; stuff a",
        "pin: push a; carry a",
        "grow a; unlink-big a; collect; close",
        "eager: push a; cut a; churn a",
        "eager pin: push a; cut a; churn a",
        "eager: replace a",
        "eager: migrate a; collect; churn a",
        "full eager: waste a; too-much a; waste a",
        "map-insert a; map-abort a; map-remove a",
        "nest a; nest-long a",
        "map-nest a",
        "push a; nest a; stuff a",
        "pin: push a; nest a; stuff a",
    ];
    let longer: &[&str] = if wal { &on_disk } else { &in_memory };
    let longer: Vec<Program> = longer.iter().map(|text| text.parse().expect("a program")).collect();
    let settings = settings().into_iter().filter(move |setting| setting.wal == wal);
    longer.into_iter().chain(settings.flat_map(|setting| all(setting, 1)))
}

fn is_of_the_log(bug: Bug) -> bool {
    [
        Bug::DropEarly,
        Bug::CloseBeforeFold,
        Bug::GoOnInPlace,
        Bug::RecordUnnamed,
        Bug::NameBeforeLog,
        Bug::RecordFirstWords,
    ]
    .contains(&bug)
}

fn is_of_nested_parts(bug: Bug) -> bool {
    let name = format!("{bug:?}");
    name.contains("Savepoint") || name.contains("TakenBack")
}

fn find(bug: Bug) -> Option<Failure> {
    let mut explorer = explorer(Limits { deep_every: 16, ..Limits::quick(1) });
    let _seeded = Seeded::new(bug);
    // For bugs of nested parts, begins with the programs that have these.
    let is_of_parts = is_of_nested_parts(bug);
    let (first, then): (Vec<_>, Vec<_>) =
        programs(is_of_the_log(bug)).partition(|program| is_of_parts && program.to_string().contains("nest"));
    first
        .iter()
        .chain(&then)
        .find_map(|program| explorer.explore(program, false).err())
        .map(|failure| *failure)
}

fn is_found(bug: Bug) {
    let failure = find(bug).unwrap_or_else(|| panic!("{bug:?} is not found"));
    println!("{bug:?} is found by `{}`:\n{failure}", failure.program);
}

/// Returns the situations that take little time.
fn situations() -> impl Iterator<Item = Situation> {
    use Situation::{Recycled, Reused, ReusedOnDisk, Types};
    Situation::ALL
        .iter()
        .copied()
        .filter(|situation| ![Recycled, Reused, ReusedOnDisk, Types].contains(situation))
}

/// For bugs that these programs do not show: asserts that one of the situations does.
fn is_found_in_a_situation(bug: Bug) {
    let found = situations().find_map(|situation| {
        let start = situation.start().unwrap_or_else(|error| panic!("{situation:?}: {error}"));
        let _seeded = Seeded::new(bug);
        situation.explore(start).err().map(|error| format!("in the situation `{situation:?}`: {error}"))
    });
    println!("{bug:?} is found {}", found.unwrap_or_else(|| panic!("{bug:?} is not found")));
}

#[test]
fn without_a_bug_nothing_is_found_in_any_situation() {
    for situation in situations() {
        let start = situation.start().unwrap_or_else(|error| panic!("{situation:?}: {error}"));
        situation.explore(start).unwrap_or_else(|error| panic!("{situation:?}: {error}"));
    }
}

fn needs_a_situation(bug: Bug) -> bool {
    let first = BUGS.iter().position(|&bug| bug == Bug::TrustLogName);
    BUGS.iter().position(|&other| other == bug) >= first
}

macro_rules! each {
    ($($name:ident: $bug:ident,)*) => {
        $(#[test]
        fn $name() {
            if needs_a_situation(Bug::$bug) { is_found_in_a_situation(Bug::$bug) } else { is_found(Bug::$bug) }
        })*
    };
}

pheap_crash::each_bug!(each);

fn nothing_is_found(wal: bool) {
    // With fewer crashes in recoveries than `find` has, which ends at the first failure.
    let mut explorer = explorer(Limits::quick(1));
    programs(wal).for_each(|program| explore(&mut explorer, &program));
    let totals = explorer.totals();
    println!("{totals:?}");
    assert!(totals.programs > 60 && totals.images > 2000, "{totals:?}");
}

#[test]
fn without_a_bug_nothing_is_found_in_memory() {
    nothing_is_found(false);
}

#[test]
fn without_a_bug_nothing_is_found_on_a_disk() {
    nothing_is_found(true);
}
