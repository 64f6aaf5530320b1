//! What is mapped wherever the kernel likes, which `memmap2` does: parts of files, and large tables. A heap has addresses of its own: see [`mapping`](super::mapping).

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use memmap2::{Advice, MmapOptions, MmapRaw, UncheckedAdvice};

use super::file_system::overwrites;
use super::fork;
use super::reservation::Reservation;
use crate::error::{Error, Result};
use crate::units::PAGE;

/// A part of a file that is mapped and shared: what is copied there the kernel has at once, also if this process ends, and no system call is needed for that.
///
/// A store to a page that the file has cannot fail where the file system overwrites it in its place. Others need space for another one, and if there is
/// none, the process would be killed by a signal; they are not mapped, and written by system calls, which return an error.
//
// The map is only ever accessed as an array of atomic words.
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
        if !overwrites(file) {
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

    /// Writes the bytes, if they lie in the window, and are whole words. Nobody makes the file shorter, or the process is killed by a signal.
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
        // SAFETY: within the map, as was just checked, and aligned, for the map begins with a page; it is accessed by atomics only.
        let place = unsafe { slice::from_raw_parts(place, words.len()) };
        place
            .iter()
            .zip(words)
            .for_each(|(place, &word)| place.store(u64::from_ne_bytes(word), Ordering::Relaxed));
        true
    }

    /// Takes the pages out of the map; whoever writes there next brings them back. A sync takes away the right to write to each page that was written to, and interrupts the processors of all
    /// threads for each; where there are none in the map, it need not, and this does so once.
    pub(crate) fn let_go(&self) {
        if self.forks != fork::forks() {
            return; // these addresses may be somebody else's
        }
        // SAFETY: the map is shared, so that what was written stays in the file's pages, and it is only ever accessed by atomics, which find it there.
        let _ = unsafe { self.map.unchecked_advise(UncheckedAdvice::DontNeed) };
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // In a forked child these addresses belong to someone else by now, or to nobody.
        if self.forks == fork::forks() {
            // SAFETY: the map is dropped only here, and this is dropped once.
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
        let mut options = MmapOptions::new();
        options.offset(at).len(PAGE as usize).no_reserve_swap();
        // SAFETY: there is never a reference to what is mapped, which others may change.
        let map = unsafe { options.map_copy_read_only(file)? };
        // As for a heap: what may be written is copied at once where all memory is kept.
        let _ = map.unlock();
        Ok(PrivatePage(map.make_mut()?.into()))
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

// --- tables ------------------------------------------------------------------------------------------------------------------

/// A table of up to this many bytes comes from the allocator: a mapping of its own would take longer than to open a small heap does.
const SMALL: usize = 64 << 10;

/// Types of which zero bytes are a value, and that can be shared.
///
/// # Safety
/// That is so, and they are aligned to 8 bytes at most.
pub(crate) unsafe trait Entry: Send + Sync {}
// SAFETY: zero is a valid atomic, which is made for sharing, and is aligned to one byte.
unsafe impl Entry for AtomicU8 {}
// SAFETY: zero is a valid atomic, which is made for sharing, and is aligned to four bytes.
unsafe impl Entry for AtomicU32 {}
// SAFETY: zero is a valid atomic, which is made for sharing, and is aligned to eight bytes.
unsafe impl Entry for AtomicU64 {}

/// A long array that is zero at first, in memory of its own, of which only the parts that are written take
/// space. Its first entries can be [used](Self::open), more later: a program that keeps all memory that it
/// can use (`mlockall`) keeps no more.
pub(crate) struct Table<T: Entry> {
    start: NonNull<T>,
    len: usize,
    open: AtomicUsize,
    memory: Memory,
    entries: PhantomData<T>,
}

enum Memory {
    Allocated(#[expect(dead_code, reason = "there until it is dropped")] Vec<u64>),
    /// Not from the allocator, which would count all of it.
    Mapped(Reservation),
}

// SAFETY: an array of what can be sent, and the memory that it is in.
unsafe impl<T: Entry> Send for Table<T> {}
// SAFETY: an array of what can be shared; nothing else of it is accessed.
unsafe impl<T: Entry> Sync for Table<T> {}

impl<T: Entry> Table<T> {
    /// A table of `len` entries, of which the first `open` can be used.
    pub(crate) fn new(len: usize, open: usize) -> Result<Table<T>> {
        let bytes = len * size_of::<T>();
        if bytes <= SMALL {
            let mut words = vec![0u64; bytes.div_ceil(8)];
            let start = NonNull::new(words.as_mut_ptr().cast()).expect("not at 0");
            let memory = Memory::Allocated(words);
            return Ok(Table { start, len, open: len.into(), memory, entries: PhantomData });
        }
        let memory = Reservation::anywhere(bytes as u64)
            .map_err(|e| Error::io(format!("reserving a table of {bytes} bytes"), e))?;
        let (start, memory) = (memory.start().cast(), Memory::Mapped(memory));
        let table = Table { start, len, open: 0.into(), memory, entries: PhantomData };
        table.open(open)?;
        Ok(table)
    }

    /// Makes the first `to` entries usable, if they are not.
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

    /// Those that can be used.
    #[inline(always)]
    pub(crate) fn entries(&self) -> &[T] {
        // SAFETY: so many are accessible in the memory that this owns, aligned, and nothing else accesses it;
        // zero is a value, the premise of `Entry`.
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
            assert!(Window::new(&file, HEAD, HEAD + 8192, HEAD + (1 << 20)).is_none());
            return;
        }
        let window = Window::new(&file, HEAD, HEAD + 8192, HEAD + (1 << 20)).unwrap();
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
        assert!(Window::new(&file, HEAD, HEAD, HEAD).is_none());
    }
}
