//! `PPriorityQueue`, a queue in the order of its elements.

use super::common::{by_pointer, iterators, not_in_place, sized};
use super::vec::{self, PVec};
use crate::Persist;
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::error::Result;
use crate::heap::check::rule::{OwnType, TypePromise};
use crate::ptr::P;

/// The most children of an element in the tree of a queue. With four, the tree has about half as many levels
/// as with two, so an element moves less often; each move writes to the heap.
const CHILDREN: usize = 4;

/// A priority queue: `BinaryHeap` for a heap. The greatest element comes out first; with
/// [`Reverse`](std::cmp::Reverse), the least.
///
/// ```
/// # use std::cmp::Reverse;
/// # use pheap::{Heap, PPriorityQueue, Root};
/// # fn main() -> pheap::Result<()> {
/// # let heap = Heap::in_memory()?;
/// let timers: Root<PPriorityQueue<Reverse<u64>>> = heap.root("timers")?;
/// timers.txn(|tx, timers| {
///     timers.extend(tx, [30, 10, 20].map(Reverse))?;
///     assert_eq!(timers.peek(tx), Some(&Reverse(10)));
///     assert_eq!(timers.pop(tx), Some(Reverse(10)));
///     timers.push(tx, Reverse(5))?;
///     assert_eq!(timers.drain_sorted(tx), [Reverse(5), Reverse(20), Reverse(30)]);
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
///
/// Elements are compared without access to the heap. So the element of a queue of jobs is a struct with the
/// fields that order it and a `P` to the job, and with an `Ord` implementation for them. Equal elements come
/// in any order.
///
/// A queue is a tree in heap order with four children per element (Johnson, "Priority queues with update and
/// finding minimum spanning trees", 1975) in a [`PVec`].
///
/// If the `Ord` of elements contradicts itself, or panics, the elements come in any order, but nothing worse
/// happens: none is lost, and none comes twice. (The same holds after a panic in
/// [`change_first`](P::change_first).)
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::PPriorityQueue", crate = "crate")]
pub struct PPriorityQueue<'r, T> {
    elements: PVec<'r, T>,
}

/// Entries for the lists of [`own_types`](super::own_types): the types of this module, each with the promise
/// that [`check`](crate::Heap::check) verifies.
pub(super) const OWN_TYPES: &[OwnType] =
    &[OwnType::for_type::<PPriorityQueue<'static, u8>>(TypePromise::Nothing)];

sized!(
    PPriorityQueue<T> of "elements", "a buffer", PPriorityQueue { elements: PVec::new() },
    |queue| queue.elements.len()
);

/// Reading a queue.
impl<'r, T: Persist> PPriorityQueue<'r, T> {
    /// Returns the greatest element, which comes out next. O(1).
    #[inline]
    pub fn peek<'v>(&self, view: &'v View<'r>) -> Option<&'v T> {
        self.elements.first(view)
    }

    /// Iterates over the elements in any order; the iterator is double-ended.
    #[inline]
    pub fn iter<'v>(&self, view: &'v View<'r>) -> Iter<'v, 'r, T> {
        Iter(self.elements.iter(view))
    }

    /// Returns the number of elements that the buffer has room for.
    pub fn capacity(&self, view: &View<'r>) -> usize {
        self.elements.capacity(view)
    }
}

by_pointer! {
    /// Reading a queue through a `P` to it: short for `view[queue].peek(view)` and so on.
    [T: Persist] PPriorityQueue<T>:
    fn peek() -> Option<&'v T>;
    fn iter() -> Iter<'v, 'r, T>;
}

not_in_place! {
    [T] PPriorityQueue<'r, T>:
    push(tx, element) -> Result<()>;
    pop(tx) -> Option<T>;
    extend(tx, elements) -> Result<()>;
    clear(tx) -> ();
}

/// Changing a queue.
///
/// If a transaction ends in an error, it leaves the queue as it was, whatever its methods have returned.
/// Operations that may allocate fail as [`Txn::alloc_slice`] does: for instance with
/// [`Error::OutOfSpace`](crate::Error::OutOfSpace) or
/// [`Error::ReservationFull`](crate::Error::ReservationFull) if the heap cannot grow. Then they have changed
/// nothing, except that `extend` keeps the elements that it has added.
impl<'r, T: Persist<At<'r> = T> + Ord> P<'r, PPriorityQueue<'r, T>> {
    #[inline(always)]
    #[allow(unsafe_code)] // `field!` expands to unsafe code
    fn elements(self) -> P<'r, PVec<'r, T>> {
        crate::field!(self.elements)
    }

