//! Parts of a file that are mapped wherever the kernel likes, which `memmap2` does. A heap has addresses of its own: see [`mapping`](super::mapping).

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{Advice, MmapOptions, MmapRaw, UncheckedAdvice};

use super::file_system::{TMPFS_MAGIC, file_system};
use super::fork;
use crate::units::PAGE;

/// File systems that overwrite what a file has: ext2 to ext4, tmpfs, ramfs. Not XFS, on which a copy of the file may share its blocks.
const OVERWRITING: [i64; 3] = [0xef53, TMPFS_MAGIC, 0x8584_58f6];

/// A part of a file that is mapped and shared: what is copied there the kernel has at once, also if this process ends, and no system call is needed for that.
///
/// A store to a page that the file has cannot fail where the file system overwrites it in its place. Others need space for another one, and if there is
/// none, the process would be killed by a signal; they are not mapped, and written by system calls, which return an error.
#[derive(Debug)]
pub(crate) struct Window {
    map: ManuallyDrop<MmapRaw>,
    /// Where in the file it begins.
    start: u64,
    /// Position in the file up to which it has pages.
    end: AtomicU64,
    /// The process that mapped it, as counted by [`fork::forks`].
    forks: u64,
}

impl Window {
    /// Maps the bytes of the file from `start` up to `to`, of which there are those up to `end`. `None` if the file system cannot, or should not.
    pub(crate) fn new(file: &File, start: u64, end: u64, to: u64) -> Option<Window> {
        if !file_system(file).is_some_and(|kind| OVERWRITING.contains(&kind)) {
            return None;
        }
        let len = to.checked_sub(start).filter(|&len| len > 0)? as usize;
        let map = ManuallyDrop::new(MmapOptions::new().offset(start).len(len).map_raw(file).ok()?);
        let _ = map.advise(Advice::DontFork); // as for heaps, best effort
        Some(Window { map, start, end: AtomicU64::new(end), forks: fork::forks() })
    }

    /// The file has pages up to `end` now, and keeps them.
    pub(crate) fn grow(&self, end: u64) {
        self.end.fetch_max(end, Ordering::Release);
    }

    /// Writes the bytes, if they lie in the window.
    ///
    /// # Safety
    /// Nobody else writes there meanwhile, and nobody makes the file shorter.
    #[inline]
    pub(crate) unsafe fn write(&self, bytes: &[u8], at: u64) -> bool {
        let Some(start) = at.checked_sub(self.start) else { return false };
        let end = start as usize + bytes.len();
        if end > self.map.len() || at + bytes.len() as u64 > self.end.load(Ordering::Acquire) {
            return false;
        }
        // SAFETY: mapped, and in front of the file's end, so there are pages; the caller keeps others from writing there, and the file as long as it is.
        unsafe {
            self.map.as_mut_ptr().add(start as usize).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
        };
        true
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // In a forked child these addresses belong to someone else by now, or to nobody.
        if self.forks == fork::forks() {
            // SAFETY: this is the last use.
            unsafe { ManuallyDrop::drop(&mut self.map) };
        }
    }
}

/// A page of a file, mapped as those of a heap with a log are: what is stored to it stays in this map.
pub(crate) struct PrivatePage(MmapRaw);

impl PrivatePage {
    /// Maps the page at `at`, which the file has.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn map(file: &File, at: u64) -> io::Result<PrivatePage> {
        // SAFETY: there is never a reference to what is mapped, which others may change.
        let map =
            unsafe { MmapOptions::new().offset(at).len(PAGE as usize).no_reserve_swap().map_copy(file)? };
        Ok(PrivatePage(map.into()))
    }

    pub(crate) fn word(&self) -> u64 {
        // SAFETY: the first word of a page that is mapped.
        unsafe { self.0.as_ptr().cast::<u64>().read_volatile() }
    }

    pub(crate) fn store(&mut self, word: u64) {
        // SAFETY: the first word of a page that is mapped to be written, by this map alone.
        unsafe { self.0.as_mut_ptr().cast::<u64>().write_volatile(word) }
    }

    /// Forgets what was stored.
    pub(crate) fn drop_copy(&mut self) {
        // SAFETY: nobody has a reference to the page, which shows the file again.
        let _ = unsafe { self.0.unchecked_advise(UncheckedAdvice::DontNeed) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    const HEAD: u64 = PAGE;

    #[test]
    fn only_what_the_file_has_pages_for_is_written_through_a_window() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(HEAD + 8192).unwrap();
        if !file_system(&file).is_some_and(|kind| OVERWRITING.contains(&kind)) {
            assert!(Window::new(&file, HEAD, HEAD + 8192, HEAD + (1 << 20)).is_none());
            return;
        }
        let window = Window::new(&file, HEAD, HEAD + 8192, HEAD + (1 << 20)).unwrap();
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
        assert!(Window::new(&file, HEAD, HEAD, HEAD).is_none());
    }
}
