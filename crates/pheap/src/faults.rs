//! Mistakes that can be made on purpose, to see that tests find them.
//!
//! The crash lab switches them on by thread, and the tests of this crate let a thread panic. In a program, all of it is nothing.

#[cfg(feature = "sim")]
pub mod mutant;

/// Builds with the simulator have this; in others it has no value, so that whatever holds one is compiled to nothing there.
#[cfg(feature = "sim")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lab;
#[cfg(not(feature = "sim"))]
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lab {}

impl Lab {
    /// The lab, in builds that have one.
    #[inline(always)]
    pub(crate) const fn here() -> Option<Lab> {
        #[cfg(feature = "sim")]
        return Some(Lab);
        #[cfg(not(feature = "sim"))]
        None
    }
}

/// What a place in the source asks for, and a mutant may not get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(unreachable_pub)] // public in builds with the simulator
pub enum Kind {
    /// That the lines of some bytes are written back.
    Flush,
    /// That what was flushed is durable before anything that follows.
    Fence,
    /// That something is in a log: an entry, a record, or a range of one.
    LogEntry,
    /// That bytes are written to a file.
    Write,
    /// That a file is synced, or a directory.
    FileSync,
    /// Whether what was read is what was written.
    Checksum,
    /// A lock.
    Lock,
}

/// What a mutant does at its site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(unreachable_pub, dead_code)] // public, and asked for, in builds with the simulator
pub enum Mutation {
    /// What the site asks for is not done; a test of a checksum always says that it is right.
    Drop,
    /// It is done, but too late: a flush or a write just after the next fence or sync, a fence or sync after the next flush or write.
    Delay,
}

/// What is to become of what the caller asks for. `None`, it is done, outside of the crash explorer's builds.
#[inline(always)]
#[track_caller]
pub(crate) fn mutation(_kind: Kind) -> Option<Mutation> {
    #[cfg(feature = "sim")]
    return mutant::reached(_kind, std::panic::Location::caller());
    #[cfg(not(feature = "sim"))]
    None
}

/// [`mutation`], for what cannot come late: whether it is to be left out.
#[inline(always)]
#[track_caller]
pub(crate) fn is_left_out(_kind: Kind) -> bool {
    #[cfg(feature = "sim")]
    return mutant::is_dropped(_kind, std::panic::Location::caller());
    #[cfg(not(feature = "sim"))]
    false
}

/// Whether it is watched who takes locks.
#[inline(always)]
pub(crate) fn watches_locks() -> bool {
    #[cfg(feature = "sim")]
    return mutant::watches_locks();
    #[cfg(not(feature = "sim"))]
    false
}

/// Whether a seeded bug is switched on. Always `false` outside the crash explorer's builds.
#[inline(always)]
pub(crate) fn bug(_bug: Bug) -> bool {
    #[cfg(feature = "sim")]
    return mutant::seeded_bug() == Some(_bug);
    #[cfg(not(feature = "sim"))]
    false
}

