//! Who has a heap open: one writer or several readers, counted across processes and names.

use std::collections::HashSet;
use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::fork::forks;
use crate::error::{Error, Result};
use crate::faults::{Kind, is_left_out};
use crate::sync::Mutex;

/// Device and inode of the files that this process has open. What a parent has open is not open here.
type Open = Mutex<HashSet<(u64, u64)>>;

/// Null if nothing was open yet.
static OPEN: AtomicPtr<Open> = AtomicPtr::new(ptr::null_mut());

fn open_files() -> &'static Open {
    let mut open = OPEN.load(Ordering::Acquire);
    if open.is_null() {
        let new = Box::into_raw(Box::new(Open::new(HashSet::new())));
        open = match OPEN.compare_exchange(open, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => new,
            Err(other) => {
                // SAFETY: made above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
                other
            }
        };
    }
    // SAFETY: made by `Box::into_raw`, here or in another thread, and never freed.
    unsafe { &*open }
}

/// After a fork, in the child: it has a list of its own. That of its parent may be locked for ever.
pub(crate) fn forked() {
    OPEN.store(ptr::null_mut(), Ordering::Relaxed);
}

/// An entry in the list of this process.
#[derive(Debug)]
pub(crate) struct OpenFile {
    id: (u64, u64),
    forks: u64,
}

impl OpenFile {
    /// Locks `file` for writing, or for reading with others.
    pub(crate) fn lock(file: &File, path: &Path, shared: bool) -> Result<OpenFile> {
        let metadata = file.metadata().map_err(|e| Error::io(format!("looking at {}", path.display()), e))?;
        let id = (metadata.dev(), metadata.ino());
        let mut open = open_files().lock();
        if open.contains(&id) && !is_left_out(Kind::Lock) {
            return Err(Error::AlreadyOpen { path: path.to_owned() });
        }
        let result = match shared {
            true if !is_left_out(Kind::Lock) => file.try_lock_shared(),
            false if !is_left_out(Kind::Lock) => file.try_lock(),
            _ => Ok(()),
        };
        match result {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Locked { path: path.to_owned() }),
            Err(TryLockError::Error(e)) => return Err(Error::io(format!("locking {}", path.display()), e)),
        }
        open.insert(id);
        Ok(OpenFile { id, forks: forks() })
    }

    /// Removes the entry now.
    pub(crate) fn forget(&self) {
        if self.forks == forks() {
            open_files().lock().remove(&self.id);
        }
    }
}
