//! `PVec`, a vector.

mod change;
mod iter;

use std::cmp::Ordering;
use std::ops::RangeBounds;

use super::buffer::{self, Slots};
use super::slot::Slot;
use crate::Persist;
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::error::Result;
use crate::ptr::{P, bounds};

pub use iter::Iter;

/// A growable array: `Vec` for a heap.
///
/// It is read through a reference, and mutated through its pointer:
///
/// ```
/// # use pheap::{Heap, PVec, Persist, Root, field};
/// #[derive(Persist, Default)]
/// #[repr(C)]
/// struct Shop<'r> {
///     name: u64,
///     prices: PVec<'r, f64>,
/// }
///
/// # fn main() -> pheap::Result<()> {
/// # let heap = Heap::in_memory()?;
/// let shop: Root<Shop> = heap.root("shop")?;
/// shop.txn(|tx, shop| {
///     let prices = field!(shop.prices);
///     prices.push(tx, 9.5)?;
///     prices.extend(tx, [1.25, 3.0])?;
///     prices.sort_by(tx, f64::total_cmp);
///     Ok(())
/// })?;
/// let sum = shop.read(|view, shop| view[shop].prices.iter(view).sum::<f64>())?;
/// assert_eq!(sum, 13.75);
/// # Ok(())
/// # }
/// ```
///
/// It grows by doubling, and shrinks only when asked to ([`shrink_to_fit`](P::shrink_to_fit)). A push costs a redo record of one or two lines. Elements
/// that are collections themselves can be read, replaced and moved, but not changed in place: use a `PVec<P<PVec<T>>>` for that.
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::PVec", crate = "crate")]
pub struct PVec<'r, T> {
    len: u64,
    buffer: Option<P<'r, [Slot<T>]>>,
}

impl<T> Default for PVec<'_, T> {
    fn default() -> Self {
        PVec::new()
    }
}

impl<T> PVec<'_, T> {
    /// Without elements, and without a buffer.
    pub const fn new() -> Self {
        PVec { len: 0, buffer: None }
    }

    /// Number of elements.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are no elements.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<'r, T: Persist<At<'r> = T>> PVec<'r, T> {
    /// A vector of copies of these elements, in a buffer of exactly that size.
    ///
    /// # Errors
    /// As for [`Txn::alloc_slice`].
    pub fn from_slice(tx: &Txn<'r>, elements: &[T]) -> Result<Self>
    where
        T: Copy,
    {
        PVec::from_iter(tx, elements.iter().copied())
    }

    /// A vector of the items of an iterator.
    ///
    /// # Errors
    /// As for [`Txn::alloc_slice`].
    pub fn from_iter(tx: &Txn<'r>, elements: impl IntoIterator<Item = T>) -> Result<Self> {
        let elements: Vec<T> = elements.into_iter().collect();
        if elements.is_empty() {
            return Ok(PVec::new());
        }
        let len = elements.len() as u64;
        let (buffer, first) = tx.alloc_elements::<Slot<T>>(elements.len())?;
        for (i, element) in elements.into_iter().enumerate() {
            // SAFETY: a slot of the new buffer.
            unsafe { (*first.add(i)).put(element) };
        }
        Ok(PVec { len, buffer: Some(buffer) })
    }

    /// Frees the buffer when the transaction commits.
    ///
    /// # Safety
    /// Nobody will use the buffer again.
    pub(super) unsafe fn give_up(self, tx: &Txn<'r>) {
        if let Some(buffer) = self.buffer {
            // SAFETY: by the caller's promise.
            unsafe { buffer::free(tx, buffer) };
        }
    }
}

/// Reading.
impl<'r, T: Persist> PVec<'r, T> {
    /// Number of elements that there is room for.
    pub fn capacity(&self) -> usize {
        self.buffer.map_or(0, |buffer| buffer.len())
    }

    /// The slots in use.
    #[inline(always)]
    fn slots(&self) -> Slots<T> {
        match self.buffer {
            // SAFETY: the length is never greater than that of the buffer.
            Some(buffer) => unsafe { Slots::first_of(buffer, self.len()) },
            None => Slots::none(),
        }
    }

    /// Element `index`, if there is one.
    #[inline]
    pub fn get<'v>(&self, view: &'v View<'r>, index: usize) -> Option<&'v T> {
        let slots = self.slots();
        // SAFETY: within the length, where all slots have values.
        (index < slots.len).then(|| unsafe { buffer::read(view, slots.at(index)).value() })
    }

    /// The first element.
    pub fn first<'v>(&self, view: &'v View<'r>) -> Option<&'v T> {
        self.get(view, 0)
    }

