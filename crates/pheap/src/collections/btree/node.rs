//! The nodes of a tree: items that stay in the slots that they were written to, and their order.
//!
//! What must hold of a tree, whatever the order of its keys:
//! * Of a node, `len` is at most `N`, and the `slots` of its order are a permutation of `0..N`: those of the items first, as they are sorted.
//! * A slot in use has a value. One that is not in use is zero, if there can be pointers in it; so is what is near the head.
//! * Each branch of an inner node leads to one child: a leaf, near the head, or an inner node. All but the first branch have a separator.
//! * All leaves are equally deep, and no node has two parents.
//!
//! Only [`items`](super::items) writes nodes, but for new ones; what needs to know how they hang together is in `branch`. Pointers to nodes are found in nodes, in the `Top` of a map, and
//! while a transaction is busy with them.
//!
//! And for finding things: the codes are those of the keys, [`LEAST`](super::head::LEAST) for a first child, and [`FREE`](super::head::FREE) in slots that are not in use; a separator is
//! greater than all keys before it, and not greater than those below its child. Leaves without entries are found, but only after a panic.

#![allow(unsafe_code)]

use super::head::Head;
use crate::Persist;
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::collections::buffer::{self, Slot};
use crate::collections::common::copied;
use crate::collections::key::{OrdKey, OwnKey};
use crate::error::Result;
use crate::os::cpu::prefetch_read;
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
    pub(super) fn slot(self, place: usize) -> usize {
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

    /// The slot that the next item takes, if there is one.
    #[inline(always)]
    pub(super) fn free_slot(self) -> Option<*const u8> {
        (!self.head.is_full()).then(|| self.node.slot_ptr(self.head.slot(self.len())).cast_const().cast())
    }
}

impl<'v, 'r, K: OrdKey<'r>, V: Persist> SeenLeaf<'v, 'r, K, V> {
    /// The slot of a key with this prefix: that of the first entry which may have it, or that which it takes.
    #[inline(always)]
    pub(super) fn likely_slot(self, prefix: u64) -> Option<*const u8> {
        let code = self.head.code(prefix);
        let place = self.head.less(code);
        if place < self.len() && self.head.code_at(place) == code {
            Some(self.node.slot_ptr(self.head.slot(place)).cast_const().cast())
        } else {
            self.free_slot()
        }
    }

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
        // SAFETY: `place` is not 0, and all but the first branch have a separator.
        (branch.prefix, move || unsafe { branch.separator.value() }.query(self.view))
    }
}

/// The nodes of a tree, by their pointers.
impl<'r, T: Persist, X: Near, const N: usize> P<'r, Node<T, X, N>> {
    #[inline(always)]
    pub(super) fn head_ptr(self) -> *mut Head<N> {
        // SAFETY: a part of a live object.
        unsafe { &raw mut (*value_of(self)).head }
    }

    #[inline(always)]
    pub(super) fn slot_ptr(self, slot: usize) -> *mut Slot<T> {
        assert!(slot < N);
        // SAFETY: a part of a live object.
        unsafe { (&raw mut (*value_of(self)).slots).cast::<Slot<T>>().add(slot) }
    }

    #[inline(always)]
    pub(super) fn near_ptr(self, slot: usize) -> *mut X {
        assert!(slot < N);
        // SAFETY: a part of a live object.
        unsafe { (&raw mut (*value_of(self)).near).cast::<X>().add(slot) }
    }

    /// Starts to load what a search looks at.
    #[inline(always)]
    pub(super) fn prefetch(self) {
        let first = self.head_ptr().cast::<u8>();
        for at in (0..size_of::<Head<N>>()).step_by(LINE) {
            prefetch_read(first.wrapping_add(at));
        }
    }

    #[inline(always)]
    pub(super) fn seen<'v>(self, view: &'v View<'r>) -> Seen<'v, 'r, T, X, N> {
        // SAFETY: a part of a live node.
        Seen { view, node: self, head: unsafe { buffer::read(view, self.head_ptr()) } }
    }

    #[inline(always)]
    pub(super) fn head<'v>(self, view: &'v View<'r>) -> &'v Head<N> {
        self.seen(view).head
    }

    #[inline(always)]
    pub(super) fn count(self, view: &View<'r>) -> usize {
        self.head(view).len()
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

    /// Starts to load the entries of a leaf, for a search that its codes do not help; of large entries only
    /// the first.
    #[inline]
    pub(super) fn prefetch_entries(self) {
        if let Child::Leaf(leaf) = self {
            let first = leaf.slot_ptr(0).cast::<u8>();
            let lines = const { size_of::<[Slot<Entry<K, V>>; LEAF]>().div_ceil(LINE) };
            for line in 0..lines.min(16) {
                prefetch_read(first.wrapping_add(LINE * line));
            }
        }
    }

    /// Starts to load the number of its items.
    #[inline(always)]
    pub(super) fn prefetch_count(self) {
        match self {
            Child::Leaf(leaf) => prefetch_read(leaf.head_ptr().cast()),
            Child::Inner(inner) => prefetch_read(inner.head_ptr().cast()),
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
