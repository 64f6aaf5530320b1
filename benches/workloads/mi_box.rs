//! Boxes in memory of mimalloc. A program can compare them with `Box`, whose memory belongs to the system's
//! allocator.

use mimalloc::MiMalloc;
use std::alloc::{GlobalAlloc as _, Layout, handle_alloc_error};
use std::ops::Deref;
use std::ptr::NonNull;

/// A `Box<T>` as in a program whose global allocator is mimalloc.
pub(crate) struct MiBox<T: ?Sized>(NonNull<T>);

// SAFETY: a `MiBox` owns its value, and any thread may free memory of mimalloc.
unsafe impl<T: ?Sized + Send> Send for MiBox<T> {}

/// Allocates memory without a value.
#[inline]
fn alloc<T>(layout: Layout) -> NonNull<T> {
    assert!(layout.size() > 0);
    // SAFETY: the size of the layout is not zero, as asserted above.
    let memory = unsafe { MiMalloc.alloc(layout) }.cast::<T>();
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}

impl<T> MiBox<T> {
    /// Moves `value` to the heap.
    #[inline]
    pub(crate) fn new(value: T) -> MiBox<T> {
        let memory = alloc::<T>(Layout::new::<T>());
        // SAFETY: the memory is new and has the layout of a `T`.
        unsafe { memory.write(value) };
        MiBox(memory)
    }
}

impl MiBox<[u64]> {
    /// Returns a slice of `words` equal words, at least one.
    #[inline]
    pub(crate) fn of_words(words: usize, value: u64) -> MiBox<[u64]> {
        let memory = alloc::<u64>(Layout::array::<u64>(words).expect("a slice that is not too long"));
        for i in 0..words {
            // SAFETY: the memory is new and has `words` words, and `i < words`.
            unsafe { memory.add(i).write(value) };
        }
        MiBox(NonNull::slice_from_raw_parts(memory, words))
    }
}

impl<T: ?Sized> Deref for MiBox<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the value was written when the box was made, and lives until `drop`. It only changes
        // through `&mut`.
        unsafe { self.0.as_ref() }
    }
}

impl<T: ?Sized> Drop for MiBox<T> {
    #[inline]
    fn drop(&mut self) {
        let layout = Layout::for_value::<T>(self);
        // SAFETY: the box owns the value and the memory, which came from mimalloc with this layout. Both are
        // released only here.
        unsafe {
            self.0.drop_in_place();
            MiMalloc.dealloc(self.0.as_ptr().cast(), layout);
        }
    }
}
