//! "Order, always": for each rule of the protocols, a program that shows the rule. Where a switch breaks the
//! rule, the test proves that the explorer notices.

use crate::common::{breaks, broken, explorer, glance, holds, holds_at_a_glance, holds_within, limits};
use pheap::sim::Bug;
use pheap_crash::Limits;

// The order: fresh objects and span entries, the record that makes them reachable, stores in place, the reset
// of the log.

#[test]
fn fresh_objects_are_durable_before_the_record() {
    holds(&["big a", "big a; big a", "abort a; big a", "pin: big a"]);
}

#[test]
fn small_fresh_objects_come_with_the_record() {
    holds(&["push a; push a", "abort a; push a", "push a; pop a; push a", "both-push; push b"]);
}

#[test]
fn an_entry_of_the_span_table_comes_with_the_object() {
    // If the entry were lost, objects that are allocated after the crash could overwrite the object.
    holds(&["push a; power; push b; push a", "pin: push a; power; push b", "big a; torn; big b; push a"]);
}

#[test]
fn the_record_is_durable_before_the_transaction_returns() {
    holds(&["set a; set b; set a", "pair a"]);
}

#[test]
fn the_log_is_reset_only_after_its_data_is_durable() {
    holds(&["set a; set b; both", "set a; many a", "set a; close", "fill a"]);
    breaks(Bug::ResetBeforeData, &["set a; many a", "set a; close"]);
}

#[test]
fn the_reset_is_durable_before_the_log_is_written_again() {
    holds(&["many a; set a", "pin: set a; set a"]);
}

// Undo.

#[test]
fn old_content_is_durable_before_it_is_overwritten() {
    holds(&[
        "many a",
        "overlap a",
        "widen a",
        "widen a; overlap a; widen a",
        "weary a; set a",
        "big a; wide a",
        "pin: pair a",
    ]);
    breaks(Bug::NoFenceAfterUndo, &["many a", "overlap a"]);
}

#[test]
fn data_is_durable_before_the_undo_log_is_retired() {
    holds(&["many a; many a", "grow a; wide a"]);
}

#[test]
fn old_records_are_not_replayed_over_what_is_written_in_place() {
    holds(&["slice a; many a; slice a", "pair a; overlap a; pair a; power; set a"]);
}

#[test]
fn a_rollback_leaves_nothing() {
    holds(&[
        "abort a; set a",
        "abort-long a; push a",
        "panic a; push a",
        "both-abort; both",
        "pin: abort a; push a",
    ]);
}

// Quarantine.

#[test]
fn freed_memory_is_not_reused_while_a_record_covers_it() {
    holds(&[
        "push b; remove b; create b",
        "set b; remove b; big a",
        "push b; big b; remove b; grow a",
        "both; remove b; push a",
    ]);
    // With the bug, the memory is free before the removal is durable.
    breaks(Bug::ReuseBeforeRemoval, &["push b; remove b", "push b; remove b; create b"]);
}

#[test]
fn slots_are_free_only_when_no_record_names_them() {
    // The new objects are too large for a record, so an old record could be replayed over them.
    holds_at_a_glance(&[
        "push a; pop a; collect; stuff a",
        "eager: pop a; churn a; stuff a",
        "both-replace; collect; stuff b",
    ]);
    breaks(Bug::SweepKeepsRecords, &["push a; pop a; collect; stuff a"]);
    holds_at_a_glance(&[
        "push a; pop-free a; stuff a",
        "eager: pop-free a; stuff a",
        "push a; pop-free a; many a; stuff a",
    ]);
    breaks(Bug::FreeAtOnce, &["push a; pop-free a; stuff a"]);
}

#[test]
fn what_a_rollback_frees_is_not_free() {
    holds_at_a_glance(&[
        "push a; abort-free a; stuff a",
        "eager: abort-free a; churn a",
        "pin: push a; abort-free a; stuff a",
    ]);
}

