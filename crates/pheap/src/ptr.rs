//! `P`, the branded pointer.
//!
//! This module knows types and addresses. It must not know whether there is an object at an address: the code
//! that makes a pointer guarantees the object.

#![allow(unsafe_code)]

pub(crate) mod part;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::ptr::NonNull;

use crate::layout::desc::{Desc, Kind};
use crate::layout::{Persist, Pointee, slice_header};

/// Makes a type invariant in `'r`, so that a brand cannot be replaced by another.
pub(crate) type Brand<'r> = PhantomData<fn(&'r ()) -> &'r ()>;

/// A pointer to a `T` in the region of one root, usable only inside the transaction or read that has the
/// brand `'r`.
///
/// It is a raw address of 8 bytes, `Copy`, and the only kind of pointer that may be stored in a heap. Read by
/// `tx[p].field`, write by `tx[p].field = v`. `'r` is *generative*: each transaction or read has a unique
/// brand that equals no other lifetime, so a pointer cannot leave it or reach another root. To keep one, see
/// [`Txn::hold`](crate::Txn::hold).
///
/// Pointers compare for equality only: the next opening may map the heap at other addresses, so an address
/// must not be stored as a sort or hash key. [`key`](P::key) returns a key for use within the transaction or
/// read.
///
/// A pointer to a type without bytes leads nowhere: it keeps no object alive, and may equal any other.
//
// Invariant: as long as the brand `'r` lives, there is a live object of type `T` at `addr`, in the one region
// with this brand, and the region is locked. The caller of `from_addr` guarantees it. Only `View` and `Txn`,
// which have the lock, read a `P` that is stored in the heap. (Or the brand is that of an access to a
// `HeldValue`, whose objects are not written.) If a `T` has no bytes, `addr` is any address that is aligned
// to it: there is nothing to read, and no code follows the pointer.
#[repr(transparent)]
pub struct P<'r, T: ?Sized> {
    addr: NonNull<u8>,
    brand: Brand<'r>,
    // `*mut T` makes a `P` invariant in `T`, because a transaction writes through it. `fn()` keeps a `P`
    // `Send` and `Sync`.
    target: PhantomData<fn() -> *mut T>,
}

// SAFETY: a `P` is an address. Only these types access the memory at the address: `View` and `Txn`, which
// stay in their threads, and `Shared`, while no thread writes.
unsafe impl<T: ?Sized> Send for P<'_, T> {}
// SAFETY: a `&P` allows no more than a `P`, which is `Copy` and `Send`.
unsafe impl<T: ?Sized> Sync for P<'_, T> {}

impl<T: ?Sized> Clone for P<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for P<'_, T> {}

impl<T: ?Sized> PartialEq for P<'_, T> {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.addr == other.addr
    }
}

impl<T: ?Sized> Eq for P<'_, T> {}

impl<T: ?Sized> fmt::Debug for P<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let full = std::any::type_name::<T>();
        // The path to remove ends at the last `::` before any type argument.
        let head = full.find('<').unwrap_or(full.len());
        let start = full[..head].rfind("::").map_or(0, |at| at + 2);
        write!(f, "P::<{}>({:#x})", &full[start..], self.addr.as_ptr().addr())
    }
}

impl<'r, T: ?Sized> P<'r, T> {
    /// Makes a pointer to the object at `addr`.
    ///
    /// # Safety
    /// As long as the brand `'r` lives: there is a live object of type `T` at `addr` (if it is not written
    /// yet, it is written before it is read), in the region that has the brand, and the region is locked. If
    /// a `T` has no bytes, it is enough that `addr` is aligned to it.
    #[inline(always)]
    pub(crate) unsafe fn from_addr(addr: NonNull<u8>) -> Self {
        P { addr, brand: PhantomData, target: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn addr(self) -> NonNull<u8> {
        self.addr
    }

    /// Returns the object's identity, for sets of visited objects and the like. A key cannot be stored in a
    /// heap.
    pub fn key(self) -> Key<'r> {
        Key { addr: self.addr.as_ptr().addr(), brand: PhantomData }
    }
}

macro_rules! one_word {
    (nullable: $nullable:literal) => {
        const PADDED: bool = false;
        const POINTERS: bool = true;

        fn desc() -> &'static Desc {
            const { &Desc::own("P", (8, 8), Kind::Ptr { nullable: $nullable, to: T::desc }) }
        }

        #[inline(always)]
        unsafe fn zero_padding(_: *mut Self) {}
    };
}

// SAFETY: a `P` is one word, without padding, and is described as a pointer to its target type. `At` changes
// the brand of the target together with that of the pointer.
unsafe impl<'r, T: Pointee + ?Sized> Persist for P<'r, T> {
    type At<'a> = P<'a, T::At<'a>>;
    one_word!(nullable: false);
}

// SAFETY: an `Option<P>` is one word, because `P` contains a `NonNull`, and `None` is the word 0. It is
// described as a pointer to its target type that may be 0. `At` changes the brand of the target together with
// that of the pointer.
unsafe impl<'r, T: Pointee + ?Sized> Persist for Option<P<'r, T>> {
    type At<'a> = Option<P<'a, T::At<'a>>>;
    one_word!(nullable: true);
}

/// Identity of an object within one transaction or read; made by [`P::key`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key<'r> {
    addr: usize,
    brand: Brand<'r>,
}

impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.addr.hash(state);
    }
}

/// Returns the first index of a range, and the index after its last one.
///
/// # Panics
/// If the range is not within `0..len`.
#[track_caller]
pub(crate) fn bounds(range: impl RangeBounds<usize>, len: usize) -> (usize, usize) {
    let start = match range.start_bound() {
        Bound::Included(&n) => n,
        Bound::Excluded(&n) => n.checked_add(1).expect("the start of a range is out of bounds"),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&n) => n.checked_add(1).expect("the end of a range is out of bounds"),
        Bound::Excluded(&n) => n,
        Bound::Unbounded => len,
    };
    assert!(start <= end && end <= len, "range {start}..{end} is out of bounds of a slice of length {len}");
    (start, end)
}

/// Returns the address of the value of a sized object. For a slice or string,
/// [`View::value_of`](crate::View::value_of) also reads the length.
#[inline(always)]
pub(crate) fn value_of<T>(p: P<'_, T>) -> *mut T {
    p.addr.as_ptr().cast()
}

/// Returns the address of the first element of a slice. It is within the slice's object, or right behind it.
#[inline(always)]
pub(crate) fn elements_of<T>(slice: P<'_, [T]>) -> *mut T {
    slice.addr.as_ptr().wrapping_add(slice_header(align_of::<T>())).cast()
}
