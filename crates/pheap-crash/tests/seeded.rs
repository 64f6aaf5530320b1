//! The score of the explorer: each bug that can be switched on is found, in a small set of programs that has no failure without it.

mod common;

use common::explorer;
use pheap::sim::Bug;
use pheap_crash::Program;
use pheap_crash::alphabet::{all, settings};
use pheap_crash::mutate::situations::Situation;
use pheap_crash::seeded::{BUGS, Seeded};
use pheap_crash::{Failure, Limits};

/// A few longer programs, and all of one operation: in memory, or on a disk.
fn programs(wal: bool) -> impl Iterator<Item = Program> {
    let on_disk = [
        "wal: set a; set a",
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
        // The log goes on in another segment without having grown before, which would make the one before durable.
        "wal lazy: fill a; fill b; stuff a; stuff a; stuff a; stuff a; stuff a; stuff a; stuff a; fill b",
    ];
    let in_memory = [
        "set a; both",
        "set b; both",
        "both; set a",
        "both; set b",
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
    ];
    let longer: &[&str] = if wal { &on_disk } else { &in_memory };
    let longer: Vec<Program> = longer.iter().map(|text| text.parse().expect("a program")).collect();
    let settings = settings().into_iter().filter(move |setting| setting.wal == wal);
    longer.into_iter().chain(settings.flat_map(|setting| all(setting, 1)))
}

fn is_of_the_log(bug: Bug) -> bool {
    use Bug::{DropEarly, FoldUnsynced, NoSyncOfLog, RecycleBeforeData, SkipSegmentEnd};
    matches!(bug, NoSyncOfLog | RecycleBeforeData | FoldUnsynced | SkipSegmentEnd | DropEarly)
}

fn find(bug: Bug) -> Option<Failure> {
    let mut explorer = explorer(Limits { deep_every: 16, ..Limits::quick(1) });
    let _seeded = Seeded::new(bug);
    programs(is_of_the_log(bug))
        .find_map(|program| explorer.explore(&program, false).err())
        .map(|failure| *failure)
}

fn is_found(bug: Bug) {
    let failure = find(bug).unwrap_or_else(|| panic!("{bug:?} is not found"));
    println!("{bug:?} is found by `{}`:\n{failure}", failure.program);
}

/// Those that take little time.
fn situations() -> impl Iterator<Item = Situation> {
    use Situation::{Recycled, Reused, ReusedOnDisk, Types};
    Situation::all().filter(|situation| ![Recycled, Reused, ReusedOnDisk, Types].contains(situation))
}

/// For bugs that no program of one thread shows: one of the situations does, all of them tried.
fn is_found_in_a_situation(bug: Bug) {
    let found = situations().find_map(|situation| {
        let start = situation.start().unwrap_or_else(|error| panic!("{situation}: {error}"));
        let _seeded = Seeded::new(bug);
        situation.explore(start).err().map(|error| format!("in the situation `{situation}`: {error}"))
    });
    println!("{bug:?} is found {}", found.unwrap_or_else(|| panic!("{bug:?} is not found")));
}

#[test]
fn without_a_bug_nothing_is_found_in_any_situation() {
    for situation in situations() {
        let start = situation.start().unwrap_or_else(|error| panic!("{situation}: {error}"));
        situation.explore(start).unwrap_or_else(|error| panic!("{situation}: {error}"));
    }
}

fn needs_a_situation(bug: Bug) -> bool {
    use Bug::{
        LogsCountAlike, OverlookFences, SyncHeadersAtOnce, TellAtOnce, TrustHeader, TrustLogName,
        TrustPageCache,
    };
    matches!(
        bug,
        TrustLogName
            | LogsCountAlike
            | TellAtOnce
            | TrustPageCache
            | TrustHeader
            | OverlookFences
            | SyncHeadersAtOnce
    )
}

macro_rules! each {
    ($($name:ident: $bug:ident,)*) => {
        $(#[test]
        fn $name() {
            if needs_a_situation(Bug::$bug) { is_found_in_a_situation(Bug::$bug) } else { is_found(Bug::$bug) }
        })*

        #[test]
        fn there_is_a_test_for_each_bug() {
            assert_eq!(BUGS, [$(Bug::$bug),*]);
        }
    };
}

each! {
    a_missing_fence_after_the_record: NoFenceAfterRecord,
    a_missing_fence_after_an_undo_entry: NoFenceAfterUndo,
    a_missing_undo_entry: NoUndoEntry,
    a_missing_flush_before_a_long_commit: NoFlushBeforeCommit,
    a_log_reset_before_its_data_is_durable: ResetBeforeData,
    a_missing_fence_after_the_reset: NoFenceAfterReset,
    memory_reused_before_its_root_is_gone: ReuseBeforeRemoval,
    a_torn_transaction_over_two_roots: RecordPerRoot,
    a_stale_record_of_another_root: StaleOtherLogs,
    a_record_that_comes_back_to_life: KeepGeneration,
    a_missing_flush_of_fresh_objects: NoFlushOfFresh,
    a_recovery_that_cannot_be_repeated: RecoveryResetsFirst,
    a_sweep_before_the_log_is_empty: SweepKeepsRecords,
    empty_spans_in_the_span_table: KeepEmptySpans,
    an_object_that_is_free_before_the_log_is_empty: FreeAtOnce,
    a_pointer_that_a_short_transaction_hides_from_the_marker: NoShadeAtCommit,
    a_pointer_that_a_long_transaction_hides_from_the_marker: NoShadeAtLogging,
    new_objects_that_are_not_marked: NewObjectsUnmarked,
    a_cycle_that_begins_within_a_transaction: CycleInTransaction,
    a_rollback_into_a_span_that_was_swept: RollbackToSwept,
    live_slots_of_a_heap_that_was_not_closed: KeepLiveSlots,
    a_commit_before_its_record_is_synced: NoSyncOfLog,
    a_segment_that_is_recycled_before_the_data_is_synced: RecycleBeforeData,
    a_checkpoint_ahead_of_the_log: FoldUnsynced,
    a_segment_after_a_torn_one: SkipSegmentEnd,
    pages_that_are_dropped_before_they_are_in_the_file: DropEarly,
    a_type_that_changes_without_its_root: TypeUnlogged,
    a_cycle_that_begins_with_an_old_root: CycleFromOldRoot,
    a_copy_that_outlives_a_rollback: KeepStaleCopies,
    a_recovery_that_relies_on_what_is_in_a_cache: TrustLeftovers,
    a_log_that_nobody_would_find: TrustLogName,
    a_log_of_a_copy: LogsCountAlike,
    a_handle_that_is_told_too_soon: TellAtOnce,
    what_a_failed_sync_has_left_in_the_page_cache: TrustPageCache,
    a_header_over_the_only_one_that_is_whole: TrustHeader,
    a_header_after_one_that_is_not_durable: OverlookFences,
    headers_of_a_closed_heap_that_are_synced_together: SyncHeadersAtOnce,
}

fn nothing_is_found(wal: bool) {
    let mut explorer = explorer(Limits { deep_every: 16, ..Limits::quick(1) });
    for program in programs(wal) {
        if let Err(failure) = explorer.explore(&program, false) {
            panic!("{failure}");
        }
    }
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
