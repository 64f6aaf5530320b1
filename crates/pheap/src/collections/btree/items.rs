//! The items of nodes: insertion, moves from node to node, removal, and changes.
//!
//! The invariants of a tree are in [`node`](super::node).

#![allow(unsafe_code)]

use super::head::{FREE, Head, LEAST, Order, Scale};
use super::node::{Entry, Leaf, NearPart, NewNode, Node, NodeItem};
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::collections::buffer;
use crate::collections::key::OrdKey;
use crate::layout::Persist;
use crate::ptr::P;

/// Methods that do not depend on the order of items.
impl<'r, T: Persist, X: NearPart, const N: usize> P<'r, Node<T, X, N>> {
    /// Returns the item at `place`, to write. The whole item is made crash-safe.
    ///
    /// # Safety
    /// When the caller's operation is complete, all branches of an inner node except the first have a
    /// separator.
    #[inline(always)]
    pub(super) unsafe fn item_mut<'t>(self, tx: &'t mut Txn<'r>, place: usize) -> &'t mut T {
        let slot = self.node_view(tx).slot_of_item(place);
        // SAFETY: `slot` belongs to an item, so it has a value.
        unsafe { buffer::write(tx, self.slot_ptr(slot)).value_mut() }
    }

    /// Returns the addresses of the parts of the head that an insertion or a removal of an item in `slot`
    /// writes: the order, and the code of the slot.
    #[inline(always)]
    fn parts(self, slot: usize) -> (*mut Order<N>, *mut i16) {
        assert!(slot < N);
        let head = self.head_ptr();
        // SAFETY: the order and the code are parts of a live object, and `slot < N`.
        unsafe { (&raw mut (*head).order, (&raw mut (*head).codes).cast::<i16>().add(slot)) }
    }

    /// Removes the item at `place`, and returns its part near the head and the item.
    ///
    /// # Safety
    /// When the caller's operation is complete, all branches of an inner node except the first have a
    /// separator.
    #[inline]
    pub(super) unsafe fn remove_item(self, tx: &mut Txn<'r>, place: usize) -> (X, T) {
        let seen = self.node_view(tx);
        let (slot, near) = (seen.slot_of_item(place), seen.near(place));
        // SAFETY: all places are parts of a live node. `slot` is in use, so it has a value; the head then
        // frees it, so the value is not read there again.
        unsafe {
            let item = buffer::read(tx, self.slot_ptr(slot)).move_out();
            if tx.logs_in_place() {
                let (order, code) = self.parts(slot);
                let vacated =
                    if T::POINTERS { buffer::range(self.slot_ptr(slot)) } else { buffer::range(code) };
                let near = buffer::range(self.near_ptr(slot));
                buffer::announce(tx, &[buffer::range(order), buffer::range(code), near, vacated]);
                buffer::write(tx, order).remove(place);
                *buffer::write(tx, code) = FREE;
            } else {
                buffer::write(tx, self.head_ptr()).remove(place);
            }
            self.vacate(tx, slot);
            (near, item)
        }
    }

    /// Zeroes a free slot, and its element of `near`, if stale bytes there could be pointers.
    ///
    /// # Safety
    /// The slot is not in use.
    #[inline(always)]
    unsafe fn vacate(self, tx: &mut Txn<'r>, slot: usize) {
        // SAFETY: both places are parts of a live node; the slot is not in use, by the caller's premise.
        unsafe {
            if X::POINTERS {
                *buffer::write(tx, self.near_ptr(slot)) = X::default();
            }
            if T::POINTERS {
                buffer::write(tx, self.slot_ptr(slot)).vacate();
            }
        }
    }

    /// Replaces the code of the item at `place`.
    pub(super) fn set_code(self, tx: &mut Txn<'r>, place: usize, code: impl FnOnce(&Head<N>) -> i16) {
        // SAFETY: the head is a part of a live node.
        unsafe {
            let head = buffer::write(tx, self.head_ptr());
            head.codes[head.slot_of_item(place)] = code(head);
        }
    }
}