#[test]
fn pages_of_empty_spans_are_reused_only_when_their_entries_are_cleared() {
    holds_at_a_glance(&[
        "grow a; unlink-big a; collect; push b; grow b",
        "eager: unlink-big a; churn a; remove b; churn a",
    ]);
    breaks(Bug::KeepEmptySpans, &["grow a; unlink-big a; collect; close"]);
}

#[test]
fn live_slots_that_were_stored_are_not_believed_twice() {
    holds(&[
        "eager: replace a",
        "close; replace a; torn; replace a",
        "push a; close; close; push a; power; push a",
    ]);
    breaks(Bug::KeepLiveSlots, &["eager: replace a"]);
}

#[test]
fn a_process_may_be_killed_while_it_closes_the_heap() {
    // The header that says so may be in a cache only, and the next process writes over the other one.
    holds(&["close", "push a; close", "eager crashed: close"]);
}

// Collection.

#[test]
fn what_was_reachable_when_a_cycle_began_stays() {
    holds_at_a_glance(&[
        "eager: push a; cut a; churn a",
        "eager pin: hold a; churn a; relink a; churn a",
        "eager crashed: hold a; cut a; churn a; relink a",
    ]);
    breaks(Bug::NoShadeAtCommit, &["eager: push a; cut a; churn a"]);
    breaks(Bug::NoShadeAtLogging, &["eager pin: push a; cut a; churn a"]);
}

#[test]
fn what_is_new_while_a_cycle_runs_stays() {
    holds_at_a_glance(&["eager: stuff a; replace a; churn a", "eager crashed: stuff a; both-push; churn a"]);
    breaks(Bug::NewObjectsUnmarked, &["eager: churn a"]);
}

#[test]
fn a_cycle_begins_between_two_transactions_and_may_end_within_one() {
    // The heap must grow for the object, which may end the cycle that the opening began. The node that is not
    // linked then must stay.
    holds_at_a_glance(&[
        "crashed: carry a; stuff a",
        "crashed pin: carry a; stuff a",
        "eager crashed: carry a; carry a; churn a",
    ]);
    // In heaps that were closed no cycle runs from the beginning.
    holds_at_a_glance(&["push a; carry a; stuff a", "pin: push a; carry a; stuff a"]);
    breaks(Bug::CycleInTransaction, &["pin: push a; carry a"]);
    // There is no room, so that a cycle that runs ends. The transaction goes on, or is rolled back.
    holds_at_a_glance(&[
        "full eager: waste a; without a; push a; collect",
        "full eager: waste a; without-long a; cut a; collect",
        "full eager pin: waste a; without a; push a; collect",
        "eager: waste b; both-without; both-without; collect",
        "full eager wal: waste a; without-long a; torn; without a",
    ]);
}

#[test]
fn what_a_cycle_has_freed_within_a_transaction_stays_free_when_that_is_rolled_back() {
    holds_at_a_glance(&[
        "full eager: waste a; too-much a; waste a; push a; collect",
        "full eager pin: waste a; too-much a; waste a; push a; collect",
        "eager wal: waste a; too-much a; waste a; push a; collect",
        "full crashed: waste a; too-much a; waste a; push a; collect",
    ]);
    breaks(
        Bug::RollbackToSwept,
        &["full eager: waste a; too-much a; waste a", "full eager pin: waste a; too-much a; waste a"],
    );
}

#[test]
fn a_crash_in_a_collection_is_a_crash_like_any_other() {
    holds_at_a_glance(&[
        "collect",
        "crashed: collect; ready",
        "stuff a; both-push; grow b; collect; torn; collect",
        "eager: stuff a; remove b; churn a; create b; collect",
        "full eager: grow a; stuff a; free-big a; churn a; grow a; stuff a",
    ]);
}

#[test]
fn a_heap_can_move_while_a_collection_is_running() {
    holds_at_a_glance(&[
        "crashed moved: push a; relocate; churn a",
        "eager: stuff a; relocate; move; churn a; collect",
    ]);
}

