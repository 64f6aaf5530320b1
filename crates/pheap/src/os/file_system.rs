//! What kind of file system a file is in, by its magic number.

use std::fs::File;

use super::calls::{self, statfs};

/// Whether `file` lives in memory only (tmpfs), so that no power failure is survived whatever one does.
pub(crate) fn is_tmpfs(file: &File) -> bool {
    file_system(file) == Some(TMPFS_MAGIC)
}

/// What [`file_system`] says of XFS.
const XFS: i64 = 0x5846_5342;
/// What it says of btrfs, ZFS, bcachefs, UBIFS and NILFS. Of an overlay on one of them, it says that it is an
/// overlay.
const COPYING: [i64; 5] = [0x9123_683e, 0x2fc1_2fc1, 0xca45_1a4e, 0x2405_1905, 0x3434];

/// Whether a file may share blocks with a copy of it, and have blocks of its own when it is told to.
pub(super) fn may_share_blocks(file: &File) -> bool {
    file_system(file) == Some(XFS)
}

/// Whether the file system writes what is stored to a page elsewhere each time, so that a store may find no
/// space.
pub(crate) fn copies_blocks(file: &File) -> bool {
    file_system(file).is_some_and(|kind| COPYING.contains(&kind))
}

/// Has such a file system overwrite the blocks of a file where they are, if it can (btrfs): a file that has
/// its space needs no other then, unless it shares blocks with a snapshot. The file system keeps no checksums
/// of its data. The file loses what is in it.
pub(crate) fn overwrite_in_place(file: &File) {
    if copies_blocks(file) && file.set_len(0).is_ok() {
        let _ = calls::overwrite_in_place(file);
    }
}

/// What [`file_system`] says of a tmpfs.
pub(crate) const TMPFS_MAGIC: i64 = 0x0102_1994;

/// The kind of file system that a file is in, by its magic number.
pub(crate) fn file_system(file: &File) -> Option<i64> {
    statfs(file).ok().map(|system| system.kind)
}