    /// The last element.
    pub fn last<'v>(&self, view: &'v View<'r>) -> Option<&'v T> {
        self.get(view, self.len().wrapping_sub(1))
    }

    /// The elements in order, from both ends.
    #[inline]
    pub fn iter<'v>(&self, view: &'v View<'r>) -> Iter<'v, 'r, T> {
        Iter::new(view, self.slots())
    }

    /// Elements `range` as a slice.
    ///
    /// In a transaction that has changed some of them, this ends the short path (see the [crate's documentation](crate#short-and-long-transactions)). To
    /// read single elements, use [`get`](Self::get) and [`iter`](Self::iter).
    ///
    /// # Panics
    /// If the range is not within the vector.
    #[track_caller]
    pub fn as_slice<'v>(&self, view: &'v View<'r>, range: impl RangeBounds<usize>) -> &'v [T] {
        let slots = self.slots();
        let (from, to) = bounds(range, slots.len);
        // SAFETY: within the length; slots with values are laid out as the values.
        unsafe { &*(std::ptr::from_ref(buffer::read(view, slots.range(from, to))) as *const [T]) }
    }

    /// Looks for `value` in a sorted vector: `Ok` with the index of an equal element, or `Err` with the index at which it could be inserted.
    /// O(log n), as are the next three.
    ///
    /// # Errors
    /// The index of the first element that is greater.
    pub fn binary_search(&self, view: &View<'r>, value: &T) -> std::result::Result<usize, usize>
    where
        T: Ord,
    {
        self.binary_search_by(view, |element| element.cmp(value))
    }

    /// [`binary_search`](Self::binary_search) by a function that compares an element with the wanted one.
    ///
    /// # Errors
    /// As there.
    pub fn binary_search_by(
        &self,
        view: &View<'r>,
        mut compare: impl FnMut(&T) -> Ordering,
    ) -> std::result::Result<usize, usize> {
        let slots = self.slots();
        let (mut from, mut to) = (0, slots.len);
        while from < to {
            let middle = from.midpoint(to);
            // SAFETY: within the length.
            match compare(unsafe { buffer::read(view, slots.at(middle)).value() }) {
                Ordering::Less => from = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => to = middle,
            }
        }
        Err(from)
    }

    /// [`binary_search`](Self::binary_search) by a key of each element.
    ///
    /// # Errors
    /// As there.
    pub fn binary_search_by_key<K: Ord>(
        &self,
        view: &View<'r>,
        key: &K,
        mut key_of: impl FnMut(&T) -> K,
    ) -> std::result::Result<usize, usize> {
        self.binary_search_by(view, |element| key_of(element).cmp(key))
    }

    /// The index of the first element for which `pred` is false. It must be true for all elements before and false for all after.
    pub fn partition_point(&self, view: &View<'r>, mut pred: impl FnMut(&T) -> bool) -> usize {
        let compare = |element: &T| if pred(element) { Ordering::Less } else { Ordering::Greater };
        self.binary_search_by(view, compare).unwrap_or_else(|place| place)
    }

    /// Whether some element equals `value`. O(n).
    pub fn contains(&self, view: &View<'r>, value: &T) -> bool
    where
        T: PartialEq,
    {
        self.iter(view).any(|element| element == value)
    }
}

/// Reading a vector by its pointer: short for `view[list].get(view, …)`.
impl<'r, T: Persist> P<'r, PVec<'r, T>> {
    /// [`PVec::len`].
    #[inline]
    #[allow(clippy::len_without_is_empty)] // it is there; clippy does not see through the `impl` blocks
    pub fn len(self, view: &View<'r>) -> usize {
        view[self].len()
    }

    /// [`PVec::is_empty`].
    #[inline]
    pub fn is_empty(self, view: &View<'r>) -> bool {
        view[self].is_empty()
    }

    /// [`PVec::get`].
    #[inline]
    pub fn get<'v>(self, view: &'v View<'r>, index: usize) -> Option<&'v T> {
        view[self].get(view, index)
    }

    /// [`PVec::iter`].
    #[inline]
    pub fn iter<'v>(self, view: &'v View<'r>) -> Iter<'v, 'r, T> {
        view[self].iter(view)
    }
}

/// Whether `index` is that of an element, or may be that of a new one if `at_end`.
#[inline]
#[track_caller]
fn check_index(index: usize, len: usize, at_end: bool) {
    assert!(
        index < len + usize::from(at_end),
        "index out of bounds: the length is {len} but the index is {index}"
    );
}
