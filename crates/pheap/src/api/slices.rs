//! Lengths and elements of slices and strings.

#![allow(unsafe_code)]

use std::ptr::NonNull;

use super::view::View;
use crate::layout::{Persist, Pointee};
use crate::ptr::part::{self, Part};
use crate::ptr::{P, elements_of};

impl<'r, T: Persist> P<'r, [T]> {
    /// Returns the number of elements.
    #[inline(always)]
    pub fn len(self, view: &View<'r>) -> usize {
        view.value_of(self).len()
    }

    /// Whether there are no elements.
    #[inline(always)]
    pub fn is_empty(self, view: &View<'r>) -> bool {
        self.len(view) == 0
    }

    /// Returns a pointer to element `index`.
    ///
    /// # Panics
    /// If `index` is not less than [`len`](Self::len).
    #[inline(always)]
    #[track_caller]
    pub fn at(self, view: &View<'r>, index: usize) -> P<'r, T> {
        match self.get(view, index) {
            Some(element) => element,
            None => {
                let len = self.len(view);
                panic!("index out of bounds: the length is {len} but the index is {index}")
            }
        }
    }

    /// Returns a pointer to element `index`, if it exists.
    #[inline(always)]
    pub fn get(self, view: &View<'r>, index: usize) -> Option<P<'r, T>> {
        if index >= self.len(view) {
            return None;
        }
        let element = elements_of(self).wrapping_add(index).cast();
        // SAFETY: `index` is less than the length, so the element lies within the slice, whose address is not
        // 0.
        let element = unsafe { NonNull::new_unchecked(element) };
        // SAFETY: an element of a live slice is a live value, in the same region.
        Some(unsafe { P::from_addr(element) })
    }
}

impl<'r> P<'r, str> {
    /// Returns the length in bytes.
    #[inline(always)]
    pub fn len(self, view: &View<'r>) -> usize {
        view[self].len()
    }

    /// Whether the string is empty.
    #[inline(always)]
    pub fn is_empty(self, view: &View<'r>) -> bool {
        self.len(view) == 0
    }
}

/// Returns the whole value of an object as a part, for a store in this transaction.
#[doc(hidden)]
#[inline(always)]
pub fn object_in<'r, T: Pointee + ?Sized>(key: P<'r, T>, view: &View<'r>) -> Part<'r, T, T> {
    // SAFETY: `value_of` returns the address of the value of `key`'s object.
    unsafe { part::whole(key, view.value_of(key)) }
}
