//! `PVecDeque`, a queue with two ends.

#![allow(unsafe_code)]

use std::ops::RangeBounds;

use super::believed;
use super::buffer::{self, Slot, Slots};
use super::common::{by_pointer, copied, iterators, not_in_place, sized};
use crate::Persist;
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::error::{Error, Result};
use crate::heap::check::rule::{CollectionRule, OwnType, TypePromise};
use crate::ptr::{P, bounds};

/// A queue with two ends in a ring buffer: `VecDeque` for a heap.
///
/// ```
/// # use pheap::{Heap, PVecDeque, Root};
/// # fn main() -> pheap::Result<()> {
/// # let heap = Heap::in_memory()?;
/// let jobs: Root<PVecDeque<u64>> = heap.root("jobs")?;
/// jobs.txn(|tx, jobs| {
///     jobs.push_back(tx, 1)?;
///     jobs.push_back(tx, 2)
/// })?;
/// let next = jobs.txn(|tx, jobs| Ok(jobs.pop_front(tx)))?;
/// assert_eq!(next, Some(1));
/// # Ok(())
/// # }
/// ```
///
#[doc = include_str!("pvecdeque.md")]
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::PVecDeque", crate = "crate")]
pub struct PVecDeque<'r, T> {
    /// Index of the slot in the buffer that has the element at the front; 0 if there is no buffer.
    head: u64,
    len: u64,
    buffer: Option<P<'r, [Slot<T>]>>,
}

