//! The branches of inner nodes, and the top of a tree: all pointers from one node to another.
//!
//! All branches of a node except the first have a separator. A separator is a copy of a key. The branch owns
//! the copy, which is freed together with the branch: so the key of an entry may be freed although an equal
//! key separates the leaves. Outside this file, a node becomes the child of another only as a [`NewNode`],
//! which exists once.

#![allow(unsafe_code)]

use super::PBTreeMap;
use super::head::LEAST;
use super::node::{Branch, Child, INNER, Inner, Leaf, MAX_HEIGHT, NewNode};
use crate::api::tx::Txn;
use crate::collections::buffer::{self, Slot};
use crate::collections::key::{OrdKey, OwnKey};
use crate::layout::Persist;
use crate::layout::desc::Desc;
use crate::ptr::P;

/// The pointer to the top node of a tree.
#[repr(transparent)]
pub(crate) struct Top<'r, K, V>(Child<'r, K, V>);

// SAFETY: a `Top` is described as a `Child`, whose layout it has.
unsafe impl<'r, K: Persist, V: Persist> Persist for Top<'r, K, V> {
    type At<'a> = Top<'a, K::At<'a>, V::At<'a>>;
    const PADDED: bool = <Child<'r, K, V> as Persist>::PADDED;
    const POINTERS: bool = true;

