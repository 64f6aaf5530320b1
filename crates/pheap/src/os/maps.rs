//! Maps parts of files (with `memmap2`) and large tables at addresses that the kernel chooses. A heap has
//! reserved addresses instead: see [`mapping`](super::mapping).

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use memmap2::{Advice, MmapOptions, MmapRaw, UncheckedAdvice};

use super::file_system::overwrites;
use super::reservation::Reservation;
use crate::error::{Error, Result};
use crate::units::PAGE;

/// A part of a file that is mapped shared: bytes that are copied to it are in the page cache at once, even if
/// this process ends, without a system call.
///
/// On a file system that overwrites pages in place, a store to a page that the file has cannot fail. On other
/// file systems, the store needs space for another page, and if there is none, a signal kills the process.
/// Files there are not mapped, but written by system calls, which return an error.
//
// The map is only ever accessed as an array of atomic words.
#[derive(Debug)]
pub(crate) struct FileWindow {
    map: MmapRaw,
    /// Offset of the map in the file.
    start: u64,
    /// Offset up to which the file has pages.
    end: AtomicU64,
}

impl FileWindow {
    /// Maps the bytes of the file from `start` to `to`; the file has those up to `end`. Returns `None` if the
    /// file system does not overwrite in place, or refuses the map, or if there are no bytes to map.
    pub(crate) fn new(file: &File, start: u64, end: u64, to: u64) -> Option<FileWindow> {
        if !overwrites(file) {
            return None;
        }
        let len = to.checked_sub(start).filter(|&len| len > 0)? as usize;
        let map = MmapOptions::new().offset(start).len(len).map_raw(file).ok()?;
        let _ = map.advise(Advice::DontFork); // keeps the map from forked children, if the kernel can
        Some(FileWindow { map, start, end: AtomicU64::new(end) })
    }

    /// Notes that the file has pages up to `end` now, and keeps them.
    pub(crate) fn grow(&self, end: u64) {
        self.end.fetch_max(end, Ordering::Release);
    }

    /// Writes the bytes, if they are whole words at an aligned offset, and lie in the window and in the
    /// file's pages; returns whether it did. No process may make the file shorter: then a signal would kill
    /// this process.
    #[inline]
    pub(crate) fn write(&self, bytes: &[u8], at: u64) -> bool {
        let Some(start) = at.checked_sub(self.start) else { return false };
        let end = start as usize + bytes.len();
        if end > self.map.len() || at + bytes.len() as u64 > self.end.load(Ordering::Acquire) {
            return false;
        }
        let (words, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() || !start.is_multiple_of(8) {
            return false;
        }
        let place = self.map.as_mut_ptr().wrapping_add(start as usize).cast::<AtomicU64>();
        // SAFETY: `at` and `bytes.len()` were checked to be within the map. The place is aligned, because the
        // map begins with a page and `start` is a multiple of 8. The map is accessed by atomics only.
        let place = unsafe { slice::from_raw_parts(place, words.len()) };
        place
            .iter()
            .zip(words)
            .for_each(|(place, &word)| place.store(u64::from_ne_bytes(word), Ordering::Relaxed));
        true
    }

    /// Takes the pages out of the map; the next write brings them back. A sync write-protects each page that
    /// was written, and interrupts all processors with threads of this process for each. If the pages are not
    /// in the map, that is unnecessary: this call interrupts them once.
    pub(crate) fn let_go(&self) {
        // SAFETY: the map is shared, so written bytes stay in the file's pages. The map is accessed by
        // atomics only, and they find the same bytes there.
        let _ = unsafe { self.map.unchecked_advise(UncheckedAdvice::DontNeed) };
    }
}

/// A page of a file, mapped like the pages of a heap with a log: stores stay in this map.
pub(crate) struct PrivatePage(MmapRaw);

impl PrivatePage {
    /// Maps the page at offset `at`, which the file has.
    ///
    /// # Errors
    /// The error of the operating system.
    pub(crate) fn map(file: &File, at: u64) -> io::Result<PrivatePage> {
        let mut options = MmapOptions::new();
        options.offset(at).len(PAGE as usize).no_reserve_swap();
        // SAFETY: no reference to the mapped bytes is ever made, so other processes may change them.
        let map = unsafe { options.map_copy_read_only(file)? };
        // The page is unlocked before it becomes writable: if the process has all memory locked, the kernel
        // would copy a writable page at once.
        let _ = map.unlock();
        Ok(PrivatePage(map.make_mut()?.into()))
    }

    pub(crate) fn read_first_word(&self) -> u64 {
        // SAFETY: the map has a page, so its first word is mapped and aligned.
        unsafe { self.0.as_ptr().cast::<u64>().read_volatile() }
    }

    pub(crate) fn store(&mut self, word: u64) {
        // SAFETY: the map has a page, so its first word is mapped and aligned. The map is writable, and
        // private to `self`.
        unsafe { self.0.as_mut_ptr().cast::<u64>().write_volatile(word) }
    }

