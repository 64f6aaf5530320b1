//! Keys that are their own borrowed form: numbers, `bool`, `char`, arrays of bytes, UUIDs, and types that
//! consist of these.

#![allow(unsafe_code)]

use std::cmp::Reverse;
use std::num::{NonZero, Wrapping};

use super::argument::by_value;
use super::bytes::prefix_of_bytes;
use super::{HashKey, KeyHasher, MapKey, OrdKey};
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::error::Result;
use crate::layout::{StoreAs, Stored};
use crate::values::{POption, PTuple2, PTuple3, PTuple4, PTuple5, PTuple6, PTuple7, PTuple8};

/// Implements `MapKey` for a type that is its own borrowed form. The code `$look` runs whenever a key is read
/// or made; a test uses it.
macro_rules! key_by_itself {
    ([$($param:tt)*] $ty:ty, || $look:expr) => {
        // SAFETY: the query is the key itself.
        #[allow(unsafe_code)]
        unsafe impl<'r $($param)*> MapKey<'r> for $ty {
            type Query = $ty;

            #[inline(always)]
            fn query<'v>(&'v self, _: &'v View<'r>) -> &'v $ty {
                $look;
                self
            }

            #[inline(always)]
            fn from_query(_: &Txn<'r>, query: &$ty) -> Result<$ty> {
                $look;
                Ok(*query)
            }
        }
    };
}
#[cfg(test)]
pub(in crate::collections) use key_by_itself;

/// Implements the traits of keys for types that are their own borrowed form, and do not consist of other
/// keys.
macro_rules! by_itself {
    ($(
        $(@ $param:ident)? $ty:ty: $exact:expr, |$value:ident, $hasher:ident| $hash:expr, $prefix:expr;
    )*) => {$(
        key_by_itself!([$(, const $param: usize)?] $ty, || ());
        by_value!([$(, const $param: usize)?] $ty);

        impl<'r $(, const $param: usize)?> HashKey<'r> for $ty {
            #[inline(always)]
            fn hash($value: &$ty, $hasher: &mut KeyHasher) {
                $hash
            }
        }

        impl<'r $(, const $param: usize)?> OrdKey<'r> for $ty {
            const EXACT: bool = $exact;

            #[inline(always)]
            fn prefix($value: &$ty) -> u64 {
                $prefix
            }
        }
    )*};
}

by_itself! {
    u8: true, |x, hasher| hasher.write(&[*x]), (*x).into();
    u16: true, |x, hasher| hasher.write(&x.to_le_bytes()), (*x).into();
    u32: true, |x, hasher| hasher.write(&x.to_le_bytes()), (*x).into();
    u64: true, |x, hasher| hasher.write(&x.to_le_bytes()), *x;
    u128: false, |x, hasher| hasher.write(&x.to_le_bytes()), (*x >> 64) as u64;
    i8: true, |x, hasher| hasher.write(&x.to_le_bytes()), i64::from(*x) as u64 ^ 1 << 63;
    i16: true, |x, hasher| hasher.write(&x.to_le_bytes()), i64::from(*x) as u64 ^ 1 << 63;
    i32: true, |x, hasher| hasher.write(&x.to_le_bytes()), i64::from(*x) as u64 ^ 1 << 63;
    i64: true, |x, hasher| hasher.write(&x.to_le_bytes()), *x as u64 ^ 1 << 63;
    i128: false, |x, hasher| hasher.write(&x.to_le_bytes()), (*x >> 64) as u64 ^ 1 << 63;
    bool: true, |x, hasher| hasher.write(&[u8::from(*x)]), (*x).into();
    char: true, |x, hasher| hasher.write(&u32::from(*x).to_le_bytes()), u32::from(*x).into();
    @N [u8; N]: N <= 8, |bytes, hasher| hasher.write(bytes), prefix_of_bytes(bytes);
}

/// A type whose values can be parts of a key: a key that is its own borrowed form, has a hash and an order,
/// and is `Copy`.
pub trait Part<'r>: HashKey<'r, Query = Self> + OrdKey<'r> + Copy {}
impl<'r, K: HashKey<'r, Query = K> + OrdKey<'r> + Copy> Part<'r> for K {}

