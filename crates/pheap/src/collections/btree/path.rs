//! The way from the top of a tree to a leaf.

use super::node::{Inner, MAX_HEIGHT};
use crate::api::view::View;
use crate::collections::common::copied;
use crate::layout::Persist;
use crate::ptr::P;

/// The inner nodes on the way to a leaf, from the top down, and in each the place of the next child on the
/// way.
pub(super) struct TreePath<'r, K, V> {
    steps: [Option<P<'r, Inner<'r, K, V>>>; MAX_HEIGHT],
    places: [u8; MAX_HEIGHT],
    len: usize,
}

copied! { [K, V] TreePath<'_, K, V>; }

impl<'r, K, V> TreePath<'r, K, V> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        TreePath { steps: [None; MAX_HEIGHT], places: [0; MAX_HEIGHT], len: 0 }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, inner: P<'r, Inner<'r, K, V>>, place: usize) {
        self.steps[self.len] = Some(inner);
        self.places[self.len] = place as u8;
        self.len += 1;
    }

    /// Removes the last step of the path, and returns its inner node and the place of the child there.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<(P<'r, Inner<'r, K, V>>, usize)> {
        self.len = self.len.checked_sub(1)?;
        self.steps[self.len].map(|inner| (inner, self.places[self.len].into()))
    }

    /// Whether the path leads to the last leaf of the tree.
    pub(super) fn is_last(&self, view: &View<'r>) -> bool
    where
        K: Persist,
        V: Persist,
    {
        let mut path = *self;
        std::iter::from_fn(|| path.pop()).all(|(inner, place)| place + 1 == inner.count(view))
    }

    /// Returns the place of the next child in each inner node on the path.
    pub(super) fn places(&self) -> &[u8] {
        &self.places[..self.len]
    }
}
