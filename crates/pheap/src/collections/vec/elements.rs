//! The elements of a vector: its buffer, and how many of its slots have values.
//!
//! Invariants of a vector: its buffer has at least `len` slots, the first `len` of them have values, and
//! there is no other pointer to the buffer. Only this file writes the fields `len` and `buffer` separately,
//! and decides which slots have values.

#![allow(unsafe_code)]

use std::ops::RangeBounds;

use crate::Persist;
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::collections::believed;
use crate::collections::buffer::{self, Slot, Slots, Writable};
use crate::collections::common::{copied, sized};
use crate::error::{Error, Result};
use crate::ptr::{P, bounds};

/// Bytes of neighbouring slots that an append makes crash-safe at once, unless a single slot is larger.
///
/// Unless the transaction is long, an append makes about `SHORT_BLOCK` bytes crash-safe: a block of the
/// buffer, the same for all appends to it, so that the next append can find the copy of the block. In a long
/// transaction, where each range costs a fence, it makes `LONG_BLOCK` bytes crash-safe, or up to
/// `LONGEST_BLOCK` if more elements are expected.
const SHORT_BLOCK: usize = 64;
const LONG_BLOCK: usize = 512;
const LONGEST_BLOCK: usize = 4096;

/// A growable array: `Vec` for a heap.
///
/// It is read through a reference, and changed through its pointer:
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
/// A buffer that is too small is replaced by one of at least twice its size.
/// [`shrink_to_fit`](P::shrink_to_fit) makes the buffer smaller. [`clear`](P::clear) frees the buffer if
/// elements can have pointers, and keeps it if they cannot. An element that is a collection can be read,
/// replaced and moved, but not changed in place: use a `PVec<P<PVec<T>>>` for that.
///
#[doc = include_str!("pvec.md")]
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::PVec", crate = "crate")]
pub struct PVec<'r, T> {
    len: u64,
    buffer: Option<P<'r, [Slot<T>]>>,
}

sized!(PVec<T> of "elements", "a buffer", PVec { len: 0, buffer: None }, |vec| vec.len as usize);

impl<'r, T: Persist<At<'r> = T>> PVec<'r, T> {
    /// Makes a vector with copies of `elements`, in a buffer of exactly their number of slots; without a
    /// buffer if there are none.
    ///
    /// # Errors
    /// As for [`Txn::alloc_slice`].
    pub fn from_slice(tx: &Txn<'r>, elements: &[T]) -> Result<Self>
    where
        T: Copy,
    {
        PVec::from_iter(tx, elements.iter().copied())
    }

    /// Makes a vector with the items of an iterator.
    ///
    /// # Errors
    /// As for [`Txn::alloc_slice`].
    pub fn from_iter(tx: &Txn<'r>, elements: impl IntoIterator<Item = T>) -> Result<Self> {
        // Not by `collect`, which reserves memory for as many items as the iterator's hint says.
        let from = elements.into_iter();
        let mut elements = Vec::with_capacity(believed::<T>(from.size_hint().0));
        from.for_each(|element| elements.push(element));
        if elements.is_empty() {
            return Ok(PVec::new());
        }
        let len = elements.len() as u64;
        let (buffer, first) = tx.alloc_elements::<Slot<T>>(elements.len())?;
        for (i, element) in elements.into_iter().enumerate() {
            // SAFETY: `i` is less than the number of elements, so this is a slot of the new buffer.
            unsafe { (*first.add(i)).put(element) };
        }
        Ok(PVec { len, buffer: Some(buffer) })
    }

    /// Frees the buffer, if there is one, when the transaction commits.
    pub(in crate::collections) fn free_buffer(self, tx: &Txn<'r>) {
        if let Some(buffer) = self.buffer {
            // SAFETY: a vector is moved and never copied, so this was the only pointer to the buffer.
            // References into the buffer stay valid, because it is freed at the commit.
            unsafe { buffer::free(tx, buffer) };
        }
    }
}

impl<'r, T: Persist> PVec<'r, T> {
    /// Returns the number of elements that the buffer has room for.
    pub fn capacity(&self, view: &View<'r>) -> usize {
        self.buffer.map_or(0, |buffer| buffer.len(view))
    }

