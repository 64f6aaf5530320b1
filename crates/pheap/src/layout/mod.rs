//! `Persist` and `Pointee`: the types that may live in a heap, and their layouts there. Has the impls for
//! primitive types, arrays, slices, strings and types of other crates, and the compiler's messages for many
//! types that cannot live in a heap.
//!
//! This module knows types: the program's descriptions, and those in a heap's type table. It must not know
//! where objects lie.

#![allow(unsafe_code)]

mod compare;
mod convert;
pub(crate) mod desc;
mod describe;
mod encode;
mod evolve;
mod fingerprint;
mod foreign;
mod graph;
mod instead;
mod names;
#[cfg(test)]
pub(crate) mod pairs_tests;
mod pointers;
mod possible;
mod stored;

pub(crate) use compare::difference;
pub use convert::Migrate;
pub(crate) use convert::{Conversion, Converter, OccupiedSlots};
pub(crate) use describe::describe;
pub(crate) use encode::{decode, encode, encode_as};
pub(crate) use evolve::{Successor, successors};
pub(crate) use fingerprint::fingerprints;
pub(crate) use graph::{FieldLayout, Graph, MAX_BYTES, Shape, TypeLayout, VariantLayout};
pub(crate) use pointers::PointerMap;
pub(crate) use possible::check as check_layout;
pub use stored::{StoreAs, Stored};

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use desc::{Desc, Kind, Prim};

/// A sized type that may live in a heap. Derive it.
///
/// The field types are a closed list with guaranteed layouts: fixed-width numbers, `bool`, `char`, `()`,
/// arrays, [`P`], `Option<P>`, `NonZero` and `Option<NonZero>`, `Wrapping`, `Reverse`, `PhantomData`, other
/// types that derive `Persist`, and the types of pheap in the table. Many other types of the standard library
/// have a counterpart:
///
/// | instead of | use |
/// |---|---|
/// | `String`, `Vec<u8>` | [`PString`], [`PBytes`]; `P<str>`, `P<[u8]>` for content that never changes |
/// | `Vec`, `VecDeque` and so on | [`PVec`], [`PVecDeque`] and so on |
/// | `HashMap`, `BTreeMap` and so on | [`PHashMap`], [`PBTreeMap`] and so on |
/// | `Box`, `&T` | [`P`] |
/// | `Option<Box<T>>` | `Option<P<T>>` |
/// | `Option<u32>` and other options | [`POption`] |
/// | `(A, B)` | [`PTuple2`] and so on, or a struct |
/// | `Duration`, `SystemTime` | [`PDuration`], [`PSystemTime`] |
/// | `usize` | `u64` |
/// | a type of another crate | [`Stored`]; the features `uuid`, `ordered-float` add `Uuid`, `OrderedFloat` |
///
/// # Safety
/// The implementor promises that
/// * [`desc`](Persist::desc) describes the layout of `Self` exactly, and covers each byte that is not
///   padding,
/// * `At<'r>` is `Self` with its brand replaced by `'r`, and otherwise equal (same layout, same description),
/// * every pointer in it is a [`P`] of the brand of `Self`, and it contains no reference, no interior
///   mutability, and nothing that is meaningful in one process only,
/// * it needs no drop, and implements neither `Drop` nor `Deref` (except to a type without fields),
/// * `zero_padding` writes padding bytes only, and `PADDED` is `false` only if there are none,
/// * `POINTERS` is `false` only if no value contains a [`P`].
///
/// `#[derive(Persist)]` sees to all of this.
///
/// [`P`]: crate::P
/// [`PBTreeMap`]: crate::PBTreeMap
/// [`PBytes`]: crate::PBytes
/// [`PDuration`]: crate::PDuration
/// [`PHashMap`]: crate::PHashMap
/// [`POption`]: crate::POption
/// [`PString`]: crate::PString
/// [`PSystemTime`]: crate::PSystemTime
/// [`PTuple2`]: crate::PTuple2
/// [`PVec`]: crate::PVec
/// [`PVecDeque`]: crate::PVecDeque
/// [`Stored`]: crate::Stored
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot live in a persistent heap",
    label = "not `Persist`",
    note = "a struct or enum of your own needs `#[derive(Persist)]` and `#[repr(C)]` (an enum: `#[repr(u8)]`)",
    note = "a type of another crate is stored in another form: `Stored<{Self}, Adapter>` with an `Adapter` that implements `StoreAs<{Self}>`",
    note = "an `Option` of a type that can live in a heap is a `POption<T>`, and a tuple a `PTuple2<A, B>`"
)]
pub unsafe trait Persist: Sized {
    /// This type with the brand `'r`, a lifetime, in place of its own.
    type At<'r>: Persist;

