//! A place for a value in the buffer of a collection.

use std::mem::MaybeUninit;

use crate::layout::Persist;
use crate::layout::desc::{Desc, Kind, Name};
use crate::os::cpu::settle;

/// A place for a `T`: zero in all bytes while there is none, so that whoever follows pointers finds no stale one.
///
/// (A value without pointers may be left behind where it is cheaper: any old value is as good as zero then.)
#[repr(transparent)]
pub(crate) struct Slot<T>(MaybeUninit<T>);

// SAFETY: described as what it is: zero, or a `T`.
unsafe impl<T: Persist> Persist for Slot<T> {
    type At<'r> = Slot<T::At<'r>>;
    const PADDED: bool = T::PADDED;
    const POINTERS: bool = T::POINTERS;

    fn desc() -> &'static Desc {
        const {
            &Desc {
                name: Name::own("pheap::Slot"),
                args: &[],
                size: size_of::<T>(),
                align: align_of::<T>(),
                kind: Kind::Slot { of: T::desc },
            }
        }
    }

    /// That of the value, if there is one.
    unsafe fn zero_padding(this: *mut Self) {
        let bytes = this.cast::<u8>();
        settle(bytes);
        // SAFETY: so many bytes, definite now. If they are not all zero, they are a value.
        unsafe {
            if (0..size_of::<Self>()).any(|i| bytes.add(i).read() != 0) {
                T::zero_padding(this.cast());
            }
        }
    }
}

impl<T: Persist> Slot<T> {
    /// Without a value.
    #[inline(always)]
    pub(crate) const fn vacant() -> Slot<T> {
        Slot(MaybeUninit::zeroed())
    }

    /// Puts a value in. In place, for a move may change padding.
    #[inline(always)]
    pub(crate) fn put(&mut self, value: T) {
        self.0.write(value);
        if T::PADDED {
            // SAFETY: the value was written just now.
            unsafe { T::zero_padding(self.0.as_mut_ptr()) };
        }
    }

    /// Gives the value up.
    #[inline(always)]
    pub(crate) fn vacate(&mut self) {
        if T::POINTERS {
            // Not assigned: that may leave padding as it is.
            // SAFETY: zero in all bytes is a slot without a value.
            unsafe { std::ptr::write_bytes(self, 0, 1) };
        }
    }

    /// The value.
    ///
    /// # Safety
    /// There is one.
    #[inline(always)]
    pub(crate) unsafe fn value(&self) -> &T {
        // SAFETY: by the caller's promise.
        unsafe { self.0.assume_init_ref() }
    }

    /// The value, to write.
    ///
    /// # Safety
    /// There is one.
    #[inline(always)]
    pub(crate) unsafe fn value_mut(&mut self) -> &mut T {
        // SAFETY: by the caller's promise.
        unsafe { self.0.assume_init_mut() }
    }

    /// The value, moved out: the slot is overwritten next, or never read again.
    ///
    /// # Safety
    /// There is one.
    #[inline(always)]
    pub(crate) unsafe fn take(&self) -> T {
        // SAFETY: by the caller's promise.
        unsafe { self.0.assume_init_read() }
    }
}