/// Methods that depend on the order of items.
impl<'r, T: NodeItem<'r>, X: NearPart, const N: usize> P<'r, Node<T, X, N>> {
    /// Inserts an item at `place` of a node that is not full.
    ///
    /// # Safety
    /// When the caller's operation is complete, all branches of an inner node except the first have a
    /// separator.
    #[inline]
    pub(super) unsafe fn insert_item(self, tx: &mut Txn<'r>, place: usize, prefix: u64, near: X, item: T) {
        let seen = self.node_view(tx);
        let head = seen.head();
        assert!(place <= head.len() && !head.is_full());
        let code = if place < T::FIRST { LEAST } else { head.code(prefix) };
        let prefix_at = |place| seen.item(place).prefix(tx);
        if let Some(scale) = head.better_scale(T::FIRST, place, prefix, code, prefix_at) {
            self.set_scale(tx, scale);
            return self.insert_coded(tx, place, scale.code(prefix), near, item);
        }
        self.insert_coded(tx, place, code, near, item)
    }

    #[inline(always)]
    fn insert_coded(self, tx: &mut Txn<'r>, place: usize, code: i16, near: X, item: T) {
        let head = self.head(tx);
        let slot = head.slot_of_item(head.len());
        // SAFETY: all places are parts of a live node; `slot` is free, so nothing is overwritten.
        unsafe {
            if tx.logs_in_place() {
                let (order, code_at) = self.parts(slot);
                let (near_at, slot) =
                    (buffer::range(self.near_ptr(slot)), buffer::range(self.slot_ptr(slot)));
                buffer::announce(tx, &[buffer::range(order), buffer::range(code_at), near_at, slot]);
                buffer::write(tx, order).insert(place);
                *buffer::write(tx, code_at) = code;
            } else {
                buffer::write(tx, self.head_ptr()).insert(place, code);
            }
            if size_of::<X>() > 0 {
                *buffer::write(tx, self.near_ptr(slot)) = near;
            }
            buffer::write(tx, self.slot_ptr(slot)).put(item);
        }
    }

    #[cold]
    #[inline(never)]
    fn set_scale(self, tx: &mut Txn<'r>, scale: Scale) {
        let mut head = *self.head(tx);
        let prefixes = self.prefixes(tx, &head);
        head.set_scale(T::FIRST, scale, &prefixes);
        // SAFETY: the head is a part of a live node.
        unsafe { *buffer::write(tx, self.head_ptr()) = head };
    }

    /// Moves the items from `place` on, all of which have keys, to a new node.
    ///
    /// (A split of a leaf keeps the scale of its codes, so it reads no key.)
    ///
    /// # Safety
    /// When the caller's operation is complete, all branches of an inner node except the first have a
    /// separator.
    pub(super) unsafe fn split_items(self, tx: &mut Txn<'r>, place: usize, new: &NewNode<'r, Node<T, X, N>>) {
        let new = new.node();
        let (mut head, mut new_head) = (*self.head(tx), Head::EMPTY);
        let old = head;
        assert!(new.count(tx) == 0 && place <= old.len());
        head.split_off(place, &mut new_head);
        if T::KEPT {
            let prefixes = self.prefixes(tx, &old);
            let mut new_prefixes = [0; N];
            (place..old.len()).for_each(|from| new_prefixes[from - place] = prefixes[old.slot_of_item(from)]);
            head.fit(T::FIRST, &prefixes);
            new_head.fit(T::FIRST, &new_prefixes);
        }
        // SAFETY: all places are parts of live nodes. The transaction has allocated the new node, and no
        // object points to it, so it is written in place. The values move, the heads record that, and nothing
        // in between can panic.
        unsafe {
            for (to, from) in (place..old.len()).map(|place| old.slot_of_item(place)).enumerate() {
                new.near_ptr(to).copy_from_nonoverlapping(tx.place_of(self.near_ptr(from)), 1);
                buffer::move_to_new(tx, self.slot_ptr(from), new.slot_ptr(to));
            }
            new.head_ptr().write(new_head);
            if place < old.len() {
                *buffer::write(tx, self.head_ptr()) = head;
            }
            (place..old.len()).for_each(|place| self.vacate(tx, old.slot_of_item(place)));
        }
    }

    /// Returns the prefix of each item, at the index of its slot.
    fn prefixes(self, view: &View<'r>, head: &Head<N>) -> [u64; N] {
        let (seen, mut prefixes) = (self.node_view(view), [0; N]);
        for place in 0..head.len() {
            prefixes[head.slot_of_item(place)] = seen.item(place).prefix(view);
        }
        prefixes
    }

    /// Moves `count` items from `place` on, all of which have keys, to the place `to_place` of another node
    /// with room for them.
    ///
    /// # Safety
    /// When the caller's operation is complete, all branches of an inner node except the first have a
    /// separator.
    pub(super) unsafe fn move_items(
        self,
        tx: &mut Txn<'r>,
        place: usize,
        count: usize,
        to: Self,
        to_place: usize,
    ) {
        let (mut from_head, mut to_head) = (*self.head(tx), *to.head(tx));
        assert!(self != to && place + count <= from_head.len() && to_place <= to_head.len());
        assert!(to_head.len() + count <= N);
        // All prefixes are computed first: if the program's code panics, no item has moved.
        let (prefixes, mut to_prefixes) = (self.prefixes(tx, &from_head), to.prefixes(tx, &to_head));
        let mut moves = [(0, 0); N];
        for (i, slots) in moves[..count].iter_mut().enumerate() {
            *slots = (from_head.remove(place), to_head.insert(to_place + i, FREE));
            to_prefixes[slots.1] = prefixes[slots.0];
        }
        to_head.fit(T::FIRST, &to_prefixes);
        for &(from_slot, to_slot) in &moves[..count] {
            // SAFETY: all places are parts of live nodes. The value moves with its bytes, the heads record
            // that below, and nothing in between can panic.
            unsafe {
                if size_of::<X>() > 0 {
                    let near = *buffer::read(tx, self.near_ptr(from_slot));
                    *buffer::write(tx, to.near_ptr(to_slot)) = near;
                }
                // Look the old place up first: a copy of this transaction stays where it is while another
                // copy is made, and the new place is valid until the next access.
                let old = tx.place_of(self.slot_ptr(from_slot));
                let new = std::ptr::from_mut(buffer::write(tx, to.slot_ptr(to_slot)));
                new.copy_from_nonoverlapping(old, 1);
                self.vacate(tx, from_slot);
            }
        }
        // SAFETY: the heads are parts of live nodes.
        unsafe {
            *buffer::write(tx, self.head_ptr()) = from_head;
            *buffer::write(tx, to.head_ptr()) = to_head;
        }
    }

    /// Moves items between this node and `right`, its right neighbour, so that their numbers of items differ
    /// by at most one.
    ///
    /// # Safety
    /// When the caller's operation is complete, all branches of an inner node except the first have a
    /// separator.
    pub(super) unsafe fn even_items(self, tx: &mut Txn<'r>, right: Self) {
        let (l, r) = (self.count(tx), right.count(tx));
        // SAFETY: the caller's premise covers the separators of both nodes.
        unsafe {
            if l < r {
                right.move_items(tx, 0, (r - l) / 2, self, l);
            } else {
                let count = (l - r) / 2;
                self.move_items(tx, l - count, count, right, 0);
            }
        }
    }
}

