//! The branches of inner nodes, and what is on top of a tree: all that leads from one node to another.
//!
//! All but the first branch of a node have a separator. An inner node has keys of its own, which it gives up with the branch: so a key of an entry may be
//! given up, whatever separates the leaves. Outside this file, a node gets above another one as a [`New`] one only, which is there once.

#![allow(unsafe_code)]

use super::PBTreeMap;
use super::head::LEAST;
use super::node::{Branch, Child, INNER, Inner, Leaf, MAX_HEIGHT, New};
use crate::api::tx::Txn;
use crate::collections::buffer::{self, Slot};
use crate::collections::key::{OrdKey, OwnKey};
use crate::layout::Persist;
use crate::layout::desc::Desc;
use crate::ptr::P;

/// What leads to the uppermost node of a tree.
#[repr(transparent)]
pub(crate) struct Top<'r, K, V>(Child<'r, K, V>);

// SAFETY: described as what it is, a `Child`, whose layout it has.
unsafe impl<'r, K: Persist, V: Persist> Persist for Top<'r, K, V> {
    type At<'a> = Top<'a, K::At<'a>, V::At<'a>>;
    const PADDED: bool = <Child<'r, K, V> as Persist>::PADDED;
    const POINTERS: bool = true;

    fn desc() -> &'static Desc {
        <Child<'r, K, V>>::desc()
    }

    unsafe fn zero_padding(this: *mut Self) {
        // SAFETY: a value, as the caller promises, and one of a `Child`.
        unsafe { <Child<'r, K, V>>::zero_padding(this.cast()) };
    }
}

impl<'r, K, V> Top<'r, K, V> {
    pub(super) const NONE: Self = Top(Child::None(0));

    #[inline(always)]
    pub(super) fn child(&self) -> Child<'r, K, V> {
        self.0
    }
}

/// A child for an inner node.
pub(super) enum NewChild<'r, K, V> {
    Leaf(New<'r, Leaf<K, V>>),
    Inner(New<'r, Inner<'r, K, V>>),
}

/// A separator: its prefix, and the key.
pub(super) type Separator<K> = (u64, OwnKey<K>);

impl<'r, K: Persist, V: Persist> Child<'r, K, V> {
    /// Frees a node when the transaction commits.
    ///
    /// # Safety
    /// Nothing will point to it.
    unsafe fn free(self, tx: &Txn<'r>) {
        // SAFETY: a node of a tree, to which nothing will point, as the caller promises.
        unsafe {
            match self {
                Child::Leaf(leaf) => buffer::free(tx, leaf),
                Child::Inner(inner) => buffer::free(tx, inner),
                Child::None(_) => {}
            }
        }
    }
}

impl<'r, K: OrdKey<'r>, V: Persist> P<'r, Inner<'r, K, V>> {
    /// Adds a child, not as the first one, to a node that is not full.
    pub(super) fn insert_child(
        self,
        tx: &mut Txn<'r>,
        place: usize,
        separator: Separator<K>,
        child: NewChild<'r, K, V>,
    ) {
        assert!(place > 0 && self.count(tx) > 0);
        let child = match (child, self.seen(tx).child(0)) {
            (NewChild::Leaf(leaf), Child::Leaf(_)) => Child::Leaf(leaf.node()),
            (NewChild::Inner(inner), Child::Inner(_)) if inner.node() != self => Child::Inner(inner.node()),
            _ => unreachable!("all children of a node are of one height"),
        };
        // SAFETY: not the first branch, and it gets a separator. (In place, for a move may change padding.)
        unsafe {
            self.insert_branch(tx, place, separator.0, child);
            self.item_mut(tx, place).separator.put(separator.1);
        }
    }

    /// Adds a branch without a separator.
    ///
    /// # Safety
    /// It is the only one, or gets a separator and is not the first. Nothing else leads to the child, or will.
    unsafe fn insert_branch(self, tx: &mut Txn<'r>, place: usize, prefix: u64, child: Child<'r, K, V>) {
        let (leaf, inner) = match child {
            Child::Leaf(leaf) => (Some(leaf), None),
            Child::Inner(inner) => (None, Some(inner)),
            Child::None(_) => (None, None),
        };
        let branch = Branch { separator: Slot::vacant(), prefix, inner };
        // SAFETY: the only branch, or one that gets a separator, as the caller promises.
        unsafe { self.insert_item(tx, place, prefix, leaf, branch) };
    }

    /// Moves the children from `place` on to a new node. Returns what separates the two.
    pub(super) fn split_off(
        self,
        tx: &mut Txn<'r>,
        place: usize,
        new: &New<'r, Inner<'r, K, V>>,
    ) -> Separator<K> {
        assert!((1..self.count(tx)).contains(&place));
        // SAFETY: the first branch stays here. What becomes the first of the other node has a separator, which is taken.
        unsafe {
            self.split_items(tx, place, new);
            new.node().take_separator(tx, 0)
        }
    }

