//! Scripts: the text says where each crash happens. Findings of the fuzzer are here, each made small.

use pheap::sim::Bug;
use pheap_crash::seeded::Seeded;
use pheap_crash::{Script, Steered};

/// Runs a script. Returns the number of crashes that the heap has survived.
///
/// # Panics
/// If the script finds a bug.
fn survives(text: &str) -> usize {
    let steered = Steered::new().unwrap();
    match steered.run(&Script::parse(text)) {
        Ok(survived) => survived.len(),
        Err(broken) => panic!("{broken}"),
    }
}

#[test]
fn a_script_says_where_the_power_fails() {
    let script = "\
push a; many a; both
at 9 mask 5a | set a; push b
> at 3 but 1 | collect
> > at 1 all
at 700 first 12
";
    let steered = Steered::new().unwrap();
    let survived = steered.run(&Script::parse(script)).unwrap();
    assert_eq!(survived.iter().map(|crash| crash.depth).collect::<Vec<_>>(), [0, 1, 2, 0]);
    assert_eq!(survived, steered.run(&Script::parse(script)).unwrap());
}

#[test]
fn a_script_says_when_the_process_is_killed() {
    let script =
        "wal: push a; grow a; kill; set b\nat 11 kill 3 | wal lazy: push a\n> at 9 kill 1\nat 30 kill 0\n";
    let survived = Steered::new().unwrap().run(&Script::parse(script)).unwrap();
    assert!(survived.iter().any(|crash| crash.killed) && survived.len() == 3);
}

#[test]
fn a_bug_is_found_by_the_script_that_leads_to_it() {
    let steered = Steered::new().unwrap();
    // Of each four pending lines, all but one have reached the medium, or only one has.
    let keeps = ["7", "b", "d", "e", "1", "2", "4", "8"].map(|mask| format!("groups {mask}"));
    let found = || {
        let script = |at: usize, keep: &str| Script::parse(&format!("pin: pair a; set a\nat {at} {keep}"));
        (0..40).any(|at| keeps.iter().any(|keep| steered.run(&script(at, keep)).is_err()))
    };
    assert!(!found());
    let _seeded = Seeded::new(Bug::NoFenceAfterUndo);
    assert!(found());
}

/// Removing a root drops the held pointer of it.
#[test]
fn a_held_root_is_removed() {
    survives("crashed wal: hold b; remove b; abort-free a");
}

/// A transaction may free objects while a collection sweeps.
#[test]
fn objects_are_freed_while_a_cycle_sweeps() {
    survives("eager wal: cut b; cut b; churn b");
    survives("eager pin: cut b; cut b; churn b");
}

/// A repeated operation pops nothing from a list that found no room to grow.
#[test]
fn repeated_operations_find_no_room() {
    survives("full: grow a; big b; grow b; churn b");
}

/// A removal or a collection that is lost in a crash takes its free pages back.
#[test]
fn what_became_free_is_lost() {
    survives("wal lazy small short: remove b; power");
    survives("wal lazy: grow a; unlink-big a; collect; kill");
}

/// The failing call may be one of a check of the heap.
#[test]
fn a_recovery_meets_a_bad_disk() {
    assert_eq!(survives("crashed wal: set a\nat 0 first 14 | fail-log-sync-1: ready; abort a"), 1);
    // Or one of the first reading of the heap.
    let program = "map-churn a; pop a; replace b; migrate a; big a; free-big a; big a";
    let then = "wal small fail-log-write-1: carry a; pair a; pair a";
    assert_eq!(survives(&format!("eager: {program}\nat 8 none | {then}")), 1);
    assert_eq!(survives(&format!("eager fail-data-create-7-full: {program}\nat 8 none | {then}")), 1);
    for call in 0..5 {
        survives(&format!(
            "eager wal: set b\nat 48 all | fail-log-sync-{call}-evict: rename b; ready; replace b"
        ));
    }
}

/// A sync fails, perhaps within a transaction that is rolled back anyway. Then a removal or a renaming of a
/// root fails with the heap's error, and is not done.
#[test]
fn roots_of_a_failed_heap_stay() {
    for call in 0..8 {
        for change in ["remove b", "rename b", "remove b; create b"] {
            survives(&format!("wal fail-data-sync-{call}: push b; panic a; {change}; checkpoint"));
            survives(&format!("wal lazy fail-data-sync-{call}: push b; panic a; {change}; sync"));
        }
        survives(&format!("wal fail-data-sync-{call}: burst a; pair a; map-panic a"));
    }
}

/// Two processes are killed, the second before it has made the writes of the first durable. When the power
/// fails then, the writes of both may be lost.
#[test]
fn two_processes_are_killed_before_the_power_fails() {
    for at in 0..20 {
        let text = format!(
            "remove b; big a\nat {at} kill 183 | set a\n> at 1 kill 0\n> > at 56 only 1\n> > at 0 none"
        );
        survives(&text);
    }
}