impl<'r, K: OrdKey<'r>, V: Persist> P<'r, Leaf<K, V>> {
    /// Returns the value of the entry at `place`, to write.
    #[inline(always)]
    pub(super) fn value_mut<'t>(self, tx: &'t mut Txn<'r>, place: usize) -> &'t mut V {
        let slot = self.slot_ptr(self.node_view(tx).slot_of_item(place));
        // SAFETY: `slot` is a slot of a live node that belongs to an item, so the returned place has an
        // entry; `tx` is borrowed as long as the value is. There is no reference to the whole entry, because
        // `entry_mut` has one to its key.
        unsafe {
            let entry = tx.writable(slot).cast::<Entry<K, V>>();
            &mut (*entry).value
        }
    }

    /// Returns the key of the entry at `place`, in its borrowed form, and its value, to write.
    pub(super) fn entry_mut<'t>(self, tx: &'t mut Txn<'r>, place: usize) -> (&'t K::Query, &'t mut V) {
        let query: *const K::Query = self.node_view(tx).query(place);
        let value = self.value_mut(tx, place);
        // SAFETY: the query does not overlap the value, by the contract of `MapKey`. Nothing writes the key,
        // neither here nor at the place from which the entry was copied. A reference to it stays valid when
        // the transaction becomes long.
        (unsafe { &*query }, value)
    }

    /// Adds an entry at `place` of a leaf that is not full.
    #[inline]
    pub(super) fn insert_entry(self, tx: &mut Txn<'r>, place: usize, prefix: u64, entry: Entry<K, V>) {
        // SAFETY: the item is an entry of a leaf, which has no separators.
        unsafe { self.insert_item(tx, place, prefix, (), entry) };
    }

    /// Removes the entry at `place`, and returns it.
    #[inline]
    pub(super) fn remove_entry(self, tx: &mut Txn<'r>, place: usize) -> Entry<K, V> {
        // SAFETY: the item is an entry of a leaf, which has no separators.
        unsafe { self.remove_item(tx, place) }.1
    }

    /// Moves the entries from `place` on to a new leaf.
    pub(super) fn split_off(self, tx: &mut Txn<'r>, place: usize, new: &NewNode<'r, Leaf<K, V>>) {
        // SAFETY: the items are entries of a leaf, which has no separators.
        unsafe { self.split_items(tx, place, new) };
    }
}