    /// Returns the elements, to read through `view`.
    #[inline(always)]
    pub(super) fn values<'v>(&self, view: &'v View<'r>) -> VecElements<'v, 'r, T> {
        VecElements { view, slots: self.slots() }
    }

    /// Returns the slots in use: those of the elements.
    #[inline(always)]
    fn slots(&self) -> Slots<T> {
        match self.buffer {
            // SAFETY: by the invariant, the buffer has at least `len` slots.
            Some(buffer) => unsafe { Slots::first_of(buffer, self.len()) },
            None => Slots::none(),
        }
    }
}

/// The elements of a vector. They do not change while the view is borrowed.
pub(super) struct VecElements<'v, 'r, T> {
    view: &'v View<'r>,
    /// The slots in use, all of which have values.
    slots: Slots<T>,
}

copied! { [T] VecElements<'_, '_, T>; }

impl<'v, T: Persist> VecElements<'v, '_, T> {
    #[inline(always)]
    pub(super) fn len(self) -> usize {
        self.slots.len
    }

    /// Returns element `index`, if it exists.
    #[inline(always)]
    pub(super) fn get(self, index: usize) -> Option<&'v T> {
        // SAFETY: all slots in `slots` have values, and do not change while the view is borrowed.
        (index < self.slots.len)
            .then(|| unsafe { buffer::read(self.view, self.slots.slot_ptr(index)).value() })
    }

    /// Returns elements `range` as a slice.
    #[inline]
    #[track_caller]
    pub(super) fn slice(self, range: impl RangeBounds<usize>) -> &'v [T] {
        let (from, to) = bounds(range, self.slots.len);
        // SAFETY: all slots in `slots` have values, and do not change while the view is borrowed. A slot with
        // a value is laid out as the value.
        unsafe { &*(std::ptr::from_ref(buffer::read(self.view, self.slots.range(from, to))) as *const [T]) }
    }

    /// Returns all elements as a slice; `None` in a transaction that has copies of any objects, because a
    /// copy may have newer elements.
    #[inline(always)]
    pub(super) fn in_place(self) -> Option<&'v [T]> {
        self.view.is_in_place().then(|| self.slice(..))
    }
}

/// <a id="change-PVec"></a>Changing a vector.
impl<'r, T: Persist<At<'r> = T>> P<'r, PVec<'r, T>> {
    /// Returns the slots of the buffer, and how many are in use.
    #[inline(always)]
    fn parts(self, tx: &Txn<'r>) -> (Slots<T>, usize) {
        let vec = &tx[self];
        (vec.buffer.map_or_else(Slots::none, |buffer| Slots::from_buffer(tx, buffer)), vec.len())
    }

    /// Makes room for `more` additional elements. Returns the slots of the buffer, and how many are in use.
    #[inline(always)]
    fn with_room(self, tx: &mut Txn<'r>, more: usize) -> Result<(Slots<T>, usize)> {
        let (slots, len) = self.parts(tx);
        if more <= slots.len - len {
            return Ok((slots, len));
        }
        self.grow(tx, more)
    }

    #[cold]
    fn grow(self, tx: &mut Txn<'r>, more: usize) -> Result<(Slots<T>, usize)> {
        let (slots, len) = self.parts(tx);
        let least = len.checked_add(more).ok_or(Error::TooLarge { bytes: u64::MAX })?;
        self.set_capacity(tx, least.max(slots.len.saturating_mul(2)).max(4))
    }

    /// Moves the elements to a new buffer with `capacity` slots. The commit frees the old buffer. Returns the
    /// new slots, and how many are in use.
    fn set_capacity(self, tx: &mut Txn<'r>, capacity: usize) -> Result<(Slots<T>, usize)> {
        let (slots, len) = self.parts(tx);
        let new = buffer::moved(tx, slots.up_to(len), capacity)?;
        let old = tx[self].buffer.replace(new);
        if let Some(old) = old {
            // SAFETY: the vector owned the buffer, and has just dropped it.
            unsafe { buffer::free(tx, old) };
        }
        Ok((Slots::from_buffer(tx, new), len))
    }

    #[inline(always)]
    fn set_len(self, tx: &mut Txn<'r>, len: usize) {
        tx[self].len = len as u64;
    }