#[test]
fn a_log_in_pages_that_were_a_log_before_starts_empty() {
    holds(&[
        "burst b; remove b; create b; set b",
        "set b; remove b; power; create b; set b",
        "burst b; remove b; burst a",
    ]);
}

// Migration.

#[test]
fn a_root_and_its_type_change_together() {
    holds(&[
        "migrate a",
        "migrate a; migrate a; set a",
        "pin: migrate a; set a",
        "set a; many a; migrate a; power; migrate a",
        "swapped: both; migrate a; both",
    ]);
    holds_at_a_glance(&[
        "full: grow a; migrate a; push a",
        "migrate a; remove b; create b; torn; migrate a",
        "grow a; migrate a; relocate; migrate a; move",
        "wal: migrate a; checkpoint; migrate a; torn; push a",
        "wal pin: migrate a; kill; migrate a",
        "wal lazy small: migrate a; fill a; torn; migrate a",
    ]);
    breaks(Bug::TypeUnlogged, &["migrate a", "pin: migrate a"]);
}

#[test]
fn what_a_new_root_leads_to_stays() {
    holds_at_a_glance(&[
        "eager: migrate a; churn a; migrate a; collect; churn a",
        "eager pin: cut a; migrate a; cut a; churn a",
        "eager: hold a; migrate a; churn a; relink a; migrate a; churn a",
        "eager crashed: migrate a; cut a; migrate a; churn a",
        "stuff a; migrate a; collect; migrate a; collect",
    ]);
    // The churn gives the root its first layout again, after the collection.
    breaks(Bug::CycleFromOldRoot, &["eager: migrate a; collect; churn a"]);
}

// Recovery.

#[test]
fn a_record_behind_a_torn_one_stays_dead() {
    holds(&["set a; set a; torn; set a", "burst a; torn; set a"]);
    breaks(Bug::KeepGeneration, &["set a; set a"]);
    // Several entries share one fence: a later entry may be whole while the first one is torn. Then recovery
    // must not apply the later one.
    holds(&["pin: grow a; wide a"]);
    breaks(Bug::KeepGeneration, &["pin: grow a; wide a"]);
}

#[test]
fn a_crash_in_recovery_is_a_crash_like_any_other() {
    let every = Limits { deep_every: 1, ..limits() };
    let totals = holds_within(every, &["set a", "both", "overlap a", "set b; remove b", "pin: pair a"]);
    assert!(totals.deep > 20, "too few recoveries were explored");
    let failure = broken(every, Bug::RecoveryResetsFirst, "set a; both").expect("it does harm");
    assert_eq!(failure.crashes.len(), 2, "only a crash within recovery shows it");
}

#[test]
fn what_a_killed_process_has_left_in_caches_is_made_durable() {
    holds(&["rename b", "moved crashed: move", "both; kill; set a", "pin: pair a; kill; pair a"]);
    // Also the header of a closed heap.
    holds(&["big a; close", "eager crashed: close", "close; close"]);
}

#[test]
fn recovery_is_repeated_without_harm() {
    holds(&["set a; power; power; set a", "many a; kill; kill", "push b; torn; torn; push b"]);
}

// Several roots.

#[test]
fn a_transaction_over_two_roots_is_one() {
    holds(&[
        "both",
        "both-push; both",
        "both; set a; set b",
        "swapped: both; set b",
        "pin: both",
        "pin: both-push",
    ]);
    breaks(Bug::RecordPerRoot, &["both"]);
}

#[test]
fn if_one_root_spills_all_do() {
    holds(&["both-many", "set a; set b; both-many; set b", "both-many; both-abort"]);
}

#[test]
fn a_part_of_a_record_counts_with_all_others() {
    holds(&[
        "set a; set b; both; set a; set b",
        "swapped: set a; set b; both; set b; set a",
        "three; three",
        "swapped: three; last; both",
        "last; both-push; three; torn; three",
    ]);
    breaks(Bug::PartsCount, &["both", "three", "last"]);
}

