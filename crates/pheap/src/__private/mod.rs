//! What the macros expand to.
//!
//! All code that is `unsafe` is in `macro_rules!` of this crate, which name everything by `$crate`, and never in what the procedural macros write: these
//! name pheap by a path of the user's choice, at which anything may be. So each of these `macro_rules!` is to be safe whatever it is given; what the
//! procedural macros have looked at is checked here once more, by the compiler, on the type as it is in the end.

mod persist;
mod places;
mod shape;

use std::ops::Deref;

/// By this path, since `::core` may be something else in a user's crate (`extern crate self as core`).
#[doc(hidden)]
pub use ::core;

#[cfg(feature = "serde")]
pub use crate::exchange::derived as serde;
pub use crate::layout::desc::{Desc, DescFn, Field, Kind, Name, Prim, Variant};

/// What `#[persist(serde)]` adds to a type.
#[cfg(feature = "serde")]
#[doc(hidden)]
#[macro_export]
macro_rules! __with_serde {
    ($($impls:tt)*) => { $($impls)* };
}

/// Says why it cannot be added.
#[cfg(not(feature = "serde"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __with_serde {
    ($($impls:tt)*) => {
        ::core::compile_error!("`#[persist(serde)]` needs the feature `serde` of pheap: pheap = { version = \"..\", features = [\"serde\"] }");
    };
}

pub use crate::__persist_enum as persist_enum;
pub use crate::__persist_key as persist_key;
pub use crate::__persist_nothing as persist_nothing;
pub use crate::__persist_struct as persist_struct;
pub use crate::__place as place;
pub use crate::__place_ahead as place_ahead;
pub use crate::__place_group as place_group;
pub use crate::__with_serde as with_serde;
pub use shape::{
    AsDerived, Slot, Tag, assert_c, assert_counted, assert_tag, assert_transparent, c_slots, found, gaps,
    unlike,
};

/// Zeroes the bytes `base + from .. base + to`.
///
/// # Safety
/// They are valid for writes.
#[inline(always)]
pub unsafe fn zero(base: *mut u8, from: usize, to: usize) {
    if from < to {
        // SAFETY: by the caller's promise.
        unsafe { base.add(from).write_bytes(0, to - from) };
    }
}

/// Implemented by everything that implements `Deref`, so that the impl that the derive emits collides with it: a path of fields
/// through a `DerefMut` of the user's would run code that could store without a log entry.
pub trait NotDeref {}
impl<T: Deref + ?Sized> NotDeref for T {}

/// Arrays and slices behind raw pointers.
///
/// # Safety
/// `element` returns the address of the element at the index, which is less than `bound`.
pub unsafe trait Elements {
    /// The type of an element.
    type Elem;

    /// Number of elements.
    fn bound(this: *const Self) -> usize;

    /// # Safety
    /// `this` points to live elements, and `index` is less than their number.
    unsafe fn element(this: *mut Self, index: usize) -> *mut Self::Elem;
}

// SAFETY: elements of an array follow one another.
unsafe impl<T, const N: usize> Elements for [T; N] {
    type Elem = T;

    #[inline(always)]
    fn bound(_: *const Self) -> usize {
        N
    }

    #[inline(always)]
    unsafe fn element(this: *mut Self, index: usize) -> *mut T {
        // SAFETY: by the caller's promise.
        unsafe { this.cast::<T>().add(index) }
    }
}

// SAFETY: as above.
unsafe impl<T> Elements for [T] {
    type Elem = T;

    #[inline(always)]
    fn bound(this: *const Self) -> usize {
        this.len()
    }

    #[inline(always)]
    unsafe fn element(this: *mut Self, index: usize) -> *mut T {
        // SAFETY: by the caller's promise.
        unsafe { this.cast::<T>().add(index) }
    }
}

/// The address of an element.
///
/// # Safety
/// `array` points to live elements.
///
/// # Panics
/// If there are no more than `index` of them.
#[inline(always)]
#[track_caller]
pub unsafe fn element<A: Elements + ?Sized>(array: *mut A, index: usize) -> *mut A::Elem {
    let len = A::bound(array);
    assert!(index < len, "index out of bounds: the len is {len} but the index is {index}");
    // SAFETY: the index is in bounds.
    unsafe { A::element(array, index) }
}

/// The address of an element, if there is one.
///
/// # Safety
/// `array` points to live elements.
#[inline(always)]
pub unsafe fn element_checked<A: Elements + ?Sized>(array: *mut A, index: usize) -> Option<*mut A::Elem> {
    // SAFETY: the index is in bounds.
    (index < A::bound(array)).then(|| unsafe { A::element(array, index) })
}