/// Whether a checksum, or another word by which something that was read proves to be what was written, is what it should be.
#[inline(always)]
#[track_caller]
pub(crate) fn holds<T: PartialEq>(found: T, expected: T) -> bool {
    let holds = found == expected;
    is_left_out(Kind::Checksum) || holds
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
#[allow(unreachable_pub)] // public in builds with the simulator
pub enum Bug {
    /// An undo entry is not fenced before the store that it covers.
    NoFenceAfterUndo,
    /// The redo log is reset before its data is durable.
    ResetBeforeData,
    /// A root's removal is not durable when its memory is given to another.
    ReuseBeforeRemoval,
    /// Each root of a transaction gets a record of its own.
    RecordPerRoot,
    /// A part of a record counts, whatever has become of the others.
    PartsCount,
    /// It does not count when the log of another one is newer.
    RetiredPartsMiss,
    /// It does not count when the root of another one is gone.
    RemovedPartsMiss,
    /// Parts are named before there is room for all of them, so that a log that is emptied for one is newer than the others say.
    NameBeforeRoom,
    /// Recovery gives logs new generations while there are parts of records that are not complete.
    KeepTornParts,
    /// Recovery leaves the generation of the logs as it is.
    KeepGeneration,
    /// Recovery retires the log before the data that it restored is durable.
    RecoveryResetsFirst,
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
    /// Free pages become holes before it is durable that they are free.
    HolesEarly,
    /// Private pages are given back before a checkpoint has written what is in them.
    DropEarly,
    /// A migration stores the type of a root outside of its transaction.
    TypeUnlogged,
    /// A collection that begins when a root was just migrated begins with the old one.
    CycleFromOldRoot,
    /// A map is converted while the version of before may be asked for.
    ConvertVersions,
    /// A conversion takes each slot that was ever taken for an object that the root leads to.
    ConvertDead,
    /// The copies of a transaction that was rolled back are taken for what is in the heap.
    KeepStaleCopies,
    /// What a transaction has found lately is not forgotten at its end,
    RecentAfterEnd,
    /// nor when it spills,
    RecentAfterSpill,
    /// nor when a wider copy takes the place of others,
    RecentAfterWider,
    /// nor when its log cannot grow,
    RecentAfterDoom,
    /// nor what it has read where that is, when a copy is made,
    RecentAfterCopy,
    /// nor what it has written, at a savepoint,
    RecentAfterSavepoint,
    /// nor when it goes back to one.
    RecentAfterTakenBack,
    /// A transaction that goes back to a savepoint leaves objects of its own as they are,
    SavepointForgetsFresh,
    /// or those that were changed where they are,
    SavepointForgetsNodes,
    /// or fields that `#[txn]` has stored to,
    SavepointForgetsFields,
    /// and frees at its commit what it has freed since.
    SavepointKeepsFrees,
    /// What was known at a savepoint that is gone is taken to be known at the next one.
    SavepointKeepsKnown,
    /// The record of a long transaction has the first word only of what was logged in a line.
    RecordFirstWords,
    /// When the last savepoint is gone, stores are made as if there were one.
    SavepointKeepsRoute,
    /// A transaction whose log cannot grow does not go back,
    DoomKeepsChanges,
    /// and keeps elsewhere what it writes to objects of its own, too.
    DoomCopiesFresh,
    /// A copy of a file in use is opened as if it were that file.
    TakeCopies,
    /// Nobody looks whether the file of an open heap still has a name.
    OverlookRemoval,
    /// Nobody looks whether a log still has its name.
    TrustLogName,
    /// A handle is told that its root is gone, or has another type, before that is durable.
    TellAtOnce,
    /// What failed syncs have left in the page cache, while a heap was made ready for a log, is taken to be on the disk.
    TrustPageCache,
    /// The header says that a log is not needed any more before what is in it is in the heap's file.
    CloseBeforeFold,
    /// The log of a heap that was closed is not named by its header when the first record is acknowledged.
    RecordUnnamed,
    /// The header names a log that is made next.
    NameBeforeLog,
    /// What failed syncs have left of a log there is taken to be on the disk, whatever is known of it.
    TrustLog,
    /// A log goes on right behind what was found in it, where an earlier process may have left more.
    GoOnInPlace,
    /// The next header is written while nobody knows whether the one that was read is on the disk.
    TrustHeader,
    /// The second slot of the header is written though the sync of the first one has failed.
    OverlookFences,
    /// Both slots of the header of a closed heap are synced together.
    SyncHeadersAtOnce,
    /// The logs of a heap that was closed are taken for those of one that was not.
    ReplayClosed,
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
    /// A follower reads the log before it copies the heap, and not again.
    FollowOnce,
    /// It does not look whether records may have been overwritten before it has read them.
    OverlookLap,
    /// Nor whether the heap was opened anew.
    OverlookOpening,
    /// Nor whether it has grown.
    OverlookGrowth,
}
