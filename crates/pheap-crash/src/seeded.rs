//! The seeded bugs of the lab.

use pheap::sim::{Bug, set_bug};

/// Calls a macro with the names of tests and their bugs. From `TrustLogName` on, the tests find the bug
/// without the explorer's programs.
#[macro_export]
macro_rules! each_bug {
    ($go:ident) => {
        $go! {
            a_missing_fence_after_an_undo_entry: NoFenceAfterUndo,
            a_log_reset_before_its_data_is_durable: ResetBeforeData,
            memory_reused_before_its_root_is_gone: ReuseBeforeRemoval,
            a_torn_transaction_over_two_roots: RecordPerRoot,
            a_part_of_a_record_that_counts_alone: PartsCount,
            a_part_that_misses_one_in_a_log_that_was_emptied: RetiredPartsMiss,
            a_part_that_misses_one_of_a_root_that_was_removed: RemovedPartsMiss,
            a_part_named_before_its_log_was_emptied: NameBeforeRoom,
            a_recovery_that_keeps_torn_parts: KeepTornParts,
            a_record_that_comes_back_to_life: KeepGeneration,
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
            pages_that_are_dropped_before_they_are_in_the_file: DropEarly,
            a_log_that_is_given_up_before_it_is_in_the_file: CloseBeforeFold,
            records_that_an_earlier_run_has_left: GoOnInPlace,
            records_of_a_log_that_no_header_names: RecordUnnamed,
            a_header_that_names_a_log_to_come: NameBeforeLog,
            a_type_that_changes_without_its_root: TypeUnlogged,
            a_cycle_that_begins_with_an_old_root: CycleFromOldRoot,
            a_copy_that_outlives_a_rollback: KeepStaleCopies,
            a_record_that_misses_words_of_a_long_transaction: RecordFirstWords,
            a_savepoint_that_misses_what_was_written_before_it: RecentAfterSavepoint,
            a_savepoint_that_misses_what_was_written_in_a_part_that_is_gone: RecentAfterTakenBack,
            a_savepoint_that_misses_new_objects: SavepointForgetsFresh,
            a_savepoint_that_misses_nodes_that_are_changed_where_they_are: SavepointForgetsNodes,
            a_savepoint_that_misses_stores_to_fields: SavepointForgetsFields,
            a_savepoint_that_misses_what_was_freed: SavepointKeepsFrees,
            a_savepoint_that_knows_what_the_one_before_it_knew: SavepointKeepsKnown,
            a_store_behind_a_savepoint_that_is_made_as_if_it_were_open: SavepointKeepsRoute,
            a_log_that_nobody_would_find: TrustLogName,
            a_handle_that_is_told_too_soon: TellAtOnce,
            what_a_failed_sync_has_left_in_the_page_cache: TrustPageCache,
            a_header_over_the_only_one_that_is_whole: TrustHeader,
            a_header_after_one_that_is_not_durable: OverlookFences,
            headers_of_a_closed_heap_that_are_synced_together: SyncHeadersAtOnce,
            logs_of_a_closed_heap_that_are_replayed: ReplayClosed,
        }
    };
}

macro_rules! all {
    ($($name:ident: $bug:ident,)*) => {
        /// All of these bugs.
        pub const BUGS: &[Bug] = &[$(Bug::$bug),*];
    };
}
each_bug!(all);

/// Returns the bug with this name.
///
/// # Errors
/// A message that lists the names, if there is no such bug.
pub fn parse(name: &str) -> Result<Bug, String> {
    let names = || BUGS.iter().map(|bug| format!("{bug:?}")).collect::<Vec<_>>().join(", ");
    BUGS.iter()
        .copied()
        .find(|bug| format!("{bug:?}") == name)
        .ok_or_else(|| format!("there is no bug {name:?}, only {}", names()))
}

/// Keeps a bug switched on until it is dropped, for the thread that makes and drops it.
#[derive(Debug)]
pub struct Seeded(());

impl Seeded {
    /// Switches `bug` on.
    pub fn new(bug: Bug) -> Seeded {
        set_bug(Some(bug));
        Seeded(())
    }
}

impl Drop for Seeded {
    fn drop(&mut self) {
        set_bug(None);
    }
}