    /// Drops the private copy of the page, unless the kernel refuses.
    pub(crate) fn drop_copy(&mut self) {
        // SAFETY: no reference to the page exists. If the call succeeds, it shows the file again.
        let _ = unsafe { self.0.unchecked_advise(UncheckedAdvice::DontNeed) };
    }
}

// --- Tables of atomic entries, all zeros at first.

/// Largest table, in bytes, that comes from the allocator: a separate mapping would take longer.
const SMALL: usize = 64 << 10;

/// Types for which zero bytes are a valid value, and that can be shared.
///
/// # Safety
/// Zero bytes are a valid value of the type, and its alignment is 8 bytes at most.
pub(crate) unsafe trait Entry: Send + Sync {}
// SAFETY: zero is a valid value of this atomic type, and its alignment is 1.
unsafe impl Entry for AtomicU8 {}
// SAFETY: zero is a valid value of this atomic type, and its alignment is 4.
unsafe impl Entry for AtomicU32 {}
// SAFETY: zero is a valid value of this atomic type, and its alignment is 8.
unsafe impl Entry for AtomicU64 {}

/// An array, all zeros at first. If it is long, it is in a separate mapping, of which only the written parts
/// take memory. Then at first only its first entries are [accessible](Self::open), later more. So a process
/// that locks all accessible memory (`mlockall`) locks no more than these.
pub(crate) struct ZeroedArray<T: Entry> {
    start: NonNull<T>,
    len: usize,
    open: AtomicUsize,
    memory: Memory,
    entries: PhantomData<T>,
}

enum Memory {
    Allocated(#[expect(dead_code, reason = "there until it is dropped")] Vec<u64>),
    /// A separate mapping: the allocator would count all of it as used.
    Mapped(Reservation),
}

// SAFETY: the table owns an array of `T`, which is `Send`, and its memory.
unsafe impl<T: Entry> Send for ZeroedArray<T> {}
// SAFETY: a shared table gives access to `&[T]` only, and `T` is `Sync`.
unsafe impl<T: Entry> Sync for ZeroedArray<T> {}

impl<T: Entry> ZeroedArray<T> {
    /// Makes a table of `len` entries. The first `open` are accessible, or all of them if the table is small.
    pub(crate) fn new(len: usize, open: usize) -> Result<ZeroedArray<T>> {
        let bytes = len * size_of::<T>();
        if bytes <= SMALL {
            let mut words = vec![0u64; bytes.div_ceil(8)];
            let start = NonNull::new(words.as_mut_ptr().cast()).expect("not at 0");
            let memory = Memory::Allocated(words);
            return Ok(ZeroedArray { start, len, open: len.into(), memory, entries: PhantomData });
        }
        let memory = Reservation::anywhere(bytes as u64)
            .map_err(|e| Error::io(format!("reserving a table of {bytes} bytes"), e))?;
        let (start, memory) = (memory.start().cast(), Memory::Mapped(memory));
        let table = ZeroedArray { start, len, open: 0.into(), memory, entries: PhantomData };
        table.open(open)?;
        Ok(table)
    }

    /// Makes the first `to` entries accessible, if they are not.
    pub(crate) fn open(&self, to: usize) -> Result<()> {
        assert!(to <= self.len, "a table has no more entries");
        if let Memory::Mapped(memory) = &self.memory {
            let bytes = (to * size_of::<T>()) as u64;
            memory
                .open(bytes)
                .map_err(|e| Error::io(format!("making {bytes} bytes of a table accessible"), e))?;
            self.open.fetch_max(to, Ordering::Release);
        }
        Ok(())
    }

    /// Returns the accessible entries.
    #[inline(always)]
    pub(crate) fn entries(&self) -> &[T] {
        // SAFETY: `open` entries are accessible in the memory that `self` owns, aligned, and accessed only
        // through this. Zero is a valid value, by the premise of `Entry`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.open.load(Ordering::Acquire)) }
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
        if !overwrites(&file) {
            assert!(FileWindow::new(&file, HEAD, HEAD + 8192, HEAD + (1 << 20)).is_none());
            return;
        }
        let window = FileWindow::new(&file, HEAD, HEAD + 8192, HEAD + (1 << 20)).unwrap();
        let write = |bytes: &[u8], at| window.write(bytes, at);
        assert!(write(b"at first", HEAD));
        assert!(write(b"the last", HEAD + 8184));
        assert!(!write(b"the head", HEAD - 8));
        assert!(!write(b"in front of, and behind.", HEAD + 8176));
        assert!(!write(b"a word at", HEAD) && !write(b"anywhere", HEAD + 4), "no whole words");
        file.set_len(HEAD + (2 << 20)).unwrap();
        window.grow(HEAD + (2 << 20));
        assert!(write(b"and more", HEAD + 8192));
        assert!(write(b"the end.", HEAD + (1 << 20) - 8));
        assert!(!write(b"the end, and beyond.....", HEAD + (1 << 20) - 16));
        let mut found = [0; 16];
        file.read_exact_at(&mut found, HEAD + 8184).unwrap();
        assert_eq!(&found, b"the lastand more");
        assert!(FileWindow::new(&file, HEAD, HEAD, HEAD).is_none());
    }
}
