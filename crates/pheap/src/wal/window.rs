//! A log that is mapped: a record is there as soon as it is copied, also if this process ends, and no system call is needed for that.
//!
//! A store to a page that the file has cannot fail where the file system overwrites it in its place. Others need space for another one, and if there is
//! none, the process would be killed by a signal; their logs are written by system calls, which return an error.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::format::HEAD;
use crate::os::file_system::{TMPFS_MAGIC, file_system};
use crate::os::fork;
use crate::os::reservation::keep_from_children;

/// File systems that overwrite what a file has: ext2 to ext4, tmpfs, ramfs. Not XFS, on which a copy of the log may share its blocks.
const OVERWRITING: [i64; 3] = [0xef53, TMPFS_MAGIC, 0x8584_58f6];

/// The segments of a log, mapped and shared. Its head is not: that has sectors which are to be written whole.
#[derive(Debug)]
pub(super) struct Window {
    start: NonNull<u8>,
    len: usize,
    /// Position in the file up to which it has pages.
    end: AtomicU64,
    /// The process that mapped it, as counted by [`fork::forks`].
    forks: u64,
}

// SAFETY: nothing but addresses; what is written through them is not read through them.
unsafe impl Send for Window {}
// SAFETY: as above, and `write` asks its callers to keep apart.
unsafe impl Sync for Window {}

impl Window {
    /// Maps the bytes of the file from its head up to `to`, of which there are those up to `end`. `None` if the file system cannot, or should not.
    pub(super) fn new(file: &File, end: u64, to: u64) -> Option<Window> {
        if !file_system(file).is_some_and(|kind| OVERWRITING.contains(&kind)) {
            return None;
        }
        let len = to.checked_sub(HEAD).filter(|&len| len > 0)? as usize;
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_NORESERVE);
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), len, protection, flags, file.as_raw_fd(), HEAD as libc::off_t)
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: mapped just now.
        unsafe { keep_from_children(start, len as u64) };
        let start = NonNull::new(start.cast()).expect("not at 0");
        Some(Window { start, len, end: AtomicU64::new(end), forks: fork::forks() })
    }

    /// The file has pages up to `end` now, and keeps them.
    pub(super) fn grow(&self, end: u64) {
        self.end.fetch_max(end, Ordering::Release);
    }

    /// Writes the bytes, if they lie in the window.
    ///
    /// # Safety
    /// Nobody else writes there meanwhile, and nobody makes the file shorter.
    pub(super) unsafe fn write(&self, bytes: &[u8], at: u64) -> bool {
        let Some(start) = at.checked_sub(HEAD) else { return false };
        let end = start as usize + bytes.len();
        if end > self.len || at + bytes.len() as u64 > self.end.load(Ordering::Acquire) {
            return false;
        }
        // SAFETY: mapped, and in front of the file's end, so there are pages.
        unsafe {
            self.start.add(start as usize).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len())
        };
        true
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // In a forked child these addresses belong to someone else by now, or to nobody.
        if self.forks == fork::forks() {
            // SAFETY: mapped by `new`, and this is the last use.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn only_what_the_file_has_pages_for_is_written_through_a_window() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(HEAD + 8192).unwrap();
        if !file_system(&file).is_some_and(|kind| OVERWRITING.contains(&kind)) {
            assert!(Window::new(&file, HEAD + 8192, HEAD + (1 << 20)).is_none());
            return;
        }
        let window = Window::new(&file, HEAD + 8192, HEAD + (1 << 20)).unwrap();
        // SAFETY: this thread is the only one, and the file does not become shorter.
        let write = |bytes: &[u8], at| unsafe { window.write(bytes, at) };
        assert!(write(b"first", HEAD));
        assert!(write(b"last", HEAD + 8188));
        assert!(!write(b"head", HEAD - 4));
        assert!(!write(b"behind", HEAD + 8190));
        file.set_len(HEAD + (2 << 20)).unwrap();
        window.grow(HEAD + (2 << 20));
        assert!(write(b"behind", HEAD + 8190));
        assert!(write(b"end", HEAD + (1 << 20) - 3));
        assert!(!write(b"beyond", HEAD + (1 << 20) - 3));
        let mut found = [0; 8];
        file.read_exact_at(&mut found, HEAD + 8188).unwrap();
        assert_eq!(&found, b"labehind");
        assert!(Window::new(&file, HEAD, HEAD).is_none());
    }
}
