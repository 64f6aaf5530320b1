//! The operations that change a `PSnapMap`: each makes a new version of the map.
//!
//! An operation first does everything that may fail: it allocates new nodes, to which no object points yet.
//! Then it changes a single node that the transaction has allocated before, in place, or the map itself, so
//! that the new nodes become reachable. (A removal may change several nodes in place. If the transaction has
//! allocated a node, it has allocated all nodes above it as well, so the changes above cannot fail.)

use std::borrow::Borrow;

use super::PSnapMap;
use super::frozen::Frozen;
use super::node::{Child, Inner, MOST, Node};
use super::path::SnapPath;
use crate::api::tx::Txn;
use crate::error::Result;
use crate::layout::Persist;
use crate::ptr::P;

/// The result of inserting into a node.
enum InsertOutcome<K, C> {
    /// The node was changed in place, so its parent stays as it is.
    Same,
    /// Another node replaces the node.
    One(C),
    /// Two nodes replace the node; the key is that of the second one.
    Two(C, K, C),
}

/// The result of removing from a node.
enum RemoveOutcome<C> {
    Same,
    /// Another node replaces the node; or this is the node itself, which was changed in place and has become
    /// small.
    One(C),
    /// The last item of the node is removed: the parent drops the node.
    Gone,
}

/// Changes a node: in place, if this transaction has allocated it, or else in a new copy. Returns the changed
/// node.
fn changed<'r, K, T, const N: usize>(
    tx: &mut Txn<'r>,
    node: P<'r, Node<K, T, N>>,
    change: impl Fn(&mut Node<K, T, N>),
) -> Result<P<'r, Node<K, T, N>>>
where
    Node<K, T, N>: Persist<At<'r> = Node<K, T, N>> + Copy,
{
    if tx.change_new(node, &change) {
        return Ok(node);
    }
    let mut copy = tx[node];
    change(&mut copy);
    tx.alloc(copy)
}

/// Changes a node by `edit`, and then inserts an item at a place. Splits a node that is full.
fn grown<'r, K: Copy, T: Copy, const N: usize>(
    tx: &mut Txn<'r>,
    node: P<'r, Node<K, T, N>>,
    edit: impl Fn(&mut Node<K, T, N>),
    (place, key, item): (usize, K, T),
    is_last: bool,
) -> Result<InsertOutcome<K, P<'r, Node<K, T, N>>>>
where
    Node<K, T, N>: Persist<At<'r> = Node<K, T, N>>,
{
    if !tx[node].is_full() {
        let new = changed(tx, node, |node| {
            edit(node);
            node.insert(place, key, item);
        })?;
        return Ok(if new == node { InsertOutcome::Same } else { InsertOutcome::One(new) });
    }
    let mut copy = tx[node];
    edit(&mut copy);
    // An item at the end of the last node starts a new node: so if items are inserted in order, all earlier
    // nodes are full.
    let (left, right) = if is_last && place == copy.len() {
        (copy, Node::one(key, item))
    } else {
        let (mut left, mut right) = copy.split();
        match place.checked_sub(left.len()) {
            None | Some(0) => left.insert(place, key, item),
            Some(place) => right.insert(place, key, item),
        }
        (left, right)
    };
    Ok(InsertOutcome::Two(tx.alloc(left)?, right.keys()[0], tx.alloc(right)?))
}

