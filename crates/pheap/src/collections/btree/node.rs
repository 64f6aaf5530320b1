//! The nodes of a tree: items that stay in the slots to which they were written, and their order.
//!
//! Invariants of a tree, whatever the order of its keys:
//! * In a node, `len` is at most `N`, and the `slots` of its order are a permutation of `0..N`: first the
//!   slots of the items, in the order of the items, then the free slots.
//! * A slot in use has a value. If a type can have pointers, its free slots, or the free elements of `near`,
//!   are zero.
//! * Each branch of an inner node leads to one child: a leaf, by its element of `near`, or an inner node. All
//!   branches except the first have a separator.
//! * All leaves have the same depth, and no node has two parents.
//!
//! Nodes that are not new are written by the functions of [`items`](super::items), or through the references
//! that these return; `branch` has the code that depends on the pointers between nodes. Pointers to nodes are
//! in nodes, in the `Top` of a map, and in the variables of running operations.
//!
//! Searches also rely on these rules: the codes are those of the keys, [`LEAST`](super::head::LEAST) for a
//! first child, and [`FREE`](super::head::FREE) in free slots. A separator is greater than all keys before
//! it, and not greater than those below its child. Between operations, a leaf without entries exists only
//! after a panic.

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

/// The most entries of a leaf, and the most branches of an inner node. The unit tests of this crate have
/// small nodes.
pub(super) const LEAF: usize = if cfg!(test) { 8 } else { 32 };
pub(super) const INNER: usize = if cfg!(test) { 8 } else { 64 };

/// A number of levels that no tree in memory can exceed.
pub(super) const MAX_HEIGHT: usize = 16;

/// A node with items of type `T`; `near` has the part of each item that lies near the head.
#[derive(Persist)]
#[repr(C, align(64))]
#[persist(own, id = "pheap::BTreeNode", crate = "crate")]
pub(crate) struct Node<T, X, const N: usize> {
    head: Head<N>,
    near: [X; N],
    slots: [Slot<T>; N],
}

/// An entry of a leaf. It is aligned so that entries share no word: a transaction keeps copies of whole
/// words.
#[derive(Persist)]
#[repr(C, align(8))]
#[persist(own, id = "pheap::BTreeEntry", crate = "crate")]
pub(crate) struct Entry<K, V> {
    pub(super) key: OwnKey<K>,
    pub(super) value: V,
}

/// A branch of an inner node. Its separator is greater than all keys before it, and not greater than those
/// below its child. The first branch has no separator.
///
/// If the child is a leaf, `inner` is `None`, and the pointer to the leaf is in `near` of the node: most
/// inner nodes have leaves below them, and the pointers to leaves then fill fewer cache lines.
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::BTreeBranch", crate = "crate")]
pub(crate) struct Branch<'r, K, V> {
    pub(super) separator: Slot<OwnKey<K>>,
    /// The prefix of the separator's key; 0 for the first branch. It is stored, so that reading it runs no
    /// code of the program.
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
    /// No node, as the top of an empty tree. The number is 0; it takes the place of a pointer, so that there
    /// is no padding.
    None(#[allow(dead_code)] u64),
    Leaf(P<'r, Leaf<K, V>>),
    Inner(P<'r, Inner<'r, K, V>>),
}

copied! { [K, V] Child<'_, K, V>; }

/// An item of a node in which the items are ordered by keys.
pub(crate) trait NodeItem<'r>: Persist {
    /// The place of the first item that has a key.
    const FIRST: usize;

    /// Whether the item stores the prefix of its key, so that reading the prefix is cheap, and runs no code
    /// of the program.
    const KEPT: bool;

    /// Returns the prefix of the item's key. (An item without a key returns some number.)
    fn prefix(&self, view: &View<'r>) -> u64;
}

impl<'r, K: OrdKey<'r>, V: Persist> NodeItem<'r> for Entry<K, V> {
    const FIRST: usize = 0;
    const KEPT: bool = false;

    #[inline(always)]
    fn prefix(&self, view: &View<'r>) -> u64 {
        K::prefix(self.key.query(view))
    }
}

impl<'r, K: OrdKey<'r>, V: Persist> NodeItem<'r> for Branch<'r, K, V> {
    const FIRST: usize = 1;
    const KEPT: bool = true;

    #[inline(always)]
    fn prefix(&self, _: &View<'r>) -> u64 {
        self.prefix
    }
}

/// The type of the part of an item that lies near the head of a node. Its default value has zero in all
/// bytes.
pub(crate) trait NearPart: Persist + Copy + Default {}

impl NearPart for () {}
impl<'r, K: Persist, V: Persist> NearPart for Option<P<'r, Leaf<K, V>>> {}

/// A node that this transaction has allocated, and to which no object points. It is written in place.
pub(super) struct NewNode<'r, N>(P<'r, N>);