    /// Returns slots `from..to` of the buffer, to write.
    ///
    /// # Safety
    /// `from..to` is within the buffer.
    #[inline(always)]
    unsafe fn slots_mut<'t>(
        tx: &'t mut Txn<'r>,
        slots: Slots<T>,
        from: usize,
        to: usize,
    ) -> &'t mut [Slot<T>] {
        // SAFETY: the slots are within the buffer, by the caller's premise, and valid slots whether they have
        // values or not.
        unsafe { buffer::write(tx, slots.range(from, to)) }
    }

    /// Appends an element. Amortised O(1).
    ///
    /// # Errors
    /// As for [`Txn::alloc_slice`]; see [Changing a vector](P#change-PVec-more).
    #[inline]
    pub fn push(self, tx: &mut Txn<'r>, value: T) -> Result<()> {
        let header = Writable::new(tx, self);
        let &mut PVec { len, buffer } = header.get(tx);
        let (slots, len) = match buffer {
            Some(buffer) if (len as usize) < buffer.len(tx) => (Slots::from_buffer(tx, buffer), len as usize),
            _ => self.grow(tx, 1)?,
        };
        Self::tail(tx, slots, len, 1)[0].put(value);
        header.get(tx).len += 1;
        Ok(())
    }

    /// Returns the slots from index `len` on, to write: at least one, and perhaps fewer or more than
    /// `wanted`. The caller has made room for one more element.
    #[inline(always)]
    fn tail<'t>(tx: &'t mut Txn<'r>, slots: Slots<T>, len: usize, wanted: usize) -> &'t mut [Slot<T>] {
        let size = const { if size_of::<T>() == 0 { 1 } else { size_of::<T>() } };
        let (from, to) = if tx.logs_in_place() {
            (len, len + (LONG_BLOCK / size).max(wanted.min(LONGEST_BLOCK / size)).max(1))
        } else {
            // Blocks of whole words: a transaction copies whole words, and the copy of a block must not
            // contain a part of the next block.
            let whole = 8 / (size & size.wrapping_neg()).min(8);
            let count = (SHORT_BLOCK / size).max(1).next_multiple_of(whole);
            let from = len - len % count;
            (from, from + count)
        };
        // SAFETY: `from` is at most `len`, which is the index of a slot because there is room, and the end is
        // limited to that of the buffer.
        let part = unsafe { Self::slots_mut(tx, slots, from, to.min(slots.len)) };
        &mut part[len - from..]
    }

    /// Removes the last element. O(1).
    #[inline]
    pub fn pop(self, tx: &mut Txn<'r>) -> Option<T> {
        let (slots, len) = {
            let vec = &tx[self];
            (vec.slots(), vec.len().checked_sub(1)?)
        };
        // SAFETY: the slot has the last element, which moves out. Then the slot is vacated, or it stays as it
        // is and lies after the end, because its values can have no pointers.
        unsafe {
            let value = buffer::read(tx, slots.slot_ptr(len)).move_out();
            if T::POINTERS {
                buffer::write(tx, slots.slot_ptr(len)).vacate();
            }
            self.set_len(tx, len);
            Some(value)
        }
    }

    /// Returns element `index`, to write, if it exists.
    #[inline]
    pub fn get_mut<'t>(self, tx: &'t mut Txn<'r>, index: usize) -> Option<&'t mut T> {
        let (slots, len) = self.parts(tx);
        // SAFETY: `index` is less than the length, and the slots of all elements have values.
        (index < len).then(|| unsafe { buffer::write(tx, slots.slot_ptr(index)).value_mut() })
    }

    /// Returns elements `range`, to write. All of them are made crash-safe, also those that do not change.
    ///
    /// # Panics
    /// If the range is not within the vector.
    #[track_caller]
    pub fn as_mut_slice<'t>(self, tx: &'t mut Txn<'r>, range: impl RangeBounds<usize>) -> &'t mut [T] {
        let (slots, len) = self.parts(tx);
        let (from, to) = bounds(range, len);
        // The elements are made crash-safe as slots, not as values of `T`, because one of the slots may be
        // vacant when the transaction commits.
        // SAFETY: the slots are within the length, so they have values; a slot with a value is laid out as
        // the value.
        unsafe { &mut *(std::ptr::from_mut(buffer::write(tx, slots.range(from, to))) as *mut [T]) }
    }

    /// Swaps the elements `a` and `b`.
    ///
    /// # Panics
    /// If one of the two elements does not exist.
    #[track_caller]
    pub fn swap(self, tx: &mut Txn<'r>, a: usize, b: usize) {
        let (slots, len) = self.parts(tx);
        check_index(a, len, false);
        check_index(b, len, false);
        // SAFETY: `a` and `b` are indices of elements, as was checked, and the pointers do not leave this
        // call.
        unsafe { tx.swap(buffer::pointer_to(slots.slot_ptr(a)), buffer::pointer_to(slots.slot_ptr(b))) };
    }

    /// Removes all elements from index `len` on.
    pub fn truncate(self, tx: &mut Txn<'r>, len: usize) {
        let (slots, old) = self.parts(tx);
        if len >= old {
            return;
        }
        if len == 0 {
            return self.clear(tx);
        }
        if T::POINTERS {
            // SAFETY: `len..old` is within the buffer, because `old` is the vector's length.
            unsafe { Self::slots_mut(tx, slots, len, old) }.iter_mut().for_each(Slot::vacate);
        }
        self.set_len(tx, len);
    }

    /// Removes all elements. O(1): if elements can have pointers, the buffer is freed, because otherwise
    /// their slots would have to be zeroed.
    pub fn clear(self, tx: &mut Txn<'r>) {
        if !T::POINTERS {
            return self.set_len(tx, 0);
        }
        if let Some(old) = std::mem::take(&mut tx[self]).buffer {
            // SAFETY: the vector owned the buffer, and has just dropped it.
            unsafe { buffer::free(tx, old) };
        }
    }

    /// Reserves room for at least `more` additional elements.
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    pub fn reserve(self, tx: &mut Txn<'r>, more: usize) -> Result<()> {
        self.with_room(tx, more).map(|_| ())
    }

    /// Frees unused memory.
    ///
    /// # Errors
    /// As for [`push`](Self::push): the elements move to a smaller buffer.
    pub fn shrink_to_fit(self, tx: &mut Txn<'r>) -> Result<()> {
        let (slots, len) = self.parts(tx);
        if len == 0 {
            if let Some(old) = tx[self].buffer.take() {
                // SAFETY: the vector owned the buffer, and has just dropped it.
                unsafe { buffer::free(tx, old) };
            }
        } else if len < slots.len {
            self.set_capacity(tx, len)?;
        }
        Ok(())
    }

    /// Appends the items of an iterator. This is cheaper than to push one item after the other.
    ///
    /// # Errors
    /// As for [`push`](Self::push). Then the earlier items stay appended, unless the transaction is rolled
    /// back.
    ///
    /// # Panics
    /// If the iterator panics. Then the earlier items stay appended, unless the transaction is rolled back.
    pub fn extend(self, tx: &mut Txn<'r>, elements: impl IntoIterator<Item = T>) -> Result<()> {
        let mut elements = elements.into_iter();
        loop {
            let expected = believed::<T>(elements.size_hint().0).max(1);
            let Some(first) = elements.next() else { return Ok(()) };
            let (slots, len) = self.with_room(tx, expected).or_else(|_| self.with_room(tx, 1))?;
            let mut longer = AppendGuard { vec: self, tx, len };
            let part = Self::tail(longer.tx, slots, len, expected);
            part[0].put(first);
            longer.len += 1;
            for slot in &mut part[1..] {
                let Some(element) = elements.next() else { return Ok(()) };
                slot.put(element);
                longer.len += 1;
            }
        }
    }

    /// Appends copies of `elements`.
    ///
    /// # Errors
    /// As for [`push`](Self::push); then nothing is appended.
    pub fn extend_from_slice(self, tx: &mut Txn<'r>, elements: &[T]) -> Result<()>
    where
        T: Copy,
    {
        let (slots, mut len) = self.with_room(tx, elements.len())?;
        let mut rest = elements;
        while !rest.is_empty() {
            let part = Self::tail(tx, slots, len, rest.len());
            let now;
            (now, rest) = rest.split_at(rest.len().min(part.len()));
            part.iter_mut().zip(now).for_each(|(slot, &element)| slot.put(element));
            len += now.len();
        }
        self.set_len(tx, len);
        Ok(())
    }

    /// Inserts an element before element `index`, or at the end if `index` is the length. O(n).
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    ///
    /// # Panics
    /// If `index` is greater than the length.
    #[track_caller]
    pub fn insert(self, tx: &mut Txn<'r>, index: usize, value: T) -> Result<()> {
        check_index(index, tx[self].len(), true);
        self.with_room(tx, 1)?;
        // SAFETY: `index` is at most the length, and there is room for one more element. `once` yields one
        // item and does not panic.
        unsafe { self.replace(tx, index, index, std::iter::once(value)) };
        Ok(())
    }

    /// Replaces elements `from..to` by copies of `elements`.
    #[track_caller]
    pub(in crate::collections) fn splice(
        self,
        tx: &mut Txn<'r>,
        from: usize,
        to: usize,
        elements: &[T],
    ) -> Result<()>
    where
        T: Copy,
    {
        let len = tx[self].len();
        assert!(from <= to && to <= len, "range {from}..{to} is out of bounds of a vector of length {len}");
        if from == len {
            return self.extend_from_slice(tx, elements);
        }
        self.with_room(tx, elements.len().saturating_sub(to - from))?;
        if from < to || !elements.is_empty() {
            // SAFETY: `from..to` is within the length, and there is room for the additional elements. The
            // iterator of a slice yields as many items as it says, and does not panic.
            unsafe { self.replace(tx, from, to, elements.iter().copied()) };
        }
        Ok(())
    }

    /// Replaces elements `from..to` by the items of an iterator.
    ///
    /// # Safety
    /// `from..to` are indices of elements, the buffer has room for the resulting number of elements, and the
    /// iterator yields as many items as it says and does not panic.
    unsafe fn replace(
        self,
        tx: &mut Txn<'r>,
        from: usize,
        to: usize,
        elements: impl ExactSizeIterator<Item = T>,
    ) {
        let ((slots, len), added) = (self.parts(tx), elements.len());
        let new_len = len - (to - from) + added;
        let end = if new_len == len { to } else { len.max(new_len) };
        // SAFETY: the slots are in the buffer, which has room for all of them. The slots after the range move
        // with their bytes. The range is overwritten completely, because the iterator yields as many elements
        // as it says. Slots after the new end are vacated.
        unsafe {
            let part = Self::slots_mut(tx, slots, from, end);
            if new_len != len {
                std::ptr::copy(part.as_ptr().add(to - from), part.as_mut_ptr().add(added), len - to);
            }
            part.iter_mut().zip(elements).for_each(|(slot, element)| slot.put(element));
            if new_len < len {
                part[new_len - from..].iter_mut().for_each(Slot::vacate);
            }
        }
        self.set_len(tx, new_len);
    }

    /// Moves the elements from index `at` on to a new vector, and returns that. As a rule, the buffer of the
    /// new vector has room for exactly the k moved elements: O(k). If `at` is 0, the new vector gets the old
    /// buffer: O(1). If `at` is the length, and not 0, the new vector has no buffer. If the program does not
    /// store the new vector, its buffer is garbage.
    ///
    /// # Errors
    /// As for [`push`](Self::push); then nothing has changed.
    ///
    /// # Panics
    /// If `at` is greater than the length.
    #[track_caller]
    pub fn split_off(self, tx: &mut Txn<'r>, at: usize) -> Result<PVec<'r, T>> {
        let slots = tx[self].slots();
        assert!(
            at <= slots.len,
            "split index out of bounds: the length is {} but the index is {at}",
            slots.len
        );
        let len = slots.len - at;
        if at == 0 {
            return Ok(std::mem::take(&mut tx[self]));
        }
        if len == 0 {
            return Ok(PVec::new());
        }
        let buffer = buffer::moved(tx, slots.behind(at), len)?;
        self.truncate(tx, at);
        Ok(PVec { len: len as u64, buffer: Some(buffer) })
    }

    /// Removes all elements from index `from` on, and returns them.
    #[track_caller]
    pub(super) fn take_off(self, tx: &mut Txn<'r>, from: usize) -> Vec<T> {
        let slots = tx[self].slots();
        assert!(from <= slots.len, "there are fewer elements");
        // SAFETY: the slots have values, and none is read again: they lie after the end from now on, and
        // nothing in between can panic.
        let taken =
            unsafe { (from..slots.len).map(|i| buffer::read(tx, slots.slot_ptr(i)).move_out()).collect() };
        self.truncate(tx, from);
        taken
    }
}

/// A vector to which elements are being appended. Dropping the guard writes the new length to the vector,
/// also if the program's iterator panics.
struct AppendGuard<'t, 'r, T: Persist<At<'r> = T>> {
    vec: P<'r, PVec<'r, T>>,
    tx: &'t mut Txn<'r>,
    len: usize,
}

impl<'r, T: Persist<At<'r> = T>> Drop for AppendGuard<'_, 'r, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.vec.set_len(self.tx, self.len);
    }
}

/// Panics unless `index` is less than `len`, or equal to it if `at_end`.
#[inline]
#[track_caller]
pub(super) fn check_index(index: usize, len: usize, at_end: bool) {
    assert!(
        index < len + usize::from(at_end),
        "index out of bounds: the length is {len} but the index is {index}"
    );
}
