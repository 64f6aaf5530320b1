//! Finds out the kind of a file's file system, by its magic number.

use std::fs::File;

use super::calls::{self, statfs};

// Kinds of file systems, as `statfs` reports them. For an overlay on such a file system, `statfs` reports the
// overlay.
pub(super) const BCACHEFS: i64 = 0xca45_1a4e;
pub(super) const BTRFS: i64 = 0x9123_683e;
/// The file systems ext2, ext3 and ext4, which have one number.
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

/// File systems that are copy-on-write by default: they write a changed page elsewhere each time.
const COPYING: [i64; 5] = [BTRFS, ZFS, BCACHEFS, UBIFS, NILFS];

/// File systems that overwrite the pages of a file in place. XFS is not one of them, because a copy of the
/// file may share its blocks.
const OVERWRITING: [i64; 3] = [EXT, TMPFS, RAMFS];

fn is_in(file: &File, kinds: &[i64]) -> bool {
    statfs(file).is_ok_and(|system| kinds.contains(&system.kind))
}

/// Returns whether `file` is in a tmpfs, so that it survives no power failure.
pub(crate) fn is_tmpfs(file: &File) -> bool {
    is_in(file, &[TMPFS])
}

/// Returns whether a file may share blocks with a copy of it, and can unshare them. An overlay's file may be
/// a copy that shares its blocks with the file below.
pub(super) fn may_share_blocks(file: &File) -> bool {
    is_in(file, &[XFS, OVERLAY])
}

/// Returns whether the file may be in a tmpfs: in an overlay, that is unknown.
pub(crate) fn may_be_tmpfs(file: &File) -> bool {
    is_in(file, &[TMPFS, OVERLAY])
}

/// Returns whether a store to a page of the file may find no space, although the file has that page.
pub(crate) fn copies_blocks(file: &File) -> bool {
    is_in(file, &COPYING)
}

/// Returns whether it is known that a store to a page that the file has needs no space.
pub(super) fn overwrites(file: &File) -> bool {
    is_in(file, &OVERWRITING)
}

/// Asks a copy-on-write file system to overwrite the pages of this file in place (btrfs can). Then a file
/// that has its space needs no more, unless it shares blocks with a snapshot. The file system keeps no
/// checksums of such a file. On a copy-on-write file system, the file is truncated to 0 bytes.
pub(crate) fn overwrite_in_place(file: &File) {
    if copies_blocks(file) && file.set_len(0).is_ok() {
        let _ = calls::overwrite_in_place(file);
    }
}