    /// Adds an element. Amortised O(log n); O(1) on average for elements in random order.
    ///
    /// # Errors
    /// As for [`Txn::alloc_slice`].
    pub fn push(self, tx: &mut Txn<'r>, element: T) -> Result<()> {
        self.elements().push(tx, element)?;
        self.raise(tx, tx[self].len() - 1);
        Ok(())
    }

    /// Removes the greatest element. O(log n).
    pub fn pop(self, tx: &mut Txn<'r>) -> Option<T> {
        let last = tx[self].len().checked_sub(1)?;
        let place = self.place_of_last(tx, last);
        let element = self.elements().pop(tx)?;
        Some(if last == 0 { element } else { self.replace_first(tx, place, element) })
    }

    /// Adds an element, then removes the greatest one, which may be the new one, and returns it. O(log n).
    /// Allocates nothing, and cannot fail. With this method a program can keep a queue of the n least
    /// elements.
    pub fn push_pop(self, tx: &mut Txn<'r>, element: T) -> T {
        if tx[self].peek(tx).is_none_or(|greatest| *greatest <= element) {
            return element;
        }
        let place = self.place_below(tx, 0, &element);
        self.replace_first(tx, place, element)
    }

    /// Calls `change` with the greatest element, and then moves that element to its new place. O(log n).
    /// Returns the result of `change`; `None` if the queue is empty.
    pub fn change_first<R>(self, tx: &mut Txn<'r>, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        let result = change(self.elements().get_mut(tx, 0)?);
        self.lower(tx, 0);
        Some(result)
    }

    /// Adds the items of an iterator. Amortised O(log n) for each.
    ///
    /// # Errors
    /// As for [`push`](Self::push). Then the items before the failed one stay in the queue, unless the
    /// transaction is rolled back.
    pub fn extend(self, tx: &mut Txn<'r>, elements: impl IntoIterator<Item = T>) -> Result<()> {
        elements.into_iter().try_for_each(|element| self.push(tx, element))
    }

    /// Moves all elements of `other` to this queue.
    ///
    /// # Errors
    /// As for [`push`](Self::push); then nothing has moved.
    ///
    /// # Panics
    /// If `other` is this queue.
    pub fn append(self, tx: &mut Txn<'r>, other: P<'r, PPriorityQueue<'r, T>>) -> Result<()> {
        assert!(self != other, "a queue cannot be appended to itself");
        let (here, there) = (tx[self].len(), tx[other].len());
        self.elements().append(tx, other.elements())?;
        if there < here / 2 {
            (here..here + there).for_each(|index| self.raise(tx, index));
        } else {
            self.order(tx);
        }
        Ok(())
    }

    /// Removes the elements for which `keep` is false. O(n).
    pub fn retain(self, tx: &mut Txn<'r>, keep: impl FnMut(&T) -> bool) {
        let before = tx[self].len();
        self.elements().retain(tx, keep);
        if tx[self].len() < before {
            self.order(tx);
        }
    }

    /// Removes all elements, and returns them in any order. O(n).
    pub fn drain(self, tx: &mut Txn<'r>) -> std::vec::IntoIter<T> {
        self.elements().drain(tx, ..)
    }

    /// Removes all elements, and returns them in the order of the queue. O(n log n).
    ///
    /// # Panics
    /// If the `Ord` of elements contradicts itself, it may panic, as [`slice::sort`] may. Then the queue
    /// keeps all elements.
    pub fn drain_sorted(self, tx: &mut Txn<'r>) -> Vec<T> {
        let mut order: Vec<(usize, &T)> = tx[self].iter(tx).enumerate().collect();
        order.sort_by(|(_, a), (_, b)| b.cmp(a));
        let mut ranks = vec![0; order.len()];
        order.into_iter().enumerate().for_each(|(rank, (index, _))| ranks[index] = rank);
        let mut elements: Vec<(usize, T)> = ranks.into_iter().zip(self.drain(tx)).collect();
        elements.sort_unstable_by_key(|(rank, _)| *rank);
        elements.into_iter().map(|(_, element)| element).collect()
    }

