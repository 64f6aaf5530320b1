//! Access to the types of fields, for the expansion of the derive. The derive requires `Persist` of a field
//! in one place only, where the compiler's message belongs. Everywhere else it uses these items, which
//! compile for any type, so that a type without `Persist` causes a single error.

#![allow(unsafe_code)]

use std::marker::PhantomData;

use super::{AsDerived, Desc, DescFn};
use crate::layout::{Persist, put_value};

/// The type of a field. If that type is `Persist`, these inherent items forward to it, because inherent items
/// take precedence over those of a trait. Otherwise the items of [`NotAField`] apply.
pub struct FieldOf<T>(PhantomData<T>);

impl<T: Persist> FieldOf<T> {
    /// Whether the type of the field is `Persist`.
    pub const IS_PERSIST: bool = true;
    /// `Persist::PADDED` of the type.
    pub const PADDED: bool = T::PADDED;
    /// `Persist::POINTERS` of the type.
    pub const POINTERS: bool = T::POINTERS;
    /// `Persist::desc` of the type.
    pub const DESC: DescFn = T::desc;

    /// Calls `Persist::zero_padding` of the type.
    ///
    /// # Safety
    /// As for `Persist::zero_padding`.
    #[inline(always)]
    pub unsafe fn zero_padding(this: *mut T) {
        // SAFETY: the caller's premise is that of `zero_padding`.
        unsafe { T::zero_padding(this) };
    }

    /// Writes `value` to `place`, which need not be aligned, with zeros in its padding.
    ///
    /// # Safety
    /// `place` is valid for writes of a `T`.
    pub unsafe fn put(place: *mut u8, value: T) {
        // SAFETY: `place` is valid for writes of a `T`, by the caller's premise.
        unsafe { put_value(place, value) };
    }

    /// Takes a function that checks the field at every brand `'o`: its arguments are the whole type `S` and
    /// the expected type of the field, both with that brand. The program compiles only if the function does.
    #[inline(always)]
    pub fn at_any_brand<S: Persist>(_: for<'o> fn(&mut S::At<'o>, AsDerived<T::At<'o>>)) {}
}

/// The items for a field whose type is not `Persist`. The program does not compile then, but they prevent
/// further errors.
pub trait NotAField {
    /// Whether the type of the field is `Persist`.
    const IS_PERSIST: bool = false;
    /// Unused, because the program does not compile.
    const PADDED: bool = false;
    /// Unused, because the program does not compile.
    const POINTERS: bool = false;
    /// Unused, because the program does not compile.
    const DESC: DescFn = nothing;

    /// Does nothing.
    ///
    /// # Safety
    /// There is no premise.
    unsafe fn zero_padding<T>(_: *mut T) {}

    /// Does nothing.
    ///
    /// # Safety
    /// There is no premise.
    unsafe fn put<T>(_: *mut u8, _: T) {}

    /// Accepts any check of a field, so that the check causes no further error.
    fn at_any_brand<S: Persist>(_: for<'o> fn(&mut S::At<'o>, Unknown)) {}
}

impl<T> NotAField for FieldOf<T> {}

fn nothing() -> &'static Desc {
    unreachable!("the program does not compile")
}

/// Stands for the type that a field is expected to have.
pub struct Unknown;

impl Unknown {
    /// Accepts any type, so that the check causes no further error.
    pub fn is<T>(self, _: AsDerived<T>) {}
}
