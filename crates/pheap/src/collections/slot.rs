//! A place for a value in the buffer of a collection.

use std::mem::MaybeUninit;

use crate::layout::Persist;
use crate::layout::desc::{Desc, Kind, Name};

/// A place for a `T`: zero in all bytes while there is none, so that whoever follows pointers finds no stale one.
///
/// (A value without pointers may be left behind where it is cheaper: any old value is as good as zero then.)
#[repr(transparent)]
pub(crate) struct Slot<T>(MaybeUninit<T>);

// SAFETY: described as what it is: zero, or a `T`. Its padding is zeroed when a value is written, so there is none.
unsafe impl<T: Persist> Persist for Slot<T> {
    type At<'r> = Slot<T::At<'r>>;
    const PADDED: bool = false;
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

    #[inline(always)]
    unsafe fn zero_padding(_: *mut Self) {}
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
            *self = Slot::vacant();
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
