//! `PVec`, a vector.

mod change;
mod elements;
mod iter;

use std::cmp::Ordering;
use std::ops::RangeBounds;

use super::common::{by_pointer, not_in_place};
use crate::api::view::View;
use crate::error::Result;
use crate::heap::check::rule::{CollectionRule, OwnType, TypePromise};
use crate::layout::Persist;
use crate::ptr::P;

pub use elements::PVec;
pub use iter::Iter;
use iter::VecIter;

/// Entries for the lists of [`own_types`](super::own_types): the types of this module, each with the promise
/// that [`check`](crate::Heap::check) verifies.
pub(super) const OWN_TYPES: &[OwnType] =
    &[OwnType::for_type::<PVec<'static, u8>>(TypePromise::Collection(CollectionRule::vector))];

/// Reading a vector.
impl<'r, T: Persist> PVec<'r, T> {
    /// Returns element `index`, if it exists.
    #[inline]
    pub fn get<'v>(&self, view: &'v View<'r>, index: usize) -> Option<&'v T> {
        self.values(view).get(index)
    }

    /// Returns the first element.
    pub fn first<'v>(&self, view: &'v View<'r>) -> Option<&'v T> {
        self.get(view, 0)
    }

    /// Returns the last element.
    pub fn last<'v>(&self, view: &'v View<'r>) -> Option<&'v T> {
        self.get(view, self.len().wrapping_sub(1))
    }

    /// Iterates over the elements in order; the iterator is double-ended.
    #[inline]
    pub fn iter<'v>(&self, view: &'v View<'r>) -> Iter<'v, 'r, T> {
        Iter(VecIter::new(self.values(view)))
    }

    /// Returns elements `range` as a slice.
    ///
    /// A transaction that has changed some of these elements may become long by this call (see the [crate's
    /// documentation](crate#short-and-long-transactions)). To read single elements, use [`get`](Self::get)
    /// and [`iter`](Self::iter).
    ///
    /// # Panics
    /// If the range is not within the vector.
    #[track_caller]
    pub fn as_slice<'v>(&self, view: &'v View<'r>, range: impl RangeBounds<usize>) -> &'v [T] {
        self.values(view).slice(range)
    }

    /// Searches for `value` in a sorted vector: `Ok` with the index of an equal element, or `Err` with the
    /// index at which it could be inserted. O(log n).
    ///
    /// # Errors
    /// The index of the first element that is greater than `value`, or the length if there is none.
    pub fn binary_search(&self, view: &View<'r>, value: &T) -> std::result::Result<usize, usize>
    where
        T: Ord,
    {
        self.binary_search_by(view, |element| element.cmp(value))
    }

    /// Like [`binary_search`](Self::binary_search), by a function that compares an element with the wanted
    /// one. O(log n).
    ///
    /// # Errors
    /// As for `binary_search`.
    pub fn binary_search_by(
        &self,
        view: &View<'r>,
        mut compare: impl FnMut(&T) -> Ordering,
    ) -> std::result::Result<usize, usize> {
        let values = self.values(view);
        let (mut from, mut to) = (0, values.len());
        while let Some(middle) = (from < to).then(|| from.midpoint(to))
            && let Some(element) = values.get(middle)
        {
            match compare(element) {
                Ordering::Less => from = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => to = middle,
            }
        }
        Err(from)
    }

    /// Like [`binary_search`](Self::binary_search), by a key of each element. O(log n).
    ///
    /// # Errors
    /// As for `binary_search`.
    pub fn binary_search_by_key<K: Ord>(
        &self,
        view: &View<'r>,
        key: &K,
        mut key_of: impl FnMut(&T) -> K,
    ) -> std::result::Result<usize, usize> {
        self.binary_search_by(view, |element| key_of(element).cmp(key))
    }

    /// Returns the index of the first element for which `pred` is false, or the length if there is none.
    /// `pred` must be true for all elements before that index, and false for all others. O(log n).
    pub fn partition_point(&self, view: &View<'r>, mut pred: impl FnMut(&T) -> bool) -> usize {
        let compare = |element: &T| if pred(element) { Ordering::Less } else { Ordering::Greater };
        self.binary_search_by(view, compare).unwrap_or_else(|place| place)
    }

    /// Whether an element equals `value`. O(n).
    pub fn contains(&self, view: &View<'r>, value: &T) -> bool
    where
        T: PartialEq,
    {
        self.iter(view).any(|element| element == value)
    }
}

by_pointer! {
    /// Reading a vector through a `P` to it: short for `view[list].get(view, …)` and so on.
    [T: Persist] PVec<T>:
    fn get(index: usize) -> Option<&'v T>;
    fn as_slice(range: impl RangeBounds<usize>) -> &'v [T];
    fn iter() -> Iter<'v, 'r, T>;
}

not_in_place! {
    [T] PVec<'r, T>:
    push(tx, value) -> Result<()>;
    pop(tx) -> Option<T>;
    insert(tx, index, value) -> Result<()>;
    set(tx, index, value) -> T;
    remove(tx, index) -> T;
    swap_remove(tx, index) -> T;
    extend(tx, values) -> Result<()>;
    extend_from_slice(tx, values) -> Result<()>;
    get_mut(tx, index) -> Option<&'r mut T>;
    as_mut_slice(tx, range) -> &'r mut [T];
    swap(tx, a, b) -> ();
    sort(tx) -> ();
    retain(tx, keep) -> ();
    truncate(tx, len) -> ();
    clear(tx) -> ();
}
