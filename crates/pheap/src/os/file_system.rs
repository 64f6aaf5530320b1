//! What kind of file system a file is in.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Whether `file` lives in memory only (tmpfs), so that no power failure is survived whatever one does.
pub(crate) fn is_tmpfs(file: &File) -> bool {
    file_system(file) == Some(TMPFS_MAGIC)
}

/// What [`file_system`] says of a tmpfs.
pub(crate) const TMPFS_MAGIC: i64 = 0x0102_1994;

/// The kind of file system that a file is in, by its magic number.
pub(crate) fn file_system(file: &File) -> Option<i64> {
    statfs(file).ok().map(|stat| kind_of(&stat))
}

/// The kind of file system, by its magic number.
#[allow(clippy::unnecessary_cast)] // of another type elsewhere
pub(crate) fn kind_of(stat: &libc::statfs) -> i64 {
    stat.f_type as i64
}

/// What the operating system says of the file system that a file is in.
pub(crate) fn statfs(file: &File) -> io::Result<libc::statfs> {
    // SAFETY: `statfs` is plain data, for which zeros are valid, and the call fills it.
    let (result, stat) = unsafe {
        let mut stat: libc::statfs = std::mem::zeroed();
        (libc::fstatfs(file.as_raw_fd(), &raw mut stat), stat)
    };
    if result == 0 { Ok(stat) } else { Err(io::Error::last_os_error()) }
}
