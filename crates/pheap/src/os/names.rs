//! Names of files, and which files they are.
//!
//! A name is looked up in a directory that is open, so that it does not matter what becomes of the names of directories; and the file that has
//! a name is told apart from others by what the kernel calls it, not by the name.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::os::syncs::Syncs;

/// What the name of a log ends with.
const SUFFIX: &str = ".wal";

/// Device and inode: no two files have the same while one of them is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// What the kernel says of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stat {
    pub(crate) id: FileId,
    /// How many names it has.
    pub(crate) links: u32,
    /// The mount that it was reached through, if the kernel says so (Linux 5.8).
    pub(crate) mount: Option<u64>,
}

/// Of Linux 5.8.
const STATX_MNT_ID: u32 = 0x1000;

/// Makes a system call that returns a negative number when it fails, again if a signal has come in between: on network file systems any call may say so.
fn call(mut call: impl FnMut() -> libc::c_int) -> io::Result<libc::c_int> {
    loop {
        match call() {
            done if done >= 0 => return Ok(done),
            _ => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => {}
                e => return Err(e),
            },
        }
    }
}

/// Asks for `what`. Never for times: Linux (6.13 and newer) would give the next write an exact one, and write the inode with each sync, which is a quarter of the time
/// of a commit.
fn statx(directory: RawFd, name: &CStr, flags: libc::c_int, what: u32) -> io::Result<Stat> {
    // SAFETY: plain data, for which zeros are valid.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the name is a string, and the call fills `stat`.
    match call(|| unsafe { libc::statx(directory, name.as_ptr(), flags, what, &raw mut stat) }) {
        // An old kernel, or a container whose rules do not know of the call.
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            return fstatat(directory, name, flags);
        }
        done => done?,
    };
    let id = FileId { device: device(stat.stx_dev_major, stat.stx_dev_minor), inode: stat.stx_ino };
    let mount = (stat.stx_mask & what & STATX_MNT_ID != 0).then_some(stat.stx_mnt_id);
    Ok(Stat { id, links: stat.stx_nlink, mount })
}

fn device(major: u32, minor: u32) -> u64 {
    u64::from(major) << 32 | u64::from(minor)
}

/// [`statx`] as it was before there was that call.
#[allow(clippy::unnecessary_cast)] // of other types elsewhere
fn fstatat(directory: RawFd, name: &CStr, flags: libc::c_int) -> io::Result<Stat> {
    // SAFETY: plain data, for which zeros are valid.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the name is a string, and the call fills `stat`.
    call(|| unsafe { libc::fstatat(directory, name.as_ptr(), &raw mut stat, flags) })?;
    let id = FileId {
        device: device(libc::major(stat.st_dev) as u32, libc::minor(stat.st_dev) as u32),
        inode: stat.st_ino as u64,
    };
    Ok(Stat { id, links: stat.st_nlink as u32, mount: None })
}

impl Stat {
    /// Of a file that is open.
    pub(crate) fn of(file: &File) -> io::Result<Stat> {
        let what = libc::STATX_INO | libc::STATX_NLINK | STATX_MNT_ID;
        statx(file.as_raw_fd(), c"", libc::AT_EMPTY_PATH, what)
    }
}

/// Whether a file has a name.
///
/// # Errors
/// What the operating system says.
pub(crate) fn has_name(file: &File) -> io::Result<bool> {
    Stat::of(file).map(|stat| stat.links > 0)
}

/// A heap's file and its log, as two names in a directory.
#[derive(Debug)]
pub(crate) struct Names {
    directory: File,
    /// What the directory was called: for messages.
    path: PathBuf,
    heap: CString,
    log: CString,
    /// Of the directory.
    syncs: Syncs,
    /// Whether the names that were seen last may not be durable.
    unsynced: bool,
}