    /// Moves the children behind `place` to a new node, behind what the child there was split into. Nothing separates the two nodes any more: they are of two trees.
    pub(super) fn split_behind(
        self,
        tx: &mut Txn<'r>,
        place: usize,
        new: &New<'r, Inner<'r, K, V>>,
        first: NewChild<'r, K, V>,
    ) {
        assert!(place < self.count(tx) && new.node().count(tx) == 0);
        let first = match (first, self.seen(tx).child(0)) {
            (NewChild::Leaf(leaf), Child::Leaf(_)) => Child::Leaf(leaf.node()),
            (NewChild::Inner(inner), Child::Inner(_)) if inner.node() != new.node() => {
                Child::Inner(inner.node())
            }
            _ => unreachable!("all children of a node are of one height"),
        };
        let upper = new.node();
        // SAFETY: the first branch stays here. What becomes the first of the other node has a separator, which is taken, and put back when another branch is the first.
        unsafe {
            self.split_items(tx, place + 1, new);
            let separator = (upper.count(tx) > 0).then(|| upper.take_separator(tx, 0));
            upper.insert_branch(tx, 0, 0, first);
            if let Some(separator) = separator {
                upper.put_separator(tx, 1, separator);
            }
        }
    }

    /// Puts a separator where there is none.
    ///
    /// # Safety
    /// When the caller is done, the first branch has none.
    unsafe fn put_separator(self, tx: &mut Txn<'r>, place: usize, (prefix, key): Separator<K>) {
        self.set_code(tx, place, |head| if place == 0 { LEAST } else { head.code(prefix) });
        // SAFETY: it gets a separator, which the caller takes out again if the branch is the first.
        let branch = unsafe { self.item_mut(tx, place) };
        branch.prefix = prefix;
        branch.separator.put(key);
    }

    /// Moves a separator out.
    ///
    /// # Safety
    /// There is one, and it is put back, or another one, unless the place is the first.
    unsafe fn take_separator(self, tx: &mut Txn<'r>, place: usize) -> Separator<K> {
        if place == 0 {
            self.set_code(tx, place, |_| LEAST);
        }
        // SAFETY: there is a separator, as the caller promises; then there is none, and the caller puts one there unless the branch is the first.
        unsafe {
            let branch = self.item_mut(tx, place);
            let key = branch.separator.take();
            branch.separator = Slot::vacant();
            (std::mem::take(&mut branch.prefix), key)
        }
    }

    /// Removes a child without items, and all that goes with it.
    pub(super) fn remove_child(self, tx: &mut Txn<'r>, place: usize) {
        // SAFETY: all but the first child have a separator.
        unsafe { self.remove_branch(tx, place, place > 0) };
    }

    /// Removes a child, and gives up the separator that goes with it, if there is one. The node behind the last one has none.
    ///
    /// # Safety
    /// There is a separator at `place` if `has_separator`.
    unsafe fn remove_branch(self, tx: &mut Txn<'r>, place: usize, has_separator: bool) {
        // SAFETY: there are separators: as the caller promises, and behind the first child, where it is taken from what becomes the first. The branch was all that
        // led to the child.
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

    /// Moves all that is in the child at `at` to the one before, which has room for it.
    pub(super) fn merge(self, tx: &mut Txn<'r>, at: usize) {
        let seen = self.seen(tx);
        let (left, right) = (seen.child(at - 1), seen.child(at));
        // One of them may have no items, which must not get a separator.
        if right.count(tx) == 0 || left.count(tx) == 0 {
            return self.remove_child(tx, if right.count(tx) == 0 { at } else { at - 1 });
        }
        match (left, right) {
            (Child::Leaf(left), Child::Leaf(right)) => {
                // SAFETY: entries of leaves, which have no separators.
                unsafe { right.move_items(tx, 0, right.count(tx), left, left.count(tx)) };
                self.remove_child(tx, at);
            }
            // SAFETY: it is not the first child, so it has a separator, until that is lowered.
            (Child::Inner(left), Child::Inner(right)) => unsafe {
                assert!(left.count(tx) + right.count(tx) <= INNER);
                let separator = self.take_separator(tx, at);
                right.put_separator(tx, 0, separator);
                right.move_items(tx, 0, right.count(tx), left, left.count(tx));
                self.remove_branch(tx, at, false);
            },
            _ => unreachable!("all children of a node are of one height"),
        }
    }

    /// Moves items between the child at `at` and the one before, so that they have as many. For leaves, that takes a new separator: if there is no memory for it,
    /// they stay as they are.
    pub(super) fn even_out(self, tx: &mut Txn<'r>, at: usize) {
        let seen = self.seen(tx);
        match (seen.child(at - 1), seen.child(at)) {
            (Child::Leaf(left), Child::Leaf(right)) => {
                // The first key on the right when it is done. (This is the user's code: should it panic, nothing has moved.)
                let (l, r) = (left.count(tx), right.count(tx));
                let (leaf, first) = if l < r { (right, (r - l) / 2) } else { (left, l - (l - r) / 2) };
                let query = leaf.seen(tx).query(first);
                let prefix = K::prefix(query);
                let Ok(key) = OwnKey::new(tx, query) else { return };
                // SAFETY: entries of leaves, which have no separators. Their parent's: it is not the first child, so it has one, and gets another one.
                unsafe {
                    left.even_items(tx, right);
                    self.take_separator(tx, at).1.give_up(tx);
                    self.put_separator(tx, at, (prefix, key));
                }
            }
            // SAFETY: it is not the first child, so it has a separator. That is lowered to the first child on the right; and the one that comes to be the first
            // there has one, which is raised.
            (Child::Inner(left), Child::Inner(right)) => unsafe {
                assert!(left.count(tx) > 0 && right.count(tx) > 0, "a node without items is removed");
                let separator = self.take_separator(tx, at);
                right.put_separator(tx, 0, separator);
                left.even_items(tx, right);
                let separator = right.take_separator(tx, 0);
                self.put_separator(tx, at, separator);
            },
            _ => unreachable!("all children of a node are of one height"),
        }
    }
}

impl<'r, K: OrdKey<'r>, V: Persist> P<'r, PBTreeMap<'r, K, V>> {
    /// Puts a leaf on top of an empty tree.
    pub(super) fn plant(self, tx: &mut Txn<'r>, leaf: New<'r, Leaf<K, V>>) {
        tx[self].top = Top(Child::Leaf(leaf.node()));
    }

