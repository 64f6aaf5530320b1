//! `Persist` for types of other crates whose layout is guaranteed: by their documentation, or because they
//! have one field, which is public.
//!
//! A type without such a guarantee (`Option<u32>`, a tuple, `SystemTime`) is not `Persist`, even if today's
//! compiler lays it out suitably: a file outlives the compiler. These have counterparts in the module
//! `values`, which [`instead`](super::instead) recommends.

#![allow(unsafe_code)]

use std::cmp::Reverse;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::num::{NonZero, Wrapping};

use super::desc::{Desc, Field, History, Kind, Prim};
use super::{Persist, Plain, Pointee};

/// Describes a struct with one field, which lies at its start and has its size.
macro_rules! as_its_field {
    ($name:literal [$($arg:ty),*] of $field:ty) => {
        fn desc() -> &'static Desc {
            const {
                assert!(
                    size_of::<Self>() == size_of::<$field>() && align_of::<Self>() == align_of::<$field>()
                );
                let kind = Kind::Struct {
                    fields: &[Field {
                        name: "0",
                        offset: 0,
                        ty: <$field as Persist>::desc,
                        history: History::NONE,
                    }],
                };
                &Desc {
                    args: &[$(<$arg as Persist>::desc),*],
                    ..Desc::own($name, (size_of::<Self>(), align_of::<Self>()), kind)
                }
            }
        }
    };
}

/// Implements `Persist` for numbers that are not zero, and for options of these.
macro_rules! non_zero {
    ($($ty:ty),*) => {$(
        // SAFETY: documented to have the layout of the number, without the value 0. `Heap::check` recognizes
        // the type by its name, and tests that values are not 0. It has no padding, pointers, drop or
        // `Deref`.
        unsafe impl Persist for NonZero<$ty> {
            type At<'r> = Self;
            const PADDED: bool = false;
            const POINTERS: bool = false;
            as_its_field!("pheap::NonZero" [$ty] of $ty);
            #[inline(always)]
            unsafe fn zero_padding(_: *mut Self) {}
        }

        // SAFETY: documented to have the layout of the number, where 0 is `None`, so each of the number's
        // values is valid here. It has no padding, pointers, drop or `Deref`.
        unsafe impl Persist for Option<NonZero<$ty>> {
            type At<'r> = Self;
            const PADDED: bool = false;
            const POINTERS: bool = false;
            as_its_field!("pheap::OptionNonZero" [$ty] of $ty);
            #[inline(always)]
            unsafe fn zero_padding(_: *mut Self) {}
        }

        impl Plain for NonZero<$ty> {}
        impl Plain for Option<NonZero<$ty>> {}
    )*};
}

non_zero!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128);

/// Implements `Persist` for structs around one public field.
macro_rules! around {
    ($($of:ident as $name:literal;)*) => {$(
        // SAFETY: `desc` and `PADDED` assert that the public field lies at the start, and that there is no
        // room for another. So the value has the properties of its field that the trait requires. The type
        // implements neither `Drop` nor `Deref`.
        unsafe impl<T: Persist> Persist for $of<T> {
            type At<'r> = $of<T::At<'r>>;
            const PADDED: bool = {
                assert!(offset_of!(Self, 0) == 0);
                T::PADDED
            };
            const POINTERS: bool = T::POINTERS;
            as_its_field!($name [T] of T);
            #[inline]
            unsafe fn zero_padding(this: *mut Self) {
                // SAFETY: the field is all of the value, so `this` points to a valid `T`. It is aligned, and
                // valid for reads and writes (premise).
                unsafe { T::zero_padding(this.cast()) }
            }
        }

        impl<T: Plain> Plain for $of<T> {}
    )*};
}

around! {
    Wrapping as "pheap::Wrapping";
    Reverse as "pheap::Reverse";
}

// SAFETY: documented to have size 0 and alignment 1, like `()`, so there is nothing in it. It has no drop and
// no `Deref`.
unsafe impl<T: Pointee + ?Sized> Persist for PhantomData<T> {
    type At<'r> = PhantomData<T::At<'r>>;
    const PADDED: bool = false;
    const POINTERS: bool = false;

    /// Returns the description of `()`. The type argument is not described here.
    fn desc() -> &'static Desc {
        const { &Desc::own("()", (size_of::<Self>(), align_of::<Self>()), Kind::Prim(Prim::Unit)) }
    }

    #[inline(always)]
    unsafe fn zero_padding(_: *mut Self) {}
}

impl<T: Plain> Plain for PhantomData<T> {}

#[cfg(feature = "uuid")]
// SAFETY: documented to have the layout of its 16 bytes, all of whose values are valid. It has no padding,
// pointers, drop or `Deref`.
unsafe impl Persist for uuid::Uuid {
    type At<'r> = Self;
    const PADDED: bool = false;
    const POINTERS: bool = false;
    as_its_field!("pheap::Uuid" [] of [u8; 16]);
    #[inline(always)]
    unsafe fn zero_padding(_: *mut Self) {}
}

#[cfg(feature = "uuid")]
impl Plain for uuid::Uuid {}

#[cfg(feature = "ordered-float")]
mod floats {
    use super::*;
    use ordered_float::OrderedFloat;

    macro_rules! ordered {
        ($($ty:ty),*) => {$(
            // SAFETY: `desc` asserts that the public field has the type's size, so it lies at the start. All
            // its values are valid. It has no padding, pointers or drop. It is `Deref`, but a path of fields
            // cannot go through that: `__place!` and `field!` end at a number.
            unsafe impl Persist for OrderedFloat<$ty> {
                type At<'r> = Self;
                const PADDED: bool = false;
                const POINTERS: bool = false;
                as_its_field!("pheap::OrderedFloat" [$ty] of $ty);
                #[inline(always)]
                unsafe fn zero_padding(_: *mut Self) {}
            }

            impl Plain for OrderedFloat<$ty> {}
        )*};
    }

    ordered!(f32, f64);
}
