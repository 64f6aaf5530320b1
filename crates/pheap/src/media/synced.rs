//! A medium on which each fence is a sync of the file: while a heap is made ready for a write-ahead log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::os::storage::Storage;

/// A file that each fence syncs.
#[derive(Debug)]
pub(crate) struct SyncedFile {
    file: Arc<dyn Storage>,
    failed: AtomicBool,
    /// Where a copy of a simulated file is mapped, and how long it is.
    #[cfg(feature = "sim")]
    copy: Option<(usize, usize)>,
}

impl SyncedFile {
    pub(crate) fn new(file: Arc<dyn Storage>) -> SyncedFile {
        SyncedFile {
            file,
            failed: AtomicBool::new(false),
            #[cfg(feature = "sim")]
            copy: None,
        }
    }

    /// For a map that is a copy of so many bytes: a fence writes what has changed.
    #[cfg(feature = "sim")]
    pub(crate) fn with_copy(self, base: *mut u8, len: u64) -> SyncedFile {
        SyncedFile { copy: Some((base.expose_provenance(), len as usize)), ..self }
    }

    /// Whether the map is such a copy.
    #[cfg(feature = "sim")]
    pub(crate) fn is_simulated(&self) -> bool {
        self.copy.is_some()
    }

    pub(crate) fn sync(&self) {
        // What follows a failure should not reach the disk without what came before. (It may: the file is mapped, so the kernel has it.)
        if self.failed.load(Ordering::Relaxed) {
            let _ = self.write_copy();
            return;
        }
        if self.write_copy().and_then(|()| self.file.sync_now()).is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
    }

    /// Writes what has changed in a map that is a copy.
    fn write_copy(&self) -> std::io::Result<()> {
        #[cfg(feature = "sim")]
        if let Some((base, len)) = self.copy {
            // SAFETY: so many bytes are mapped there, and the program does not store to them while it waits for a fence.
            let copy =
                unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<u8>(base), len) };
            self.file.write_changes(copy)?;
        }
        Ok(())
    }

    /// Fails if a sync has failed.
    pub(crate) fn check(&self) -> std::io::Result<()> {
        if self.failed.load(Ordering::Relaxed) {
            return Err(std::io::Error::other("the file could not be synced"));
        }
        Ok(())
    }
}