impl Names {
    /// Those of the file at `path`, which is not a link.
    pub(crate) fn of(path: &Path) -> io::Result<Names> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut log = name.to_owned();
        log.push(SUFFIX);
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let c_parent = CString::new(parent.as_os_str().as_bytes())?;
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
        // SAFETY: a call with a string.
        let fd = call(|| unsafe { libc::open(c_parent.as_ptr(), flags) })?;
        // SAFETY: opened just now, and nobody else's.
        let directory = unsafe { File::from_raw_fd(fd) };
        let (heap, log) = (CString::new(name.as_bytes())?, CString::new(log.into_vec())?);
        Ok(Names { directory, path: parent.to_owned(), heap, log, syncs: Syncs::new(), unsynced: false })
    }

    /// Those that a file has now, wherever it was opened; its directories may have other names than they had.
    pub(crate) fn now(file: &File) -> io::Result<Names> {
        let stat = Stat::of(file)?;
        let removed = |why: &str| io::Error::new(io::ErrorKind::NotFound, why.to_owned());
        if stat.links == 0 {
            return Err(removed("the heap's file has been removed"));
        }
        let moved = || removed("the heap's file has been renamed, and it is not known to what");
        let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(|_| moved())?;
        let names = Names::of(&path).map_err(|_| moved())?;
        if names.heap_is(stat.id)? { Ok(names) } else { Err(moved()) }
    }

    /// Where the log is, or was when it was last looked at.
    pub(crate) fn log_path(&self) -> PathBuf {
        self.path.join(OsStr::from_bytes(self.log.as_bytes()))
    }

    /// The same for the heap's file.
    pub(crate) fn heap_path(&self) -> PathBuf {
        self.path.join(OsStr::from_bytes(self.heap.as_bytes()))
    }

    fn id(&self, name: &CStr) -> io::Result<Option<FileId>> {
        match statx(self.directory.as_raw_fd(), name, libc::AT_SYMLINK_NOFOLLOW, libc::STATX_INO) {
            Ok(stat) => Ok(Some(stat.id)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Whether this is the heap's file.
    pub(crate) fn heap_is(&self, id: FileId) -> io::Result<bool> {
        Ok(self.id(&self.heap)? == Some(id))
    }

    /// Which file has the name of the log.
    pub(crate) fn log_id(&self) -> io::Result<Option<FileId>> {
        self.id(&self.log)
    }

    /// Opens the file that has the name of the log, which is one and no link to one.
    pub(crate) fn open_log(&self, flags: libc::c_int, mode: u32) -> io::Result<File> {
        self.open(&self.log, flags, mode)
    }

    fn open(&self, name: &CStr, flags: libc::c_int, mode: u32) -> io::Result<File> {
        // Nothing waits for the other end of a FIFO.
        let flags = flags | libc::O_CLOEXEC | libc::O_NONBLOCK;
        let directory = self.directory.as_raw_fd();
        // SAFETY: a call with a string.
        let fd = call(|| unsafe { libc::openat(directory, name.as_ptr(), flags, mode) })?;
        // SAFETY: opened just now, and nobody else's.
        Ok(unsafe { File::from_raw_fd(fd) })
    }

    /// Gives the log's name to this file as well, unless another one has it.
    pub(crate) fn link_log(&self, file: &File) -> io::Result<()> {
        let this = format!("/proc/self/fd/{}", file.as_raw_fd());
        let this = CString::new(OsString::from(this).into_vec())?;
        let (to, flags) = (self.directory.as_raw_fd(), libc::AT_SYMLINK_FOLLOW);
        // SAFETY: a call with two strings.
        let link = || unsafe { libc::linkat(libc::AT_FDCWD, this.as_ptr(), to, self.log.as_ptr(), flags) };
        call(link).map(drop)
    }

    /// Removes the log's name from this file, if it has it.
    pub(crate) fn unlink_log(&self, id: FileId) -> io::Result<()> {
        if self.log_id()? != Some(id) {
            return Ok(());
        }
        // SAFETY: a call with a string.
        call(|| unsafe { libc::unlinkat(self.directory.as_raw_fd(), self.log.as_ptr(), 0) }).map(drop)
    }

    /// Notes that names have changed, or may have. They are not relied on before they are [durable](Self::sync).
    pub(crate) fn change(&mut self) {
        self.unsynced = true;
    }

    /// Whether these names are the files' now, durably.
    pub(crate) fn are(&self, heap: FileId, log: FileId) -> io::Result<bool> {
        Ok(!self.unsynced && self.heap_is(heap)? && self.log_id()? == Some(log))
    }

    /// Makes the names in the directory durable.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        // SURVIVES unreached: a simulated disk has no directory: a log that it makes has its name, durably.
        let sync = || self.open(c".", libc::O_RDONLY | libc::O_DIRECTORY, 0)?.sync_all();
        self.syncs.sync(sync)?;
        self.unsynced = false;
        Ok(())
    }

    /// The mount and the device of the directory.
    pub(crate) fn stat(&self) -> io::Result<Stat> {
        Stat::of(&self.directory)
    }
}

#[cfg(all(test, not(pheap_loom)))]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_not_be_synced_are_not_relied_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("h");
        let [heap, log] = [&path, &dir.path().join("h.wal")].map(|path| File::create(path).unwrap());
        let [heap, log] = [heap, log].map(|file| Stat::of(&file).unwrap().id);
        let mut names = Names::of(&path).unwrap();
        assert!(names.are(heap, log).unwrap());
        names.change();
        names.sync().unwrap();
        assert!(names.are(heap, log).unwrap());
        names.change();
        assert!(!names.are(heap, log).unwrap());
        names.syncs.sync(|| Err(io::Error::from_raw_os_error(libc::EIO))).unwrap_err();
        // The kernel would say that all is well now.
        assert!(names.sync().is_err() && !names.are(heap, log).unwrap());
    }

    #[test]
    fn both_calls_say_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("h");
        let file = File::create(&path).unwrap();
        fs::hard_link(&path, dir.path().join("other")).unwrap();
        let names = Names::of(&path).unwrap();
        let new = Stat::of(&file).unwrap();
        let old = [
            fstatat(file.as_raw_fd(), c"", libc::AT_EMPTY_PATH).unwrap(),
            fstatat(names.directory.as_raw_fd(), &names.heap, libc::AT_SYMLINK_NOFOLLOW).unwrap(),
        ];
        assert!(old.iter().all(|old| (old.id, old.links) == (new.id, 2) && old.mount.is_none()));
        let missing = fstatat(names.directory.as_raw_fd(), &names.log, libc::AT_SYMLINK_NOFOLLOW);
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}

/// Gives a file another name, which nothing has. Returns whether that was done; else the last error of the operating system says why not.
pub(crate) fn rename_to_new(from: &Path, to: &Path) -> io::Result<bool> {
    let (old, new) = (CString::new(from.as_os_str().as_bytes())?, CString::new(to.as_os_str().as_bytes())?);
    let (here, flags) = (libc::AT_FDCWD, libc::RENAME_NOREPLACE);
    // SAFETY: a call with two strings.
    let result = unsafe { libc::syscall(libc::SYS_renameat2, here, old.as_ptr(), here, new.as_ptr(), flags) };
    Ok(result == 0)
}
