//! What the derive asks of the types of fields. It asks for `Persist` in one place, where the message about a type that is not belongs, and everywhere else here: what a type is not asked for
//! it cannot fail.

#![allow(unsafe_code)]

use std::marker::PhantomData;

use super::{AsDerived, Desc, DescFn};
use crate::layout::{Persist, put_value};

/// A type of a field. If it is `Persist`, these are what it says, for what a type has itself comes before what it has by a trait; else they are those of [`NotAField`].
pub struct FieldOf<T>(PhantomData<T>);

impl<T: Persist> FieldOf<T> {
    /// Whether the type of the field is `Persist`.
    pub const IS_PERSIST: bool = true;
    /// As `Persist` has it.
    pub const PADDED: bool = T::PADDED;
    /// As `Persist` has it.
    pub const POINTERS: bool = T::POINTERS;
    /// As `Persist` has it.
    pub const DESC: DescFn = T::desc;

    /// As `Persist` has it.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub unsafe fn zero_padding(this: *mut T) {
        // SAFETY: the caller's premise.
        unsafe { T::zero_padding(this) };
    }

    /// Writes a value, with zeros where it has padding, to a place that need not be aligned.
    ///
    /// # Safety
    /// The place is valid for writes of a `T`.
    pub unsafe fn put(place: *mut u8, value: T) {
        // SAFETY: the caller's premise.
        unsafe { put_value(place, value) };
    }

    /// Compiles if a function of this type does: of a type at any brand, and of a field of it.
    #[inline(always)]
    pub fn at_any_brand<S: Persist>(_: for<'o> fn(&mut S::At<'o>, AsDerived<T::At<'o>>)) {}
}

/// For a type that is not `Persist`, which is an error elsewhere.
pub trait NotAField {
    /// Whether the type of the field is `Persist`.
    const IS_PERSIST: bool = false;
    /// Of no consequence.
    const PADDED: bool = false;
    /// Of no consequence.
    const POINTERS: bool = false;
    /// Of no consequence.
    const DESC: DescFn = nothing;

    /// Does nothing.
    ///
    /// # Safety
    /// Always.
    unsafe fn zero_padding<T>(_: *mut T) {}

    /// Does nothing.
    ///
    /// # Safety
    /// Always.
    unsafe fn put<T>(_: *mut u8, _: T) {}

    /// Compiles whatever the field is.
    fn at_any_brand<S: Persist>(_: for<'o> fn(&mut S::At<'o>, Unknown)) {}
}

impl<T> NotAField for FieldOf<T> {}

fn nothing() -> &'static Desc {
    unreachable!("the program does not compile")
}

/// In place of the type that a field is to have.
pub struct Unknown;

impl Unknown {
    /// Any type will do.
    pub fn is<T>(self, _: AsDerived<T>) {}
}
