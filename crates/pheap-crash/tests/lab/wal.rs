//! The write-ahead log: its rules, with programs that show them, and disks that fail.

use crate::common::{breaks, explore, explorer, glance, holds};
use pheap::sim::Bug;
use pheap_crash::Program;
use pheap_crash::seeded::Seeded;

#[test]
fn a_record_is_durable_before_the_transaction_returns() {
    holds(&["wal: set a; set b; set a", "wal: push a; both-push", "wal: remove b; create b"]);
}

#[test]
fn on_demand_a_power_failure_takes_the_newest_transactions() {
    holds(&[
        "wal lazy: set a; set b; push a",
        "wal lazy: set a; sync; set b; push a",
        "wal lazy: push a; checkpoint; push b; both-push",
        "wal lazy: push a; close; push a",
    ]);
}

#[test]
fn what_is_deferred_is_durable_when_it_was_waited_for() {
    holds(&[
        "wal: defer a; set b; defer a",
        "wal lazy: set b; defer a; set a; push b",
        "wal: push a; defer a; kill; defer a",
    ]);
}

#[test]
fn a_checkpoint_can_be_cut_short() {
    holds(&[
        "wal: push a; checkpoint; push b",
        "wal small: big a; wide a; checkpoint; wide a",
        "wal: grow a; checkpoint; push a",
        "wal: checkpoint; checkpoint; close",
    ]);
}

#[test]
fn a_killed_process_loses_nothing() {
    holds(&["wal lazy: push a; kill; push a; torn", "wal: big a; kill; checkpoint; power"]);
}

/// Behind the end that recovery finds, the log may have whole records behind a gap, the beginning of a
/// transaction, or the beginning that an interrupted opening has written.
#[test]
fn a_log_goes_on_behind_what_was_found() {
    holds(&[
        "wal: push a; kill; push b; kill; set a; power; both-push",
        "wal lazy: push a; kill; set b; torn; push a; torn; push b",
        "wal lazy: burst a; torn; burst b; torn; set a; checkpoint; kill; set b",
        "wal lazy small: fill a; torn; fill b; kill; fill a; power; push b",
        "wal small: fill a; checkpoint; fill b; kill; fill b; checkpoint; power; push a",
    ]);
}

#[test]
fn any_call_may_fail_while_a_log_goes_on() {
    survives_faults(&["wal: push a; kill; push b", "wal lazy: push a; kill; push b; sync"]);
    assert!(fails_with(Bug::TrustLog, &["wal: push a; set a"]), "it does no harm");
}

#[test]
fn heaps_go_from_memory_to_a_disk_and_back() {
    holds(&["push a; push b; convert; set a; power", "pin: big a; wide a; convert; push a; convert; set a"]);
    holds(&["wal crashed: push a; checkpoint", "wal: push a; convert; push a; convert; push a; torn"]);
}

#[test]
fn writes_can_be_short() {
    holds(&["wal short: push a; big a; checkpoint; push a"]);
}

/// Explores each of these programs with each of its calls failing, in one or two ways. Asserts that there is
/// no failure of the lab: acknowledged changes are there when the heap is opened again.
fn survives_faults(programs: &[&str]) {
    let mut explorer = explorer(glance());
    let mut failing = 0;
    for text in programs {
        let program: Program = text.parse().unwrap();
        assert!(program.is_sensible(), "{text}");
        for program in explorer.failing(&program).unwrap_or_else(|error| panic!("{text}: {error}")) {
            failing += 1;
            explore(&mut explorer, &program);
        }
    }
    println!("{failing} calls that fail: {:?}", explorer.totals());
    assert!(failing > 20 && explorer.totals().failures == 0);
}

#[test]
fn any_call_may_fail_around_a_commit() {
    survives_faults(&[
        "wal: set a; push a; both-push",
        "wal: grow a; set a",
        "wal: remove b; create b; set b",
        "wal: migrate a; migrate a; push a",
        "wal pin: migrate a; set a",
        "wal: map-insert a; map-fill a; map-clear a",
        "wal: defer a; set a",
    ]);
}

#[test]
fn any_call_may_fail_around_a_checkpoint() {
    survives_faults(&["wal: push a; checkpoint; push a; close; set a", "wal small: fill a; set a"]);
    // Also when pages become holes, and get space again.
    survives_faults(&["wal: push b; checkpoint; remove b; checkpoint; create b; push b; push a"]);
    // Also when a transaction changes pages in the middle of a checkpoint.
    survives_faults(&["wal small: push a; set-amid-checkpoint"]);
}

#[test]
fn any_call_may_fail_when_synced_on_demand() {
    survives_faults(&["wal lazy: push a; sync; push a; checkpoint; push b", "wal lazy: set a; close; set a"]);
}

#[test]
fn any_call_may_fail_when_a_heap_comes_from_memory() {
    survives_faults(&["push a; convert; push a", "wal empty: create a; push a", "wal crashed: push a"]);
}

#[test]
fn any_call_may_fail_while_a_heap_moves() {
    survives_faults(&["wal: push a; relocate", "wal crashed moved: push a"]);
}

/// Returns whether a failing call, with this bug, makes one of these programs fail.
fn fails_with(bug: Bug, programs: &[&str]) -> bool {
    let mut explorer = explorer(glance());
    programs.iter().any(|text| {
        let failing = explorer.failing(&text.parse().unwrap()).unwrap();
        let _seeded = Seeded::new(bug);
        failing.iter().any(|program| {
            let failure = explorer.explore(program, false).err();
            failure.inspect(|failure| println!("{bug:?}:\n{failure}")).is_some()
        })
    })
}

#[test]
fn what_a_failed_sync_has_left_in_the_page_cache_is_written_again() {
    for program in ["wal: push a; move", "push a; convert"] {
        assert!(fails_with(Bug::TrustPageCache, &[program]), "it does no harm to `{program}`");
    }
}

#[test]
fn pages_are_kept_until_they_are_in_the_file() {
    holds(&["wal small: push a; checkpoint; push a; push b; checkpoint; both-push"]);
    breaks(Bug::DropEarly, &["wal small: push a; set-amid-checkpoint"]);
}

#[test]
fn what_was_free_before_a_checkpoint_may_be_a_hole_after_it() {
    holds(&[
        "wal: push b; checkpoint; remove b; checkpoint; create b; push b; both-push",
        "wal lazy: push b; checkpoint; remove b; checkpoint; push a; create b; torn; push a",
        "wal lazy: grow a; checkpoint; collect; checkpoint; push a; kill; push a; checkpoint",
        "wal: remove b; checkpoint; close; push a",
    ]);
    breaks(Bug::HolesEarly, &["wal lazy: push b; checkpoint; remove b; checkpoint"]);
}

/// Two crashes may happen while a header is written to the same slot. Words of the one header and words of
/// the other must not pass for a whole header.
#[test]
fn two_torn_headers_are_not_one_whole() {
    // The result may depend on random numbers in the words, so this is tried several times.
    for _ in 0..3 {
        holds(&["wal lazy: push b; checkpoint; remove b; checkpoint; push a; create b; torn; push a"]);
    }
}

#[test]
fn a_torn_end_is_an_end() {
    holds(&[
        "wal lazy: push a; set a; push b",
        "wal lazy small: fill a; torn; push a",
        "wal lazy: burst a; torn; set a",
    ]);
}
