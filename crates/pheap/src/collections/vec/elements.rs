//! The elements of a vector: its buffer, and how many of the slots in it have values.
//!
//! What must hold of a vector: its buffer has at least `len` slots, the first `len` of them have values, and no other pointer leads to the buffer. Only this file
//! writes the two fields, and the slots.

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

/// Bytes of neighbouring slots that an append makes crash-safe at once. In a short transaction a block, always the same one for a slot, so that
/// what is appended next finds its copy; more where each range costs a fence.
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
/// It grows by doubling, and shrinks only when asked to ([`shrink_to_fit`](P::shrink_to_fit)). A push costs a redo record of one or two lines. Elements
/// that are collections themselves can be read, replaced and moved, but not changed in place: use a `PVec<P<PVec<T>>>` for that.
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
    /// A vector of copies of these elements, in a buffer of just that size.
    ///
    /// # Errors
    /// As for [`Txn::alloc_slice`].
    pub fn from_slice(tx: &Txn<'r>, elements: &[T]) -> Result<Self>
    where
        T: Copy,
    {
        PVec::from_iter(tx, elements.iter().copied())
    }

    /// A vector of what an iterator yields.
    ///
    /// # Errors
    /// As for [`Txn::alloc_slice`].
    pub fn from_iter(tx: &Txn<'r>, elements: impl IntoIterator<Item = T>) -> Result<Self> {
        // Without `collect`, which believes any hint.
        let from = elements.into_iter();
        let mut elements = Vec::with_capacity(believed::<T>(from.size_hint().0));
        from.for_each(|element| elements.push(element));
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
    pub(in crate::collections) fn give_up(self, tx: &Txn<'r>) {
        if let Some(buffer) = self.buffer {
            // SAFETY: a vector is moved and never copied, so this was the only pointer to the buffer; what was read in it stays until the commit.
            unsafe { buffer::free(tx, buffer) };
        }
    }
}

impl<'r, T: Persist> PVec<'r, T> {
    /// Number of elements that there is room for.
    pub fn capacity(&self) -> usize {
        self.buffer.map_or(0, |buffer| buffer.len())
    }

    /// The elements, as a view sees them.
    #[inline(always)]
    pub(super) fn values<'v>(&self, view: &'v View<'r>) -> Values<'v, 'r, T> {
        Values { view, slots: self.slots() }
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
}

/// The elements of a vector. While the view is borrowed nobody changes them.
pub(super) struct Values<'v, 'r, T> {
    view: &'v View<'r>,
    /// Slots that have values.
    slots: Slots<T>,
}

copied! { [T] Values<'_, '_, T>; }

impl<'v, T: Persist> Values<'v, '_, T> {
    #[inline(always)]
    pub(super) fn len(self) -> usize {
        self.slots.len
    }

    /// Element `index`, if there is one.
    #[inline(always)]
    pub(super) fn get(self, index: usize) -> Option<&'v T> {
        // SAFETY: all these slots have values, and none changes while the view is borrowed.
        (index < self.slots.len).then(|| unsafe { buffer::read(self.view, self.slots.at(index)).value() })
    }

    /// Elements `range`, side by side.
    #[inline]
    #[track_caller]
    pub(super) fn slice(self, range: impl RangeBounds<usize>) -> &'v [T] {
        let (from, to) = bounds(range, self.slots.len);
        // SAFETY: all these slots have values, none changes while the view is borrowed, and slots with values are laid out as the values.
        unsafe { &*(std::ptr::from_ref(buffer::read(self.view, self.slots.range(from, to))) as *const [T]) }
    }

    /// All elements side by side, if the transaction has copied none of them.
    #[inline(always)]
    pub(super) fn in_place(self) -> Option<&'v [T]> {
        self.view.is_in_place().then(|| self.slice(..))
    }
}

/// <a id="change-PVec"></a>Changing a vector.
impl<'r, T: Persist<At<'r> = T>> P<'r, PVec<'r, T>> {
    /// The slots of the buffer, and how many are in use.
    #[inline(always)]
    fn parts(self, tx: &Txn<'r>) -> (Slots<T>, usize) {
        let vec = &tx[self];
        (vec.buffer.map_or_else(Slots::none, Slots::of), vec.len())
    }

    /// The slots of a buffer with room for `more` elements, and how many are in use.
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

    /// Moves to another buffer.
    fn set_capacity(self, tx: &mut Txn<'r>, capacity: usize) -> Result<(Slots<T>, usize)> {
        let (slots, len) = self.parts(tx);
        let new = buffer::moved(tx, slots.up_to(len), capacity)?;
        let old = tx[self].buffer.replace(new);
        if let Some(old) = old {
            // SAFETY: the vector's own, which it has just let go of.
            unsafe { buffer::free(tx, old) };
        }
        Ok((Slots::of(new), len))
    }

