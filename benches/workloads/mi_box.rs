//! Boxes in memory of mimalloc, beside `Box`, whose memory is of the system's allocator: one program compares both.

use mimalloc::MiMalloc;
use std::alloc::{GlobalAlloc as _, Layout, handle_alloc_error};
use std::ops::Deref;
use std::ptr::NonNull;

/// `Box<T>` as it is in a program whose global allocator is mimalloc.
pub(crate) struct MiBox<T: ?Sized>(NonNull<T>);

// SAFETY: it owns its memory, which any thread may give back to mimalloc.
unsafe impl<T: ?Sized + Send> Send for MiBox<T> {}

/// New memory, without a value.
#[inline]
fn alloc<T>(layout: Layout) -> NonNull<T> {
    assert!(layout.size() > 0);
    // SAFETY: the layout has a size, as was asserted.
    let memory = unsafe { MiMalloc.alloc(layout) }.cast::<T>();
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}

impl<T> MiBox<T> {
    /// Moves `value` to the heap.
    #[inline]
    pub(crate) fn new(value: T) -> MiBox<T> {
        let memory = alloc::<T>(Layout::new::<T>());
        // SAFETY: new memory of the layout of a `T`.
        unsafe { memory.write(value) };
        MiBox(memory)
    }
}

impl MiBox<[u64]> {
    /// A slice of `words` equal words, at least one.
    #[inline]
    pub(crate) fn of_words(words: usize, value: u64) -> MiBox<[u64]> {
        let memory = alloc::<u64>(Layout::array::<u64>(words).expect("a slice that is not too long"));
        for i in 0..words {
            // SAFETY: new memory for `words` words, and `i < words`.
            unsafe { memory.add(i).write(value) };
        }
        MiBox(NonNull::slice_from_raw_parts(memory, words))
    }
}

impl<T: ?Sized> Deref for MiBox<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: a value that was written when the box was made, alive until `drop`, changed by nobody else.
        unsafe { self.0.as_ref() }
    }
}

impl<T: ?Sized> Drop for MiBox<T> {
    #[inline]
    fn drop(&mut self) {
        let layout = Layout::for_value::<T>(self);
        // SAFETY: the value and the memory that the box was made with, given up this once.
        unsafe {
            self.0.drop_in_place();
            MiMalloc.dealloc(self.0.as_ptr().cast(), layout);
        }
    }
}
