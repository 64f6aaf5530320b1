//! `P`, the branded pointer.
//!
//! Knows types and addresses. Must not know whether anything is there: that is for whoever makes a pointer to promise.

#![allow(unsafe_code)]

pub(crate) mod part;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::ptr::NonNull;

use crate::layout::desc::{Desc, Kind};
use crate::layout::{Persist, Pointee, slice_header};

/// Makes a type invariant in `'r`, so that no brand can be traded for another.
pub(crate) type Brand<'r> = PhantomData<fn(&'r ()) -> &'r ()>;

/// A pointer to a `T` in the region of one root, usable only inside the transaction or read that has the brand `'r`.
///
/// It is a raw address of 8 bytes, `Copy`, and the only kind of pointer that may be stored in a heap. Reads are
/// `tx[p].field`, writes `tx[p].field = v`. `'r` is *generative*: each transaction has a brand of its own that no other
/// lifetime equals, so a pointer cannot leave its transaction or reach another root. To keep one, see
/// [`Txn::hold`](crate::Txn::hold).
///
/// Pointers compare for equality only: a heap may be mapped elsewhere tomorrow, so an address must not be stored as a sort or
/// hash key. [`key`](P::key) gives a key for use within the transaction.
///
/// A pointer to a type without bytes leads nowhere: it keeps no object in the heap, and may equal any other.
//
// Invariant: as long as there is the brand `'r`, a live object of type `T` is at `addr`, in the one region that has this brand, and the region is locked. Whoever
// calls `from_addr` promises it; a `P` that is stored in the heap is read by `View` and `Txn` only, which have the lock. (Or the brand is that of an access to something
// `Lasting`, that nobody writes.)
// If a `T` has no bytes, `addr` is any address that is aligned to it: nothing is there to be read, and nobody
// follows the pointer.
#[repr(transparent)]
pub struct P<'r, T: ?Sized> {
    addr: NonNull<u8>,
    brand: Brand<'r>,
    // `*mut T` makes it invariant in `T`: it can be written through. `fn()` keeps it `Send` and `Sync`.
    target: PhantomData<fn() -> *mut T>,
}

// SAFETY: an address. What turns it into memory is `View` and `Txn`, which stay in their threads, and `Shared`, while nothing is written. The length of a slice,
// which `len` reads, never changes. (A conversion may write it, while nobody has a `P` of that brand.)
unsafe impl<T: ?Sized> Send for P<'_, T> {}
// SAFETY: a `&P` does no more than a `P`, which is `Copy`, and `Send`.
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
        // The path up to the last `::` before any type argument.
        let head = full.find('<').unwrap_or(full.len());
        let start = full[..head].rfind("::").map_or(0, |at| at + 2);
        write!(f, "P::<{}>({:#x})", &full[start..], self.addr.as_ptr().addr())
    }
}

impl<'r, T: ?Sized> P<'r, T> {
    /// # Safety
    /// As long as there is the brand `'r`: a live object of type `T` (one that is not written yet is written before it is read) is at `addr`, in the region that has
    /// the brand, and the region is locked. If a `T` has no bytes, it is enough that `addr` is aligned to it.
    #[inline(always)]
    pub(crate) unsafe fn from_addr(addr: NonNull<u8>) -> Self {
        P { addr, brand: PhantomData, target: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn addr(self) -> NonNull<u8> {
        self.addr
    }

    /// The object's identity, for visited sets and the like. A key cannot be stored in a heap.
    pub fn key(self) -> Key<'r> {
        Key { addr: self.addr.as_ptr().addr(), brand: PhantomData }
    }
}

impl<'r, T: Persist> P<'r, [T]> {
    /// Number of elements.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty)] // it is there; clippy does not see through the `impl` blocks
    pub fn len(self) -> usize {
        // SAFETY: a live slice begins with its length, which is aligned, and is never written again but by a
        // conversion: to whatever place a `Migrate` gets a pointer, it has the length as long as that runs.
        unsafe { self.addr.cast::<u64>().read() as usize }
    }

    /// Whether there are no elements.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// A pointer to element `index`.
    ///
    /// # Panics
    /// If `index` is not less than [`len`](Self::len).
    #[inline(always)]
    #[track_caller]
    pub fn at(self, index: usize) -> P<'r, T> {
        let len = self.len();
        assert!(index < len, "index out of bounds: the length is {len} but the index is {index}");
        // SAFETY: checked above.
        unsafe { self.element(index) }
    }

    /// A pointer to element `index`, if there is one.
    #[inline]
    pub fn get(self, index: usize) -> Option<P<'r, T>> {
        // SAFETY: called only if the index is less than the length.
        (index < self.len()).then(|| unsafe { self.element(index) })
    }

    /// # Safety
    /// `index` is less than the length.
    #[inline(always)]
    unsafe fn element(self, index: usize) -> P<'r, T> {
        // In a `Migrate`, the elements may be elsewhere by now, or smaller here than a `T` is. So this may lead
        // behind the object, but not further than the slice that this becomes is long: less than `OBJECT_BYTES`.
        let offset = slice_header(align_of::<T>()) + index * size_of::<T>();
        let addr = self.addr.as_ptr().wrapping_add(offset);
        // SAFETY: an object is below 2^56, so what is so near behind it is not 0.
        let addr = unsafe { NonNull::new_unchecked(addr) };
        // SAFETY: an element of a live slice is a live value, in the same region. A `Migrate` has no
        // transaction, and what it returns is compared with what it was given.
        unsafe { P::from_addr(addr) }
    }
}

impl<'r> P<'r, str> {
    /// Length in bytes.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty)] // it is there; clippy does not see through the `impl` blocks
    pub fn len(self) -> usize {
        // SAFETY: a live string begins with its length, which is aligned, and is never written again.
        unsafe { self.addr.cast::<u64>().read() as usize }
    }

    /// Whether the string is empty.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.len() == 0
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

// SAFETY: one word, without padding, that is described as a pointer, to the type that it has; the pointee changes its brand with the pointer.
unsafe impl<'r, T: Pointee + ?Sized> Persist for P<'r, T> {
    type At<'a> = P<'a, T::At<'a>>;
    one_word!(nullable: false);
}

// SAFETY: as large as the pointer, for that is a `NonNull` inside, so `None` is the word 0; described as one that may be 0, to the type that it has. The pointee changes its
// brand with the pointer.
unsafe impl<'r, T: Pointee + ?Sized> Persist for Option<P<'r, T>> {
    type At<'a> = Option<P<'a, T::At<'a>>>;
    one_word!(nullable: true);
}

/// Identity of an object within one transaction; made by [`P::key`].
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

/// A range of the indices below `len`, as its first one and the one behind its last.
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

/// The object at an address, for `Index`.
#[inline(always)]
pub(crate) fn value_of<T: Pointee + ?Sized>(p: P<'_, T>) -> *mut T {
    // SAFETY: a `P` points to a live object of its type, its invariant.
    unsafe { T::value(p.addr.as_ptr()) }
}