    #[doc(hidden)]
    const PADDED: bool;

    #[doc(hidden)]
    const POINTERS: bool;

    #[doc(hidden)]
    fn desc() -> &'static Desc;

    /// Zeroes the padding bytes of a value.
    ///
    /// # Safety
    /// `this` is valid for reads and writes, is aligned, and points to a valid `Self`.
    #[doc(hidden)]
    unsafe fn zero_padding(this: *mut Self);
}

/// A type without pointers. For example numbers, `bool`, `char`, `()`, structs and enums without parameters
/// (lifetimes, types, constants) that derive [`Persist`], [`Stored`], and arrays, `POption`s and tuples
/// (`PTuple2` and so on) of plain types.
///
/// A [`P`](crate::P) has the brand of its region. So a type that is the same at each brand has no `P` in it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` may contain pointers to objects that transactions write in place",
    label = "not `Plain`",
    note = "the keys and values of a `PSnapMap` are `P<str>`, `P<[T]>` for a plain `T`, and plain types: numbers, `bool`, `char`, arrays, and structs and enums \
            without lifetime and type parameters that derive `Persist`"
)]
pub trait Plain: for<'r> Persist<At<'r> = Self> {}

/// A [`Persist`] type of the brand `'r`: the bound of generic code that changes a heap. The values that a
/// transaction of that brand gets and stores are of such types.
///
/// ```
/// # use pheap::{Branded, P, PVec, Result, Txn};
/// fn push_twice<'r, T: Branded<'r> + Copy>(tx: &mut Txn<'r>, all: P<'r, PVec<'r, T>>, value: T) -> Result<()> {
///     all.push(tx, value)?;
///     all.push(tx, value)
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored in a heap by a transaction that has another brand",
    label = "not of the brand of the transaction",
    note = "generic code has the bound `T: Branded<'r>`, with the `'r` of its `Txn<'r>`"
)]
pub trait Branded<'r>: Persist<At<'r> = Self> {}

#[diagnostic::do_not_recommend]
impl<'r, T: Persist<At<'r> = T>> Branded<'r> for T {}

mod sealed {
    pub trait Sealed {}
    impl<T: super::Persist> Sealed for T {}
    impl<T: super::Persist> Sealed for [T] {}
    impl Sealed for str {}
}

/// A type that a [`P`](crate::P) can point to: any [`Persist`] type, a slice of one, or `str`.
#[diagnostic::on_unimplemented(
    message = "a `P` cannot point to `{Self}`",
    label = "not a type of a persistent heap",
    note = "a `P` points to a type that derives `Persist`, to a slice `[T]` of one, or to `str`"
)]
pub trait Pointee: sealed::Sealed {
    /// This type with the brand `'r`, a lifetime, in place of its own.
    type At<'r>: Pointee + ?Sized;

    /// `At<'static>`: this type without a brand, for [`Held`](crate::Held).
    type Unbranded: Pointee + ?Sized;

    #[doc(hidden)]
    const PADDED: bool;

    #[doc(hidden)]
    const ALIGN: usize;

    #[doc(hidden)]
    fn desc() -> &'static Desc;

