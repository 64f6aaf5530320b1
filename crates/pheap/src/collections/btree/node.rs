//! A node: items that stay in the slots that they were written to, and their order.
//!
//! What must hold of a tree, whatever the order of its keys:
//! * Of a node, `len` is at most `N`, and the `slots` of its order are a permutation of `0..N`: those of the items first, as they are sorted.
//! * A slot in use has a value. One that is not in use is zero, if there can be pointers in it; so is what is near the head.
//! * Each branch of an inner node leads to one child: a leaf, near the head, or an inner node. All but the first branch have a separator.
//! * All leaves are equally deep, and no node has two parents.
//!
//! And for finding things: the codes are those of the keys, [`LEAST`] for a first child, and [`FREE`] in slots that are not in use; a separator is
//! greater than all keys before it, and not greater than those below its child. Leaves without entries are found, but only after a panic.

#![allow(unsafe_code)]

use super::head::{FREE, Head, LEAST, Order, Scale};
use crate::Persist;
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::collections::buffer::{self, Slot};
use crate::collections::common::copied;
use crate::collections::key::{OrdKey, OwnKey};
use crate::error::Result;
use crate::os::cpu;
use crate::ptr::{P, value_of};
use crate::units::LINE;

/// Entries of a leaf, and branches of an inner node. Few for the tests of this crate's inside.
pub(super) const LEAF: usize = if cfg!(test) { 8 } else { 32 };
pub(super) const INNER: usize = if cfg!(test) { 8 } else { 64 };

/// A node, for items `T`, and what is to be near the head of each.
#[derive(Persist)]
#[repr(C, align(64))]
#[persist(own, id = "pheap::BTreeNode", crate = "crate")]
pub(crate) struct Node<T, X, const N: usize> {
    head: Head<N>,
    near: [X; N],
    slots: [Slot<T>; N],
}

/// An entry of a leaf. Aligned, so that entries share no word: a transaction keeps copies of whole words.
#[derive(Persist)]
#[repr(C, align(8))]
#[persist(own, id = "pheap::BTreeEntry", crate = "crate")]
pub(crate) struct Entry<K, V> {
    pub(super) key: OwnKey<K>,
    pub(super) value: V,
}

/// What an inner node knows of a child: the key that is greater than all before it, and not greater than those below it. The first child has none.
///
/// A child that is a leaf is near the head instead: most inner nodes have leaves below them, and the pointers to them fill a third of the lines.
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::BTreeBranch", crate = "crate")]
pub(crate) struct Branch<'r, K, V> {
    pub(super) separator: Slot<OwnKey<K>>,
    /// That of the separator. Kept, so that to look at it is not the user's code.
    pub(super) prefix: u64,
    pub(super) inner: Option<P<'r, Inner<'r, K, V>>>,
}

pub(super) type Leaf<K, V> = Node<Entry<K, V>, (), LEAF>;
pub(super) type Inner<'r, K, V> = Node<Branch<'r, K, V>, Option<P<'r, Leaf<K, V>>>, INNER>;

