//! Who has a heap open: one writer or several readers, counted across processes and names.

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::panic::Location;
use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::sync::{StaticMutex, is_left_out};

/// Device and inode of the files that this process has open, with its number of [`forks`]: what a parent has open is not open here.
static OPEN: StaticMutex<Option<HashMap<(u64, u64), u64>>> = StaticMutex::new(None);
static FORKS: AtomicU64 = AtomicU64::new(0);

/// An entry in the list of this process.
#[derive(Debug)]
pub(crate) struct OpenFile {
    id: (u64, u64),
}

impl OpenFile {
    /// Locks `file` for writing, or for reading with others.
    pub(crate) fn lock(file: &File, path: &Path, shared: bool) -> Result<OpenFile> {
        let metadata = file.metadata().map_err(|e| Error::io(format!("looking at {}", path.display()), e))?;
        let id = (metadata.dev(), metadata.ino());
        let mut open = OPEN.lock();
        let open = open.get_or_insert_default();
        if open.get(&id) == Some(&forks()) && !is_left_out(Location::caller()) {
            return Err(Error::AlreadyOpen { path: path.to_owned() });
        }
        let result = match shared {
            true if !is_left_out(Location::caller()) => file.try_lock_shared(),
            false if !is_left_out(Location::caller()) => file.try_lock(),
            _ => Ok(()),
        };
        match result {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Locked { path: path.to_owned() }),
            Err(TryLockError::Error(e)) => return Err(Error::io(format!("locking {}", path.display()), e)),
        }
        open.insert(id, forks());
        Ok(OpenFile { id })
    }

    /// Removes the entry now.
    pub(crate) fn forget(&self) {
        if let Some(open) = OPEN.lock().as_mut() {
            open.remove(&self.id);
        }
    }
}

extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// How many forks lie between this process and the first one that used pheap. A heap is for the process that opened it.
#[inline(always)]
pub(crate) fn forks() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

/// Starts to count forks.
pub(crate) fn watch_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler only increments an atomic.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
}