/// Entries for the lists of [`own_types`](super::own_types): the types of this module, each with the promise
/// that [`check`](crate::Heap::check) verifies.
pub(super) const OWN_TYPES: &[OwnType] =
    &[OwnType::for_type::<PVecDeque<'static, u8>>(TypePromise::Collection(CollectionRule::ring))];

sized!(
    PVecDeque<T> of "elements", "a buffer", PVecDeque { head: 0, len: 0, buffer: None },
    |queue| queue.len as usize
);

/// A ring buffer: its slots, the index of the slot of the first element, and the number of elements.
struct Ring<T> {
    slots: Slots<T>,
    head: usize,
    len: usize,
}

copied! { [T] Ring<T>; }

impl<T: Persist> Ring<T> {
    /// Returns the index of the slot of element `index`, or of the slot that this element would have if there
    /// were more elements.
    #[inline(always)]
    fn slot_index(self, index: usize) -> usize {
        // Not the sum modulo the capacity, because the sum might overflow: a ring of zero-sized elements may
        // have any length.
        let before_end = self.slots.len - self.head;
        if index < before_end { self.head + index } else { index - before_end }
    }

    /// Returns the slot of element `index`.
    ///
    /// # Safety
    /// `index` is less than the capacity.
    #[inline(always)]
    unsafe fn element_slot_ptr(self, index: usize) -> *mut Slot<T> {
        // SAFETY: `slot_index` returns an index less than the capacity, because `index` is less.
        unsafe { self.slots.slot_ptr(self.slot_index(index)) }
    }
}

/// Reading a queue.
impl<'r, T: Persist> PVecDeque<'r, T> {
    #[inline(always)]
    fn ring(&self, view: &View<'r>) -> Ring<T> {
        let slots = self.buffer.map_or_else(Slots::none, |buffer| Slots::from_buffer(view, buffer));
        Ring { slots, head: self.head as usize, len: self.len() }
    }

    /// Returns the number of elements that the buffer has room for.
    pub fn capacity(&self, view: &View<'r>) -> usize {
        self.buffer.map_or(0, |buffer| buffer.len(view))
    }

    /// Returns element `index` from the front, if it exists.
    #[inline]
    pub fn get<'v>(&self, view: &'v View<'r>, index: usize) -> Option<&'v T> {
        let ring = self.ring(view);
        // SAFETY: `index` is less than the length, and the slots of all elements have values.
        (index < ring.len).then(|| unsafe { buffer::read(view, ring.element_slot_ptr(index)).value() })
    }

    /// Returns the first element.
    pub fn front<'v>(&self, view: &'v View<'r>) -> Option<&'v T> {
        self.get(view, 0)
    }

    /// Returns the last element.
    pub fn back<'v>(&self, view: &'v View<'r>) -> Option<&'v T> {
        self.get(view, self.len().wrapping_sub(1))
    }

    /// Iterates over the elements from front to back; the iterator is double-ended.
    pub fn iter<'v>(&self, view: &'v View<'r>) -> Iter<'v, 'r, T> {
        let ring = self.ring(view);
        Iter(DequeElements { view, ring, from: 0, to: ring.len })
    }

    /// Whether some element equals `value`. O(n).
    pub fn contains(&self, view: &View<'r>, value: &T) -> bool
    where
        T: PartialEq,
    {
        self.iter(view).any(|element| element == value)
    }
}

by_pointer! {
    /// Reading a queue through a `P` to it: short for `view[queue].get(view, …)` and so on.
    [T: Persist] PVecDeque<T>:
    fn get(index: usize) -> Option<&'v T>;
    fn iter() -> Iter<'v, 'r, T>;
}

/// <a id="change-PVecDeque"></a>Changing a queue.
///
/// Operations that may allocate fail as [`Txn::alloc_slice`] does: for instance with [`Error::OutOfSpace`] or
/// [`Error::ReservationFull`] if the heap cannot grow. Then they have changed nothing, except that `extend`
/// keeps the elements that it has appended.
impl<'r, T: Persist<At<'r> = T>> P<'r, PVecDeque<'r, T>> {
    /// Makes room for one more element. Returns the ring.
    #[inline(always)]
    fn with_room(self, tx: &mut Txn<'r>) -> Result<Ring<T>> {
        let ring = tx[self].ring(tx);
        if ring.len < ring.slots.len {
            return Ok(ring);
        }
        let least = ring.len.checked_add(1).ok_or(Error::TooLarge { bytes: u64::MAX })?;
        self.set_capacity(tx, least.max(ring.len.saturating_mul(2)).max(4))
    }

    /// Moves the elements to a new buffer with `capacity` slots, from its first slot on. The commit frees the
    /// old buffer. Returns the new ring.
    #[cold]
    fn set_capacity(self, tx: &mut Txn<'r>, capacity: usize) -> Result<Ring<T>> {
        let ring = tx[self].ring(tx);
        let (new, first) = tx.alloc_elements::<Slot<T>>(capacity)?;
        // SAFETY: the new buffer has `capacity` slots, not written yet, and `capacity` is at least
        // `ring.len`. The elements move: the old buffer is dropped below.
        unsafe {
            (0..ring.len).for_each(|i| buffer::move_to_new(tx, ring.element_slot_ptr(i), first.add(i)));
            first.add(ring.len).write_bytes(0, capacity - ring.len);
        }
        let queue = &mut tx[self];
        queue.head = 0;
        if let Some(old) = queue.buffer.replace(new) {
            // SAFETY: the queue owned the buffer, and has just dropped it.
            unsafe { buffer::free(tx, old) };
        }
        Ok(tx[self].ring(tx))
    }

    /// Appends an element. Amortised O(1).
    ///
    /// # Errors
    /// As for [`Txn::alloc_slice`].
    pub fn push_back(self, tx: &mut Txn<'r>, value: T) -> Result<()> {
        let ring = self.with_room(tx)?;
        // SAFETY: `with_room` has made the capacity greater than `ring.len`.
        unsafe { buffer::write(tx, ring.element_slot_ptr(ring.len)).put(value) };
        tx[self].len += 1;
        Ok(())
    }

    /// Inserts an element before all others. Amortised O(1).
    ///
    /// # Errors
    /// As for [`Txn::alloc_slice`].
    pub fn push_front(self, tx: &mut Txn<'r>, value: T) -> Result<()> {
        let ring = self.with_room(tx)?;
        let head = ring.slot_index(ring.slots.len - 1);
        // SAFETY: `slot_index` returns a slot of the ring: the one before the first element. It has no
        // element, because there is room for one more.
        unsafe { buffer::write(tx, ring.slots.slot_ptr(head)).put(value) };
        let queue = &mut tx[self];
        queue.head = head as u64;
        queue.len += 1;
        Ok(())
    }

    /// Removes the first element. O(1).
    pub fn pop_front(self, tx: &mut Txn<'r>) -> Option<T> {
        let ring = tx[self].ring(tx);
        if ring.len == 0 {
            return None;
        }
        let value = Self::take_element(tx, ring, 0);
        let queue = &mut tx[self];
        queue.head = ring.slot_index(1) as u64;
        queue.len -= 1;
        Some(value)
    }

    /// Removes the last element. O(1).
    pub fn pop_back(self, tx: &mut Txn<'r>) -> Option<T> {
        let ring = tx[self].ring(tx);
        let last = ring.len.checked_sub(1)?;
        let value = Self::take_element(tx, ring, last);
        tx[self].len -= 1;
        Some(value)
    }

    /// Moves an element out of its slot, and zeroes the slot if elements can have pointers.
    fn take_element(tx: &mut Txn<'r>, ring: Ring<T>, index: usize) -> T {
        // SAFETY: the caller passes the index of an element, so the slot has a value. The caller does not
        // read the slot again before it stores another value there.
        unsafe {
            let value = buffer::read(tx, ring.element_slot_ptr(index)).move_out();
            if T::POINTERS {
                buffer::write(tx, ring.element_slot_ptr(index)).vacate();
            }
            value
        }
    }

    /// Moves element `from` to the slot of index `to`, which has no element.
    fn shift(tx: &mut Txn<'r>, ring: Ring<T>, from: usize, to: usize) {
        let value = Self::take_element(tx, ring, from);
        // SAFETY: `to` is less than the capacity: the callers pass the index of an element, or the next one
        // if there is room for it.
        unsafe { buffer::write(tx, ring.element_slot_ptr(to)).put(value) };
    }

    /// Inserts an element before element `index`, or at the end if `index` is the length. O(n): the elements
    /// on the side of the nearer end move by one.
    ///
    /// # Errors
    /// As for [`push_back`](Self::push_back).
    ///
    /// # Panics
    /// If `index` is greater than the length.
    #[track_caller]
    pub fn insert(self, tx: &mut Txn<'r>, index: usize, value: T) -> Result<()> {
        let len = tx[self].len();
        assert!(index <= len, "index out of bounds: the length is {len} but the index is {index}");
        let mut ring = self.with_room(tx)?;
        if index < len / 2 {
            // The ring begins one slot earlier, and the elements before `index` move by one slot towards its
            // start.
            ring.head = ring.slot_index(ring.slots.len - 1);
            (0..index).for_each(|i| Self::shift(tx, ring, i + 1, i));
        } else {
            (index..len).rev().for_each(|i| Self::shift(tx, ring, i, i + 1));
        }
        // SAFETY: there is room for one more element, and if there was an element `index`, it has moved.
        unsafe { buffer::write(tx, ring.element_slot_ptr(index)).put(value) };
        let queue = &mut tx[self];
        queue.head = ring.head as u64;
        queue.len += 1;
        Ok(())
    }

    /// Removes element `index`, if there is one. O(n): the elements on the side of the nearer end move by
    /// one.
    pub fn remove(self, tx: &mut Txn<'r>, index: usize) -> Option<T> {
        let ring = tx[self].ring(tx);
        if index >= ring.len {
            return None;
        }
        let value = Self::take_element(tx, ring, index);
        let mut head = ring.head;
        if index < ring.len / 2 {
            (0..index).rev().for_each(|i| Self::shift(tx, ring, i, i + 1));
            head = ring.slot_index(1);
        } else {
            (index + 1..ring.len).for_each(|i| Self::shift(tx, ring, i, i - 1));
        }
        let queue = &mut tx[self];
        queue.head = head as u64;
        queue.len -= 1;
        Some(value)
    }

    /// Swaps the elements `a` and `b`.
    ///
    /// # Panics
    /// If one of the two elements does not exist.
    #[track_caller]
    pub fn swap(self, tx: &mut Txn<'r>, a: usize, b: usize) {
        let ring = tx[self].ring(tx);
        let len = ring.len;
        assert!(
            a < len && b < len,
            "index out of bounds: the length is {len} but the indices are {a} and {b}"
        );
        // SAFETY: `a` and `b` are indices of elements, as was checked, and the pointers do not leave this
        // call.
        unsafe {
            tx.swap(
                buffer::pointer_to(ring.element_slot_ptr(a)),
                buffer::pointer_to(ring.element_slot_ptr(b)),
            )
        };
    }

    /// Removes elements `range` and returns them. O(n): the elements after them move.
    ///
    /// # Panics
    /// If the range is not within the queue.
    #[track_caller]
    pub fn drain(self, tx: &mut Txn<'r>, range: impl RangeBounds<usize>) -> std::vec::IntoIter<T> {
        let ring = tx[self].ring(tx);
        let (from, to) = bounds(range, ring.len);
        let taken: Vec<T> = (from..to).map(|i| Self::take_element(tx, ring, i)).collect();
        if !taken.is_empty() {
            (to..ring.len).for_each(|i| Self::shift(tx, ring, i, i - taken.len()));
            tx[self].len -= taken.len() as u64;
        }
        taken.into_iter()
    }

    /// Removes all elements from index `len` on.
    pub fn truncate(self, tx: &mut Txn<'r>, len: usize) {
        if len < tx[self].len() {
            self.drain(tx, len..);
        }
    }

    /// Removes the elements for which `keep` is false. O(n).
    pub fn retain(self, tx: &mut Txn<'r>, keep: impl FnMut(&T) -> bool) {
        // `keep` is called for all elements first: if it panics, no element has moved.
        let kept: Vec<bool> = tx[self].iter(tx).map(keep).collect();
        let (ring, mut to) = (tx[self].ring(tx), 0);
        for (from, kept) in kept.into_iter().enumerate() {
            match kept {
                // The slot `to` has no element any more: its element was removed, or has moved.
                true if from != to => Self::shift(tx, ring, from, to),
                true => {}
                false => drop(Self::take_element(tx, ring, from)),
            }
            to += usize::from(kept);
        }
        if to < ring.len {
            tx[self].len = to as u64;
        }
    }

    /// Moves all elements of `other` to the end of this queue.
    ///
    /// # Errors
    /// As for [`push_back`](Self::push_back); then nothing has moved.
    ///
    /// # Panics
    /// If `other` is this queue.
    pub fn append(self, tx: &mut Txn<'r>, other: P<'r, PVecDeque<'r, T>>) -> Result<()> {
        assert!(self != other, "a queue cannot be appended to itself");
        self.reserve(tx, tx[other].len())?;
        let elements = other.drain(tx, ..);
        self.extend(tx, elements)
    }

    /// Moves the elements from index `at` on to a new queue, and returns that. As a rule, the buffer of the
    /// new queue has room for exactly the k moved elements: O(k). If `at` is 0, the new queue gets the old
    /// buffer: O(1). If `at` is the length, and not 0, the new queue has no buffer. If the program does not
    /// store the new queue, its buffer is garbage.
    ///
    /// # Errors
    /// As for [`push_back`](Self::push_back); then nothing has changed.
    ///
    /// # Panics
    /// If `at` is greater than the length.
    #[track_caller]
    pub fn split_off(self, tx: &mut Txn<'r>, at: usize) -> Result<PVecDeque<'r, T>> {
        let ring = tx[self].ring(tx);
        assert!(
            at <= ring.len,
            "split index out of bounds: the length is {} but the index is {at}",
            ring.len
        );
        let len = ring.len - at;
        if at == 0 {
            return Ok(std::mem::take(&mut tx[self]));
        }
        if len == 0 {
            return Ok(PVecDeque::new());
        }
        let (new, first) = tx.alloc_elements::<Slot<T>>(len)?;
        // SAFETY: the new buffer has `len` slots, not written yet. `at + i` is less than `ring.len`, so each
        // old slot has a value, which moves: the slot is vacated below, or lies after the end.
        unsafe {
            (0..len).for_each(|i| buffer::move_to_new(tx, ring.element_slot_ptr(at + i), first.add(i)))
        };
        if T::POINTERS {
            // SAFETY: `i` is less than the length; the value of the slot has moved.
            (at..ring.len).for_each(|i| unsafe { buffer::write(tx, ring.element_slot_ptr(i)).vacate() });
        }
        tx[self].len = at as u64;
        Ok(PVecDeque { head: 0, len: len as u64, buffer: Some(new) })
    }

    /// Returns element `index` from the front, to write, if it exists.
    pub fn get_mut<'t>(self, tx: &'t mut Txn<'r>, index: usize) -> Option<&'t mut T> {
        let ring = tx[self].ring(tx);
        // SAFETY: `index` is less than the length, and the slots of all elements have values.
        (index < ring.len).then(|| unsafe { buffer::write(tx, ring.element_slot_ptr(index)).value_mut() })
    }

    /// Appends the items of an iterator.
    ///
    /// # Errors
    /// As for [`push_back`](Self::push_back). Then the items before the failed one stay appended, unless the
    /// transaction is rolled back.
    pub fn extend(self, tx: &mut Txn<'r>, elements: impl IntoIterator<Item = T>) -> Result<()> {
        let elements = elements.into_iter();
        // An error is ignored: there may be fewer items than the hint says.
        let _ = self.reserve(tx, believed::<T>(elements.size_hint().0));
        for element in elements {
            self.push_back(tx, element)?;
        }
        Ok(())
    }

    /// Reserves room for at least `more` additional elements.
    ///
    /// # Errors
    /// As for [`push_back`](Self::push_back).
    pub fn reserve(self, tx: &mut Txn<'r>, more: usize) -> Result<()> {
        let ring = tx[self].ring(tx);
        let least = ring.len.checked_add(more).ok_or(Error::TooLarge { bytes: u64::MAX })?;
        if least > ring.slots.len {
            self.set_capacity(tx, least.max(ring.slots.len.saturating_mul(2)).max(4))?;
        }
        Ok(())
    }

    /// Frees unused memory.
    ///
    /// # Errors
    /// As for [`push_back`](Self::push_back): the elements move to a smaller buffer.
    pub fn shrink_to_fit(self, tx: &mut Txn<'r>) -> Result<()> {
        let ring = tx[self].ring(tx);
        if ring.len == 0 {
            self.clear(tx);
        } else if ring.len < ring.slots.len {
            self.set_capacity(tx, ring.len)?;
        }
        Ok(())
    }

    /// Removes all elements, and frees the buffer. O(1).
    pub fn clear(self, tx: &mut Txn<'r>) {
        if tx[self].buffer.is_none() {
            return;
        }
        if let Some(old) = std::mem::take(&mut tx[self]).buffer {
            // SAFETY: the queue owned the buffer, and has just dropped it.
            unsafe { buffer::free(tx, old) };
        }
    }
}

iterators! {
    /// The elements of a [`PVecDeque`], from front to back; made by [`PVecDeque::iter`].
    [T: Persist + 'v] Iter<T>(DequeElements<'v, 'r, T>) => &'v T, |element| element;
    debug_list of [T] exact both_ends;
}

pub(super) struct DequeElements<'v, 'r, T> {
    view: &'v View<'r>,
    ring: Ring<T>,
    from: usize,
    to: usize,
}

copied! { [T] DequeElements<'_, '_, T>; }

impl<'v, T: Persist + 'v> DequeElements<'v, '_, T> {
    /// Returns element `index`, which must exist.
    fn element(&self, index: usize) -> &'v T {
        // SAFETY: `index` is less than the length, and the slots of all elements have values.
        unsafe { buffer::read(self.view, self.ring.element_slot_ptr(index)).value() }
    }
}

impl<'v, T: Persist + 'v> Iterator for DequeElements<'v, '_, T> {
    type Item = &'v T;

    #[inline]
    fn next(&mut self) -> Option<&'v T> {
        let index = self.from;
        (index < self.to).then(|| {
            self.from += 1;
            self.element(index)
        })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.to - self.from, Some(self.to - self.from))
    }

    fn nth(&mut self, n: usize) -> Option<&'v T> {
        self.from = self.from.saturating_add(n).min(self.to);
        self.next()
    }
}

impl<'v, T: Persist + 'v> DoubleEndedIterator for DequeElements<'v, '_, T> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        (self.from < self.to).then(|| {
            self.to -= 1;
            self.element(self.to)
        })
    }
}

not_in_place! {
    [T] PVecDeque<'r, T>:
    push_back(tx, value) -> Result<()>;
    push_front(tx, value) -> Result<()>;
    pop_back(tx) -> Option<T>;
    pop_front(tx) -> Option<T>;
    extend(tx, values) -> Result<()>;
    get_mut(tx, index) -> Option<&'r mut T>;
    clear(tx) -> ();
}
