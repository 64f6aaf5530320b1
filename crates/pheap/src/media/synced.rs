//! A medium on which each fence syncs the file, until a sync fails. It is used while a heap is prepared for a
//! write-ahead log.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::os::reservation::MappedWords;
use crate::os::storage::Storage;

/// A file that each fence syncs, until a sync fails.
#[derive(Debug)]
pub(crate) struct SyncedFile {
    file: Arc<dyn Storage>,
    failed: AtomicBool,
}

impl SyncedFile {
    pub(crate) fn new(file: Arc<dyn Storage>) -> SyncedFile {
        SyncedFile { file, failed: AtomicBool::new(false) }
    }

    /// Sets where the heap is mapped. In the simulator, the mapping is a copy of the file, and a fence writes
    /// the sectors that differ to the file.
    pub(crate) fn set_copy(&self, copy: MappedWords) {
        self.file.set_copy(copy);
    }

    /// Writes the mapping to the simulated file, if the mapping is a copy, and syncs the file. After a
    /// failure, later calls do not sync.
    pub(crate) fn sync(&self) {
        let written = self.file.write_copy();
        // After a failed sync the file is not synced again: later stores should not reach the disk without
        // earlier ones. (Later stores may reach the disk all the same, because the file is mapped, so the
        // kernel has them.)
        if !self.failed.load(Ordering::Relaxed) && written.and_then(|()| self.file.sync_now()).is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
    }

    /// Fails if an earlier [`sync`](Self::sync) has failed.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.failed.load(Ordering::Relaxed) {
            return Err(io::Error::other("the file could not be synced"));
        }
        Ok(())
    }
}
