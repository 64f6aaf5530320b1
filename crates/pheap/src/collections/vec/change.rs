//! Methods that change a vector by calling the basic ones of [`elements`](super::elements).

use std::cmp::Ordering;
use std::ops::RangeBounds;

use super::elements::{PVec, check_index};
use crate::api::tx::Txn;
use crate::error::Result;
use crate::layout::Persist;
use crate::ptr::{P, bounds};

/// <a id="change-PVec-more"></a>Changing a vector.
///
/// If a transaction ends in an error, it leaves the vector as it was, whatever its methods have returned.
/// Operations that may allocate fail as [`Txn::alloc_slice`] does: for instance with
/// [`Error::OutOfSpace`](crate::Error::OutOfSpace) or
/// [`Error::ReservationFull`](crate::Error::ReservationFull) if the heap cannot grow. Then they have changed
/// nothing, except that `extend` keeps the elements that it has appended.
impl<'r, T: Persist<At<'r> = T>> P<'r, PVec<'r, T>> {
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

    /// Removes element `index`; the elements after it move by one towards the front. O(n).
    ///
    /// # Panics
    /// If there is no such element.
    #[track_caller]
    pub fn remove(self, tx: &mut Txn<'r>, index: usize) -> T {
        check_index(index, tx[self].len(), false);
        self.as_mut_slice(tx, index..).rotate_left(1);
        self.pop(tx).expect("there is one")
    }

    /// Removes element `index`, and moves the last element to its place. O(1).
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

    /// Replaces all elements by `elements`, of which there are at most as many.
    pub(in crate::collections) fn overwrite(self, tx: &mut Txn<'r>, elements: &[T])
    where
        T: Copy,
    {
        self.as_mut_slice(tx, ..)[..elements.len()].copy_from_slice(elements);
        self.truncate(tx, elements.len());
    }

    /// Sets the length to `len`; a vector that grows gets copies of `value`.
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
        // Reserve room for all new elements: `extend` reserves room for at most 1 MiB at a time.
        self.reserve(tx, len - old)?;
        self.extend(tx, std::iter::repeat_n(value, len - old))
    }

    /// Moves all elements of `other` to the end of this vector.
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    ///
    /// # Panics
    /// If `other` is this vector.
    pub fn append(self, tx: &mut Txn<'r>, other: P<'r, PVec<'r, T>>) -> Result<()> {
        assert!(self != other, "a vector cannot be appended to itself");
        let count = tx[other].len();
        self.reserve(tx, count)?;
        let elements = other.drain(tx, ..);
        self.extend(tx, elements)
    }

    /// Removes elements `range` and returns them. O(n).
    ///
    /// # Panics
    /// If the range is not within the vector.
    #[track_caller]
    pub fn drain(self, tx: &mut Txn<'r>, range: impl RangeBounds<usize>) -> std::vec::IntoIter<T> {
        let len = tx[self].len();
        let (from, to) = bounds(range, len);
        if from < to && to < len {
            self.as_mut_slice(tx, from..).rotate_left(to - from);
        }
        self.take_off(tx, len - (to - from)).into_iter()
    }

    /// Removes the elements for which `is_wanted` is true, and returns them in order. O(n + k log k) for k
    /// removed elements, which are sorted by their old places. Makes the same elements crash-safe as
    /// [`retain`](Self::retain).
    pub fn extract_if(
        self,
        tx: &mut Txn<'r>,
        mut is_wanted: impl FnMut(&T) -> bool,
    ) -> std::vec::IntoIter<T> {
        // `is_wanted` is called for all elements first: if it panics, no element has moved.
        let kept: Vec<bool> = tx[self].iter(tx).map(|element| !is_wanted(element)).collect();
        let (len, order) = self.put_first(tx, &kept);
        let mut taken: Vec<(usize, T)> = order[len..].iter().copied().zip(self.take_off(tx, len)).collect();
        taken.sort_unstable_by_key(|(index, _)| *index);
        taken.into_iter().map(|(_, element)| element).collect::<Vec<T>>().into_iter()
    }

    /// Removes the elements for which `keep` is false. O(n); all elements from the first removed one on are
    /// made crash-safe.
    pub fn retain(self, tx: &mut Txn<'r>, keep: impl FnMut(&T) -> bool) {
        // `keep` is called for all elements first: if it panics, no element has moved.
        let kept: Vec<bool> = tx[self].iter(tx).map(keep).collect();
        self.retain_marked(tx, &kept);
    }

    /// Removes each element that equals the element before it, among those that stay.
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
        self.retain_marked(tx, &kept);
    }

    fn retain_marked(self, tx: &mut Txn<'r>, kept: &[bool]) {
        let (len, _) = self.put_first(tx, kept);
        self.truncate(tx, len);
    }

    /// Moves the elements for which `kept` has a `true` before the others, in their old order. Returns the
    /// number of these elements, and for each new index the old index of its element.
    fn put_first(self, tx: &mut Txn<'r>, kept: &[bool]) -> (usize, Vec<usize>) {
        let mut order: Vec<usize> = (0..kept.len()).collect();
        let Some(from) = kept.iter().position(|kept| !kept) else { return (kept.len(), order) };
        let elements = self.as_mut_slice(tx, from..);
        let mut to = 0;
        for i in (0..elements.len()).filter(|&i| kept[from + i]) {
            elements.swap(i, to);
            order.swap(from + i, from + to);
            to += 1;
        }
        (from + to, order)
    }

    /// Reverses the order of the elements.
    pub fn reverse(self, tx: &mut Txn<'r>) {
        self.as_mut_slice(tx, ..).reverse();
    }

    /// Sorts the elements: stable, O(n log n), as [`slice::sort`]. All of them are made
    /// crash-safe.
    pub fn sort(self, tx: &mut Txn<'r>)
    where
        T: Ord,
    {
        self.as_mut_slice(tx, ..).sort();
    }

    /// Like [`sort`](Self::sort), by a function that compares two elements.
    pub fn sort_by(self, tx: &mut Txn<'r>, compare: impl FnMut(&T, &T) -> Ordering) {
        self.as_mut_slice(tx, ..).sort_by(compare);
    }

    /// Like [`sort`](Self::sort), by a key of each element.
    pub fn sort_by_key<K: Ord>(self, tx: &mut Txn<'r>, key: impl FnMut(&T) -> K) {
        self.as_mut_slice(tx, ..).sort_by_key(key);
    }
}