/// Implements the traits of keys for types that consist of [`Part`]s.
macro_rules! of_parts {
    ($([$($param:tt)*] $ty:ty: $exact:expr, |$value:ident, $hasher:ident| $hash:expr, $prefix:expr;)*) => {$(
        key_by_itself!([$($param)*] $ty, || ());
        by_value!([$($param)*] $ty);

        impl<'r $($param)*> HashKey<'r> for $ty {
            #[inline]
            fn hash($value: &$ty, $hasher: &mut KeyHasher) {
                $hash
            }
        }

        impl<'r $($param)*> OrdKey<'r> for $ty {
            const EXACT: bool = $exact;

            #[inline]
            fn prefix($value: &$ty) -> u64 {
                $prefix
            }
        }
    )*};
}

of_parts! {
    [, A: Part<'r>] Reverse<A>: A::EXACT, |x, hasher| A::hash(&x.0, hasher), !A::prefix(&x.0);
    [, A: Part<'r>] Wrapping<A>: A::EXACT, |x, hasher| A::hash(&x.0, hasher), A::prefix(&x.0);
    [, A: Part<'r>] POption<A>: false, |x, hasher| {
        hasher.write(&[u8::from(x.is_some())]);
        if let Some(value) = x.as_ref() {
            A::hash(value, hasher);
        }
    }, x.as_ref().map_or(0, A::prefix);
    [, T: 'static, F: StoreAs<T, Form: Part<'r>> + 'static] Stored<T, F>: <F::Form as OrdKey<'r>>::EXACT,
        |x, hasher| <F::Form as HashKey<'r>>::hash(x.form(), hasher),
        <F::Form as OrdKey<'r>>::prefix(x.form());
}

macro_rules! tuples {
    ($($name:ident<$($part:ident $index:tt),*>;)*) => {
        of_parts! {$(
            [$(, $part: Part<'r>)*] $name<$($part),*>: false,
                |x, hasher| { $($part::hash(&x.$index, hasher);)* }, A::prefix(&x.0);
        )*}
    };
}

tuples! {
    PTuple2<A 0, B 1>;
    PTuple3<A 0, B 1, C 2>;
    PTuple4<A 0, B 1, C 2, D 3>;
    PTuple5<A 0, B 1, C 2, D 3, E 4>;
    PTuple6<A 0, B 1, C 2, D 3, E 4, F 5>;
    PTuple7<A 0, B 1, C 2, D 3, E 4, F 5, G 6>;
    PTuple8<A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7>;
}

macro_rules! non_zero {
    ($($ty:ty),*) => {
        of_parts! {$(
            [] NonZero<$ty>: <$ty as OrdKey<'r>>::EXACT,
                |x, hasher| <$ty as HashKey<'r>>::hash(&x.get(), hasher),
                <$ty as OrdKey<'r>>::prefix(&x.get());
        )*}
    };
}

non_zero!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128);

#[cfg(feature = "uuid")]
by_itself! {
    uuid::Uuid: false, |x, hasher| hasher.write(x.as_bytes()), prefix_of_bytes(x.as_bytes());
}

/// Returns a number that is ordered as `x` is as an `OrderedFloat`: the two zeros are equal, and all NaNs are
/// equal and greater than all other values.
#[cfg(feature = "ordered-float")]
fn bits_in_order(x: f64) -> u64 {
    match x {
        _ if x.is_nan() => u64::MAX,
        0.0 => 1 << 63,
        _ if x.is_sign_negative() => !x.to_bits(),
        _ => x.to_bits() | 1 << 63,
    }
}

#[cfg(feature = "ordered-float")]
by_itself! {
    ordered_float::OrderedFloat<f64>: true,
        |x, hasher| hasher.write(&bits_in_order(x.0).to_le_bytes()), bits_in_order(x.0);
    ordered_float::OrderedFloat<f32>: true,
        |x, hasher| hasher.write(&bits_in_order(x.0.into()).to_le_bytes()), bits_in_order(x.0.into());
}
