//! Who has a heap open: one writer or several readers, counted across processes and names.

use std::collections::HashSet;
use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::fork::forks;
use super::own_file::Leaked;
use crate::error::{Error, Result};
use crate::faults::{Kind, is_left_out};
use crate::sync::Mutex;

/// Device and inode of the files that a process has open.
struct Open {
    /// The process, as counted by [`forks`]: what a parent has open is not open here, and its list may be locked for ever.
    forks: u64,
    files: Mutex<HashSet<(u64, u64)>>,
}

static OPEN: Leaked<Open> = Leaked::nothing();

fn open_files() -> &'static Mutex<HashSet<(u64, u64)>> {
    loop {
        let open = OPEN.get();
        if let Some(open) = open.filter(|open| open.forks == forks()) {
            return &open.files;
        }
        // Unless another thread is faster.
        OPEN.replace(open, Box::leak(Box::new(Open { forks: forks(), files: Mutex::default() })));
    }
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
