//! Names of files, and the files that they lead to.
//!
//! A name is looked up in a directory that is open, so renaming directories does not matter. Files are told
//! apart by device and inode, not by name.

use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::calls;
pub(crate) use super::calls::{FileId, Stat};
use super::syncs::Syncs;

/// The end of a log's name.
const SUFFIX: &str = ".wal";

/// Returns whether a file has a name.
///
/// # Errors
/// The error of the operating system.
pub(crate) fn has_name(file: &File) -> io::Result<bool> {
    Stat::from_file(file).map(|stat| stat.links > 0)
}

/// Returns whether an error says that there is no file of a name. A name that is too long is no file's.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENAMETOOLONG)
}

/// Returns the folder of a file.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The names of a heap's file and its log in a directory.
#[derive(Debug)]
pub(crate) struct HeapFileNames {
    directory: File,
    /// The path of the directory when it was opened, for messages.
    path: PathBuf,
    heap: CString,
    log: CString,
    /// Serializes the syncs of the directory.
    syncs: Syncs,
}

impl HeapFileNames {
    /// Returns the names for the file at `path`, which is not a link.
    pub(crate) fn from_path(path: &Path) -> io::Result<HeapFileNames> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut log = name.to_owned();
        log.push(SUFFIX);
        let parent = folder_of(path);
        let flags = libc::O_PATH | libc::O_DIRECTORY;
        let directory = OpenOptions::new().read(true).custom_flags(flags).open(parent)?;
        let (heap, log) = (CString::new(name.as_bytes())?, CString::new(log.into_vec())?);
        Ok(HeapFileNames { directory, path: parent.to_owned(), heap, log, syncs: Syncs::new() })
    }

    /// Returns the present names for an open file. The file and its directories may have been renamed since
    /// it was opened.
    pub(crate) fn now(file: &File) -> io::Result<HeapFileNames> {
        let stat = Stat::from_file(file)?;
        let removed = |why: &str| io::Error::new(io::ErrorKind::NotFound, why.to_owned());
        if stat.links == 0 {
            return Err(removed("the heap's file has been removed"));
        }
        let moved = || removed("the heap's file has been renamed, and its new name is unknown");
        let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(|_| moved())?;
        let names = HeapFileNames::from_path(&path).map_err(|_| moved())?;
        if names.heap_is(stat.id)? { Ok(names) } else { Err(moved()) }
    }

    /// Returns the path of the log, with the path that the directory had when it was opened.
    pub(crate) fn log_path(&self) -> PathBuf {
        self.path.join(OsStr::from_bytes(self.log.as_bytes()))
    }

    /// Returns the path of the heap's file, with the path that the directory had when it was opened.
    pub(crate) fn heap_path(&self) -> PathBuf {
        self.path.join(OsStr::from_bytes(self.heap.as_bytes()))
    }

    fn id(&self, name: &CStr) -> io::Result<Option<FileId>> {
        match calls::statx(&self.directory, name, libc::AT_SYMLINK_NOFOLLOW, libc::STATX_INO) {
            Ok(stat) => Ok(Some(stat.id)),
            Err(e) if is_absent(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Returns whether the heap's name leads to the file with this id.
    pub(crate) fn heap_is(&self, id: FileId) -> io::Result<bool> {
        Ok(self.id(&self.heap)? == Some(id))
    }

    /// Fails if no file can have the log's name, because it is too long.
    pub(crate) fn check_log_name(&self) -> io::Result<()> {
        let look = calls::statx(&self.directory, &self.log, libc::AT_SYMLINK_NOFOLLOW, libc::STATX_INO);
        match look {
            Err(e) if e.raw_os_error() == Some(libc::ENAMETOOLONG) => Err(e),
            _ => Ok(()),
        }
    }

    /// Returns the id of the file with the log's name, if there is one.
    pub(crate) fn log_id(&self) -> io::Result<Option<FileId>> {
        self.id(&self.log)
    }

    /// Opens the file with the log's name.
    pub(crate) fn open_log(&self, flags: libc::c_int, mode: u32) -> io::Result<File> {
        self.open(&self.log, flags, mode)
    }

    fn open(&self, name: &CStr, flags: libc::c_int, mode: u32) -> io::Result<File> {
        // With `O_NONBLOCK`, the opening of a FIFO does not wait for its other end.
        calls::open_at(&self.directory, name, flags | libc::O_NONBLOCK, mode)
    }

    /// Removes the log's name, if it leads to the file with this id.
    pub(crate) fn unlink_log(&self, id: FileId) -> io::Result<()> {
        if self.log_id()? != Some(id) {
            return Ok(());
        }
        calls::unlink_at(&self.directory, &self.log)
    }

    /// Returns whether the heap's name leads to the file `heap`, and the log's name to the file `log`.
    pub(crate) fn are(&self, heap: FileId, log: FileId) -> io::Result<bool> {
        Ok(self.heap_is(heap)? && self.log_id()? == Some(log))
    }

    /// Makes the names in the directory durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        // The directory is opened outside `Syncs::sync`. If the opening fails, for instance because too many
        // files are open, that is not a failure of the disk, after which all syncs would fail.
        let directory = self.open(c".", libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
        // SURVIVES unreached: a simulated disk has no directory. A log that it creates has a durable name at
        // once.
        self.syncs.sync(|| directory.sync_all())
    }

    /// Returns the mount and the device of the directory.
    pub(crate) fn stat(&self) -> io::Result<Stat> {
        Stat::from_file(&self.directory)
    }
}

#[cfg(all(test, not(pheap_loom)))]
mod tests {
    use super::*;

    #[test]
    fn both_calls_say_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("h");
        let file = File::create(&path).unwrap();
        fs::hard_link(&path, dir.path().join("other")).unwrap();
        let names = HeapFileNames::from_path(&path).unwrap();
        let new = Stat::from_file(&file).unwrap();
        let old = [
            calls::fstatat(&file, c"", libc::AT_EMPTY_PATH).unwrap(),
            calls::fstatat(&names.directory, &names.heap, libc::AT_SYMLINK_NOFOLLOW).unwrap(),
        ];
        assert!(old.iter().all(|old| (old.id, old.links) == (new.id, 2) && old.mount.is_none()));
        let missing = calls::fstatat(&names.directory, &names.log, libc::AT_SYMLINK_NOFOLLOW);
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
