//! The bugs that can be switched on, to see that the explorer finds them.

use pheap::sim::{Bug, set_bug};

/// All of them.
pub const BUGS: [Bug; 37] = [
    Bug::NoFenceAfterRecord,
    Bug::NoFenceAfterUndo,
    Bug::NoUndoEntry,
    Bug::NoFlushBeforeCommit,
    Bug::ResetBeforeData,
    Bug::NoFenceAfterReset,
    Bug::ReuseBeforeRemoval,
    Bug::RecordPerRoot,
    Bug::StaleOtherLogs,
    Bug::KeepGeneration,
    Bug::NoFlushOfFresh,
    Bug::RecoveryResetsFirst,
    Bug::SweepKeepsRecords,
    Bug::KeepEmptySpans,
    Bug::FreeAtOnce,
    Bug::NoShadeAtCommit,
    Bug::NoShadeAtLogging,
    Bug::NewObjectsUnmarked,
    Bug::CycleInTransaction,
    Bug::RollbackToSwept,
    Bug::KeepLiveSlots,
    Bug::NoSyncOfLog,
    Bug::RecycleBeforeData,
    Bug::FoldUnsynced,
    Bug::SkipSegmentEnd,
    Bug::DropEarly,
    Bug::TypeUnlogged,
    Bug::CycleFromOldRoot,
    Bug::KeepStaleCopies,
    Bug::TrustLeftovers,
    Bug::TrustLogName,
    Bug::LogsCountAlike,
    Bug::TellAtOnce,
    Bug::TrustPageCache,
    Bug::TrustHeader,
    Bug::OverlookFences,
    Bug::SyncHeadersAtOnce,
];

/// The bug with this name.
///
/// # Errors
/// A message that lists the names, if there is no such bug.
pub fn parse(name: &str) -> Result<Bug, String> {
    let names = || BUGS.map(|bug| format!("{bug:?}")).join(", ");
    BUGS.into_iter()
        .find(|bug| format!("{bug:?}") == name)
        .ok_or_else(|| format!("there is no bug {name:?}, only {}", names()))
}

/// Switches a bug on for this thread, until it is dropped.
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
