//! Identifies the file in which a heap is in use, and the boot. A copy of a file that was in use may be torn,
//! because the copying program read one page after the other during transactions.
//!
//! If a number is unreliable, 0 is stored for it, and it is not compared, so that a heap that a crash has
//! left is not taken for a copy, even if the machine has changed before the heap is opened. So some copies
//! are not noticed.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use super::calls::{FileSystem, statfs};
use super::file_system::{BCACHEFS, BTRFS, EXT, F2FS, NFS, OVERLAY, RAMFS, TMPFS, XFS, ZFS};
use crate::faults::{Bug, bug};

/// Numbers that distinguish a file from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    /// The number of the device, or of the file system, valid in this boot; 0 if unreliable.
    pub(crate) device: u64,
    /// The inode; 0 if the file system may give the same file another one later.
    pub(crate) inode: u64,
    /// The file system's id; 0 if it is not constant.
    pub(crate) file_system: u64,
    /// The time at which the file was created, in nanoseconds since 1970; 0 if unknown or unreliable. The
    /// time is compared because a new file may get the inode of a removed one.
    pub(crate) created: u64,
}

/// File systems that keep the inode of a file on the disk, or keep it while they are mounted, and lose the
/// file when they are unmounted. Others (FAT, most of FUSE, 9p) may number files in the order in which they
/// come across them.
const HAVE_INODES: [i64; 10] = [TMPFS, RAMFS, EXT, BTRFS, XFS, F2FS, ZFS, BCACHEFS, OVERLAY, NFS];

/// File systems whose `f_fsid` comes from a constant number: for ext4 one on the disk, for tmpfs one made
/// when it is mounted. XFS derives its `f_fsid` from the device's number. Btrfs does so in part, or makes a
/// new one when a clone is mounted. Therefore the `f_fsid` of btrfs tells subvolumes apart within one boot
/// only, like a device's number.
const HAVE_NAMES: [i64; 2] = [TMPFS, EXT];

impl FileIdentity {
    /// Returns the identity of an open file.
    ///
    /// # Errors
    /// The error of the operating system.
    pub(crate) fn from_file(file: &File) -> io::Result<FileIdentity> {
        let metadata = file.metadata()?;
        let FileSystem { kind, name, .. } = statfs(file)?;
        let when = |known: bool, number: u64| if known { number } else { 0 };
        // Devices without a driver are numbered in the order of mounting, so their numbers are unreliable.
        // Files in memory do not outlive the mount, so their device's number is reliable.
        let has_device = libc::major(metadata.dev()) != 0 || matches!(kind, TMPFS | RAMFS);
        let device = if kind == BTRFS { name } else { when(has_device, metadata.dev()) };
        Ok(FileIdentity {
            device,
            inode: when(HAVE_INODES.contains(&kind), metadata.ino()),
            file_system: when(HAVE_NAMES.contains(&kind), name),
            created: when(HAVE_INODES.contains(&kind), created(&metadata)),
        })
    }

    pub(crate) fn to_words(self) -> [u64; 4] {
        [self.device, self.inode, self.file_system, self.created]
    }

    pub(crate) fn from_words([device, inode, file_system, created]: [u64; 4]) -> FileIdentity {
        FileIdentity { device, inode, file_system, created }
    }

    /// Returns whether `self`, which was stored in a file, is certainly not the identity `now` of that file.
    /// Devices are compared only within one boot, because numbers of devices change, and, because a disk may
    /// have been removed and put back, only if the file system has no id, or if the heap
    /// `is_torn_by_snapshots`. A snapshot of a file system, mounted as another device, has the state that a
    /// power failure leaves, which is good enough for other heaps.
    pub(crate) fn is_other(&self, now: &FileIdentity, same_boot: bool, is_torn_by_snapshots: bool) -> bool {
        let differ = |a: u64, b: u64| a != 0 && b != 0 && a != b;
        if bug(Bug::TakeCopies) {
            return false;
        }
        let is_named = self.file_system != 0 && now.file_system != 0;
        differ(self.inode, now.inode)
            || differ(self.created, now.created)
            || differ(self.file_system, now.file_system)
            || same_boot && (is_torn_by_snapshots || !is_named) && differ(self.device, now.device)
    }
}

fn created(metadata: &Metadata) -> u64 {
    let since = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// Returns the kernel's id of this boot; 0 if it is unknown, for instance if `/proc` is not mounted.
pub(crate) fn boot_id() -> u128 {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    u128::from_str_radix(&text.trim().replace('-', ""), 16).unwrap_or(0)
}

/// Returns whether boots `then` and `now` are certainly the same.
pub(crate) fn is_same_boot(then: u128, now: u128) -> bool {
    then == now && now != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const THIS: FileIdentity = FileIdentity { device: 0x801, inode: 12, file_system: 77, created: 1234 };

    #[test]
    fn what_is_not_known_is_not_compared() {
        let now = FileIdentity { device: 0x802, inode: 13, file_system: 78, created: 1235 };
        for same_boot in [false, true] {
            for torn in [false, true] {
                assert!(!FileIdentity::default().is_other(&now, same_boot, torn));
                assert!(!THIS.is_other(&FileIdentity::default(), same_boot, torn));
                assert!(!THIS.is_other(&THIS, same_boot, torn));
                assert!(THIS.is_other(&FileIdentity { inode: 13, ..THIS }, same_boot, torn));
                assert!(THIS.is_other(&FileIdentity { file_system: 78, ..THIS }, same_boot, torn));
                assert!(THIS.is_other(&FileIdentity { created: 1235, ..THIS }, same_boot, torn));
            }
        }
    }

    #[test]
    fn a_device_counts_within_one_boot() {
        let moved = FileIdentity { device: 0x802, ..THIS };
        assert!(!THIS.is_other(&moved, false, true));
        assert!(THIS.is_other(&moved, true, true));
        // A disk that was removed and put back may get another device number.
        assert!(!THIS.is_other(&moved, true, false));
        let nameless = FileIdentity { file_system: 0, ..THIS };
        assert!(nameless.is_other(&moved, true, false));
        assert!(!nameless.is_other(&moved, false, false));
    }

    #[test]
    fn an_unknown_boot_is_no_boot() {
        assert!(is_same_boot(5, 5));
        assert!(!is_same_boot(5, 6) && !is_same_boot(5, 0) && !is_same_boot(0, 5) && !is_same_boot(0, 0));
    }

    #[test]
    fn files_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            File::options().write(true).create(true).truncate(true).open(dir.path().join(name)).unwrap()
        };
        let (a, b) = (file("a"), file("b"));
        let [of_a, of_b] = [&a, &b].map(|file| FileIdentity::from_file(file).unwrap());
        assert_eq!(FileIdentity::from_file(&a).unwrap(), of_a);
        std::fs::rename(dir.path().join("a"), dir.path().join("c")).unwrap();
        assert_eq!(FileIdentity::from_file(&File::open(dir.path().join("c")).unwrap()).unwrap(), of_a);
        let kind = statfs(&a).unwrap().kind;
        assert_eq!(of_a.is_other(&of_b, true, true), HAVE_INODES.contains(&kind));
    }
}
