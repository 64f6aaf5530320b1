//! The elements of a vector, one after the other.

use std::iter::FusedIterator;

use crate::api::view::View;
use crate::collections::buffer::{self, Slots};
use crate::collections::slot::Slot;
use crate::layout::Persist;

/// The elements of a [`PVec`](super::PVec), in order; made by [`PVec::iter`](super::PVec::iter).
pub struct Iter<'v, 'r, T> {
    state: State<'v, 'r, T>,
}

enum State<'v, 'r, T> {
    /// All of them are in their places, as long as the view is borrowed.
    InPlace(std::slice::Iter<'v, Slot<T>>),
    /// The transaction may have copies of some.
    Copies { view: &'v View<'r>, slots: Slots<T>, from: usize, to: usize },
}

impl<'v, 'r, T: Persist> Iter<'v, 'r, T> {
    /// Of slots that have values.
    #[inline]
    pub(super) fn new(view: &'v View<'r>, slots: Slots<T>) -> Self {
        let state = if view.is_in_place() {
            // SAFETY: live slots of the region of `view`; while it is borrowed nothing is written.
            State::InPlace(unsafe { &*slots.range(0, slots.len) }.iter())
        } else {
            State::Copies { view, slots, from: 0, to: slots.len }
        };
        Iter { state }
    }
}

/// The value of a slot that has one.
#[inline(always)]
fn value<T: Persist>(slot: &Slot<T>) -> &T {
    // SAFETY: `new` was given slots that have values.
    unsafe { slot.value() }
}

impl<'v, T: Persist> Iterator for Iter<'v, '_, T> {
    type Item = &'v T;

    #[inline]
    fn next(&mut self) -> Option<&'v T> {
        match &mut self.state {
            State::InPlace(slots) => slots.next().map(value),
            State::Copies { view, slots, from, to } => {
                if from == to {
                    return None;
                }
                *from += 1;
                // SAFETY: one of the slots.
                Some(value(unsafe { buffer::read(view, slots.at(*from - 1)) }))
            }
        }
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = match &self.state {
            State::InPlace(slots) => slots.len(),
            State::Copies { from, to, .. } => to - from,
        };
        (len, Some(len))
    }

    #[inline]
    fn nth(&mut self, n: usize) -> Option<&'v T> {
        match &mut self.state {
            State::InPlace(slots) => slots.nth(n).map(value),
            State::Copies { from, to, .. } => {
                *from = from.saturating_add(n).min(*to);
                self.next()
            }
        }
    }

    #[inline]
    fn fold<B, F: FnMut(B, &'v T) -> B>(self, init: B, mut f: F) -> B {
        match self.state {
            State::InPlace(slots) => slots.fold(init, |acc, slot| f(acc, value(slot))),
            State::Copies { view, slots, from, to } => (from..to).fold(init, |acc, i| {
                // SAFETY: one of the slots.
                f(acc, value(unsafe { buffer::read(view, slots.at(i)) }))
            }),
        }
    }
}

impl<T: Persist> DoubleEndedIterator for Iter<'_, '_, T> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        match &mut self.state {
            State::InPlace(slots) => slots.next_back().map(value),
            State::Copies { view, slots, from, to } => {
                if from == to {
                    return None;
                }
                *to -= 1;
                // SAFETY: one of the slots.
                Some(value(unsafe { buffer::read(view, slots.at(*to)) }))
            }
        }
    }
}

impl<T: Persist> ExactSizeIterator for Iter<'_, '_, T> {}
impl<T: Persist> FusedIterator for Iter<'_, '_, T> {}

impl<T> Clone for Iter<'_, '_, T> {
    fn clone(&self) -> Self {
        let state = match &self.state {
            State::InPlace(slots) => State::InPlace(slots.clone()),
            &State::Copies { view, slots, from, to } => State::Copies { view, slots, from, to },
        };
        Iter { state }
    }
}

impl<T: Persist + std::fmt::Debug> std::fmt::Debug for Iter<'_, '_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}