    fn desc() -> &'static Desc {
        <Child<'r, K, V>>::desc()
    }

    unsafe fn zero_padding(this: *mut Self) {
        // SAFETY: `this` is a valid value, by the caller's premise, and a `Top` is laid out as a `Child`.
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

/// A new child for an inner node.
pub(super) enum NewChild<'r, K, V> {
    Leaf(NewNode<'r, Leaf<K, V>>),
    Inner(NewNode<'r, Inner<'r, K, V>>),
}

/// A separator: the prefix of its key, and the key.
pub(super) type Separator<K> = (u64, OwnKey<K>);

impl<'r, K: Persist, V: Persist> Child<'r, K, V> {
    /// Frees a node when the transaction commits.
    ///
    /// # Safety
    /// At the commit there is no pointer to the node.
    unsafe fn free(self, tx: &Txn<'r>) {
        // SAFETY: `self` is a node of a tree, and at the commit there is no pointer to it, by the caller's
        // premise.
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
    /// Adds a child to a node that is not full, at `place`, which is not that of the first child.
    pub(super) fn insert_child(
        self,
        tx: &mut Txn<'r>,
        place: usize,
        separator: Separator<K>,
        child: NewChild<'r, K, V>,
    ) {
        assert!(place > 0 && self.count(tx) > 0);
        let child = match (child, self.node_view(tx).child(0)) {
            (NewChild::Leaf(leaf), Child::Leaf(_)) => Child::Leaf(leaf.node()),
            (NewChild::Inner(inner), Child::Inner(_)) if inner.node() != self => Child::Inner(inner.node()),
            _ => unreachable!("all children of a node are of one height"),
        };
        // SAFETY: the branch is not the first, and it gets a separator. (The separator is stored in place,
        // because a move may change padding.)
        unsafe {
            self.insert_branch(tx, place, separator.0, child);
            self.item_mut(tx, place).separator.put(separator.1);
        }
    }

    /// Adds a branch that has no separator yet.
    ///
    /// # Safety
    /// When the caller's operation is complete, all branches of the node except the first have a separator.
    /// There is then no other pointer to the child.
    unsafe fn insert_branch(self, tx: &mut Txn<'r>, place: usize, prefix: u64, child: Child<'r, K, V>) {
        let (leaf, inner) = match child {
            Child::Leaf(leaf) => (Some(leaf), None),
            Child::Inner(inner) => (None, Some(inner)),
            Child::None(_) => (None, None),
        };
        let branch = Branch { separator: Slot::vacant(), prefix, inner };
        // SAFETY: all branches except the first get a separator, by the caller's premise.
        unsafe { self.insert_item(tx, place, prefix, leaf, branch) };
    }

    /// Moves the children from `place` on to a new node. Returns the separator between the two nodes.
    pub(super) fn split_off(
        self,
        tx: &mut Txn<'r>,
        place: usize,
        new: &NewNode<'r, Inner<'r, K, V>>,
    ) -> Separator<K> {
        assert!((1..self.count(tx)).contains(&place));
        // SAFETY: the first branch stays here. The branch that becomes the first of the new node has a
        // separator, which is taken out.
        unsafe {
            self.split_items(tx, place, new);
            new.node().take_separator(tx, 0)
        }
    }

    /// Makes `first`, the split-off second half of the child at `place`, the first child of a new node, and
    /// moves the children after `place` there, too. The two nodes then belong to two trees, so there is no
    /// separator between them.
    pub(super) fn split_behind(
        self,
        tx: &mut Txn<'r>,
        place: usize,
        new: &NewNode<'r, Inner<'r, K, V>>,
        first: NewChild<'r, K, V>,
    ) {
        assert!(place < self.count(tx) && new.node().count(tx) == 0);
        let first = match (first, self.node_view(tx).child(0)) {
            (NewChild::Leaf(leaf), Child::Leaf(_)) => Child::Leaf(leaf.node()),
            (NewChild::Inner(inner), Child::Inner(_)) if inner.node() != new.node() => {
                Child::Inner(inner.node())
            }
            _ => unreachable!("all children of a node are of one height"),
        };
        let upper = new.node();
        // SAFETY: the first branch stays here. The branch that becomes the first of the other node has a
        // separator. It is taken out, and stored again when `first` has become the first branch.
        unsafe {
            self.split_items(tx, place + 1, new);
            let separator = (upper.count(tx) > 0).then(|| upper.take_separator(tx, 0));
            upper.insert_branch(tx, 0, 0, first);
            if let Some(separator) = separator {
                upper.put_separator(tx, 1, separator);
            }
        }
    }

    /// Stores a separator in the branch at `place`, which has none.
    ///
    /// # Safety
    /// When the caller's operation is complete, the first branch has no separator.
    unsafe fn put_separator(self, tx: &mut Txn<'r>, place: usize, (prefix, key): Separator<K>) {
        self.set_code(tx, place, |head| if place == 0 { LEAST } else { head.code(prefix) });
        // SAFETY: the branch gets a separator, and if it is the first branch, the caller takes that out
        // again.
        let branch = unsafe { self.item_mut(tx, place) };
        branch.prefix = prefix;
        branch.separator.put(key);
    }

    /// Moves the separator out of the branch at `place`.
    ///
    /// # Safety
    /// The branch has a separator. Unless the branch becomes the first, the caller stores a separator there
    /// again.
    unsafe fn take_separator(self, tx: &mut Txn<'r>, place: usize) -> Separator<K> {
        if place == 0 {
            self.set_code(tx, place, |_| LEAST);
        }
        // SAFETY: the branch has a separator, by the caller's premise. Afterwards it has none, and the caller
        // stores one there unless the branch is the first.
        unsafe {
            let branch = self.item_mut(tx, place);
            let key = branch.separator.move_out();
            branch.separator = Slot::vacant();
            (std::mem::take(&mut branch.prefix), key)
        }
    }

    /// Removes the child at `place`, which has no items, and its separator.
    pub(super) fn remove_child(self, tx: &mut Txn<'r>, place: usize) {
        // SAFETY: all children except the first have a separator.
        unsafe { self.remove_branch(tx, place, place > 0) };
    }

    /// Removes the child at `place`, and frees its separator, if it has one. If the first child is removed,
    /// the next one becomes the first, and its separator is freed.
    ///
    /// # Safety
    /// If `has_separator`, the branch at `place` has one.
    unsafe fn remove_branch(self, tx: &mut Txn<'r>, place: usize, has_separator: bool) {
        // SAFETY: the separators exist: the one at `place` by the caller's premise; and the one of the second
        // child, which is taken out when that becomes the first. The branch was the only pointer to the
        // child.
        unsafe {
            let (leaf, branch) = self.remove_item(tx, place);
            if has_separator {
                branch.separator.move_out().free_key(tx);
            }
            if place == 0 && self.count(tx) > 0 {
                self.take_separator(tx, 0).1.free_key(tx);
            }
            Child::from_node(leaf, || branch.inner).free(tx);
        }
    }

    /// Moves all items of the child at `at` to the child before it, which has room for them, and removes the
    /// child at `at`. If one of the two children has no items, only removes that child.
    pub(super) fn merge(self, tx: &mut Txn<'r>, at: usize) {
        let seen = self.node_view(tx);
        let (left, right) = (seen.child(at - 1), seen.child(at));
        // A child without items is removed before it could get a separator.
        if right.count(tx) == 0 || left.count(tx) == 0 {
            return self.remove_child(tx, if right.count(tx) == 0 { at } else { at - 1 });
        }
        match (left, right) {
            (Child::Leaf(left), Child::Leaf(right)) => {
                // SAFETY: the items are entries of leaves, which have no separators.
                unsafe { right.move_items(tx, 0, right.count(tx), left, left.count(tx)) };
                self.remove_child(tx, at);
            }
            // SAFETY: the child is not the first, so it has a separator, which moves down to the first branch
            // of `right`.
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

    /// Moves items between the child at `at` and the one before it, so that their numbers of items differ by
    /// at most one. Leaves then need a new separator: if there is no memory for its key, they stay as they
    /// are.
    pub(super) fn even_out(self, tx: &mut Txn<'r>, at: usize) {
        let seen = self.node_view(tx);
        match (seen.child(at - 1), seen.child(at)) {
            (Child::Leaf(left), Child::Leaf(right)) => {
                // Find the entry that will be the first of the right leaf: its key becomes the separator.
                // (This runs the program's code first: if it panics, nothing has moved.)
                let (l, r) = (left.count(tx), right.count(tx));
                let (leaf, first) = if l < r { (right, (r - l) / 2) } else { (left, l - (l - r) / 2) };
                let query = leaf.node_view(tx).query(first);
                let prefix = K::prefix(query);
                let Ok(key) = OwnKey::new(tx, query) else { return };
                // SAFETY: the items are entries of leaves, which have no separators. The child is not the
                // first of its parent, so it has a separator there, and gets another one.
                unsafe {
                    left.even_items(tx, right);
                    self.take_separator(tx, at).1.free_key(tx);
                    self.put_separator(tx, at, (prefix, key));
                }
            }
            // SAFETY: the child is not the first, so it has a separator, which moves down to the first child
            // on the right. The branch that becomes the first one there has a separator, which moves up.
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
    /// Makes a leaf the top of an empty tree.
    pub(super) fn plant(self, tx: &mut Txn<'r>, leaf: NewNode<'r, Leaf<K, V>>) {
        tx[self].top = Top(Child::Leaf(leaf.node()));
    }

    /// Adds a new top to a tree; `child` becomes its second child.
    pub(super) fn raise(
        self,
        tx: &mut Txn<'r>,
        top: NewNode<'r, Inner<'r, K, V>>,
        separator: Separator<K>,
        child: NewChild<'r, K, V>,
    ) {
        assert!(top.node().count(tx) == 0);
        // SAFETY: the branch is the only one of a new node; the map will point to that node instead of the
        // child.
        unsafe { top.node().insert_branch(tx, 0, 0, tx[self].top.0) };
        top.node().insert_child(tx, 1, separator, child);
        tx[self].top = Top(Child::Inner(top.node()));
    }

    /// Removes the top node, if it has one child or no items. Returns whether the top was removed.
    pub(super) fn lower(self, tx: &mut Txn<'r>) -> bool {
        let top = tx[self].top.0;
        let Some(below) = top.lower(tx) else { return false };
        tx[self].top = Top(below);
        // SAFETY: only the map pointed to the old top, and the new top leads to its child.
        unsafe { top.free(tx) };
        true
    }

    /// Returns the half of a tree that was split off, with the top `child`, as a map. This map keeps `len`
    /// entries.
    pub(super) fn detach_half(
        self,
        tx: &mut Txn<'r>,
        child: NewChild<'r, K, V>,
        len: usize,
    ) -> PBTreeMap<'r, K, V> {
        let top = Top(match child {
            NewChild::Leaf(leaf) => Child::Leaf(leaf.node()),
            NewChild::Inner(inner) => Child::Inner(inner.node()),
        });
        let all = std::mem::replace(&mut tx[self].len, len as u64);
        PBTreeMap { len: all - len as u64, top }
    }
}

impl<'r, K: Persist, V: Persist> Child<'r, K, V> {
    /// If this node has a single child, returns that child; if it has no items, returns the top of an empty
    /// tree; otherwise `None`.
    fn lower(self, tx: &Txn<'r>) -> Option<Child<'r, K, V>> {
        match self {
            Child::Inner(inner) if inner.count(tx) == 1 => Some(inner.node_view(tx).child(0)),
            Child::Inner(_) | Child::Leaf(_) if self.count(tx) == 0 => Some(Child::None(0)),
            _ => None,
        }
    }
}

impl<'r, K: OrdKey<'r>, V: Persist> Top<'r, K, V> {
    /// Removes the top node as long as it has one child or no items. Returns the remaining top.
    pub(super) fn lowered(mut self, tx: &Txn<'r>) -> Self {
        while let Some(below) = self.0.lower(tx) {
            // SAFETY: only `self` pointed to the old top, and the new top leads to its child.
            unsafe { self.0.free(tx) };
            self = Top(below);
        }
        self
    }

    /// Frees all nodes of the tree, with the keys of entries and the separators in them, when the transaction
    /// commits.
    pub(super) fn free_nodes(self, tx: &Txn<'r>) {
        // SAFETY: a top is moved and never copied, so there is no other pointer to the nodes below it.
        unsafe { free_subtree(tx, self.0, MAX_HEIGHT) };
    }
}

/// Frees the node `child` and all nodes below it, with their keys and separators, when the transaction
/// commits. `height` limits the depth.
///
/// # Safety
/// At the commit there is no pointer to the node.
unsafe fn free_subtree<'r, K: OrdKey<'r>, V: Persist>(tx: &Txn<'r>, child: Child<'r, K, V>, height: usize) {
    // SAFETY: at the commit there is no pointer to the node and to the nodes below it, by the caller's
    // premise, so the keys that are moved out are never read again. All branches except the first have a
    // separator.
    unsafe {
        match child {
            Child::Leaf(leaf) if K::POINTERS => {
                let seen = leaf.node_view(tx);
                (0..seen.len()).for_each(|i| std::ptr::from_ref(&seen.item(i).key).read().free_key(tx));
            }
            Child::Inner(inner) if height > 0 => {
                let seen = inner.node_view(tx);
                for place in 0..seen.len() {
                    if place > 0 {
                        seen.item(place).separator.move_out().free_key(tx);
                    }
                    free_subtree(tx, seen.child(place), height - 1);
                }
            }
            Child::Leaf(_) | Child::Inner(_) | Child::None(_) => {}
        }
        child.free(tx);
    }
}
