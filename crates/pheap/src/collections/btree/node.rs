//! A node: items that stay in the slots that they were written to, and their order.
//!
//! What must hold of a node, whatever the order of its keys:
//! * `len` is at most `N`, and `order` is a permutation of the numbers of the slots: those of the items first, as they are sorted.
//! * A slot in use has a value.
//! * The prefix of a slot that is not in use is [`FREE`].
//!
//! Only the first two are what memory safety rests on.

use crate::Persist;
use crate::collections::buffer;
use crate::collections::slot::Slot;
use crate::error::Result;
use crate::media::{LINE, cpu};
use crate::ptr::{P, value_of};
use crate::txn::{Txn, View};

/// Entries of a leaf, and branches of an inner node: one less than a multiple of 8, so that the order fills words. Small for the tests of this
/// crate's inside.
pub(super) const LEAF: usize = if cfg!(test) { 7 } else { 31 };
pub(super) const INNER: usize = if cfg!(test) { 7 } else { 63 };

/// The prefix of a slot that is not in use: it is not less than any other.
pub(super) const FREE: u64 = u64::MAX;

/// What is looked at first: written and read as a whole by short transactions.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
#[persist(own, id = "pheap::BTreeHead", crate = "crate")]
pub(crate) struct Head<const N: usize> {
    order: Order<N>,
    prefixes: [u64; N],
}

/// Which slots are in use, in the order of their items; behind them, those that are free.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
#[persist(own, id = "pheap::BTreeOrder", crate = "crate")]
struct Order<const N: usize> {
    len: u8,
    slots: [u8; N],
}

/// A node, for items `T`.
#[derive(Persist)]
#[repr(C, align(64))]
#[persist(own, id = "pheap::BTreeNode", crate = "crate")]
pub(crate) struct Node<T, const N: usize> {
    head: Head<N>,
    slots: [Slot<T>; N],
}

/// An entry of a leaf. Aligned, so that entries share no word: a transaction keeps copies of whole words.
#[derive(Persist)]
#[repr(C, align(8))]
#[persist(own, id = "pheap::BTreeEntry", crate = "crate")]
pub(crate) struct Entry<K, V> {
    pub(super) key: K,
    pub(super) value: V,
}

/// A child, and the key that is greater than all before it and not greater than those below it. The first child of a node has none, and
/// prefix 0.
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::BTreeBranch", crate = "crate")]
pub(crate) struct Branch<'r, K, V> {
    pub(super) separator: Slot<K>,
    pub(super) child: Child<'r, K, V>,
}

pub(super) type Leaf<K, V> = Node<Entry<K, V>, LEAF>;
pub(super) type Inner<'r, K, V> = Node<Branch<'r, K, V>, INNER>;

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

impl<K, V> Clone for Child<'_, K, V> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Child<'_, K, V> {}

impl<const N: usize> Order<N> {
    /// Takes the first free slot for an item that comes to `place`.
    #[inline(always)]
    fn insert(&mut self, place: usize) -> usize {
        let len = self.len as usize;
        let slot = self.slots[len];
        // Not `rotate_right`, which is not made for a few bytes.
        self.slots.copy_within(place..len, place + 1);
        self.slots[place] = slot;
        self.len += 1;
        slot as usize
    }

    /// Frees the slot of the item at `place`.
    #[inline(always)]
    fn remove(&mut self, place: usize) -> usize {
        let len = self.len as usize;
        let slot = self.slots[place];
        self.slots.copy_within(place + 1..len, place);
        self.slots[len - 1] = slot;
        self.len -= 1;
        slot as usize
    }
}

impl<const N: usize> Head<N> {
    const EMPTY: Head<N> = {
        assert!(N % 8 == 7 && N < 256);
        let mut slots = [0; N];
        let mut i = 0;
        while i < N {
            slots[i] = i as u8;
            i += 1;
        }
        Head { order: Order { len: 0, slots }, prefixes: [FREE; N] }
    };

    /// Number of items.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.order.len as usize
    }

    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.len() == N
    }

    /// The slot of the item at `place`.
    #[inline(always)]
    pub(super) fn slot(&self, place: usize) -> usize {
        self.order.slots[place] as usize
    }

    /// The slot that the next item takes.
    #[inline(always)]
    pub(super) fn free_slot(&self) -> usize {
        self.order.slots[self.len().min(N - 1)] as usize
    }

    /// The prefix of the item at `place`.
    #[inline(always)]
    pub(super) fn prefix(&self, place: usize) -> u64 {
        self.prefixes[self.slot(place)]
    }

    /// Items whose prefix is less than this one: the place of the first of the others. No branch depends on what the prefixes are.
    #[inline(always)]
    pub(super) fn less(&self, prefix: u64) -> usize {
        self.prefixes.iter().map(|&other| usize::from(other < prefix)).sum::<usize>().min(self.len())
    }

    /// Items whose prefix is not greater.
    #[inline(always)]
    pub(super) fn less_or_equal(&self, prefix: u64) -> usize {
        self.prefixes.iter().map(|&other| usize::from(other <= prefix)).sum::<usize>().min(self.len())
    }

    fn insert(&mut self, place: usize, prefix: u64) -> usize {
        let slot = self.order.insert(place);
        self.prefixes[slot] = prefix;
        slot
    }

    fn remove(&mut self, place: usize) -> usize {
        let slot = self.order.remove(place);
        self.prefixes[slot] = FREE;
        slot
    }
}