    /// Returns a pointer to the value of the object at `addr` (for a slice or string: to its elements, behind
    /// the length).
    ///
    /// # Safety
    /// A live object of this type is at `addr`.
    #[doc(hidden)]
    unsafe fn value(addr: *mut u8) -> *mut Self;

    /// Returns a pointer to `data`, with the length of `this` if it is a slice or string.
    #[doc(hidden)]
    fn relocated(this: *mut Self, data: *mut u8) -> *mut Self;

    /// Returns the number of bytes of the value, without the length of a slice or string.
    #[doc(hidden)]
    fn bytes(this: *const Self) -> usize;

    /// Returns the number of elements of a slice, or of bytes of a string; 0 for sized types.
    #[doc(hidden)]
    fn len_of(this: *const Self) -> usize;

    /// Zeroes the padding of the value at `data`, which has `len` elements if it is a slice.
    ///
    /// # Safety
    /// `data` points to a valid value of this type, with `len` elements if it is a slice. It is aligned for
    /// the type, and valid for reads and writes of the value.
    #[doc(hidden)]
    unsafe fn zero_padding_at(data: *mut u8, len: usize);
}

/// A function that zeroes the padding of a value, and the value's length.
#[derive(Clone, Copy)]
pub(crate) struct Padding {
    zero: unsafe fn(*mut u8, usize),
    len: usize,
}

impl Padding {
    /// Returns the `Padding` of the value at `value`; `None` if its type has no padding.
    #[inline(always)]
    pub(crate) fn of_value<T: Pointee + ?Sized>(value: *mut T) -> Option<Padding> {
        if T::PADDED { Some(Padding { zero: T::zero_padding_at, len: T::len_of(value) }) } else { None }
    }

    /// Zeroes the padding of the value at `value`.
    ///
    /// # Safety
    /// `value` points to a valid value of the same type and length as the value for which this `Padding` was
    /// made. `value` is aligned, and valid for reads and writes, and no reference to it exists.
    #[inline(always)]
    pub(crate) unsafe fn zero_at(self, value: *mut u8) {
        // SAFETY: `zero` is `T::zero_padding_at` of the value's type. `value` points to a valid value of it
        // with `len` elements, aligned, and valid for reads and writes (premise).
        unsafe { (self.zero)(value, self.len) };
    }

    /// Returns a key. Two `Padding`s with equal keys zero the same bytes of a value.
    #[inline(always)]
    pub(crate) fn key(self) -> (usize, usize) {
        (self.zero as usize, self.len)
    }
}

impl<T: Persist> Pointee for T {
    type At<'r> = T::At<'r>;
    type Unbranded = T::At<'static>;
    const PADDED: bool = T::PADDED;
    const ALIGN: usize = align_of::<T>();

    fn desc() -> &'static Desc {
        <T as Persist>::desc()
    }

    #[inline(always)]
    unsafe fn value(addr: *mut u8) -> *mut T {
        addr.cast()
    }

    #[inline(always)]
    fn relocated(_: *mut T, data: *mut u8) -> *mut T {
        data.cast()
    }

    #[inline(always)]
    fn bytes(_: *const T) -> usize {
        size_of::<T>()
    }

    #[inline(always)]
    fn len_of(_: *const T) -> usize {
        0
    }

    unsafe fn zero_padding_at(data: *mut u8, _: usize) {
        // SAFETY: `data` points to a valid `T`, aligned, and valid for reads and writes (premise).
        unsafe { T::zero_padding(data.cast()) }
    }
}

/// Returns the bytes before the elements of a slice: its length, and padding up to the elements' alignment.
pub(crate) const fn slice_header(align: usize) -> usize {
    if align > 8 { align } else { 8 }
}

