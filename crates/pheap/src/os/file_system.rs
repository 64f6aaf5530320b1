//! What kind of file system a file is in, by its magic number.

use std::fs::File;

use super::calls::statfs;

/// Whether `file` lives in memory only (tmpfs), so that no power failure is survived whatever one does.
pub(crate) fn is_tmpfs(file: &File) -> bool {
    file_system(file) == Some(TMPFS_MAGIC)
}

/// What [`file_system`] says of a tmpfs.
pub(crate) const TMPFS_MAGIC: i64 = 0x0102_1994;

/// The kind of file system that a file is in, by its magic number.
pub(crate) fn file_system(file: &File) -> Option<i64> {
    statfs(file).ok().map(|system| system.kind)
}
