//! Mistakes that pheap makes on purpose, to check that tests find them.
//!
//! The crash lab switches mistakes on for one thread (a mutant of a lock: for all threads), and the tests of
//! this crate let a thread panic. In a program's build, all of this code is compiled to nothing.

#[cfg(feature = "sim")]
pub mod mutant;

/// Proof that the build has the simulator: a value of this type exists only in such builds. In other builds,
/// any code that has a value of this type is compiled to nothing.
#[cfg(feature = "sim")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lab;
#[cfg(not(feature = "sim"))]
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lab {}

impl Lab {
    /// Returns a `Lab` in builds with the simulator; `None` in others.
    #[inline(always)]
    pub(crate) const fn here() -> Option<Lab> {
        #[cfg(feature = "sim")]
        return Some(Lab);
        #[cfg(not(feature = "sim"))]
        None
    }
}

/// A kind of request in the source that a mutant can refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(unreachable_pub)] // public in builds with the simulator
pub enum Kind {
    /// Write back the cache lines of some bytes.
    Flush,
    /// Make flushed cache lines durable before anything that follows.
    Fence,
    /// Append to a log: an entry, a record, or a range of one.
    LogEntry,
    /// Write bytes to a file.
    Write,
    /// Sync a file or a directory.
    FileSync,
    /// Check that bytes that were read are the bytes that were written.
    Checksum,
    /// Take a lock.
    Lock,
}

/// The change that a mutant makes at its site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(unreachable_pub, dead_code)] // public and used in builds with the simulator
pub enum Mutation {
    /// The request is not done. A check of a checksum always succeeds.
    Drop,
    /// The request is done too late: for example, a flush just after the next fence, or a fence after the
    /// next flush.
    Delay,
}

/// Returns the mutation of the caller's request. With `None`, the caller does the request as always. In
/// builds without the simulator, the result is `None`.
#[inline(always)]
#[track_caller]
pub(crate) fn mutation(_kind: Kind) -> Option<Mutation> {
    #[cfg(feature = "sim")]
    return mutant::reached(_kind, std::panic::Location::caller());
    #[cfg(not(feature = "sim"))]
    None
}

/// Returns whether a mutant leaves out the caller's request. This is the [`mutation`] of a request that
/// cannot be delayed.
#[inline(always)]
#[track_caller]
pub(crate) fn is_left_out(_kind: Kind) -> bool {
    #[cfg(feature = "sim")]
    return mutant::is_dropped(_kind, std::panic::Location::caller());
    #[cfg(not(feature = "sim"))]
    false
}

/// Returns whether locks must be watched: there may be a mutant of a lock, or the locks that threads take are
/// noted.
#[inline(always)]
pub(crate) fn watches_locks() -> bool {
    #[cfg(feature = "sim")]
    return mutant::watches_locks();
    #[cfg(not(feature = "sim"))]
    false
}

/// Returns whether this seeded bug is switched on for this thread; `false` in builds without the simulator.
#[inline(always)]
pub(crate) fn bug(_bug: Bug) -> bool {
    #[cfg(feature = "sim")]
    return mutant::seeded_bug() == Some(_bug);
    #[cfg(not(feature = "sim"))]
    false
}

/// Returns whether a checksum, or another value that proves that bytes were read as they were written, is as
/// expected. A mutant makes the result true in any case.
#[inline(always)]
#[track_caller]
pub(crate) fn holds<T: PartialEq>(found: T, expected: T) -> bool {
    let holds = found == expected;
    is_left_out(Kind::Checksum) || holds
}

/// Marks a place where a test of this crate can make the thread panic, as a mistake in pheap would. In a
/// program's build this does nothing.
#[inline(always)]
pub(crate) fn may_panic() {
    #[cfg(test)]
    panics::here();
}

/// Panics that tests ask for at the places of [`may_panic`].
#[cfg(test)]
pub(crate) mod panics {
    use std::cell::Cell;

    thread_local! {
        static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    }

    /// Makes this thread pass `places` calls of [`may_panic`](super::may_panic), and panic at the next one.
    pub(crate) fn after(places: u32) {
        LEFT.set(Some(places));
    }

