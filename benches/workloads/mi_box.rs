//! Boxes in memory of mimalloc, beside `Box`, whose memory is of the system's allocator: one program compares both.

use mimalloc::MiMalloc;
use std::alloc::{GlobalAlloc as _, Layout, handle_alloc_error};
use std::ops::Deref;
use std::ptr::NonNull;

/// `Box<T>` as it is in a program whose global allocator is mimalloc.
pub(crate) struct MiBox<T>(NonNull<T>);

impl<T> MiBox<T> {
    /// Moves `value` to the heap.
    #[inline]
    pub(crate) fn new(value: T) -> MiBox<T> {
        const { assert!(size_of::<T>() > 0) };
        let layout = Layout::new::<T>();
        // SAFETY: the layout has a size, as was asserted.
        let memory = unsafe { MiMalloc.alloc(layout) }.cast::<T>();
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(layout) };
        // SAFETY: new memory of the layout of a `T`.
        unsafe { memory.write(value) };
        MiBox(memory)
    }
}

impl<T> Deref for MiBox<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: a value from `new` until `drop`, changed by nobody else.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for MiBox<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the value and the memory of `new`, given up this once.
        unsafe {
            self.0.drop_in_place();
            MiMalloc.dealloc(self.0.as_ptr().cast(), Layout::new::<T>());
        }
    }
}

/// `Box<[u64]>` likewise.
pub(crate) struct MiSlice(NonNull<[u64]>);

// SAFETY: it owns its memory, which any thread may give back to mimalloc.
unsafe impl Send for MiSlice {}

impl MiSlice {
    /// A slice of `words` equal words, at least one.
    #[inline]
    pub(crate) fn new(words: usize, value: u64) -> MiSlice {
        let layout = Self::layout(words);
        assert!(words > 0);
        // SAFETY: the layout has a size, as was asserted.
        let memory = unsafe { MiMalloc.alloc(layout) }.cast::<u64>();
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(layout) };
        for i in 0..words {
            // SAFETY: new memory for `words` words, and `i < words`.
            unsafe { memory.add(i).write(value) };
        }
        MiSlice(NonNull::slice_from_raw_parts(memory, words))
    }

    fn layout(words: usize) -> Layout {
        Layout::array::<u64>(words).expect("a slice that is not too long")
    }
}

impl Deref for MiSlice {
    type Target = [u64];

    #[inline]
    fn deref(&self) -> &[u64] {
        // SAFETY: words that were written by `new`, alive until `drop`, changed by nobody else.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for MiSlice {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the memory and the layout of `new`, given up this once.
        unsafe { MiMalloc.dealloc(self.0.as_ptr().cast(), Self::layout(self.0.len())) };
    }
}