/// A pointer to a node.
#[derive(Persist)]
#[repr(u64)]
#[persist(own, id = "pheap::BTreeChild", crate = "crate")]
pub(crate) enum Child<'r, K, V> {
    /// With a number, which is 0, so that there is no padding.
    None(#[allow(dead_code)] u64),
    Leaf(P<'r, Leaf<K, V>>),
    Inner(P<'r, Inner<'r, K, V>>),
}

copied! { [K, V] Child<'_, K, V>; }

/// What is in order in a node.
pub(crate) trait Item<'r>: Persist {
    /// The place of the first item that has a key.
    const FIRST: usize;

    /// Whether the prefix is kept, so that to look at it is not the user's code, and costs nothing.
    const KEPT: bool;

    /// Orders its key, as far as it goes. (Some number, if it has none.)
    fn prefix(&self, view: &View<'r>) -> u64;
}

impl<'r, K: OrdKey<'r>, V: Persist> Item<'r> for Entry<K, V> {
    const FIRST: usize = 0;
    const KEPT: bool = false;

    #[inline(always)]
    fn prefix(&self, view: &View<'r>) -> u64 {
        K::prefix(self.key.query(view))
    }
}

impl<'r, K: OrdKey<'r>, V: Persist> Item<'r> for Branch<'r, K, V> {
    const FIRST: usize = 1;
    const KEPT: bool = true;

    #[inline(always)]
    fn prefix(&self, _: &View<'r>) -> u64 {
        self.prefix
    }
}

/// What is near the head of a node. The default is zero in all bytes.
pub(crate) trait Near: Persist + Copy + Default {}

impl Near for () {}
impl<'r, K: Persist, V: Persist> Near for Option<P<'r, Leaf<K, V>>> {}

/// The nodes of a tree, by their pointers, which never leave it.
impl<'r, T: Persist, X: Near, const N: usize> P<'r, Node<T, X, N>> {
    /// A new node without items. Until something points to it, it is written where it is.
    pub(super) fn new_node(tx: &Txn<'r>) -> Result<Self> {
        let (node, place) = tx.alloc_uninit::<Node<T, X, N>>()?;
        // SAFETY: a new object, of this size.
        unsafe {
            place.cast::<u8>().write_bytes(0, size_of::<Node<T, X, N>>());
            (&raw mut (*place).head).write(Head::EMPTY);
        }
        Ok(node)
    }

    #[inline(always)]
    fn head_ptr(self) -> *mut Head<N> {
        // SAFETY: a part of a live object.
        unsafe { &raw mut (*value_of(self)).head }
    }

    #[inline(always)]
    fn slot_ptr(self, slot: usize) -> *mut Slot<T> {
        assert!(slot < N);
        // SAFETY: a part of a live object.
        unsafe { (&raw mut (*value_of(self)).slots).cast::<Slot<T>>().add(slot) }
    }

    #[inline(always)]
    fn near_ptr(self, slot: usize) -> *mut X {
        assert!(slot < N);
        // SAFETY: a part of a live object.
        unsafe { (&raw mut (*value_of(self)).near).cast::<X>().add(slot) }
    }

    /// Starts to load what a search looks at.
    #[inline(always)]
    pub(super) fn prefetch(self) {
        let first = self.head_ptr().cast::<u8>();
        for at in (0..size_of::<Head<N>>()).step_by(LINE) {
            cpu::prefetch(first.wrapping_add(at));
        }
    }

    #[inline(always)]
    pub(super) fn head<'v>(self, view: &'v View<'r>) -> &'v Head<N> {
        // SAFETY: a part of a live node.
        unsafe { buffer::read(view, self.head_ptr()) }
    }

    #[inline(always)]
    pub(super) fn count(self, view: &View<'r>) -> usize {
        self.head(view).len()
    }

    /// The item in a slot.
    ///
    /// # Safety
    /// The slot is in use.
    #[inline(always)]
    pub(super) unsafe fn item<'v>(self, view: &'v View<'r>, slot: usize) -> &'v T {
        // SAFETY: a part of a live node; there is a value, by the caller's promise.
        unsafe { buffer::read(view, self.slot_ptr(slot)).value() }
    }

    /// The item at `place`.
    #[inline(always)]
    pub(super) fn item_at<'v>(self, view: &'v View<'r>, head: &Head<N>, place: usize) -> &'v T {
        debug_assert!(place < head.len());
        // SAFETY: in use, since `place` is less than the length.
        unsafe { self.item(view, head.slot(place)) }
    }

    /// What is near the head of the item at `place`.
    #[inline(always)]
    pub(super) fn near_at(self, view: &View<'r>, head: &Head<N>, place: usize) -> X {
        let near = self.near_ptr(head.slot(place));
        // Whoever writes it writes the head as well: if there is no copy of that, there is none of this.
        let in_place = std::ptr::eq(head, self.head_ptr());
        // SAFETY: a part of a live node; where it is, if no copy was made.
        unsafe { if in_place { *near } else { *buffer::read(view, near) } }
    }

    /// Starts to load the slot that the next item takes.
    #[inline(always)]
    pub(super) fn prefetch_free(self, head: &Head<N>) {
        if !head.is_full() {
            cpu::prefetch(self.slot_ptr(head.slot(head.len())).cast());
        }
    }

    /// The item in a slot, to write.
    ///
    /// # Safety
    /// The slot is in use.
    #[inline(always)]
    pub(super) unsafe fn item_mut<'t>(self, tx: &'t mut Txn<'r>, slot: usize) -> &'t mut T {
        // SAFETY: a part of a live node; there is a value, by the caller's promise.
        unsafe { buffer::write(tx, self.slot_ptr(slot)).value_mut() }
    }

    /// The parts of the head that an insertion or a removal writes.
    #[inline(always)]
    fn parts(self, slot: usize) -> (*mut Order<N>, *mut i16) {
        assert!(slot < N);
        let head = self.head_ptr();
        // SAFETY: parts of a live object.
        unsafe { (&raw mut (*head).order, (&raw mut (*head).codes).cast::<i16>().add(slot)) }
    }

    /// Moves the item at `place` out.
    #[inline]
    pub(super) fn remove_item(self, tx: &mut Txn<'r>, place: usize) -> (X, T) {
        let head = self.head(tx);
        debug_assert!(place < head.len());
        let (slot, near) = (head.slot(place), self.near_at(tx, head, place));
        // SAFETY: parts of a live node; the slot is in use until now, and not afterwards.
        unsafe {
            let item = buffer::read(tx, self.slot_ptr(slot)).take();
            if tx.__logs_in_place() {
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

    /// Empties a slot, if what is left behind could point to something.
    ///
    /// # Safety
    /// The slot is not in use.
    #[inline(always)]
    unsafe fn vacate(self, tx: &mut Txn<'r>, slot: usize) {
        // SAFETY: parts of a live node.
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
        // SAFETY: a part of a live node.
        unsafe {
            let head = buffer::write(tx, self.head_ptr());
            head.codes[head.slot(place)] = code(head);
        }
    }
}

/// What needs to know how items are ordered.
impl<'r, T: Item<'r>, X: Near, const N: usize> P<'r, Node<T, X, N>> {
    /// Puts an item in at `place`. The node is not full. Returns its slot.
    #[inline]
    pub(super) fn insert_item(self, tx: &mut Txn<'r>, place: usize, prefix: u64, near: X, item: T) -> usize {
        let head = self.head(tx);
        let code = if place < T::FIRST { LEAST } else { head.code(prefix) };
        let prefix_at = |place| self.item_at(tx, head, place).prefix(tx);
        if let Some(scale) = head.better_scale(T::FIRST, place, prefix, code, prefix_at) {
            self.set_scale(tx, scale);
            return self.insert_coded(tx, place, scale.code(prefix), near, item);
        }
        self.insert_coded(tx, place, code, near, item)
    }

    #[inline(always)]
    fn insert_coded(self, tx: &mut Txn<'r>, place: usize, code: i16, near: X, item: T) -> usize {
        let head = self.head(tx);
        let slot = head.slot(head.len());
        // SAFETY: parts of a live node.
        unsafe {
            if tx.__logs_in_place() {
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
        slot
    }

    #[cold]
    #[inline(never)]
    fn set_scale(self, tx: &mut Txn<'r>, scale: Scale) {
        let mut head = *self.head(tx);
        let prefixes = self.prefixes(tx, &head);
        head.set_scale(T::FIRST, scale, &prefixes);
        // SAFETY: a part of a live node.
        unsafe { *buffer::write(tx, self.head_ptr()) = head };
    }

    /// Moves the items from `place` on to a new node. They have keys.
    ///
    /// (Leaves keep their scale, so that no key is looked at.)
    ///
    /// # Safety
    /// The new node was made by this transaction, nothing points to it, and it has no items.
    pub(super) unsafe fn split_off(self, tx: &mut Txn<'r>, place: usize, new: Self) {
        let (mut head, mut new_head) = (*self.head(tx), Head::EMPTY);
        let old = head;
        head.split_off(place, &mut new_head);
        if T::KEPT {
            let prefixes = self.prefixes(tx, &old);
            let mut new_prefixes = [0; N];
            (place..old.len()).for_each(|from| new_prefixes[from - place] = prefixes[old.slot(from)]);
            head.fit(T::FIRST, &prefixes);
            new_head.fit(T::FIRST, &new_prefixes);
        }
        // SAFETY: parts of live nodes, of which nobody knows the new one: it is written where it is. The values move, bytes and all; the heads say
        // so, and nothing in between can panic.
        unsafe {
            for (to, from) in (place..old.len()).map(|place| old.slot(place)).enumerate() {
                let (near, item) = (tx.place_of(self.near_ptr(from)), tx.place_of(self.slot_ptr(from)));
                new.near_ptr(to).copy_from_nonoverlapping(near, 1);
                new.slot_ptr(to).copy_from_nonoverlapping(item, 1);
            }
            new.head_ptr().write(new_head);
            if place < old.len() {
                *buffer::write(tx, self.head_ptr()) = head;
            }
            (place..old.len()).for_each(|place| self.vacate(tx, old.slot(place)));
        }
    }

    /// The prefixes of all items, in the order of their slots.
    fn prefixes(self, view: &View<'r>, head: &Head<N>) -> [u64; N] {
        let mut prefixes = [0; N];
        for place in 0..head.len() {
            prefixes[head.slot(place)] = self.item_at(view, head, place).prefix(view);
        }
        prefixes
    }

    /// Moves `count` items from `place` on to `to_place` of another node, which has room for them. They have keys.
    pub(super) fn move_items(self, tx: &mut Txn<'r>, place: usize, count: usize, to: Self, to_place: usize) {
        let (mut from_head, mut to_head) = (*self.head(tx), *to.head(tx));
        // The user's code comes first: should it panic, nothing has moved.
        let (prefixes, mut to_prefixes) = (self.prefixes(tx, &from_head), to.prefixes(tx, &to_head));
        let mut moves = [(0, 0); N];
        for (i, slots) in moves[..count].iter_mut().enumerate() {
            *slots = (from_head.remove(place), to_head.insert(to_place + i, FREE));
            to_prefixes[slots.1] = prefixes[slots.0];
        }
        to_head.fit(T::FIRST, &to_prefixes);
        for &(from_slot, to_slot) in &moves[..count] {
            // SAFETY: parts of live nodes. The value moves, bytes and all; the heads say so below, and nothing in between can panic.
            unsafe {
                if size_of::<X>() > 0 {
                    let near = *buffer::read(tx, self.near_ptr(from_slot));
                    *buffer::write(tx, to.near_ptr(to_slot)) = near;
                }
                // Looked up first: a copy of this transaction stays where it is while another is made, and the new place is good until the
                // next access.
                let old = tx.place_of(self.slot_ptr(from_slot));
                let new = std::ptr::from_mut(buffer::write(tx, to.slot_ptr(to_slot)));
                new.copy_from_nonoverlapping(old, 1);
                self.vacate(tx, from_slot);
            }
        }
        // SAFETY: parts of live nodes.
        unsafe {
            *buffer::write(tx, self.head_ptr()) = from_head;
            *buffer::write(tx, to.head_ptr()) = to_head;
        }
    }
}

impl<'r, K: Persist, V: Persist> Child<'r, K, V> {
    #[inline(always)]
    pub(super) fn prefetch(self) {
        match self {
            Child::Leaf(leaf) => leaf.prefetch(),
            Child::Inner(inner) => inner.prefetch(),
            Child::None(_) => {}
        }
    }

    /// Number of its items.
    pub(super) fn count(self, view: &View<'r>) -> usize {
        match self {
            Child::Leaf(leaf) => leaf.count(view),
            Child::Inner(inner) => inner.count(view),
            Child::None(_) => 0,
        }
    }
}

impl<'r, K: Persist, V: Persist> P<'r, Leaf<K, V>> {
    /// The value of the entry at `place`.
    #[inline(always)]
    pub(super) fn value_at<'v>(self, view: &'v View<'r>, head: &Head<LEAF>, place: usize) -> &'v V {
        debug_assert!(place < head.len());
        let entry = self.slot_ptr(head.slot(place)).cast::<Entry<K, V>>();
        // SAFETY: a part of a live node, in a slot that is in use, since `place` is less than the length.
        unsafe { buffer::read(view, &raw mut (*entry).value) }
    }

    /// The value of the entry in a slot, to write. (All of the entry, for the write set.)
    ///
    /// # Safety
    /// The slot is in use.
    #[inline(always)]
    pub(super) unsafe fn value_mut<'t>(self, tx: &'t mut Txn<'r>, slot: usize) -> &'t mut V {
        // SAFETY: a part of a live node; there is a value, by the caller's promise; `&mut` keeps all other access away.
        unsafe { &mut (*tx.writable(self.slot_ptr(slot)).cast::<Entry<K, V>>()).value }
    }
}
