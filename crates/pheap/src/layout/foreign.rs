//! `Persist` for types of others whose layout is guaranteed: by their documentation, or because their one field is public and all that there is of them.
//!
//! A type without such a guarantee (`Option<u32>`, a tuple, `SystemTime`) has no impl, whatever today's compiler makes of it: a file outlives the compiler. It has
//! a counterpart in the room `values` instead, and [`instead`](super::instead) tells of it.

#![allow(unsafe_code)]

use std::cmp::Reverse;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::num::{NonZero, Wrapping};

use super::desc::{Desc, Field, History, Kind, Prim};
use super::{Persist, Plain, Pointee};

/// A struct with one field, which lies at its start and is as large as it.
macro_rules! as_its_field {
    ($name:literal [$($arg:ty),*] of $field:ty) => {
        fn desc() -> &'static Desc {
            const {
                assert!(size_of::<Self>() == size_of::<$field>() && align_of::<Self>() == align_of::<$field>());
                let kind = Kind::Struct {
                    fields: &[Field { name: "0", offset: 0, ty: <$field as Persist>::desc, history: History::NONE }],
                };
                &Desc {
                    args: &[$(<$arg as Persist>::desc),*],
                    ..Desc::own($name, (size_of::<Self>(), align_of::<Self>()), kind)
                }
            }
        }
    };
}

/// Numbers that are not zero, and those that may be missing.
macro_rules! non_zero {
    ($($ty:ty),*) => {$(
        // SAFETY: documented to have the layout of the number, of which 0 is no value: `check` looks for that, by the name. No padding, pointers, drop or `Deref`.
        unsafe impl Persist for NonZero<$ty> {
            type At<'r> = Self;
            const PADDED: bool = false;
            const POINTERS: bool = false;
            as_its_field!("pheap::NonZero" [$ty] of $ty);
            #[inline(always)]
            unsafe fn zero_padding(_: *mut Self) {}
        }

        // SAFETY: documented to have the layout of the number, where 0 is `None`, so all its values are values here. No padding, pointers, drop or `Deref`.
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

/// Structs around a public field.
macro_rules! around {
    ($($of:ident as $name:literal;)*) => {$(
        // SAFETY: `desc` asserts that the public field lies at the start, and that nothing else has room: the value is that of its field, in all that the trait asks for.
        // The type has no drop glue of its own. If it is `Deref`, then to that field: no code of the user's runs.
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
                // SAFETY: a value of the field, for that is all there is; the rest is the caller's premise.
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

// SAFETY: documented to have size 0 and alignment 1, as `()`, so there is nothing in it. No drop and no `Deref`.
unsafe impl<T: Pointee + ?Sized> Persist for PhantomData<T> {
    type At<'r> = PhantomData<T::At<'r>>;
    const PADDED: bool = false;
    const POINTERS: bool = false;

    /// That of `()`: what it stands for is among the arguments of the type that has it.
    fn desc() -> &'static Desc {
        const { &Desc::own("()", (size_of::<Self>(), align_of::<Self>()), Kind::Prim(Prim::Unit)) }
    }

    #[inline(always)]
    unsafe fn zero_padding(_: *mut Self) {}
}

impl<T: Plain> Plain for PhantomData<T> {}

#[cfg(feature = "uuid")]
// SAFETY: documented to have the layout of its 16 bytes, of which all are values. No padding, pointers, drop or `Deref`.
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
            // SAFETY: `desc` asserts that the public field is all there is of it, and it lies at the start, as there is no room for another place. All its values are values
            // here. No padding, pointers or drop. It is `Deref`, but a path of fields cannot go through that: `__place!` and `field!` end at a number.
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