impl<'r, N> NewNode<'r, N> {
    pub(super) fn node(&self) -> P<'r, N> {
        self.0
    }
}

impl<'r, T: Persist, X: NearPart, const N: usize> NewNode<'r, Node<T, X, N>> {
    /// Allocates a node without items.
    pub(super) fn alloc(tx: &Txn<'r>) -> Result<Self> {
        let (node, place) = tx.alloc_uninit::<Node<T, X, N>>()?;
        // SAFETY: `place` is a new object with the size of a node.
        unsafe {
            place.cast::<u8>().write_bytes(0, size_of::<Node<T, X, N>>());
            (&raw mut (*place).head).write(Head::EMPTY);
        }
        Ok(NewNode(node))
    }
}

/// A node as a view shows it. It does not change while the view is borrowed.
pub(super) struct NodeView<'v, 'r, T, X, const N: usize> {
    view: &'v View<'r>,
    node: P<'r, Node<T, X, N>>,
    head: &'v Head<N>,
}

copied! { [T, X, const N: usize] NodeView<'_, '_, T, X, N>; }

pub(super) type LeafView<'v, 'r, K, V> = NodeView<'v, 'r, Entry<K, V>, (), LEAF>;
pub(super) type InnerView<'v, 'r, K, V> =
    NodeView<'v, 'r, Branch<'r, K, V>, Option<P<'r, Leaf<K, V>>>, INNER>;

impl<'v, 'r, T: Persist, X: NearPart, const N: usize> NodeView<'v, 'r, T, X, N> {
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
    pub(super) fn slot_of_item(self, place: usize) -> usize {
        assert!(place < self.head.len());
        self.head.slot_of_item(place)
    }

    /// Returns the item at `place`.
    #[inline(always)]
    pub(super) fn item(self, place: usize) -> &'v T {
        // SAFETY: the slot of an item has a value, and does not change while the view is borrowed.
        unsafe { buffer::read(self.view, self.node.slot_ptr(self.slot_of_item(place))).value() }
    }

    /// Returns the part of the item at `place` that lies near the head.
    #[inline(always)]
    pub(super) fn near(self, place: usize) -> X {
        let near = self.node.near_ptr(self.head.slot_of_item(place));
        // A transaction that writes an element of `near` also writes the head: so if it has no copy of the
        // head, it has none of the element.
        let in_place = std::ptr::eq(self.head, self.node.head_ptr());
        // SAFETY: `near` is a part of a live node, and can be read in place if the transaction has no copy of
        // it.
        unsafe { if in_place { *near } else { *buffer::read(self.view, near) } }
    }

    /// Returns the address of the slot that the next new item takes; `None` if the node is full.
    #[inline(always)]
    pub(super) fn free_slot(self) -> Option<*const u8> {
        (!self.head.is_full())
            .then(|| self.node.slot_ptr(self.head.slot_of_item(self.len())).cast_const().cast())
    }
}

impl<'v, 'r, K: OrdKey<'r>, V: Persist> LeafView<'v, 'r, K, V> {
    /// Returns the address of the probable slot of a key with this prefix: the slot of the first entry that
    /// may have the key, or else the next free slot.
    #[inline(always)]
    pub(super) fn likely_slot(self, prefix: u64) -> Option<*const u8> {
        let code = self.head.code(prefix);
        let place = self.head.less(code);
        if place < self.len() && self.head.code_at(place) == code {
            Some(self.node.slot_ptr(self.head.slot_of_item(place)).cast_const().cast())
        } else {
            self.free_slot()
        }
    }

    /// Returns the key of the entry at `place`, in its borrowed form.
    #[inline(always)]
    pub(super) fn query(self, place: usize) -> &'v K::Query
    where
        V: 'v,
        K: 'v,
    {
        self.item(place).key.query(self.view)
    }

    /// Returns the value of the entry at `place`.
    #[inline(always)]
    pub(super) fn value(self, place: usize) -> &'v V {
        let entry = self.node.slot_ptr(self.slot_of_item(place)).cast::<Entry<K, V>>();
        // SAFETY: the slot of an item has a value, so this is a part of an entry, which does not change while
        // the view is borrowed.
        unsafe { buffer::read(self.view, &raw mut (*entry).value) }
    }
}

