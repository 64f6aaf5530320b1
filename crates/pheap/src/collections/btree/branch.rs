//! The branches of inner nodes: children, and the keys that separate them.
//!
//! An inner node has its own keys, which it gives up with the branch: so a key of an entry may be given up, whatever separates the leaves.

#![allow(unsafe_code)]

use super::head::{Head, LEAST};
use super::node::{Branch, Child, INNER, Inner, Leaf};
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::collections::buffer::{self, Slot};
use crate::collections::key::{OrdKey, OwnKey};
use crate::layout::Persist;
use crate::ptr::P;

impl<'r, K: Persist, V: Persist> P<'r, Inner<'r, K, V>> {
    /// The child at `place`.
    #[inline(always)]
    pub(super) fn child_at(self, view: &View<'r>, head: &Head<INNER>, place: usize) -> Child<'r, K, V> {
        Child::of(self.near_at(view, head, place), || self.item_at(view, head, place).inner)
    }
}

impl<'r, K: OrdKey<'r>, V: Persist> P<'r, Inner<'r, K, V>> {
    /// Adds a child to a node that is not full. It has a separator if it is not the first one.
    pub(super) fn insert_child(
        self,
        tx: &mut Txn<'r>,
        place: usize,
        separator: Option<(u64, OwnKey<K>)>,
        child: Child<'r, K, V>,
    ) {
        debug_assert_eq!(place == 0, separator.is_none());
        let prefix = separator.as_ref().map_or(0, |(prefix, _)| *prefix);
        let (leaf, inner) = match child {
            Child::Leaf(leaf) => (Some(leaf), None),
            Child::Inner(inner) => (None, Some(inner)),
            Child::None(_) => (None, None),
        };
        let branch = Branch { separator: Slot::vacant(), prefix, inner };
        let slot = self.insert_item(tx, place, prefix, leaf, branch);
        if let Some((_, key)) = separator {
            // SAFETY: in use from now on. (In place, for a move may change padding.)
            unsafe { self.item_mut(tx, slot) }.separator.put(key);
        }
    }

    /// Puts a separator where there is none.
    pub(super) fn put_separator(self, tx: &mut Txn<'r>, place: usize, prefix: u64, key: OwnKey<K>) {
        self.set_code(tx, place, |head| if place == 0 { LEAST } else { head.code(prefix) });
        let slot = self.head(tx).slot(place);
        // SAFETY: in use.
        let branch = unsafe { self.item_mut(tx, slot) };
        branch.prefix = prefix;
        branch.separator.put(key);
    }

    /// Moves a separator out.
    ///
    /// # Safety
    /// There is one.
    pub(super) unsafe fn take_separator(self, tx: &mut Txn<'r>, place: usize) -> (u64, OwnKey<K>) {
        if place == 0 {
            self.set_code(tx, place, |_| LEAST);
        }
        let slot = self.head(tx).slot(place);
        // SAFETY: in use; there is a separator, by the caller's promise, and then there is none.
        unsafe {
            let branch = self.item_mut(tx, slot);
            let key = branch.separator.take();
            branch.separator = Slot::vacant();
            (std::mem::take(&mut branch.prefix), key)
        }
    }

    /// Removes a child, and gives up the separator that goes with it, if there is one. The node behind the last one has none.
    ///
    /// # Safety
    /// There is a separator at `place` if `has_separator`; and behind it, if there is a child.
    pub(super) unsafe fn remove_child(self, tx: &mut Txn<'r>, place: usize, has_separator: bool) {
        // SAFETY: by the caller's promise; what is given up was this node's own.
        unsafe {
            let (leaf, branch) = self.remove_item(tx, place);
            if has_separator {
                branch.separator.take().give_up(tx);
            }
            if place == 0 && self.count(tx) > 0 {
                self.take_separator(tx, 0).1.give_up(tx);
            }
            Child::of(leaf, || branch.inner).free(tx);
        }
    }
}

impl<'r, K: Persist, V: Persist> Child<'r, K, V> {
    #[inline(always)]
    fn of(
        leaf: Option<P<'r, Leaf<K, V>>>,
        inner: impl FnOnce() -> Option<P<'r, Inner<'r, K, V>>>,
    ) -> Child<'r, K, V> {
        match leaf {
            Some(leaf) => Child::Leaf(leaf),
            None => inner().map_or(Child::None(0), Child::Inner),
        }
    }

    /// Frees a node when the transaction commits.
    ///
    /// # Safety
    /// Nothing will point to it, and it has no items, or none that own anything.
    pub(super) unsafe fn free(self, tx: &Txn<'r>) {
        // SAFETY: by the caller's promise.
        unsafe {
            match self {
                Child::Leaf(leaf) => buffer::free(tx, leaf),
                Child::Inner(inner) => buffer::free(tx, inner),
                Child::None(_) => {}
            }
        }
    }
}
