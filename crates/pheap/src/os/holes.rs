//! Holes in the file, which copies may have: a store into one fails with a signal when the disk is full.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::calls::{FileSystem, fallocate, statfs};
use crate::error::{Error, Result};
use crate::units::PAGE;

/// Reserves space for all of the first `len` bytes, as for a heap that grew to this length. Changes no byte of them.
///
/// Where the file system cannot (or copies pages when they are written, whatever was reserved), holes stay.
pub(crate) fn fill(file: &File, path: &Path, len: u64) -> Result<()> {
    let context = || format!("reserving the space of {}", path.display());
    reserve(file, len).map_err(|error| match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => {
            Error::OutOfSpace { reason: format!("{}: {error}", context()) }
        }
        _ => Error::io(context(), error),
    })
}

/// [`fill`], for any file.
pub(crate) fn reserve(file: &File, len: u64) -> io::Result<()> {
    let missing = len.saturating_sub(file.metadata()?.blocks() * 512);
    if missing == 0 {
        return Ok(());
    }
    // What there is would be taken, and kept, before it turns out that there is not enough.
    let possible = match statfs(file) {
        Ok(FileSystem { free: Some(free), .. }) if free < missing => PAGE.min(len),
        _ => len,
    };
    match fallocate(file, 0, possible) {
        Ok(()) if possible == len => Ok(()),
        Ok(()) => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
        Err(error) => match error.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => Ok(()),
            _ => Err(error),
        },
    }
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
