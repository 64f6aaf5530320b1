//! Iteration over the elements of a vector.

use super::elements::VecElements;
use crate::collections::common::iterators;
use crate::layout::Persist;

iterators! {
    /// The elements of a [`PVec`](super::PVec), in order; made by [`PVec::iter`](super::PVec::iter).
    [T: Persist + 'v] Iter<T>(VecIter<'v, 'r, T>) => &'v T, |element| element;
    debug_list of [T] exact both_ends;
}

pub(super) enum VecIter<'v, 'r, T> {
    /// All elements are read in place: the transaction, if this is one, has no copies as long as the view is
    /// borrowed.
    InPlace(std::slice::Iter<'v, T>),
    /// The transaction may have copies of some elements, so each element is looked up. `from..to` are the
    /// indices of the remaining ones.
    Copies { values: VecElements<'v, 'r, T>, from: usize, to: usize },
}

impl<T> Clone for VecIter<'_, '_, T> {
    fn clone(&self) -> Self {
        match self {
            VecIter::InPlace(elements) => VecIter::InPlace(elements.clone()),
            &VecIter::Copies { values, from, to } => VecIter::Copies { values, from, to },
        }
    }
}

impl<'v, 'r, T: Persist> VecIter<'v, 'r, T> {
    #[inline]
    pub(super) fn new(values: VecElements<'v, 'r, T>) -> Self {
        match values.in_place() {
            Some(elements) => VecIter::InPlace(elements.iter()),
            None => VecIter::Copies { values, from: 0, to: values.len() },
        }
    }
}

impl<'v, T: Persist> Iterator for VecIter<'v, '_, T> {
    type Item = &'v T;

    #[inline]
    fn next(&mut self) -> Option<&'v T> {
        match self {
            VecIter::InPlace(elements) => elements.next(),
            VecIter::Copies { .. } => self.nth(0),
        }
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = match self {
            VecIter::InPlace(elements) => elements.len(),
            VecIter::Copies { from, to, .. } => to - from,
        };
        (len, Some(len))
    }

    #[inline]
    fn nth(&mut self, n: usize) -> Option<&'v T> {
        match self {
            VecIter::InPlace(elements) => elements.nth(n),
            VecIter::Copies { values, from, to } => {
                let at = from.saturating_add(n).min(*to);
                *from = (at + 1).min(*to);
                if at < *to { values.get(at) } else { None }
            }
        }
    }

    #[inline]
    fn fold<B, F: FnMut(B, &'v T) -> B>(self, init: B, f: F) -> B {
        match self {
            VecIter::InPlace(elements) => elements.fold(init, f),
            VecIter::Copies { values, from, to } => (from..to).filter_map(|i| values.get(i)).fold(init, f),
        }
    }
}

impl<T: Persist> DoubleEndedIterator for VecIter<'_, '_, T> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        match self {
            VecIter::InPlace(elements) => elements.next_back(),
            VecIter::Copies { from, to, .. } if from == to => None,
            VecIter::Copies { values, to, .. } => {
                *to -= 1;
                values.get(*to)
            }
        }
    }
}
