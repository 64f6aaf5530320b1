//! Whether the file of an open heap still has a name. What is committed to one that has none is gone when the heap is closed.
//!
//! Asked for where it costs nothing beside what is done anyway, never by a commit: when the file grows, by `sync` and `checkpoint`, and at the end. A file that was given
//! another name, or has one more, is found by that.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::HeapInner;
use crate::error::{Error, Result};
use crate::media::{Bug, bug};

/// Whether a file has a name.
///
/// # Errors
/// What the operating system says.
pub(crate) fn has_name(file: &File) -> io::Result<bool> {
    // Asked for nothing but this: asking for times as well would make Linux (6.13 and newer) give the next write an exact one.
    // SAFETY: `statx` is plain data, for which zeros are valid, and the call fills it.
    let (result, stat) = unsafe {
        let mut stat: libc::statx = std::mem::zeroed();
        let fd = file.as_raw_fd();
        (libc::statx(fd, c"".as_ptr(), libc::AT_EMPTY_PATH, libc::STATX_NLINK, &raw mut stat), stat)
    };
    if result == 0 { Ok(stat.stx_nlink > 0) } else { Err(io::Error::last_os_error()) }
}

impl HeapInner {
    /// Fails if the file of the heap has been removed, or another one was given its last name.
    pub(super) fn check_named(&self) -> Result<()> {
        if self.has_name
            && let (Some(file), Some(path)) = (self.mapping.file(), self.mapping.path())
            && has_name(file).is_ok_and(|named| !named)
            && !bug(Bug::OverlookRemoval)
        {
            return Err(Error::Removed { path: path.to_owned() });
        }
        Ok(())
    }
}
