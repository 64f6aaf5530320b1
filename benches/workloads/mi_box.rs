//! A box in memory of mimalloc, beside `Box`, whose memory is of the system's allocator: one program compares both.

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
