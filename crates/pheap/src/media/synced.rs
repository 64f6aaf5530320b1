//! A medium on which each fence is a sync of the file: while a heap is made ready for a write-ahead log.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::os::reservation::Place;
use crate::os::storage::Storage;

/// A file that each fence syncs.
#[derive(Debug)]
pub(crate) struct SyncedFile {
    file: Arc<dyn Storage>,
    failed: AtomicBool,
}

impl SyncedFile {
    pub(crate) fn new(file: Arc<dyn Storage>) -> SyncedFile {
        SyncedFile { file, failed: AtomicBool::new(false) }
    }

    /// Says where the heap is mapped: if that is a copy of the file, a fence writes what has changed.
    pub(crate) fn set_copy(&self, copy: Place) {
        self.file.set_copy(copy);
    }

    pub(crate) fn sync(&self) {
        let written = self.file.write_copy();
        // What follows a failure should not reach the disk without what came before. (It may: the file is mapped, so the kernel has it.)
        if !self.failed.load(Ordering::Relaxed) && written.and_then(|()| self.file.sync_now()).is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
    }

    /// Fails if a sync has failed.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.failed.load(Ordering::Relaxed) {
            return Err(io::Error::other("the file could not be synced"));
        }
        Ok(())
    }
}
