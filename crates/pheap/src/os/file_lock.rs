//! Locks on heaps: one writer or several readers, across processes and names of the file. A process can have
//! the heap of a file open only once.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::calls::try_lock;
use super::fork::Process;
use super::own_file::LeakedPointer;
use crate::error::{Error, Result};
use crate::faults::{Kind, is_left_out};
use crate::sync::Mutex;

/// The longest wait for a lock that another process has.
const PATIENCE: Duration = Duration::from_millis(100);

/// A function that returns a text about the handles in this process that keep the heap of a file open, for
/// [`Error::AlreadyOpen`](crate::Error::AlreadyOpen).
type DescribeHolders = Arc<dyn Fn() -> String + Send + Sync>;

/// The files with heaps that this process has open, by device and inode. The value is a function that
/// describes the holders of the heap; `None` while the heap is being opened.
type OpenFileList = HashMap<(u64, u64), Option<DescribeHolders>>;

/// The list of open files, with its process. A forked child gets a new list: it has no heap open, and the
/// parent's list may be locked for ever.
#[derive(Default)]
struct OpenFiles {
    process: Process,
    files: Mutex<OpenFileList>,
}

static OPEN: LeakedPointer<OpenFiles> = LeakedPointer::nothing();

fn open_files() -> &'static Mutex<OpenFileList> {
    loop {
        let open = OPEN.get();
        if let Some(open) = open.filter(|open| !open.process.is_parent()) {
            return &open.files;
        }
        // If another thread has replaced the list first, the next round finds the list of that thread.
        OPEN.replace(open, Box::default());
    }
}

/// An entry in this process's list of open files. The drop removes the entry from the list, also after a
/// panic during an opening.
#[derive(Debug)]
pub(crate) struct OpenFileEntry {
    id: (u64, u64),
    /// Whether the entry is still in the list. Once it is removed, another heap may have an entry for the
    /// same file.
    listed: AtomicBool,
}

impl OpenFileEntry {
    /// Locks `file` for writing, or, if `shared`, for reading with other processes. Fails at once if this
    /// process has the file open. If another process has a conflicting lock, waits for a moment: a child that
    /// was just forked has its parent's lock until it has given up the parent's files.
    pub(crate) fn lock(file: &File, path: &Path, shared: bool) -> Result<OpenFileEntry> {
        OpenFileEntry::lock_within(PATIENCE, file, path, shared)
    }

    fn lock_within(patience: Duration, file: &File, path: &Path, shared: bool) -> Result<OpenFileEntry> {
        let started = Instant::now();
        loop {
            match OpenFileEntry::try_lock(file, path, shared) {
                Err(Error::Locked { .. }) if started.elapsed() < patience => {
                    thread::sleep(Duration::from_millis(5));
                }
                locked => return locked,
            }
        }
    }

    fn try_lock(file: &File, path: &Path, shared: bool) -> Result<OpenFileEntry> {
        let metadata = file.metadata().map_err(|e| Error::io(format!("looking at {}", path.display()), e))?;
        let id = (metadata.dev(), metadata.ino());
        let mut open = open_files().lock();
        if let Some(held_by) = open.get(&id).filter(|_| !is_left_out(Kind::Lock)).cloned() {
            drop(open); // unlocked, because `held_by` takes locks
            let held_by = held_by.map_or_else(|| "being opened".to_owned(), |held_by| held_by());
            return Err(Error::AlreadyOpen { path: path.to_owned(), held_by: held_by.into() });
        }
        let locked = if is_left_out(Kind::Lock) { Ok(true) } else { try_lock(file, shared) };
        match locked {
            Ok(true) => {}
            Ok(false) => return Err(Error::Locked { path: path.to_owned() }),
            Err(e) => return Err(Error::io(format!("locking {}", path.display()), e)),
        }
        open.insert(id, None);
        Ok(OpenFileEntry { id, listed: AtomicBool::new(true) })
    }

    /// Sets the function that describes the holders, for the error if the file is opened once more.
    pub(crate) fn is_held(&self, by: DescribeHolders) {
        if let Some(held_by) = open_files().lock().get_mut(&self.id) {
            *held_by = Some(by);
        }
    }

    /// Removes the entry from the list now, if it is still there.
    pub(crate) fn forget(&self) {
        if self.listed.swap(false, Ordering::Relaxed) {
            open_files().lock().remove(&self.id);
        }
    }
}

impl Drop for OpenFileEntry {
    fn drop(&mut self) {
        self.forget();
    }
}

#[cfg(test)]
mod tests {
    use pheap_testkit::forks::in_child;

    use super::super::own_file;
    use super::*;

    #[test]
    fn a_child_has_a_list_of_its_own() {
        own_file::watch();
        let [file, other] = [(); 2].map(|()| tempfile::NamedTempFile::new().unwrap());
        let lock = |file: &tempfile::NamedTempFile| OpenFileEntry::lock(file.as_file(), file.path(), false);
        let locked = lock(&file).unwrap();
        let list = open_files().lock();
        in_child(|| open_files().lock().is_empty() && lock(&other).is_ok()).unwrap();
        drop(list);
        drop(locked);
    }

    #[test]
    fn a_lock_that_is_given_up_soon_is_waited_for() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let other = File::open(file.path()).unwrap();
        assert!(try_lock(&other, false).unwrap());
        let lock = |patience| OpenFileEntry::lock_within(patience, file.as_file(), file.path(), false);
        assert!(matches!(lock(Duration::ZERO), Err(Error::Locked { .. })));
        let child = thread::spawn(move || drop(other));
        lock(Duration::from_secs(60)).unwrap();
        child.join().unwrap();
    }

    #[test]
    fn an_entry_goes_with_its_owner_and_no_other_one_with_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let lock = || OpenFileEntry::lock(file.as_file(), file.path(), false);
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