#[test]
fn a_part_counts_when_the_log_of_another_one_was_emptied() {
    // The logs are emptied in either order, some with another part behind.
    holds(&[
        "both; many a; many b",
        "both; many b; both",
        "three; many b; both; many a",
        "swapped: three; many a; last; many b",
        "both; collect; both",
    ]);
    breaks(Bug::RetiredPartsMiss, &["both; many a", "both; many b", "three; many b"]);
}

/// There is no more space, so that one `both` finds no room in the log of `b`, which is emptied for its part.
const EMPTIED_FOR_A_PART: &str = "full: grow a; \
    burst b; burst b; burst b; burst b; burst b; burst b; burst b; \
    replace b; replace b; replace b; replace b; replace b; replace b; replace b; both; both; both; both; both";

#[test]
fn parts_are_named_when_there_is_room_for_all() {
    holds_at_a_glance(&[EMPTIED_FOR_A_PART]);
    assert!(broken(glance(), Bug::NameBeforeRoom, EMPTIED_FOR_A_PART).is_some());
}

#[test]
fn a_part_counts_when_the_root_of_another_one_was_removed() {
    holds(&[
        "both; remove b",
        "three; remove b; set a",
        "both; remove b; create b; both",
        "both; rename b; both",
    ]);
    breaks(Bug::RemovedPartsMiss, &["both; remove b", "three; remove b"]);
}

#[test]
fn parts_that_are_torn_are_taken_back_before_a_log_is_emptied() {
    let every = Limits { deep_every: 1, ..limits() };
    let programs = ["both", "three", "last; both"];
    let totals = holds_within(every, &programs);
    assert!(totals.deep > 20, "too few recoveries were explored");
    for program in programs {
        let failure = broken(every, Bug::KeepTornParts, program).expect("it does harm");
        assert_eq!(failure.crashes.len(), 2, "only a crash within recovery shows it");
    }
}

// Traps.

#[test]
fn two_bytes_of_one_word_do_not_undo_each_other() {
    holds(&["bytes a; bytes a", "pin: bytes a; bytes a", "full pin: bytes a"]);
}

#[test]
fn what_an_interrupted_creation_leaves_is_cleared() {
    // If the root is missing after a crash, the explorer allocates and creates it again, perhaps in its
    // pages.
    holds(&["remove b; create b", "remove b; power; create b"]);
}

#[test]
fn first_creation_can_be_interrupted_anywhere() {
    holds(&[
        "empty:",
        "empty: create a",
        "empty: create b; create a",
        "empty: close; create a",
        "empty pin: create a",
    ]);
}

#[test]
fn growth_can_be_interrupted_anywhere() {
    holds(&["grow a", "grow a; torn; grow a", "pin: grow a; grow a", "burst a; grow b"]);
}

#[test]
fn the_log_can_grow() {
    // After a removal the pages of the new segment may have old content.
    holds(&[
        "burst a; burst a",
        "remove b; burst a",
        "grow a; wide a; wide a",
        "pin: grow a; wide a; torn; wide a",
    ]);
}

#[test]
fn without_space_nothing_happens() {
    // The first operation takes most of the pages, so that the undo log of the second one cannot grow.
    let program = "full: grow a; wide a".parse().expect("a program");
    let states = explorer(limits()).run(&program).expect("it runs").states;
    let [.., before, after] = &states[..] else { panic!("there are several") };
    assert_eq!(before, after);
    assert!(before.roots["a"].big.is_some());
    holds(&[
        "full: grow a; wide a; set a",
        "full: grow a; grow a; push a",
        "full: grow b; grow a; wide a",
        "full pin: grow a; wide a; power; set a",
    ]);
}

#[test]
fn a_root_is_there_or_not_and_has_a_name() {
    holds(&[
        "remove b",
        "remove b; create b",
        "rename b; rename b",
        "rename b; remove b; create b",
        "set b; rename b; set b",
    ]);
}