/// The nodes of a tree, by their pointers, which never leave it.
impl<'r, T: Persist, const N: usize> P<'r, Node<T, N>> {
    /// A new node without items, and where it is: it is written there until something points to it.
    pub(super) fn new_node(tx: &Txn<'r>) -> Result<(Self, *mut Node<T, N>)> {
        let (node, place) = tx.alloc_uninit::<Node<T, N>>()?;
        // SAFETY: a new object, of this size.
        unsafe {
            place.cast::<u8>().write_bytes(0, size_of::<Node<T, N>>());
            (&raw mut (*place).head).write(Head::EMPTY);
        }
        Ok((node, place))
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

    /// The item in a slot, to write.
    ///
    /// # Safety
    /// The slot is in use.
    #[inline(always)]
    pub(super) unsafe fn item_mut<'t>(self, tx: &'t mut Txn<'r>, slot: usize) -> &'t mut T {
        // SAFETY: a part of a live node; there is a value, by the caller's promise, and a slot is laid out as its value.
        unsafe { buffer::write(tx, self.slot_ptr(slot).cast::<T>()) }
    }

    /// Puts an item in at `place`. The node is not full. Returns its slot.
    #[inline]
    pub(super) fn insert_item(self, tx: &mut Txn<'r>, place: usize, prefix: u64, item: T) -> usize {
        let slot = self.head(tx).free_slot();
        // SAFETY: parts of a live node.
        unsafe {
            if tx.__logs_in_place() {
                let (order, prefixes) =
                    (&raw mut (*self.head_ptr()).order, &raw mut (*self.head_ptr()).prefixes);
                let at = prefixes.cast::<u64>().add(slot);
                let slot = self.slot_ptr(slot);
                buffer::announce(tx, &[buffer::range(order), buffer::range(at), buffer::range(slot)]);
                buffer::write(tx, order).insert(place);
                *buffer::write(tx, at) = prefix;
            } else {
                buffer::write(tx, self.head_ptr()).insert(place, prefix);
            }
            buffer::write(tx, self.slot_ptr(slot)).put(item);
        }
        slot
    }

    /// Moves the item at `place` out.
    pub(super) fn remove_item(self, tx: &mut Txn<'r>, place: usize) -> T {
        let slot = self.head(tx).slot(place);
        // SAFETY: parts of a live node; the slot is in use until now, and not afterwards.
        unsafe {
            let item = buffer::read(tx, self.slot_ptr(slot)).take();
            if tx.__logs_in_place() {
                let (order, prefixes) =
                    (&raw mut (*self.head_ptr()).order, &raw mut (*self.head_ptr()).prefixes);
                let at = prefixes.cast::<u64>().add(slot);
                let slot = self.slot_ptr(slot);
                let vacated = if T::POINTERS { buffer::range(slot) } else { buffer::range(at) };
                buffer::announce(tx, &[buffer::range(order), buffer::range(at), vacated]);
                buffer::write(tx, order).remove(place);
                *buffer::write(tx, at) = FREE;
            } else {
                buffer::write(tx, self.head_ptr()).remove(place);
            }
            if T::POINTERS {
                buffer::write(tx, self.slot_ptr(slot)).vacate();
            }
            item
        }
    }

    /// Replaces the prefix of the item at `place`.
    pub(super) fn set_prefix(self, tx: &mut Txn<'r>, place: usize, prefix: u64) {
        // SAFETY: a part of a live node.
        unsafe {
            let head = buffer::write(tx, self.head_ptr());
            head.prefixes[head.slot(place)] = prefix;
        }
    }

    /// Moves `count` items from `place` on to `to_place` of another node, which has room for them.
    pub(super) fn move_items(self, tx: &mut Txn<'r>, place: usize, count: usize, to: Self, to_place: usize) {
        debug_assert!(self != to);
        let (mut from_head, mut to_head) = (*self.head(tx), *to.head(tx));
        for i in 0..count {
            let prefix = from_head.prefix(place);
            let (from_slot, to_slot) = (from_head.remove(place), to_head.insert(to_place + i, prefix));
            // SAFETY: parts of live nodes. The value moves, bytes and all; the heads say so below, and nothing in between can panic.
            unsafe {
                let (from_slot, to_slot) = (self.slot_ptr(from_slot), to.slot_ptr(to_slot));
                // Looked up first: a copy of this transaction stays where it is while another is made, and the new place is good until the
                // next access.
                let old = tx.place_of(from_slot);
                std::ptr::from_mut(buffer::write(tx, to_slot)).copy_from_nonoverlapping(old, 1);
                if T::POINTERS {
                    buffer::write(tx, from_slot).vacate();
                }
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
        unsafe { &mut (*tx.writable(self.slot_ptr(slot).cast::<Entry<K, V>>())).value }
    }
}