    #[inline(always)]
    fn set_len(self, tx: &mut Txn<'r>, len: usize) {
        tx[self].len = len as u64;
    }

    /// Slots `from..to` of the buffer, to write.
    ///
    /// # Safety
    /// They are in the buffer.
    #[inline(always)]
    unsafe fn slots_mut<'t>(
        tx: &'t mut Txn<'r>,
        slots: Slots<T>,
        from: usize,
        to: usize,
    ) -> &'t mut [Slot<T>] {
        // SAFETY: they are in the buffer, as the caller promises; they are slots, whether they have values or not.
        unsafe { buffer::write(tx, slots.range(from, to)) }
    }

    /// Appends an element. Amortised O(1).
    ///
    /// # Errors
    /// If there is no memory for it; see [above](#impl-P<'r,+PVec<'r,+T>>).
    #[inline]
    pub fn push(self, tx: &mut Txn<'r>, value: T) -> Result<()> {
        let header = Writable::new(tx, self);
        let (slots, len) = match header.get(tx) {
            &mut PVec { len, buffer: Some(buffer) } if (len as usize) < buffer.len() => {
                (Slots::of(buffer), len as usize)
            }
            _ => self.grow(tx, 1)?,
        };
        Self::tail(tx, slots, len, 1)[0].put(value);
        header.get(tx).len += 1;
        Ok(())
    }

    /// Slots from `len` on, to write: one at least, and not many more than are `wanted`. There is room for one.
    #[inline(always)]
    fn tail<'t>(tx: &'t mut Txn<'r>, slots: Slots<T>, len: usize, wanted: usize) -> &'t mut [Slot<T>] {
        let size = const { if size_of::<T>() == 0 { 1 } else { size_of::<T>() } };
        let (from, to) = if tx.logs_in_place() {
            (len, len + (LONG_BLOCK / size).max(wanted.min(LONGEST_BLOCK / size)).max(1))
        } else {
            // Whole words, or the copy of a block would have a part of the next one.
            let whole = 8 / (size & size.wrapping_neg()).min(8);
            let count = (SHORT_BLOCK / size).max(1).next_multiple_of(whole);
            let from = len - len % count;
            (from, from + count)
        };
        // SAFETY: a part of the buffer.
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
        // SAFETY: an element of the vector, which moves out: the slot is vacated, or behind the end from now on.
        unsafe {
            let value = buffer::read(tx, slots.at(len)).take();
            if T::POINTERS {
                buffer::write(tx, slots.at(len)).vacate();
            }
            self.set_len(tx, len);
            Some(value)
        }
    }

    /// Element `index`, to write, if there is one.
    #[inline]
    pub fn get_mut<'t>(self, tx: &'t mut Txn<'r>, index: usize) -> Option<&'t mut T> {
        let (slots, len) = self.parts(tx);
        // SAFETY: within the length, where all slots have values.
        (index < len).then(|| unsafe { buffer::write(tx, slots.at(index)).value_mut() })
    }

    /// Elements `range`, to write. All of them are logged, once.
    ///
    /// # Panics
    /// If the range is not within the vector.
    #[track_caller]
    pub fn as_mut_slice<'t>(self, tx: &'t mut Txn<'r>, range: impl RangeBounds<usize>) -> &'t mut [T] {
        let (slots, len) = self.parts(tx);
        let (from, to) = bounds(range, len);
        // Made crash-safe as slots: one of them may be vacant again when the transaction commits.
        // SAFETY: within the length; slots with values are laid out as the values.
        unsafe { &mut *(std::ptr::from_mut(buffer::write(tx, slots.range(from, to))) as *mut [T]) }
    }

    /// Swaps two elements.
    ///
    /// # Panics
    /// If one of them does not exist.
    #[track_caller]
    pub fn swap(self, tx: &mut Txn<'r>, a: usize, b: usize) {
        let (slots, len) = self.parts(tx);
        check_index(a, len, false);
        check_index(b, len, false);
        // SAFETY: slots of the buffer.
        unsafe { tx.swap(buffer::pointer_to(slots.at(a)), buffer::pointer_to(slots.at(b))) };
    }

    /// Removes all elements from `len` on.
    pub fn truncate(self, tx: &mut Txn<'r>, len: usize) {
        let (slots, old) = self.parts(tx);
        if len >= old {
            return;
        }
        if len == 0 {
            return self.clear(tx);
        }
        if T::POINTERS {
            // SAFETY: in the buffer.
            unsafe { Self::slots_mut(tx, slots, len, old) }.iter_mut().for_each(Slot::vacate);
        }
        self.set_len(tx, len);
    }

    /// Removes all elements. O(1): where they would have to be zeroed, because they can hold pointers, the buffer is given up.
    pub fn clear(self, tx: &mut Txn<'r>) {
        if !T::POINTERS {
            return self.set_len(tx, 0);
        }
        if let Some(old) = std::mem::take(&mut tx[self]).buffer {
            // SAFETY: the vector's own, which it has just let go of.
            unsafe { buffer::free(tx, old) };
        }
    }

    /// Makes room for at least so many elements more.
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    pub fn reserve(self, tx: &mut Txn<'r>, more: usize) -> Result<()> {
        self.with_room(tx, more).map(|_| ())
    }

    /// Gives up memory that is not in use.
    ///
    /// # Errors
    /// As for [`push`](Self::push): the elements move to a smaller buffer.
    pub fn shrink_to_fit(self, tx: &mut Txn<'r>) -> Result<()> {
        let (slots, len) = self.parts(tx);
        if len == 0 {
            if let Some(old) = tx[self].buffer.take() {
                // SAFETY: the vector's own, which it has just let go of.
                unsafe { buffer::free(tx, old) };
            }
        } else if len < slots.len {
            self.set_capacity(tx, len)?;
        }
        Ok(())
    }

    /// Appends what an iterator yields. Cheaper than to push one by one.
    ///
    /// # Errors
    /// As for [`push`](Self::push). What came before is appended then; an `Err` that leaves the transaction undoes it.
    ///
    /// # Panics
    /// If the iterator does. What came before is appended, as in a `Vec`.
    pub fn extend(self, tx: &mut Txn<'r>, elements: impl IntoIterator<Item = T>) -> Result<()> {
        let mut elements = elements.into_iter();
        loop {
            let expected = believed::<T>(elements.size_hint().0).max(1);
            let Some(first) = elements.next() else { return Ok(()) };
            let (slots, len) = self.with_room(tx, expected).or_else(|_| self.with_room(tx, 1))?;
            let mut longer = Longer { vec: self, tx, len };
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

    /// Appends copies of these elements.
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

    /// Inserts an element at `index`, before those that are there. O(n).
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
        // SAFETY: within the length, and there is room for one more.
        unsafe { self.replace(tx, index, index, std::iter::once(value)) };
        Ok(())
    }

    /// Replaces elements `from..to`.
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
        assert!(from <= to && to <= len, "{from}..{to} are not elements of {len}");
        if from == len {
            return self.extend_from_slice(tx, elements);
        }
        self.with_room(tx, elements.len().saturating_sub(to - from))?;
        if from < to || !elements.is_empty() {
            // SAFETY: within the length, and there is room for what is added; the iterator is that of a slice.
            unsafe { self.replace(tx, from, to, elements.iter().copied()) };
        }
        Ok(())
    }

    /// Replaces elements `from..to` by others.
    ///
    /// # Safety
    /// They are elements, there is room for as many as there will be, and the iterator yields as many as it says and does not panic.
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
        // SAFETY: the slots are in the buffer, which has room for all of them: those behind the range move, bytes and all; what is in it is overwritten, as there
        // are so many elements; what is left behind is vacated.
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

    /// Takes the elements from `at` on out, as a vector with a buffer of just that size. O(k) for k of them; O(1) for all.
    ///
    /// # Errors
    /// As for [`push`](Self::push); then nothing has changed. A vector that is not stored is garbage, with all that is in it.
    ///
    /// # Panics
    /// If there are fewer elements.
    #[track_caller]
    pub fn split_off(self, tx: &mut Txn<'r>, at: usize) -> Result<PVec<'r, T>> {
        let slots = tx[self].slots();
        assert!(at <= slots.len, "the elements from {at} on of {}", slots.len);
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

    /// Moves all elements from `from` on out.
    #[track_caller]
    pub(super) fn take_off(self, tx: &mut Txn<'r>, from: usize) -> Vec<T> {
        let slots = tx[self].slots();
        assert!(from <= slots.len, "there are fewer elements");
        // SAFETY: slots that have values, none of which is read again: they are behind the end from now on, and nothing in between can panic.
        let taken = unsafe { (from..slots.len).map(|i| buffer::read(tx, slots.at(i)).take()).collect() };
        self.truncate(tx, from);
        taken
    }
}

/// A vector to which elements are being appended. It gets its new length when this is dropped, also if the
/// program's code panics.
struct Longer<'t, 'r, T: Persist<At<'r> = T>> {
    vec: P<'r, PVec<'r, T>>,
    tx: &'t mut Txn<'r>,
    len: usize,
}

impl<'r, T: Persist<At<'r> = T>> Drop for Longer<'_, 'r, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.vec.set_len(self.tx, self.len);
    }
}

/// Whether `index` is that of an element, or may be that of a new one if `at_end`.
#[inline]
#[track_caller]
pub(super) fn check_index(index: usize, len: usize, at_end: bool) {
    assert!(
        index < len + usize::from(at_end),
        "index out of bounds: the length is {len} but the index is {index}"
    );
}
