//! What kind of file system a file is in, by its magic number.

use std::fs::File;

use super::calls::{self, statfs};

// Kinds of file systems, as `statfs` has them. Of an overlay on one of them, it says that it is an overlay.
pub(super) const BCACHEFS: i64 = 0xca45_1a4e;
pub(super) const BTRFS: i64 = 0x9123_683e;
/// Ext2 to ext4.
pub(super) const EXT: i64 = 0xef53;
pub(super) const F2FS: i64 = 0xf2f5_2010;
pub(super) const NFS: i64 = 0x6969;
pub(super) const NILFS: i64 = 0x3434;
pub(super) const OVERLAY: i64 = 0x794c_7630;
pub(super) const RAMFS: i64 = 0x8584_58f6;
pub(super) const TMPFS: i64 = 0x0102_1994;
pub(super) const UBIFS: i64 = 0x2405_1905;
pub(super) const XFS: i64 = 0x5846_5342;
pub(super) const ZFS: i64 = 0x2fc1_2fc1;

/// Those that write what is stored to a page elsewhere each time.
const COPYING: [i64; 5] = [BTRFS, ZFS, BCACHEFS, UBIFS, NILFS];

/// Those that overwrite what a file has. Not XFS, on which a copy of the file may share its blocks.
const OVERWRITING: [i64; 3] = [EXT, TMPFS, RAMFS];

fn is_in(file: &File, kinds: &[i64]) -> bool {
    statfs(file).is_ok_and(|system| kinds.contains(&system.kind))
}

/// Whether `file` lives in memory only (tmpfs), so that no power failure is survived.
pub(crate) fn is_tmpfs(file: &File) -> bool {
    is_in(file, &[TMPFS])
}

/// Whether a file may share blocks with a copy of it, and have blocks of its own when it is told to. An
/// overlay's file may be a copy that shares them with the one below.
pub(super) fn may_share_blocks(file: &File) -> bool {
    is_in(file, &[XFS, OVERLAY])
}

/// Whether the file may live in memory only: in an overlay, it is not known.
pub(crate) fn may_be_tmpfs(file: &File) -> bool {
    is_in(file, &[TMPFS, OVERLAY])
}

/// Whether a store to a page of the file may find no space, although the file has that page.
pub(crate) fn copies_blocks(file: &File) -> bool {
    is_in(file, &COPYING)
}

/// Whether a store to a page that the file has needs no space.
pub(super) fn overwrites(file: &File) -> bool {
    is_in(file, &OVERWRITING)
}

/// Has a file system that copies blocks overwrite those of this file where they are, if it can (btrfs): a
/// file that has its space needs no other then, unless it shares blocks with a snapshot. The file system
/// keeps no checksums of its data. The file loses what is in it.
pub(crate) fn overwrite_in_place(file: &File) {
    if copies_blocks(file) && file.set_len(0).is_ok() {
        let _ = calls::overwrite_in_place(file);
    }
}