/// <a id="change-PSnapMap"></a>Changing a map.
///
/// Operations that may allocate fail as [`Txn::alloc_slice`] does: for instance with
/// [`Error::OutOfSpace`](crate::Error::OutOfSpace) or
/// [`Error::ReservationFull`](crate::Error::ReservationFull) if the heap cannot grow. Then the map has the
/// same entries as before, except that `extend` keeps the entries that it has inserted. Removal may allocate,
/// too.
impl<'r, K: Frozen<'r, Shown: Ord>, V: Frozen<'r>> P<'r, PSnapMap<'r, K, V>> {
    /// Inserts an entry, or replaces the value of an existing key. The value, and a new key, are copied into
    /// the map. Returns whether the key is new. O(log n).
    ///
    /// # Errors
    /// As for [`Txn::alloc_slice`]; see [Changing a map](P#change-PSnapMap).
    pub fn insert(self, tx: &mut Txn<'r>, key: &K::Shown, value: &V::Shown) -> Result<bool> {
        self.insert_with(tx, key, |tx| V::freeze(tx, value))
    }

    /// Like [`insert`](Self::insert), with the value that the function `value` makes. Outside the map, no
    /// object may point to the objects that this value points to.
    pub(crate) fn insert_with(
        self,
        tx: &mut Txn<'r>,
        key: &K::Shown,
        value: impl FnOnce(&Txn<'r>) -> Result<V>,
    ) -> Result<bool> {
        const {
            assert!(
                size_of::<K>() + size_of::<V>() <= MOST,
                "a key and its value in a `PSnapMap` have at most 1 KiB together: put more than that into a `P<[T]>`"
            );
        }
        let mut path = SnapPath::new();
        let Some(leaf) = path.descend(tx, tx[self].top, |node| node.child_for(tx, key)) else {
            let leaf = Node::one(K::freeze(tx, key)?, value(tx)?);
            let top = Child::Leaf(tx.alloc(leaf)?);
            tx[self] = PSnapMap { len: 1, top };
            return Ok(true);
        };
        let found = tx[leaf].search_key(tx, key);
        let value = value(tx)?;
        let change = match found {
            Ok(place) => {
                let new = changed(tx, leaf, |node| node.set(place, value))?;
                if new == leaf { InsertOutcome::Same } else { InsertOutcome::One(new) }
            }
            Err(place) => {
                let key = K::freeze(tx, key)?;
                let is_last = path.is_last(tx);
                grown(tx, leaf, |_| {}, (place, key, value), is_last)?
            }
        };
        let change = match change {
            InsertOutcome::Same => InsertOutcome::Same,
            InsertOutcome::One(leaf) => InsertOutcome::One(Child::Leaf(leaf)),
            InsertOutcome::Two(left, key, right) => {
                InsertOutcome::Two(Child::Leaf(left), key, Child::Leaf(right))
            }
        };
        let top = self.climb(tx, path, change)?;
        let is_new = found.is_err();
        if is_new || top.is_some() {
            let map = &mut tx[self];
            map.len += u64::from(is_new);
            map.top = top.unwrap_or(map.top);
        }
        Ok(is_new)
    }

    /// Applies the change of a leaf to the inner nodes on the path to it, from the bottom up. Returns the new
    /// top, if the top was replaced.
    fn climb(
        self,
        tx: &mut Txn<'r>,
        mut path: SnapPath<'r, K, V>,
        mut change: InsertOutcome<K, Child<'r, K, V>>,
    ) -> Result<Option<Child<'r, K, V>>> {
        let is_last = path.is_last(tx);
        while let Some((inner, place)) = path.pop() {
            let grown = match change {
                InsertOutcome::Same => return Ok(None),
                InsertOutcome::One(child) => {
                    let new = changed(tx, inner, |node| node.set(place, child))?;
                    if new == inner { InsertOutcome::Same } else { InsertOutcome::One(new) }
                }
                InsertOutcome::Two(left, key, right) => {
                    grown(tx, inner, |node| node.set(place, left), (place + 1, key, right), is_last)?
                }
            };
            change = match grown {
                InsertOutcome::Same => InsertOutcome::Same,
                InsertOutcome::One(inner) => InsertOutcome::One(Child::Inner(inner)),
                InsertOutcome::Two(left, key, right) => {
                    InsertOutcome::Two(Child::Inner(left), key, Child::Inner(right))
                }
            };
        }
        match change {
            InsertOutcome::Same => Ok(None),
            InsertOutcome::One(top) => Ok(Some(top)),
            InsertOutcome::Two(left, key, right) => {
                let mut top = Inner::one(key, left);
                top.insert(1, key, right);
                Ok(Some(Child::Inner(tx.alloc(top)?)))
            }
        }
    }

    /// Removes a key. Returns whether the map had the key. O(log n).
    ///
    /// # Errors
    /// As for [`Txn::alloc_slice`]; see [Changing a map](P#change-PSnapMap).
    pub fn remove(self, tx: &mut Txn<'r>, key: &K::Shown) -> Result<bool> {
        let mut path = SnapPath::new();
        let Some(leaf) = path.descend(tx, tx[self].top, |node| node.child_for(tx, key)) else {
            return Ok(false);
        };
        let Ok(place) = tx[leaf].search_key(tx, key) else { return Ok(false) };
        let mut change = match less(tx, leaf, |node| node.remove(place), tx[leaf].len() - 1)? {
            RemoveOutcome::Same => RemoveOutcome::Same,
            RemoveOutcome::One(leaf) => RemoveOutcome::One(Child::Leaf(leaf)),
            RemoveOutcome::Gone => RemoveOutcome::Gone,
        };
        while let Some((inner, place)) = path.pop() {
            let len = tx[inner].len();
            let shrunk = match change {
                RemoveOutcome::Same => break,
                RemoveOutcome::Gone => less(tx, inner, |node| node.remove(place), len - 1)?,
                RemoveOutcome::One(child) => match joined(tx, inner, place, child) {
                    Some((at, both)) => {
                        let edit = |node: &mut Inner<'r, K, V>| {
                            node.set(at, both);
                            node.remove(at + 1);
                        };
                        less(tx, inner, edit, len - 1)?
                    }
                    None => less(tx, inner, |node| node.set(place, child), len)?,
                },
            };
            change = match shrunk {
                RemoveOutcome::Same => RemoveOutcome::Same,
                RemoveOutcome::One(inner) => RemoveOutcome::One(Child::Inner(inner)),
                RemoveOutcome::Gone => RemoveOutcome::Gone,
            };
        }
        let top = match change {
            RemoveOutcome::Same => None,
            RemoveOutcome::Gone => Some(Child::None(0)),
            RemoveOutcome::One(mut top) => {
                while let Child::Inner(inner) = top
                    && let [only] = *tx[inner].items()
                {
                    top = only;
                }
                Some(top)
            }
        };
        let map = &mut tx[self];
        map.len -= 1;
        map.top = top.unwrap_or(map.top);
        Ok(true)
    }

    /// Removes all entries. O(1): the nodes become garbage, unless a kept version has them.
    pub fn clear(self, tx: &mut Txn<'r>) {
        tx[self] = PSnapMap::new();
    }

    /// Inserts the items of an iterator, as [`insert`](Self::insert) does, one after the other. If the items
    /// come in the order of their keys, after all existing keys, their nodes become full.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert). Then the earlier items stay inserted, unless the transaction is
    /// rolled back.
    pub fn extend<Q: Borrow<K::Shown>, W: Borrow<V::Shown>>(
        self,
        tx: &mut Txn<'r>,
        entries: impl IntoIterator<Item = (Q, W)>,
    ) -> Result<()> {
        entries
            .into_iter()
            .try_for_each(|(key, value)| self.insert(tx, key.borrow(), value.borrow()).map(drop))
    }
}

