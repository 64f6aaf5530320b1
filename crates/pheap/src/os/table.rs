//! A long array of atomics in memory of its own, of which only the parts that are written take space.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32};

use crate::error::{Error, Result};

/// A table of up to this many bytes comes from the allocator: a mapping of its own would take longer than to open a small heap does.
const SMALL: usize = 64 << 10;

/// Types of which zero bytes are a value, and that can be shared.
///
/// # Safety
/// That is so.
pub(crate) unsafe trait Entry: Send + Sync {}
// SAFETY: zero is a valid atomic.
unsafe impl Entry for AtomicU8 {}
// SAFETY: as above.
unsafe impl Entry for AtomicU32 {}

/// An array that is zero at first.
pub(crate) struct Table<T: Entry> {
    start: NonNull<T>,
    len: usize,
    entries: PhantomData<T>,
}

// SAFETY: an array of what can be sent.
unsafe impl<T: Entry> Send for Table<T> {}
// SAFETY: an array of what can be shared.
unsafe impl<T: Entry> Sync for Table<T> {}

impl<T: Entry> Table<T> {
    pub(crate) fn new(len: usize) -> Result<Table<T>> {
        if let Some(layout) = Self::small(len) {
            // SAFETY: the layout has a size.
            let start = NonNull::new(unsafe { alloc_zeroed(layout) }.cast());
            let start = start.unwrap_or_else(|| handle_alloc_error(layout));
            return Ok(Table { start, len, entries: PhantomData });
        }
        // SAFETY: a new mapping at an address of the kernel's choice. Not from the allocator, which would count all of it.
        let got = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len * size_of::<T>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if got == libc::MAP_FAILED {
            let error = std::io::Error::last_os_error();
            return Err(Error::io(format!("mapping a table for {len} pages"), error));
        }
        Ok(Table { start: NonNull::new(got.cast()).expect("not at 0"), len, entries: PhantomData })
    }

    /// The layout of a table that comes from the allocator.
    fn small(len: usize) -> Option<Layout> {
        Layout::array::<T>(len).ok().filter(|layout| (1..=SMALL).contains(&layout.size()))
    }

    #[inline(always)]
    pub(crate) fn entries(&self) -> &[T] {
        // SAFETY: mapped or allocated in `new` with this length, and zero, which is a value, by `Entry`'s promise.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Entry> Drop for Table<T> {
    fn drop(&mut self) {
        if let Some(layout) = Self::small(self.len) {
            // SAFETY: allocated in `new`, with this layout.
            return unsafe { dealloc(self.start.as_ptr().cast(), layout) };
        }
        // SAFETY: mapped in `new`, and nobody has a reference into it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len * size_of::<T>()) };
    }
}