    /// Reserves room for at least `more` additional elements.
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    pub fn reserve(self, tx: &mut Txn<'r>, more: usize) -> Result<()> {
        self.elements().reserve(tx, more)
    }

    /// Frees unused memory.
    ///
    /// # Errors
    /// As for [`push`](Self::push): the elements move to a smaller buffer.
    pub fn shrink_to_fit(self, tx: &mut Txn<'r>) -> Result<()> {
        self.elements().shrink_to_fit(tx)
    }

    /// Removes all elements. O(1).
    pub fn clear(self, tx: &mut Txn<'r>) {
        self.elements().clear(tx);
    }

    /// Moves the element at `index` towards the front until its parent is not less. It moves by swaps, so if
    /// `Ord` panics, the queue still has all elements.
    fn raise(self, tx: &mut Txn<'r>, mut index: usize) {
        while index > 0 {
            let parent = (index - 1) / CHILDREN;
            let elements = &tx[self].elements;
            if elements.get(tx, index) <= elements.get(tx, parent) {
                return;
            }
            self.elements().swap(tx, index, parent);
            index = parent;
        }
    }

    /// Moves the element at `index` towards the end until none of its children is greater. It moves by swaps,
    /// so if `Ord` panics, the queue still has all elements.
    fn lower(self, tx: &mut Txn<'r>, mut index: usize) {
        while let Some(child) = self.greatest_child(tx, index, tx[self].len()) {
            let elements = &tx[self].elements;
            if elements.get(tx, child) <= elements.get(tx, index) {
                return;
            }
            self.elements().swap(tx, index, child);
            index = child;
        }
    }

    /// Returns the index that `element` gets if it replaces the element at `index`, and greater elements
    /// below that move up by one level. Moves no element.
    fn place_below(self, tx: &Txn<'r>, mut index: usize, element: &T) -> usize {
        let elements = &tx[self].elements;
        while let Some(child) = self.greatest_child(tx, index, elements.len()) {
            if elements.get(tx, child) <= Some(element) {
                break;
            }
            index = child;
        }
        index
    }

    /// Like [`place_below`](Self::place_below), for the last element (its index is `last`) that replaces the
    /// first one. The last element usually gets a place at the bottom, or nearly so. So it is not compared on
    /// the way down, but on the way back up, as Wegener ("Bottom-up heapsort", 1993) recommends.
    fn place_of_last(self, tx: &Txn<'r>, last: usize) -> usize {
        let (elements, mut index) = (&tx[self].elements, 0);
        while let Some(child) = self.greatest_child(tx, index, last) {
            index = child;
        }
        while index > 0 && elements.get(tx, index) < elements.get(tx, last) {
            index = (index - 1) / CHILDREN;
        }
        index
    }

    /// Stores `element` at `place`, moves each element on the way from there to the first one up by one
    /// level, and returns the first element. Runs no code of the program, so no panic of `Ord` can interrupt
    /// it.
    fn replace_first(self, tx: &mut Txn<'r>, mut place: usize, mut element: T) -> T {
        loop {
            std::mem::swap(self.elements().get_mut(tx, place).expect("an element"), &mut element);
            if place == 0 {
                return element;
            }
            place = (place - 1) / CHILDREN;
        }
    }

    /// Returns the index of the greatest child of the element at `index`, among the first `len` elements;
    /// `None` if it has no child there.
    fn greatest_child(self, tx: &Txn<'r>, index: usize, len: usize) -> Option<usize> {
        let elements = &tx[self].elements;
        let first = index * CHILDREN + 1;
        (first..(first + CHILDREN).min(len)).max_by_key(|&child| elements.get(tx, child))
    }

    /// Restores the heap order of the elements, whatever their present order. O(n).
    fn order(self, tx: &mut Txn<'r>) {
        let parents = tx[self].len().saturating_sub(2) / CHILDREN + 1;
        (0..parents).rev().for_each(|index| self.lower(tx, index));
    }
}

iterators! {
    /// The elements of a [`PPriorityQueue`] in any order; made by [`PPriorityQueue::iter`].
    [T: Persist] Iter<T>(vec::Iter<'v, 'r, T>) => &'v T, |element| element;
    debug_list of [T] exact both_ends;
}
