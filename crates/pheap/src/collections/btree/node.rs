//! The nodes of a tree: items that stay in the slots that they were written to, and their order.
//!
//! What must hold of a tree, whatever the order of its keys:
//! * Of a node, `len` is at most `N`, and the `slots` of its order are a permutation of `0..N`: those of the items first, as they are sorted.
//! * A slot in use has a value. One that is not in use is zero, if there can be pointers in it; so is what is near the head.
//! * Each branch of an inner node leads to one child: a leaf, near the head, or an inner node. All but the first branch have a separator.
//! * All leaves are equally deep, and no node has two parents.
//!
//! Only this file writes nodes; what needs to know how they hang together is in `branch`. Pointers to nodes are found in nodes, in the `Top` of a map, and
//! while a transaction is busy with them.
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

/// No tree that fits into memory is higher.
pub(super) const MAX_HEIGHT: usize = 16;

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

/// A node that this transaction has made, and that nothing in the heap points to. It is written where it is.
pub(super) struct New<'r, N>(P<'r, N>);

impl<'r, N> New<'r, N> {
    pub(super) fn node(&self) -> P<'r, N> {
        self.0
    }
}

impl<'r, T: Persist, X: Near, const N: usize> New<'r, Node<T, X, N>> {
    /// Without items.
    pub(super) fn alloc(tx: &Txn<'r>) -> Result<Self> {
        let (node, place) = tx.alloc_uninit::<Node<T, X, N>>()?;
        // SAFETY: a new object, of this size.
        unsafe {
            place.cast::<u8>().write_bytes(0, size_of::<Node<T, X, N>>());
            (&raw mut (*place).head).write(Head::EMPTY);
        }
        Ok(New(node))
    }
}

/// A node as a view sees it. While the view is borrowed nobody changes it.
pub(super) struct Seen<'v, 'r, T, X, const N: usize> {
    view: &'v View<'r>,
    node: P<'r, Node<T, X, N>>,
    head: &'v Head<N>,
}

copied! { [T, X, const N: usize] Seen<'_, '_, T, X, N>; }

pub(super) type SeenLeaf<'v, 'r, K, V> = Seen<'v, 'r, Entry<K, V>, (), LEAF>;
pub(super) type SeenInner<'v, 'r, K, V> = Seen<'v, 'r, Branch<'r, K, V>, Option<P<'r, Leaf<K, V>>>, INNER>;

impl<'v, 'r, T: Persist, X: Near, const N: usize> Seen<'v, 'r, T, X, N> {
    #[inline(always)]
    pub(super) fn node(self) -> P<'r, Node<T, X, N>> {
        self.node
    }

    #[inline(always)]
    pub(super) fn head(self) -> &'v Head<N> {
        self.head
    }

    #[inline(always)]
    pub(super) fn len(self) -> usize {
        self.head.len()
    }

    #[inline(always)]
    fn slot(self, place: usize) -> usize {
        assert!(place < self.head.len());
        self.head.slot(place)
    }

    /// The item at `place`.
    #[inline(always)]
    pub(super) fn item(self, place: usize) -> &'v T {
        // SAFETY: the slot of an item has a value, and nobody changes it while the view is borrowed.
        unsafe { buffer::read(self.view, self.node.slot_ptr(self.slot(place))).value() }
    }

    /// What is near the head of the item at `place`.
    #[inline(always)]
    pub(super) fn near(self, place: usize) -> X {
        let near = self.node.near_ptr(self.head.slot(place));
        // Whoever writes it writes the head as well: if there is no copy of that, there is none of this.
        let in_place = std::ptr::eq(self.head, self.node.head_ptr());
        // SAFETY: a part of a live node; where it is, if no copy was made.
        unsafe { if in_place { *near } else { *buffer::read(self.view, near) } }
    }

    /// Starts to load the slot that the next item takes.
    #[inline(always)]
    pub(super) fn prefetch_free(self) {
        if !self.head.is_full() {
            cpu::prefetch(self.node.slot_ptr(self.head.slot(self.len())).cast());
        }
    }
}