    /// Puts a node on top of a tree, whose second child this is.
    pub(super) fn raise(
        self,
        tx: &mut Txn<'r>,
        top: New<'r, Inner<'r, K, V>>,
        separator: Separator<K>,
        child: NewChild<'r, K, V>,
    ) {
        assert!(top.node().count(tx) == 0);
        // SAFETY: the only branch of a new node; what led to the child will lead to that node.
        unsafe { top.node().insert_branch(tx, 0, 0, tx[self].top.0) };
        top.node().insert_child(tx, 1, separator, child);
        tx[self].top = Top(Child::Inner(top.node()));
    }

    /// Takes the top off, if it has one child or no items. Returns whether it had.
    pub(super) fn lower(self, tx: &mut Txn<'r>) -> bool {
        let top = tx[self].top.0;
        let Some(below) = top.lower(tx) else { return false };
        tx[self].top = Top(below);
        // SAFETY: only the map led to it, and what was in it is elsewhere.
        unsafe { top.free(tx) };
        true
    }

    /// What a tree was split off into, as a map; `len` entries stay in this one.
    pub(super) fn cut(self, tx: &mut Txn<'r>, child: NewChild<'r, K, V>, len: usize) -> PBTreeMap<'r, K, V> {
        let top = Top(match child {
            NewChild::Leaf(leaf) => Child::Leaf(leaf.node()),
            NewChild::Inner(inner) => Child::Inner(inner.node()),
        });
        let all = std::mem::replace(&mut tx[self].len, len as u64);
        PBTreeMap { len: all - len as u64, top }
    }
}

impl<'r, K: Persist, V: Persist> Child<'r, K, V> {
    /// What leads to all that this does, if that is one child, or nothing.
    fn lower(self, tx: &Txn<'r>) -> Option<Child<'r, K, V>> {
        match self {
            Child::Inner(inner) if inner.count(tx) == 1 => Some(inner.seen(tx).child(0)),
            Child::Inner(_) | Child::Leaf(_) if self.count(tx) == 0 => Some(Child::None(0)),
            _ => None,
        }
    }
}

impl<'r, K: OrdKey<'r>, V: Persist> Top<'r, K, V> {
    /// Without what has one child or no items.
    pub(super) fn lowered(mut self, tx: &Txn<'r>) -> Self {
        while let Some(below) = self.0.lower(tx) {
            // SAFETY: only this led to it, and what was in it is elsewhere.
            unsafe { self.0.free(tx) };
            self = Top(below);
        }
        self
    }

    /// Gives up all nodes, and the keys in them, when the transaction commits.
    pub(super) fn give_up(self, tx: &Txn<'r>) {
        // SAFETY: a top is moved and never copied, so nothing else leads to what is below it.
        unsafe { give_up(tx, self.0, MAX_HEIGHT) };
    }
}

/// Gives up all that is below a child, and the node itself.
///
/// # Safety
/// Nothing will lead there.
unsafe fn give_up<'r, K: OrdKey<'r>, V: Persist>(tx: &Txn<'r>, child: Child<'r, K, V>, height: usize) {
    // SAFETY: nothing will lead to the node and to what is below it, as the caller promises, so what is moved out is never read again; all but the first branch have
    // a separator.
    unsafe {
        match child {
            Child::Leaf(leaf) if K::POINTERS => {
                let seen = leaf.seen(tx);
                (0..seen.len()).for_each(|i| std::ptr::from_ref(&seen.item(i).key).read().give_up(tx));
            }
            Child::Inner(inner) if height > 0 => {
                let seen = inner.seen(tx);
                for place in 0..seen.len() {
                    if place > 0 {
                        seen.item(place).separator.take().give_up(tx);
                    }
                    give_up(tx, seen.child(place), height - 1);
                }
            }
            Child::Leaf(_) | Child::Inner(_) | Child::None(_) => {}
        }
        child.free(tx);
    }
}
