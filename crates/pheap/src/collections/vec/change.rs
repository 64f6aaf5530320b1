//! Changing a vector.

use std::cmp::Ordering;
use std::ops::RangeBounds;

use super::{PVec, check_index};
use crate::api::tx::Txn;
use crate::collections::buffer::{self, Slots, Writable};
use crate::collections::slot::Slot;
use crate::error::{Error, Result};
use crate::layout::Persist;
use crate::ptr::{P, bounds};

/// Bytes of neighbouring slots that an append makes crash-safe at once. In a short transaction a block, always the same one for a slot, so that
/// what is appended next finds its copy; more where each range costs a fence.
const SHORT_BLOCK: usize = 64;
const LONG_BLOCK: usize = 512;
const LONGEST_BLOCK: usize = 4096;

/// Changing a vector.
///
/// Whatever these return, a transaction that ends in an error leaves the vector as it was. Operations that may allocate fail with
/// [`Error::OutOfSpace`] or [`Error::ReservationFull`] if the heap cannot grow, and with [`Error::TooLarge`]; then they have changed nothing.
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
        // SAFETY: by the caller's promise; `&mut Txn` keeps all other access away.
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
        let (from, to) = if tx.__logs_in_place() {
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

    /// Replaces element `index`, and returns the old one.
    ///
    /// # Panics
    /// If there is no such element.
    #[inline]
    #[track_caller]
    pub fn set(self, tx: &mut Txn<'r>, index: usize, value: T) -> T {
        check_index(index, tx[self].len(), false);
        let element = self.get_mut(tx, index).expect("checked just now");
        std::mem::replace(element, value)
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

    /// Inserts an element at `index`, and moves later ones up. O(n).
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    ///
    /// # Panics
    /// If `index` is greater than the length.
    #[track_caller]
    pub fn insert(self, tx: &mut Txn<'r>, index: usize, value: T) -> Result<()> {
        check_index(index, tx[self].len(), true);
        let (slots, len) = self.with_room(tx, 1)?;
        // SAFETY: in the buffer, which has room for one more.
        let part = unsafe { Self::slots_mut(tx, slots, index, len + 1) };
        // SAFETY: all of them move up by one; what is left behind in the first one is overwritten.
        unsafe { std::ptr::copy(part.as_ptr(), part.as_mut_ptr().add(1), part.len() - 1) };
        part[0].put(value);
        self.set_len(tx, len + 1);
        Ok(())
    }

    /// Removes element `index`, and moves later ones down. O(n).
    ///
    /// # Panics
    /// If there is no such element.
    #[track_caller]
    pub fn remove(self, tx: &mut Txn<'r>, index: usize) -> T {
        let (slots, len) = self.parts(tx);
        check_index(index, len, false);
        // SAFETY: elements `index..` without the first one move down by one, and what is left behind in the last one is vacated.
        unsafe {
            let part = Self::slots_mut(tx, slots, index, len);
            let value = part[0].take();
            std::ptr::copy(part.as_ptr().add(1), part.as_mut_ptr(), part.len() - 1);
            part[len - index - 1].vacate();
            self.set_len(tx, len - 1);
            value
        }
    }

    /// Removes element `index` and puts the last one in its place. O(1).
    ///
    /// # Panics
    /// If there is no such element.
    #[track_caller]
    pub fn swap_remove(self, tx: &mut Txn<'r>, index: usize) -> T {
        check_index(index, tx[self].len(), false);
        let last = self.pop(tx).expect("there is one");
        match self.get_mut(tx, index) {
            Some(element) => std::mem::replace(element, last),
            None => last,
        }
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

    /// Removes all elements. O(1): if they can hold pointers, and would have to be zeroed, the buffer is freed instead.
    pub fn clear(self, tx: &mut Txn<'r>) {
        if !T::POINTERS {
            return self.set_len(tx, 0);
        }
        if let Some(old) = std::mem::take(&mut tx[self]).buffer {
            // SAFETY: the vector's own, which it has just let go of.
            unsafe { buffer::free(tx, old) };
        }
    }

    /// Reserves room for at least this many more elements.
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
                // SAFETY: the vector's own, which it has just let go of.
                unsafe { buffer::free(tx, old) };
            }
        } else if len < slots.len {
            self.set_capacity(tx, len)?;
        }
        Ok(())
    }

    /// Appends the items of an iterator. Cheaper than pushing one by one.
    ///
    /// # Errors
    /// As for [`push`](Self::push). Earlier items are appended then; an `Err` that leaves the transaction undoes that.
    pub fn extend(self, tx: &mut Txn<'r>, elements: impl IntoIterator<Item = T>) -> Result<()> {
        let mut elements = elements.into_iter();
        loop {
            let expected = elements.size_hint().0;
            let Some(first) = elements.next() else { return Ok(()) };
            let (slots, len) = self.with_room(tx, expected.max(1))?;
            let part = Self::tail(tx, slots, len, expected);
            part[0].put(first);
            let mut written = 1;
            for slot in &mut part[1..] {
                let Some(element) = elements.next() else { break };
                slot.put(element);
                written += 1;
            }
            self.set_len(tx, len + written);
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

    /// Replaces elements `from..to`.
    pub(crate) fn splice(self, tx: &mut Txn<'r>, from: usize, to: usize, elements: &[T]) -> Result<()>
    where
        T: Copy,
    {
        let (count, added) = (to - from, elements.len());
        if from == tx[self].len() {
            return self.extend_from_slice(tx, elements);
        }
        let (slots, len) = self.with_room(tx, added.saturating_sub(count))?;
        let new_len = len - count + added;
        if (count, added) == (0, 0) {
            return Ok(());
        }
        // SAFETY: in the buffer, which has room for all of them: those behind the range move, what is in it is overwritten, what is left behind is
        // vacated.
        unsafe {
            let end = if added == count { to } else { len.max(new_len) };
            let part = Self::slots_mut(tx, slots, from, end);
            if added != count {
                std::ptr::copy(part.as_ptr().add(count), part.as_mut_ptr().add(added), len - to);
            }
            part.iter_mut().zip(elements).for_each(|(slot, &element)| slot.put(element));
            if new_len < len {
                part[new_len - from..].iter_mut().for_each(Slot::vacate);
            }
        }
        self.set_len(tx, new_len);
        Ok(())
    }

    /// Replaces the elements by fewer.
    pub(crate) fn overwrite(self, tx: &mut Txn<'r>, elements: &[T])
    where
        T: Copy,
    {
        let (slots, len) = self.parts(tx);
        assert!(elements.len() <= len, "there are fewer");
        // SAFETY: in the buffer.
        let part = unsafe { Self::slots_mut(tx, slots, 0, len) };
        part.iter_mut().zip(elements).for_each(|(slot, &element)| slot.put(element));
        part[elements.len()..].iter_mut().for_each(Slot::vacate);
        self.set_len(tx, elements.len());
    }

    /// Makes the vector `len` long, with copies of `value` if it grows.
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    pub fn resize(self, tx: &mut Txn<'r>, len: usize, value: T) -> Result<()>
    where
        T: Copy,
    {
        let old = tx[self].len();
        if len <= old {
            self.truncate(tx, len);
            return Ok(());
        }
        self.extend(tx, std::iter::repeat_n(value, len - old))
    }

    /// Moves all elements of `other` to the end of this one.
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    ///
    /// # Panics
    /// If the two are the same.
    pub fn append(self, tx: &mut Txn<'r>, other: P<'r, PVec<'r, T>>) -> Result<()> {
        assert!(self != other, "a vector cannot be appended to itself");
        let count = tx[other].len();
        self.with_room(tx, count)?;
        let elements = other.drain(tx, ..);
        self.extend(tx, elements)
    }

    /// Removes elements `range` and returns them. O(n).
    ///
    /// # Panics
    /// If the range is not within the vector.
    #[track_caller]
    pub fn drain(self, tx: &mut Txn<'r>, range: impl RangeBounds<usize>) -> std::vec::IntoIter<T> {
        let (slots, len) = self.parts(tx);
        let (from, to) = bounds(range, len);
        // SAFETY: elements in the buffer: some are moved out, those behind them move up, and what is left behind is vacated. Nothing in between can
        // panic.
        let drained: Vec<T> = unsafe { (from..to).map(|i| buffer::read(tx, slots.at(i)).take()).collect() };
        if drained.len() == len {
            self.clear(tx);
        } else if from < to {
            // SAFETY: as above.
            unsafe {
                let part = Self::slots_mut(tx, slots, from, len);
                let kept = len - to;
                std::ptr::copy(part.as_ptr().add(to - from), part.as_mut_ptr(), kept);
                part[kept..].iter_mut().for_each(Slot::vacate);
            }
            self.set_len(tx, len - (to - from));
        }
        drained.into_iter()
    }

    /// Keeps the elements for which `keep` is true. O(n); all elements from the first removed one on are logged.
    pub fn retain(self, tx: &mut Txn<'r>, keep: impl FnMut(&T) -> bool) {
        // The user's code comes first: should it panic, nothing has moved.
        let kept: Vec<bool> = tx[self].iter(tx).map(keep).collect();
        self.keep(tx, &kept);
    }

    /// Removes elements that equal the preceding kept one.
    pub fn dedup(self, tx: &mut Txn<'r>)
    where
        T: PartialEq,
    {
        let mut last: Option<&T> = None;
        let kept: Vec<bool> = tx[self]
            .iter(tx)
            .map(|element| {
                let kept = last.is_none_or(|last| last != element);
                if kept {
                    last = Some(element);
                }
                kept
            })
            .collect();
        self.keep(tx, &kept);
    }

    fn keep(self, tx: &mut Txn<'r>, kept: &[bool]) {
        let (slots, len) = self.parts(tx);
        let Some(from) = kept.iter().position(|kept| !kept) else { return };
        // SAFETY: elements in the buffer: those that stay move up, and what is left behind is vacated. Nothing in between can panic.
        unsafe {
            let part = Self::slots_mut(tx, slots, from, len);
            let first = part.as_mut_ptr();
            let mut to = 0;
            for i in (0..len - from).filter(|&i| kept[from + i]) {
                std::ptr::copy(first.add(i), first.add(to), 1);
                to += 1;
            }
            part[to..].iter_mut().for_each(Slot::vacate);
            self.set_len(tx, from + to);
        }
    }

    /// Reverses the order.
    pub fn reverse(self, tx: &mut Txn<'r>) {
        self.as_mut_slice(tx, ..).reverse();
    }

    /// Sorts the elements: stable, O(n log n), as [`slice::sort`]. All of them are logged.
    pub fn sort(self, tx: &mut Txn<'r>)
    where
        T: Ord,
    {
        self.as_mut_slice(tx, ..).sort();
    }

    /// [`sort`](Self::sort) by a function that compares two elements.
    pub fn sort_by(self, tx: &mut Txn<'r>, compare: impl FnMut(&T, &T) -> Ordering) {
        self.as_mut_slice(tx, ..).sort_by(compare);
    }

    /// [`sort`](Self::sort) by a key of each element.
    pub fn sort_by_key<K: Ord>(self, tx: &mut Txn<'r>, key: impl FnMut(&T) -> K) {
        self.as_mut_slice(tx, ..).sort_by_key(key);
    }
}