impl<T: Persist> Pointee for [T] {
    type At<'r> = [T::At<'r>];
    type Unbranded = [T::At<'static>];
    const PADDED: bool = T::PADDED;
    const ALIGN: usize = align_of::<T>();

    fn desc() -> &'static Desc {
        const { &Desc::own("[]", (0, align_of::<T>()), Kind::Slice { elem: T::desc }) }
    }

    #[inline(always)]
    unsafe fn value(addr: *mut u8) -> *mut [T] {
        // SAFETY: a live slice is at `addr` (premise). It begins with the length, and objects are aligned to
        // at least 8 bytes.
        let len = unsafe { addr.cast::<u64>().read() };
        // SAFETY: the elements follow the length in the same object.
        let data = unsafe { addr.add(slice_header(align_of::<T>())) };
        std::ptr::slice_from_raw_parts_mut(data.cast(), len as usize)
    }

    #[inline(always)]
    fn relocated(this: *mut [T], data: *mut u8) -> *mut [T] {
        std::ptr::slice_from_raw_parts_mut(data.cast(), this.len())
    }

    #[inline(always)]
    fn bytes(this: *const [T]) -> usize {
        this.len() * size_of::<T>()
    }

    #[inline(always)]
    fn len_of(this: *const [T]) -> usize {
        this.len()
    }

    unsafe fn zero_padding_at(data: *mut u8, len: usize) {
        for i in 0..len {
            // SAFETY: `data` points to `len` valid elements, aligned, and valid for reads and writes
            // (premise), and `i < len`.
            unsafe { T::zero_padding(data.cast::<T>().wrapping_add(i)) }
        }
    }
}

impl Pointee for str {
    type At<'r> = str;
    type Unbranded = str;
    const PADDED: bool = false;
    const ALIGN: usize = 1;

    fn desc() -> &'static Desc {
        const { &Desc::own("str", (0, 1), Kind::Str) }
    }

    #[inline(always)]
    unsafe fn value(addr: *mut u8) -> *mut str {
        // SAFETY: a live string is at `addr` (premise), which is laid out like a slice of bytes.
        unsafe { <[u8]>::value(addr) as *mut str }
    }

    #[inline(always)]
    fn relocated(this: *mut str, data: *mut u8) -> *mut str {
        <[u8]>::relocated(this as *mut [u8], data) as *mut str
    }

    #[inline(always)]
    fn bytes(this: *const str) -> usize {
        (this as *const [u8]).len()
    }

    #[inline(always)]
    fn len_of(this: *const str) -> usize {
        <str as Pointee>::bytes(this)
    }

    unsafe fn zero_padding_at(_: *mut u8, _: usize) {}
}

macro_rules! prims {
    ($($ty:ty => $prim:ident),* $(,)?) => {$(
        // SAFETY: a primitive type is described as itself. It has no brand, no pointers, no padding and no
        // drop glue, and does not implement `Deref`.
        unsafe impl Persist for $ty {
            type At<'r> = $ty;
            const PADDED: bool = false;
            const POINTERS: bool = false;

            fn desc() -> &'static Desc {
                const {
                    &Desc::own(
                        stringify!($ty),
                        (size_of::<$ty>(), align_of::<$ty>()),
                        Kind::Prim(Prim::$prim),
                    )
                }
            }

            #[inline(always)]
            unsafe fn zero_padding(_: *mut Self) {}
        }

        impl Plain for $ty {}
    )*};
}

prims! {
    u8 => U8, u16 => U16, u32 => U32, u64 => U64, u128 => U128,
    i8 => I8, i16 => I16, i32 => I32, i64 => I64, i128 => I128,
    f32 => F32, f64 => F64, bool => Bool, char => Char, () => Unit,
}

impl<T: Plain, const N: usize> Plain for [T; N] {}