/// Changes a node by `edit`, after which it has `len` items. If `len` is 0, the node stays as it is, and the
/// caller drops the node.
fn less<'r, K, T, const N: usize>(
    tx: &mut Txn<'r>,
    node: P<'r, Node<K, T, N>>,
    edit: impl Fn(&mut Node<K, T, N>),
    len: usize,
) -> Result<RemoveOutcome<P<'r, Node<K, T, N>>>>
where
    Node<K, T, N>: Persist<At<'r> = Node<K, T, N>> + Copy,
{
    if len == 0 {
        return Ok(RemoveOutcome::Gone);
    }
    let new = changed(tx, node, edit)?;
    Ok(if new == node && !tx[new].is_small() { RemoveOutcome::Same } else { RemoveOutcome::One(new) })
}

/// Joins a child of `inner` with a neighbour, if the child is small. Returns the place of the first of the
/// two, and the joined node. Returns `None` if the child is not small or has no neighbour, if the two do not
/// fit into one node, or if there is no memory: joining is optional.
fn joined<'r, K: Frozen<'r>, V: Frozen<'r>>(
    tx: &Txn<'r>,
    inner: P<'r, Inner<'r, K, V>>,
    place: usize,
    child: Child<'r, K, V>,
) -> Option<(usize, Child<'r, K, V>)> {
    let is_small = match child {
        Child::Leaf(leaf) => tx[leaf].is_small(),
        Child::Inner(inner) => tx[inner].is_small(),
        Child::None(_) => false,
    };
    if !is_small {
        return None;
    }
    let node = &tx[inner];
    let (at, other) = if place > 0 { (place - 1, place - 1) } else { (0, 1) };
    let other = *node.items().get(other)?;
    let key = node.keys()[at + 1];
    let (left, right) = if place > 0 { (other, child) } else { (child, other) };
    let both = match (left, right) {
        (Child::Leaf(left), Child::Leaf(right)) => Child::Leaf(join(tx, left, right, tx[right].keys()[0])?),
        (Child::Inner(left), Child::Inner(right)) => Child::Inner(join(tx, left, right, key)?),
        _ => return None,
    };
    Some((at, both))
}

fn join<'r, K: Copy, T: Copy, const N: usize>(
    tx: &Txn<'r>,
    left: P<'r, Node<K, T, N>>,
    right: P<'r, Node<K, T, N>>,
    key: K,
) -> Option<P<'r, Node<K, T, N>>>
where
    Node<K, T, N>: Persist<At<'r> = Node<K, T, N>>,
{
    tx.alloc(tx[left].joined(&tx[right], key)?).ok()
}
