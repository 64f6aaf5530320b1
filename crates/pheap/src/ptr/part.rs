//! Addresses of fields and elements within objects, for the expansions of `field!` and of the stores of
//! `#[txn]`.
//!
//! The macros here do not trust their tokens. A [`Part`] is the proof that an address is within an object, so
//! all functions that the macros call are safe, except `field`, which `__part!` calls.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use super::{P, bounds, value_of};
use crate::layout::Persist;

/// The address of a field or element of an object, or of its whole value.
//
// Invariant: `place` is a live `F` within the value to which `object` points.
pub struct Part<'r, T: ?Sized, F: ?Sized> {
    object: P<'r, T>,
    place: *mut F,
}

impl<T: ?Sized, F: ?Sized> Clone for Part<'_, T, F> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized, F: ?Sized> Copy for Part<'_, T, F> {}

/// Returns the whole value of a sized object as a part.
#[inline(always)]
pub fn object<T>(key: P<'_, T>) -> Part<'_, T, T> {
    Part { object: key, place: value_of(key) }
}

/// Returns the whole value of an object as a part.
///
/// # Safety
/// `place` is the address of the value of the object to which `key` points, with its length.
#[inline(always)]
pub(crate) unsafe fn whole<T: ?Sized>(key: P<'_, T>, place: *mut T) -> Part<'_, T, T> {
    Part { object: key, place }
}

/// Returns a part, and its address.
#[inline(always)]
pub fn place<T: ?Sized, F: ?Sized>(part: Part<'_, T, F>) -> (Part<'_, T, F>, *mut F) {
    (part, part.place)
}

/// Returns a field of a part, again as a part of the object.
///
/// # Safety
/// `place` is a field of the value at the address that [`place`] returns for the part.
#[inline(always)]
pub unsafe fn field<'r, T: ?Sized, F: ?Sized, G>(part: Part<'r, T, F>, place: *mut G) -> Part<'r, T, G> {
    Part { object: part.object, place }
}

impl<'r, T: ?Sized, F: ?Sized> Part<'r, T, F> {
    /// Returns the object of this part.
    #[inline(always)]
    pub(crate) fn object(self) -> P<'r, T> {
        self.object
    }

    /// Returns the address of this part.
    #[inline(always)]
    pub(crate) fn address(self) -> *mut F {
        self.place
    }

    /// Returns a pointer to this part.
    #[inline(always)]
    pub fn pointer(self) -> P<'r, F>
    where
        F: Persist,
    {
        // SAFETY: the part is a live value, and so does not lie at address 0.
        let place = unsafe { std::ptr::NonNull::new_unchecked(self.place) };
        // SAFETY: the part is a live value, in the region of its object.
        unsafe { P::from_addr(place.cast()) }
    }
}

/// Arrays and slices of `T`, by raw pointers. The trait is sealed: a program cannot implement it, neither for
/// its own type nor with its own `T`. (`T` is a parameter, because for an associated type the compiler would
/// report an additional error.)
#[diagnostic::on_unimplemented(
    message = "`[..]` of a `{Self}` is a call of its `IndexMut`, which `#[txn]` cannot see through: use `let part = &mut tx[p].part; part[i] = value;`",
    label = "not an array, nor a slice"
)]
pub trait Elements<T>: sealed::Elements<T> {
    /// Returns the elements of the array or slice at `this`.
    fn all(this: *mut Self) -> *mut [T];
}

/// An index that selects an `S`, an element or a slice, of a slice of `T`. It is sealed like [`Elements`].
#[diagnostic::on_unimplemented(
    message = "an index under `#[txn]` is a `usize`, or a range of them, and not a `{Self}`",
    label = "neither a `usize` nor a range"
)]
pub trait Select<T, S: ?Sized>: sealed::Select<T, S> {
    /// Returns the address of the selected element, if it is within the slice; `None` also for a range.
    /// Borrows the index, because the caller uses it again, and a range need not be `Copy`.
    fn of(&self, all: *mut [T]) -> Option<*mut S>;

    /// Returns the address of the selection.
    ///
    /// # Panics
    /// If the selection is not within the slice.
    fn checked(self, all: *mut [T]) -> *mut S;
}

mod sealed {
    pub trait Elements<T> {}
    impl<T, const N: usize> Elements<T> for [T; N] {}
    impl<T> Elements<T> for [T] {}

    pub trait Select<T, S: ?Sized> {}
}

impl<T, const N: usize> Elements<T> for [T; N] {
    #[inline(always)]
    fn all(this: *mut Self) -> *mut [T] {
        this
    }
}

impl<T> Elements<T> for [T] {
    #[inline(always)]
    fn all(this: *mut Self) -> *mut [T] {
        this
    }
}

impl<T> sealed::Select<T, T> for usize {}
impl<T> Select<T, T> for usize {
    #[inline(always)]
    fn of(&self, all: *mut [T]) -> Option<*mut T> {
        if *self < all.len() { Some(all.cast::<T>().wrapping_add(*self)) } else { None }
    }

    #[inline(always)]
    #[track_caller]
    fn checked(self, all: *mut [T]) -> *mut T {
        if self >= all.len() {
            out_of_bounds(self, all.len());
        }
        all.cast::<T>().wrapping_add(self)
    }
}