    /// Cancels the panic that [`after`] has asked for. Returns whether it had not happened yet.
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
#[allow(unreachable_pub)] // public in builds with the simulator
pub enum Bug {
    /// An undo entry is not fenced before the store that it covers.
    NoFenceAfterUndo,
    /// The redo log of a region is reset before the data that its records cover are durable.
    ResetBeforeData,
    /// The memory of a removed root is reused before the removal is durable.
    ReuseBeforeRemoval,
    /// Each root of a transaction gets a separate record.
    RecordPerRoot,
    /// Recovery replays a part of a record over several roots, whether the other parts are complete or not.
    PartsCount,
    /// Recovery leaves out a part of a record when the log of another part has a newer generation.
    RetiredPartsMiss,
    /// Recovery leaves out a part of a record when the root of another part is gone.
    RemovedPartsMiss,
    /// The parts of a record are named before the logs have room for all of them. A log that is emptied for
    /// one part is then newer than the names in the other parts say.
    NameBeforeRoom,
    /// Recovery gives logs new generations while there are parts of incomplete records.
    KeepTornParts,
    /// Recovery leaves the generations of the logs as they are.
    KeepGeneration,
    /// Recovery retires the log before the data that it restored are durable.
    RecoveryResetsFirst,
    /// The header forgets the old base before pointers are rewritten.
    ShrinkBeforeMoved,
    /// A sweep frees slots and spans while the log has records that name them.
    SweepKeepsRecords,
    /// The entries of spans that a sweep has emptied stay in the span table.
    KeepEmptySpans,
    /// Memory that a commit frees can be allocated too early: while the log still has records that name it.
    FreeAtOnce,
    /// A short transaction does not hand the pointers that it overwrites to the marker.
    NoShadeAtCommit,
    /// A long transaction does not hand the pointers that it overwrites to the marker.
    NoShadeAtLogging,
    /// Objects that are allocated while their region is being marked are not marked.
    NewObjectsUnmarked,
    /// A collection begins within a transaction. So it does not mark objects that the transaction has
    /// unlinked but may still have pointers to, and frees them.
    CycleInTransaction,
    /// A rollback lets a class go on in the span that it was filling before, although a sweep has freed that
    /// span since.
    RollbackToSwept,
    /// An opening leaves the bitmaps of live slots, which an orderly close has stored, named in the header.
    KeepLiveSlots,
    /// Pages become holes before it is durable that they are free.
    HolesEarly,
    /// Private pages are evicted before a checkpoint has written their content.
    DropEarly,
    /// A migration stores the type of a root outside of its transaction.
    TypeUnlogged,
    /// A collection that begins when a root was just migrated begins with the old root.
    CycleFromOldRoot,
    /// A map is converted while a thread may still get its previous version.
    ConvertVersions,
    /// A conversion takes each slot that was ever taken for an object that the root leads to.
    ConvertDead,
    /// Copies of a transaction that was rolled back are taken for the content of the heap.
    KeepStaleCopies,
    /// A transaction's cache of recent places is not emptied at its end.
    RecentAfterEnd,
    /// The cache of recent places is not emptied when the transaction spills.
    RecentAfterSpill,
    /// The cache of recent places is not emptied when a wider copy replaces others.
    RecentAfterWider,
    /// The cache of recent places is not emptied when the transaction's log cannot grow.
    RecentAfterDoom,
    /// The cache of recent places keeps values that were read in place when one of them gets a copy.
    RecentAfterCopy,
    /// The cache of recent places keeps written values when a savepoint is opened.
    RecentAfterSavepoint,
    /// The cache of recent places is not emptied when the transaction goes back to a savepoint.
    RecentAfterTakenBack,
    /// A transaction that goes back to a savepoint does not restore objects that it had made before the
    /// savepoint.
    SavepointForgetsFresh,
    /// A transaction that goes back to a savepoint does not restore nodes of collections that it has changed
    /// in place.
    SavepointForgetsNodes,
    /// A transaction that goes back to a savepoint does not restore fields to which `#[txn]` has stored.
    SavepointForgetsFields,
    /// A transaction that goes back to a savepoint still frees, at its commit, memory whose free it has
    /// requested since the savepoint.
    SavepointKeepsFrees,
    /// Words whose old content was noted for a savepoint that is gone count as noted for the next savepoint.
    SavepointKeepsKnown,
    /// The record of a long transaction has only the first of the words that were logged in a cache line.
    RecordFirstWords,
    /// When the last savepoint is gone, stores are made as if there still was one.
    SavepointKeepsRoute,
    /// A transaction whose log cannot grow does not go back to its savepoint.
    DoomKeepsChanges,
    /// A transaction whose log cannot grow writes to copies of its new objects, too.
    DoomCopiesFresh,
    /// A copy of the file of a heap in use is opened as if it were that file.
    TakeCopies,
    /// It is not checked whether the file of an open heap still has a name.
    OverlookRemoval,
    /// It is not checked whether a log still has its name.
    TrustLogName,
    /// A handle reports that its root is gone, or has another type, before that is durable.
    TellAtOnce,
    /// While a heap is prepared for a log, content that failed syncs have left in the page cache counts as
    /// durable.
    TrustPageCache,
    /// The header says that a log is needed no more before the heap's file has its records.
    CloseBeforeFold,
    /// The log of a closed heap is not named by the header when the first record is acknowledged.
    RecordUnnamed,
    /// The header names a log that is made afterwards.
    NameBeforeLog,
    /// The content of a log that was read after failed syncs counts as durable, even if it is known not to be
    /// synced.
    TrustLog,
    /// A log goes on right behind the end of its records that an opening has found, where an earlier process
    /// may have left more records.
    GoOnInPlace,
    /// The next header is written although the header that was read may not be on the disk.
    TrustHeader,
    /// The second slot of the header is written although the sync of the first one has failed.
    OverlookFences,
    /// Both slots of the header of a closed heap are synced together.
    SyncHeadersAtOnce,
    /// The logs of a closed heap are replayed as if it had not been closed.
    ReplayClosed,
    /// Reads go ahead of waiting transactions.
    ReadsOvertake,
    /// A read waits behind transactions although its thread has a root already.
    NestedReadsWait,
    /// A transaction over several roots that fails to get a root does not close gates, so threads that come
    /// later may still get the root first.
    OpenGates,
    /// A transaction over several roots that closes gates keeps new reads from these roots, but not other
    /// transactions.
    GatesForReads,
    /// A forked child keeps the parent's files open.
    ForksKeepFiles,
    /// A forked child rolls back the transaction of the parent in which it was forked.
    ForksRollBack,
    /// A follower that has found records in the log does not read the log again.
    FollowOnce,
    /// A follower does not check whether records may have been overwritten before it has read them.
    OverlookLap,
    /// A follower does not check whether the heap was opened anew.
    OverlookOpening,
    /// A follower does not check whether the heap has grown.
    OverlookGrowth,
}
