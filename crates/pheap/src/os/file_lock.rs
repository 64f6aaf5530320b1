//! Who has a heap open: one writer or several readers, counted across processes and names.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::calls::try_lock;
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

/// An entry in the list of this process, which goes with it: a panic while a heap is opened must not leave it there.
#[derive(Debug)]
pub(crate) struct OpenFile {
    id: (u64, u64),
    forks: u64,
    /// Whether it is there. Another heap may have one for the same file later.
    listed: AtomicBool,
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
        let locked = if is_left_out(Kind::Lock) { Ok(true) } else { try_lock(file, shared) };
        match locked {
            Ok(true) => {}
            Ok(false) => return Err(Error::Locked { path: path.to_owned() }),
            Err(e) => return Err(Error::io(format!("locking {}", path.display()), e)),
        }
        open.insert(id);
        Ok(OpenFile { id, forks: forks(), listed: AtomicBool::new(true) })
    }

    /// Removes the entry now.
    pub(crate) fn forget(&self) {
        if self.forks == forks() && self.listed.swap(false, Ordering::Relaxed) {
            open_files().lock().remove(&self.id);
        }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_goes_with_its_owner_and_no_other_one_with_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let lock = || OpenFile::lock(file.as_file(), file.path(), false);
        let first = lock().unwrap();
        let opening = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _first = first;
            panic!("amid an opening");
        }));
        assert!(opening.is_err());
        let second = lock().unwrap();
        second.forget();
        let third = lock().unwrap();
        drop(second);
        assert!(matches!(lock(), Err(Error::AlreadyOpen { .. })));
        drop(third);
        lock().unwrap();
    }
}