impl<'v, 'r, K: Persist, V: Persist> InnerView<'v, 'r, K, V> {
    /// Returns the child at `place`.
    #[inline(always)]
    pub(super) fn child(self, place: usize) -> Child<'r, K, V> {
        Child::from_node(self.near(place), || self.item(place).inner)
    }

    /// Returns the prefix of the separator at `place`, and a function that returns its key. The first child
    /// has no separator.
    #[inline(always)]
    pub(super) fn separator(self, place: usize) -> (u64, impl FnOnce() -> &'v K::Query)
    where
        K: OrdKey<'r> + 'v,
        V: 'v,
    {
        assert!(place > 0);
        let branch = self.item(place);
        // SAFETY: `place` is not 0, and all branches except the first have a separator.
        (branch.prefix, move || unsafe { branch.separator.value() }.query(self.view))
    }
}

/// The nodes of a tree, by their pointers.
impl<'r, T: Persist, X: NearPart, const N: usize> P<'r, Node<T, X, N>> {
    #[inline(always)]
    pub(super) fn head_ptr(self) -> *mut Head<N> {
        // SAFETY: `head` is a part of a live object.
        unsafe { &raw mut (*value_of(self)).head }
    }

    #[inline(always)]
    pub(super) fn slot_ptr(self, slot: usize) -> *mut Slot<T> {
        assert!(slot < N);
        // SAFETY: the slot is a part of a live object, because `slot < N`.
        unsafe { (&raw mut (*value_of(self)).slots).cast::<Slot<T>>().add(slot) }
    }

    #[inline(always)]
    pub(super) fn near_ptr(self, slot: usize) -> *mut X {
        assert!(slot < N);
        // SAFETY: the element is a part of a live object, because `slot < N`.
        unsafe { (&raw mut (*value_of(self)).near).cast::<X>().add(slot) }
    }

    /// Prefetches the head, which a search reads first.
    #[inline(always)]
    pub(super) fn prefetch(self) {
        let first = self.head_ptr().cast::<u8>();
        for at in (0..size_of::<Head<N>>()).step_by(LINE) {
            prefetch_read(first.wrapping_add(at));
        }
    }

    #[inline(always)]
    pub(super) fn node_view<'v>(self, view: &'v View<'r>) -> NodeView<'v, 'r, T, X, N> {
        // SAFETY: the head is a part of a live node, and there is no `&mut` to it while the view is borrowed.
        NodeView { view, node: self, head: unsafe { buffer::read(view, self.head_ptr()) } }
    }

    #[inline(always)]
    pub(super) fn head<'v>(self, view: &'v View<'r>) -> &'v Head<N> {
        self.node_view(view).head
    }

    #[inline(always)]
    pub(super) fn count(self, view: &View<'r>) -> usize {
        self.head(view).len()
    }
}

impl<'r, K: Persist, V: Persist> Child<'r, K, V> {
    #[inline(always)]
    pub(super) fn from_node(
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

    /// Prefetches the entries of a leaf, at most 16 cache lines of them, for a search in which all codes of
    /// the leaf are equal. Does nothing for an inner node.
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

    /// Prefetches the cache line that has the node's number of items.
    #[inline(always)]
    pub(super) fn prefetch_count(self) {
        match self {
            Child::Leaf(leaf) => prefetch_read(leaf.head_ptr().cast()),
            Child::Inner(inner) => prefetch_read(inner.head_ptr().cast()),
            Child::None(_) => {}
        }
    }

    /// Returns the number of items of the node; 0 without a node.
    pub(super) fn count(self, view: &View<'r>) -> usize {
        match self {
            Child::Leaf(leaf) => leaf.count(view),
            Child::Inner(inner) => inner.count(view),
            Child::None(_) => 0,
        }
    }
}
