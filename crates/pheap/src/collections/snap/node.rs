//! The nodes of the trees of a `PSnapMap`: sorted keys, and an item for each key. An item is a value in a
//! leaf, and a pointer to a child in an inner node.
//!
//! Only the transaction that has allocated a node changes it in place. So a committed node is never written
//! again: new versions of the map have copies of the nodes on the way to the changes, and share all others
//! with the old versions.
//!
//! * A node is never empty. The places after its `len` items repeat the last key and item, so each place has
//!   a value, and none has a pointer that the items do not have.
//! * The key of a child is greater than all keys before it, and not greater than those below it. The key of
//!   the first child has no meaning.
//! * All leaves have the same depth.
//!
//! Searches rely on the order of the keys. Whatever length a node has stored, the functions of this file
//! access only places within its arrays, or panic.

use crate::Persist;
use crate::api::view::View;
use crate::collections::common::copied;
use crate::ptr::P;

use super::frozen::Frozen;

/// The most entries of a leaf, and the most children of an inner node. The unit tests of this crate have
/// small nodes.
pub(super) const LEAF: usize = if cfg!(test) { 6 } else { 31 };
pub(super) const INNER: usize = if cfg!(test) { 5 } else { 21 };

/// The most bytes of a key and its value together: code that copies nodes has several nodes on the stack.
///
/// ```compile_fail
/// # use pheap::{Heap, PSnapMap, Root};
/// let pages: Root<PSnapMap<u64, [u8; 4096]>> = Heap::in_memory().unwrap().root("pages").unwrap();
/// pages.txn(|tx, pages| pages.insert(tx, &1, &[0; 4096])).unwrap();
/// ```
pub(super) const MOST: usize = 1 << 10;

/// A number of levels that no tree in memory can exceed.
pub(super) const MAX_HEIGHT: usize = 24;

/// A node: keys in order, and an item for each key.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
#[persist(own, id = "pheap::SnapNode", crate = "crate")]
pub(crate) struct Node<K, T, const N: usize> {
    len: u64,
    keys: [K; N],
    items: [T; N],
}

pub(super) type Leaf<K, V> = Node<K, V, LEAF>;
pub(super) type Inner<'r, K, V> = Node<K, Child<'r, K, V>, INNER>;

/// A pointer to a node.
#[derive(Persist)]
#[repr(u64)]
#[persist(own, id = "pheap::SnapChild", crate = "crate")]
pub(crate) enum Child<'r, K, V> {
    /// No node, as the top of an empty map. The number is 0; it takes the place of a pointer, so that there
    /// is no padding.
    None(#[allow(dead_code)] u64),
    Leaf(P<'r, Leaf<K, V>>),
    Inner(P<'r, Inner<'r, K, V>>),
}

copied! { [K, V] Child<'_, K, V>; }

impl<K, T, const N: usize> Node<K, T, N> {
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        (self.len as usize).clamp(1, N)
    }

    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.len() == N
    }

    /// Whether the node should be joined with a neighbour, if both fit into one node.
    pub(super) fn is_small(&self) -> bool {
        self.len() <= N / 4
    }

    #[inline(always)]
    pub(super) fn keys(&self) -> &[K] {
        &self.keys[..self.len()]
    }

    #[inline(always)]
    pub(super) fn items(&self) -> &[T] {
        &self.items[..self.len()]
    }
}

impl<K: Copy, T: Copy, const N: usize> Node<K, T, N> {
    /// Returns a node with one item.
    pub(super) fn one(key: K, item: T) -> Self {
        Node { len: 1, keys: [key; N], items: [item; N] }
    }

    /// Returns a node with `len` items, which `at` returns with their keys; `len` is at least 1. Items that
    /// do not fit are left out.
    fn from_items(len: usize, at: impl Fn(usize) -> (K, T)) -> Self {
        let len = len.min(N);
        let at = |place: usize| at(place.min(len - 1));
        Node {
            len: len as u64,
            keys: std::array::from_fn(|place| at(place).0),
            items: std::array::from_fn(|place| at(place).1),
        }
    }

    /// Sets the item at `place`.
    pub(super) fn set(&mut self, place: usize, item: T) {
        self.items[place] = item;
        self.fill_up();
    }

    /// Overwrites the places after the items, so that no replaced or removed item stays there.
    fn fill_up(&mut self) {
        let len = self.len();
        let (key, item) = (self.keys[len - 1], self.items[len - 1]);
        // Assignments, because `fill` would call `Clone`, which is the program's code.
        self.keys[len..].iter_mut().for_each(|free| *free = key);
        self.items[len..].iter_mut().for_each(|free| *free = item);
    }

    /// Inserts an item with its key at `place` of a node that is not full.
    #[inline]
    pub(super) fn insert(&mut self, place: usize, key: K, item: T) {
        let len = self.len();
        self.keys.copy_within(place..len, place + 1);
        self.items.copy_within(place..len, place + 1);
        self.keys[place] = key;
        self.items[place] = item;
        self.len = len as u64 + 1;
        self.fill_up();
    }

    /// Removes the item at `place`, which is not the only one.
    pub(super) fn remove(&mut self, place: usize) {
        let len = self.len();
        self.keys.copy_within(place + 1..len, place);
        self.items.copy_within(place + 1..len, place);
        self.len = len as u64 - 1;
        self.fill_up();
    }

    /// Splits the items into two nodes, both with room for one more.
    pub(super) fn split(&self) -> (Self, Self) {
        let (len, left) = (self.len(), self.len() / 2);
        let at = |place: usize| (self.keys[place], self.items[place]);
        (Node::from_items(left, at), Node::from_items(len - left, |place| at(left + place)))
    }

    /// Joins the items of this node with those of the next one, whose first key becomes `key`. Returns `None`
    /// if they do not fit into one node.
    pub(super) fn joined(&self, next: &Self, key: K) -> Option<Self> {
        let (left, len) = (self.len(), self.len() + next.len());
        let at = |place: usize| match place.checked_sub(left) {
            None => (self.keys[place], self.items[place]),
            Some(0) => (key, next.items[0]),
            Some(place) => (next.keys[place], next.items[place]),
        };
        (len <= N).then(|| Node::from_items(len, at))
    }
}

impl<'r, K: Frozen<'r, Shown: Ord>, T, const N: usize> Node<K, T, N> {
    /// Returns the place of a key, or, as an error, the place that the key would get.
    #[inline]
    pub(super) fn search_key(&self, view: &View<'r>, key: &K::Shown) -> Result<usize, usize> {
        self.keys().binary_search_by(|other| other.shown(view).cmp(key))
    }

    /// Returns the place of the child below which `key` is, if the tree has it.
    #[inline]
    pub(super) fn child_for(&self, view: &View<'r>, key: &K::Shown) -> usize {
        self.keys()[1..].partition_point(|other| other.shown(view) <= key)
    }
}
