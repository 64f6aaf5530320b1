//! Holes in the file, which copies may have: a store into one fails with a signal when the disk is full.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::{Error, Result};

/// Reserves space for all of the first `len` bytes, as for a heap that grew to this length. Changes no byte of them.
///
/// Where the file system cannot (or copies pages when they are written, whatever was reserved), holes stay.
pub(crate) fn fill(file: &File, path: &Path, len: u64) -> Result<()> {
    let context = || format!("reserving the space of {}", path.display());
    let metadata = file.metadata().map_err(|e| Error::io(context(), e))?;
    if metadata.blocks() * 512 >= len {
        return Ok(());
    }
    loop {
        // SAFETY: a call on a file descriptor that is open.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, len as libc::off_t) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => return Ok(()),
            Some(libc::ENOSPC | libc::EDQUOT) => {
                return Err(Error::OutOfSpace { reason: format!("{}: {error}", context()) });
            }
            _ => return Err(Error::io(context(), error)),
        }
    }
}

/// Makes all of `to` what `from` is, by sharing the blocks of both. Returns whether the file system could.
pub(crate) fn share_blocks(from: &File, to: &File) -> bool {
    // SAFETY: a call on two file descriptors that are open.
    unsafe { libc::ioctl(to.as_raw_fd(), libc::FICLONE, from.as_raw_fd()) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_filled_and_bytes_stay() {
        use std::os::unix::fs::FileExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(b"here", 70_000).unwrap();
        let before = std::fs::read(&path).unwrap();
        fill(&file, &path, 1 << 20).unwrap();
        assert!(std::fs::read(&path).unwrap() == before);
        // Reserved, or the file system cannot.
        let again = file.metadata().unwrap().blocks();
        fill(&file, &path, 1 << 20).unwrap();
        assert_eq!(file.metadata().unwrap().blocks(), again);
    }
}