impl<'v, 'r, K: OrdKey<'r>, V: Persist> SeenLeaf<'v, 'r, K, V> {
    /// What the key of the entry at `place` is looked up by.
    #[inline(always)]
    pub(super) fn query(self, place: usize) -> &'v K::Query
    where
        V: 'v,
        K: 'v,
    {
        self.item(place).key.query(self.view)
    }

    /// The value of the entry at `place`.
    #[inline(always)]
    pub(super) fn value(self, place: usize) -> &'v V {
        let entry = self.node.slot_ptr(self.slot(place)).cast::<Entry<K, V>>();
        // SAFETY: a part of an entry, for the slot of an item has a value, and nobody changes it while the view is borrowed.
        unsafe { buffer::read(self.view, &raw mut (*entry).value) }
    }
}

impl<'v, 'r, K: Persist, V: Persist> SeenInner<'v, 'r, K, V> {
    /// The child at `place`.
    #[inline(always)]
    pub(super) fn child(self, place: usize) -> Child<'r, K, V> {
        Child::of(self.near(place), || self.item(place).inner)
    }

    /// The prefix of the separator at `place`, and what the key is looked up by. The first child has none.
    #[inline(always)]
    pub(super) fn separator(self, place: usize) -> (u64, impl FnOnce() -> &'v K::Query)
    where
        K: OrdKey<'r> + 'v,
        V: 'v,
    {
        assert!(place > 0);
        let branch = self.item(place);
        // SAFETY: all but the first branch have a separator.
        (branch.prefix, move || unsafe { branch.separator.value() }.query(self.view))
    }
}