macro_rules! ranges {
    ($($range:ty)*) => {$(
        impl<T> sealed::Select<T, [T]> for $range {}
        impl<T> Select<T, [T]> for $range {
            /// Returns `None`: stores to a range of elements are not logged ahead.
            #[inline]
            fn of(&self, _: *mut [T]) -> Option<*mut [T]> {
                None
            }

            #[inline]
            #[track_caller]
            fn checked(self, all: *mut [T]) -> *mut [T] {
                let (start, end) = bounds(self, all.len());
                std::ptr::slice_from_raw_parts_mut(all.cast::<T>().wrapping_add(start), end - start)
            }
        }
    )*};
}
ranges!(Range<usize> RangeFrom<usize> RangeTo<usize> RangeInclusive<usize> RangeToInclusive<usize> RangeFull);

/// Panics because `index` is out of bounds. A separate function, so that the caller need not store the
/// arguments of the message in memory.
#[cold]
#[inline(never)]
#[track_caller]
fn out_of_bounds(index: usize, len: usize) -> ! {
    panic!("index out of bounds: the len is {len} but the index is {index}")
}

/// Returns an element of an array or slice, or a range of its elements.
///
/// # Panics
/// If the index or range is not within the array or slice.
#[inline(always)]
#[track_caller]
pub fn element<'r, O: ?Sized, T, A: Elements<T> + ?Sized, I: Select<T, S>, S: ?Sized>(
    array: Part<'r, O, A>,
    index: I,
) -> Part<'r, O, S> {
    Part { object: array.object, place: index.checked(A::all(array.place)) }
}

/// Like [`element`], but returns `None` if the index is not within the array or slice, or is a range.
#[inline(always)]
pub fn element_if_any<'r, O: ?Sized, T, A: Elements<T> + ?Sized, I: Select<T, S>, S: ?Sized>(
    array: Part<'r, O, A>,
    index: &I,
) -> Option<Part<'r, O, S>> {
    match index.of(A::all(array.place)) {
        Some(place) => Some(Part { object: array.object, place }),
        None => None,
    }
}

/// Expands to the part to which steps such as `[.field [index] .0]` lead from another part. Each index is
/// evaluated after the earlier ones were checked. If a label is passed, an index out of bounds, or a range,
/// ends the block of that label with `false`.
///
/// The only `unsafe` block contains names of fields, and no expression: `.await` is a keyword that looks like
/// a field.
#[doc(hidden)]
#[macro_export]
macro_rules! __part {
    ([. await $($steps:tt)*] $($part:tt)*) => {
        $crate::__private::core::compile_error!("`.await` is not a field")
    };
    ([. $field:tt] $part:expr $(; $missing:lifetime)?) => {{
        let part = $crate::__private::part_place($part);
        // SAFETY: the part is a live value of a type that can live in a heap. No such type is `Deref` to a
        // type with fields. So `*` and the name of a field denote that field, and no code of the program runs
        // to find it.
        unsafe { $crate::__private::part_field(part.0, &raw mut (*part.1).$field) }
    }};
    ([. $field:tt $($steps:tt)*] $part:expr $(; $missing:lifetime)?) => {
        $crate::__part!([$($steps)*] $crate::__part!([. $field] $part) $(; $missing)?)
    };
    ([[$index:expr] $($steps:tt)*] $part:expr) => {
        $crate::__part!([$($steps)*] $crate::__private::element($part, $index))
    };
    ([[$index:expr] $($steps:tt)*] $part:expr; $missing:lifetime) => {
        $crate::__part!([$($steps)*] match $crate::__private::element_if_any($part, &$index) {
            $crate::__private::core::option::Option::Some(element) => element,
            _ => break $missing false,
        }; $missing)
    };
    ([] $part:expr $(; $missing:lifetime)?) => { $part };
}

/// Makes a pointer to a field of an object: `field!(p.name)`, or `field!(p.inner.name)`, for a `p: P<T>`. Put
/// an expression into parentheses: `field!((tx[p].next).name)`.
///
/// Use it to change a field that is a collection (`field!(shop.prices).push(tx, 9.5)?`), or to pass a field
/// to a function.
///
/// ```
/// # use pheap::{Heap, P, Persist, Root, Txn, field};
/// #[derive(Persist, Default)]
/// #[repr(C)]
/// struct Counters {
///     hits: u64,
///     misses: u64,
/// }
///
/// fn count<'r>(tx: &mut Txn<'r>, counter: P<'r, u64>) {
///     tx[counter] += 1;
/// }
///
/// # fn main() -> pheap::Result<()> {
/// # let heap = Heap::in_memory()?;
/// let counters: Root<Counters> = heap.root("counters")?;
/// counters.txn(|tx, counters| {
///     count(tx, field!(counters.hits));
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
#[macro_export]
macro_rules! field {
    ($object:ident . $($field:tt).+) => { $crate::field!(($object) . $($field).+) };
    (($object:expr) . $($field:tt).+) => {
        $crate::__private::Part::pointer($crate::__part!([$(. $field)+] $crate::__private::object($object)))
    };
    ($($other:tt)*) => {
        $crate::__private::core::compile_error!(
            "`field!` takes a pointer and names of fields: `field!(p.name)`; if the pointer is an expression, that goes into parentheses: `field!((tx[p].next).name)`"
        )
    };
}
