//! Mistakes that can be made on purpose, to see that tests find them.
//!
//! The crash lab switches them on by thread, and the tests of this crate let a thread panic. In a program, all of it is nothing.

#[cfg(feature = "sim")]
pub mod mutant;

#[cfg(feature = "sim")]
use std::cell::Cell;
#[cfg(feature = "sim")]
use std::panic::Location;

#[cfg(feature = "sim")]
use mutant::{Kind, is_dropped};

/// Whether a seeded bug is switched on. Always `false` outside the crash explorer's builds.
#[inline(always)]
pub(crate) fn bug(_bug: Bug) -> bool {
    #[cfg(feature = "sim")]
    if bug_is(_bug) {
        return true;
    }
    false
}

#[cfg(feature = "sim")]
thread_local! {
    static BUG: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Switches a seeded bug on for this thread, or all off.
#[cfg(feature = "sim")]
pub fn set_bug(bug: Option<Bug>) {
    BUG.set(bug);
}

/// The one that this thread has, for threads that it starts.
#[cfg(feature = "sim")]
pub fn seeded_bug() -> Option<Bug> {
    BUG.get()
}

#[cfg(feature = "sim")]
fn bug_is(bug: Bug) -> bool {
    BUG.get() == Some(bug)
}

/// Whether a checksum, or another word by which something that was read proves to be what was written, is what it should be.
#[inline(always)]
#[cfg_attr(feature = "sim", track_caller)]
pub(crate) fn holds<T: PartialEq>(found: T, expected: T) -> bool {
    let holds = found == expected;
    #[cfg(feature = "sim")]
    let holds = is_dropped(Kind::Checksum, Location::caller()) || holds;
    holds
}

/// A place where a test of this crate can let the thread panic, as it would if there were a mistake in pheap. Nothing in a program.
#[inline(always)]
pub(crate) fn may_panic() {
    #[cfg(test)]
    panics::here();
}

/// Panics that tests ask for.
#[cfg(test)]
pub(crate) mod panics {
    use std::cell::Cell;

    thread_local! {
        static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    }

    /// Lets this thread panic when it has passed so many places.
    pub(crate) fn after(places: u32) {
        LEFT.set(Some(places));
    }

    /// Whether it has not come to that. It will not, any more.
    pub(crate) fn never_mind() -> bool {
        LEFT.take().is_some()
    }

    pub(super) fn here() {
        if let Some(left) = LEFT.get() {
            LEFT.set(left.checked_sub(1));
            assert!(left > 0, "asked for by a test");
        }
    }
}

/// Protocol bugs that the crash explorer must find; see `pheap-crash`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(not(feature = "sim"), allow(unreachable_pub))]
pub enum Bug {
    /// A redo record is not fenced before the transaction is acknowledged.
    NoFenceAfterRecord,
    /// An undo entry is not fenced before the store that it covers.
    NoFenceAfterUndo,
    /// A store in place has no undo entry.
    NoUndoEntry,
    /// Data is not flushed before the undo log is retired.
    NoFlushBeforeCommit,
    /// The redo log is reset before its data is durable.
    ResetBeforeData,
    /// The reset of the log is not durable when the log is written again.
    NoFenceAfterReset,
    /// A root's removal is not durable when its memory is given to another.
    ReuseBeforeRemoval,
    /// Each root of a transaction gets a record of its own.
    RecordPerRoot,
    /// The logs of the other roots still hold records when a transaction over several roots is recorded.
    StaleOtherLogs,
    /// Recovery leaves the generation of the logs as it is.
    KeepGeneration,
    /// Fresh objects that are too large for the record are not durable before it.
    NoFlushOfFresh,
    /// Recovery retires the log before the data that it restored is durable.
    RecoveryResetsFirst,
    /// The header does not know of a new base while pointers move there.
    MoveUnlisted,
    /// Pointers that have moved are not flushed before the header forgets the old base.
    NoFlushOfMoved,
    /// The header forgets the old base before pointers move.
    ShrinkBeforeMoved,
    /// A sweep frees slots and spans while the log has records that name them.
    SweepKeepsRecords,
    /// The entries of spans that a sweep has emptied stay in the span table.
    KeepEmptySpans,
    /// What is freed at a commit can be allocated while the log has records that name it.
    FreeAtOnce,
    /// A short transaction does not tell the marker which pointers it overwrites.
    NoShadeAtCommit,
    /// Nor does a long one.
    NoShadeAtLogging,
    /// Objects that are allocated while their region is being marked are not marked.
    NewObjectsUnmarked,
    /// A cycle begins within a transaction, so that it misses what that has unlinked.
    CycleInTransaction,
    /// A rollback lets a class go on in the span that it was filling before, although a sweep has freed that meanwhile.
    RollbackToSwept,
    /// Opening a heap leaves the live slots named that an orderly close has stored.
    KeepLiveSlots,
    /// A transaction is acknowledged before its record in the write-ahead log is synced.
    NoSyncOfLog,
    /// Segments of the write-ahead log are used again before the heap's file is synced.
    RecycleBeforeData,
    /// A checkpoint writes records to the heap's file that are not durable in the log.
    FoldUnsynced,
    /// Recovery goes on in the next segment of the write-ahead log although the one before ends in a torn record.
    SkipSegmentEnd,
    /// Private pages are given back before a checkpoint has written what is in them.
    DropEarly,
    /// A migration stores the type of a root outside of its transaction.
    TypeUnlogged,
    /// A collection that begins when a root was just migrated begins with the old one.
    CycleFromOldRoot,
    /// The copies of a transaction that was rolled back are taken for what is in the heap.
    KeepStaleCopies,
    /// Recovery relies on what a killed process has stored, which may be in a cache only.
    TrustLeftovers,
    /// A copy of a file in use is opened as if it were that file.
    TakeCopies,
    /// Nobody looks whether the file of an open heap still has a name.
    OverlookRemoval,
    /// Nobody looks whether a log still has its name.
    TrustLogName,
    /// Of copies of a heap, the logs with the same number are taken for the same.
    LogsCountAlike,
    /// A handle is told that its root is gone, or has another type, before that is durable.
    TellAtOnce,
    /// What failed syncs have left in the page cache, while a heap was made ready for a log, is taken to be on the disk.
    TrustPageCache,
    /// The next header is written while nobody knows whether the one that was read is on the disk.
    TrustHeader,
    /// The second slot of the header is written though the sync of the first one has failed.
    OverlookFences,
    /// Both slots of the header of a closed heap are synced together.
    SyncHeadersAtOnce,
    /// Reads come before transactions that wait.
    ReadsOvertake,
    /// Reads wait behind transactions also if their thread has a root already.
    NestedReadsWait,
    /// A transaction over several roots does not keep reads away from those that it could not have.
    OpenGates,
    /// It keeps reads away only, and not other transactions.
    GatesForReads,
    /// A forked child keeps the parent's files open.
    ForksKeepFiles,
    /// A forked child rolls back the transaction of the parent in which it was made.
    ForksRollBack,
}