/// The nodes of a tree, by their pointers.
impl<'r, T: Persist, X: Near, const N: usize> P<'r, Node<T, X, N>> {
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
    pub(super) fn seen<'v>(self, view: &'v View<'r>) -> Seen<'v, 'r, T, X, N> {
        // SAFETY: a part of a live node.
        Seen { view, node: self, head: unsafe { buffer::read(view, self.head_ptr()) } }
    }

    #[inline(always)]
    fn head<'v>(self, view: &'v View<'r>) -> &'v Head<N> {
        self.seen(view).head
    }

    #[inline(always)]
    pub(super) fn count(self, view: &View<'r>) -> usize {
        self.head(view).len()
    }

    /// The item at `place`, to write. All of it, for the write set.
    ///
    /// # Safety
    /// When the caller is done, the branches of an inner node have separators as their places say: all but the first.
    #[inline(always)]
    pub(super) unsafe fn item_mut<'t>(self, tx: &'t mut Txn<'r>, place: usize) -> &'t mut T {
        let slot = self.seen(tx).slot(place);
        // SAFETY: the slot of an item has a value.
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
    ///
    /// # Safety
    /// When the caller is done, the branches of an inner node have separators as their places say: all but the first.
    #[inline]
    pub(super) unsafe fn remove_item(self, tx: &mut Txn<'r>, place: usize) -> (X, T) {
        let seen = self.seen(tx);
        let (slot, near) = (seen.slot(place), seen.near(place));
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
    /// Puts an item in at `place`. The node is not full.
    ///
    /// # Safety
    /// When the caller is done, the branches of an inner node have separators as their places say: all but the first.
    #[inline]
    pub(super) unsafe fn insert_item(self, tx: &mut Txn<'r>, place: usize, prefix: u64, near: X, item: T) {
        let seen = self.seen(tx);
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
    /// When the caller is done, the branches of an inner node have separators as their places say: all but the first.
    pub(super) unsafe fn split_items(self, tx: &mut Txn<'r>, place: usize, new: &New<'r, Node<T, X, N>>) {
        let new = new.0;
        let (mut head, mut new_head) = (*self.head(tx), Head::EMPTY);
        let old = head;
        assert!(new.count(tx) == 0 && place <= old.len());
        head.split_off(place, &mut new_head);
        if T::KEPT {
            let prefixes = self.prefixes(tx, &old);
            let mut new_prefixes = [0; N];
            (place..old.len()).for_each(|from| new_prefixes[from - place] = prefixes[old.slot(from)]);
            head.fit(T::FIRST, &prefixes);
            new_head.fit(T::FIRST, &new_prefixes);
        }
        // SAFETY: parts of live nodes, of which nobody knows the new one: it is written where it is. The values move; the heads say
        // so, and nothing in between can panic.
        unsafe {
            for (to, from) in (place..old.len()).map(|place| old.slot(place)).enumerate() {
                new.near_ptr(to).copy_from_nonoverlapping(tx.place_of(self.near_ptr(from)), 1);
                buffer::move_to_new(tx, self.slot_ptr(from), new.slot_ptr(to));
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
        let (seen, mut prefixes) = (self.seen(view), [0; N]);
        for place in 0..head.len() {
            prefixes[head.slot(place)] = seen.item(place).prefix(view);
        }
        prefixes
    }

    /// Moves `count` items from `place` on to `to_place` of another node, which has room for them. They have keys.
    ///
    /// # Safety
    /// When the caller is done, the branches of an inner node have separators as their places say: all but the first.
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

    /// Moves items between neighbours, so that they have as many.
    ///
    /// # Safety
    /// When the caller is done, the branches of an inner node have separators as their places say: all but the first.
    pub(super) unsafe fn even_items(self, tx: &mut Txn<'r>, right: Self) {
        let (l, r) = (self.count(tx), right.count(tx));
        // SAFETY: the caller sees to the separators of both nodes.
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

impl<'r, K: Persist, V: Persist> Child<'r, K, V> {
    #[inline(always)]
    pub(super) fn of(
        leaf: Option<P<'r, Leaf<K, V>>>,
        inner: impl FnOnce() -> Option<P<'r, Inner<'r, K, V>>>,
    ) -> Child<'r, K, V> {
        match leaf {
            Some(leaf) => Child::Leaf(leaf),
            None => inner().map_or(Child::None(0), Child::Inner),
        }
    }

    #[inline(always)]
    pub(super) fn prefetch(self) {
        match self {
            Child::Leaf(leaf) => leaf.prefetch(),
            Child::Inner(inner) => inner.prefetch(),
            Child::None(_) => {}
        }
    }

    /// Starts to load the number of its items.
    #[inline(always)]
    pub(super) fn prefetch_count(self) {
        match self {
            Child::Leaf(leaf) => cpu::prefetch(leaf.head_ptr().cast()),
            Child::Inner(inner) => cpu::prefetch(inner.head_ptr().cast()),
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

impl<'r, K: OrdKey<'r>, V: Persist> P<'r, Leaf<K, V>> {
    /// The value of the entry at `place`, to write.
    #[inline(always)]
    pub(super) fn value_mut<'t>(self, tx: &'t mut Txn<'r>, place: usize) -> &'t mut V {
        let slot = self.slot_ptr(self.seen(tx).slot(place));
        // SAFETY: a slot of a live node. It is that of an item, so there is an entry in the place that is written; `tx` is borrowed as long as the value is. No
        // reference to the whole entry is made: somebody may look at its key (`entry_mut`).
        unsafe {
            let entry = tx.writable(slot).cast::<Entry<K, V>>();
            &mut (*entry).value
        }
    }

    /// What the key of the entry at `place` is looked up by, and its value, to write.
    pub(super) fn entry_mut<'t>(self, tx: &'t mut Txn<'r>, place: usize) -> (&'t K::Query, &'t mut V) {
        let query: *const K::Query = self.seen(tx).query(place);
        let value = self.value_mut(tx, place);
        // SAFETY: the query is apart from the value, as `MapKey` promises. Nobody writes the key, neither here nor where the entry was before it was copied, and
        // a reference to it stays good while a transaction goes from copies to the undo log.
        (unsafe { &*query }, value)
    }

    /// Adds an entry at `place` of a leaf that is not full.
    #[inline]
    pub(super) fn insert_entry(self, tx: &mut Txn<'r>, place: usize, prefix: u64, entry: Entry<K, V>) {
        // SAFETY: an entry of a leaf, which has no separators.
        unsafe { self.insert_item(tx, place, prefix, (), entry) };
    }

    /// Moves the entry at `place` out.
    #[inline]
    pub(super) fn remove_entry(self, tx: &mut Txn<'r>, place: usize) -> Entry<K, V> {
        // SAFETY: an entry of a leaf, which has no separators.
        unsafe { self.remove_item(tx, place) }.1
    }

    /// Moves the entries from `place` on to a new leaf.
    pub(super) fn split_off(self, tx: &mut Txn<'r>, place: usize, new: &New<'r, Leaf<K, V>>) {
        // SAFETY: entries of a leaf, which has no separators.
        unsafe { self.split_items(tx, place, new) };
    }
}