// SAFETY: an array is its elements, one behind the other, without gaps between them. So it has the properties
// of its elements that the trait requires. It is not `Deref`.
unsafe impl<T: Persist, const N: usize> Persist for [T; N] {
    type At<'r> = [T::At<'r>; N];
    const PADDED: bool = T::PADDED;
    const POINTERS: bool = T::POINTERS;

    fn desc() -> &'static Desc {
        const { &Desc::own("[;]", (size_of::<[T; N]>(), align_of::<T>()), Kind::Array { elem: T::desc, len: N }) }
    }

    unsafe fn zero_padding(this: *mut Self) {
        // SAFETY: `this` points to a valid array (premise), that is, to `N` valid elements, aligned, and
        // valid for reads and writes.
        unsafe { <[T] as Pointee>::zero_padding_at(this.cast(), N) }
    }
}

/// Writes a value, with zeros in its padding, to a place that need not be aligned.
///
/// # Safety
/// `place` is valid for writes of `size_of::<T>()` bytes.
pub(crate) unsafe fn put_value<T: Persist>(place: *mut u8, value: T) {
    let mut aligned = MaybeUninit::<T>::zeroed();
    aligned.write(value);
    // SAFETY: `aligned` has a valid `T`, written just now. It is aligned, and valid for reads and writes.
    unsafe { T::zero_padding(aligned.as_mut_ptr()) };
    // SAFETY: `aligned` has `size_of::<T>()` bytes, and `place` is valid for writes of that many (premise).
    // They do not overlap, because `aligned` is a local variable.
    unsafe { place.copy_from_nonoverlapping(aligned.as_ptr().cast(), size_of::<T>()) };
}

/// Readable words in memory: those of an object, of a part of one, or of several objects.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a> {
    start: *const u64,
    len: usize,
    readable: PhantomData<&'a u64>,
}

impl<'a> Words<'a> {
    /// Makes a view of the `len` words at `start`.
    ///
    /// # Safety
    /// `start` is aligned. For `'a`, the words are readable, and have definite values where their type has no
    /// padding. Only code that gets their addresses from this view writes to them.
    #[inline(always)]
    pub(crate) unsafe fn new(start: *const u64, len: usize) -> Words<'a> {
        Words { start, len, readable: PhantomData }
    }

    #[inline(always)]
    fn len(self) -> usize {
        self.len
    }

    /// Returns the words from `first` on, at most `len` of them, and no more than there are.
    #[inline(always)]
    fn part(self, first: usize, len: usize) -> Words<'a> {
        Words { start: self.word_ptr(first), len: len.min(self.len.saturating_sub(first)), ..self }
    }

    #[inline(always)]
    fn word_ptr(self, word: usize) -> *mut u64 {
        self.start.wrapping_add(word).cast_mut()
    }

    /// Returns the number in the first `bytes` bytes of a word (in all 8 unless `bytes` is 1, 2 or 4), behind
    /// which may be padding; `None` if there is no such word.
    #[inline(always)]
    fn read(self, word: usize, bytes: usize) -> Option<u64> {
        let at = self.word_ptr(word);
        (word < self.len).then(|| match bytes {
            // SAFETY: the word exists (checked above), so it is readable by the premise of `new`, and
            // aligned. This reads its first byte.
            1 => unsafe { at.cast::<u8>().read_volatile() }.into(),
            // SAFETY: the word exists (checked above), so it is readable by the premise of `new`, and
            // aligned. This reads its first 2 bytes.
            2 => unsafe { at.cast::<u16>().read_volatile() }.into(),
            // SAFETY: the word exists (checked above), so it is readable by the premise of `new`, and
            // aligned. This reads its first 4 bytes.
            4 => unsafe { at.cast::<u32>().read_volatile() }.into(),
            // SAFETY: the word exists (checked above), so it is readable by the premise of `new`, and
            // aligned.
            _ => unsafe { at.read_volatile() },
        })
    }

    /// Returns the tag of an enum in the first `bytes` bytes; `None` if there are too few words.
    #[inline(always)]
    fn tag(self, bytes: usize) -> Option<u128> {
        let first = u128::from(self.read(0, bytes)?);
        if bytes < 16 { Some(first) } else { Some(first | u128::from(self.read(1, 8)?) << 64) }
    }
}
