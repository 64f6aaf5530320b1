//! Removal, and what it merges.
//!
//! A node with less than a third of its slots in use is merged with a neighbour, if both fit into three quarters of a node; else it takes items from
//! it. (Of leaves, that takes a new separator. If there is no memory for it, the leaf stays as it is: removal does not fail.)

#![allow(unsafe_code)]

use super::PBTreeMap;
use super::node::{Child, Entry, INNER, Inner, Item, LEAF, Leaf, Near, Node};
use super::path::Path;
use crate::api::tx::Txn;
use crate::collections::key::{OrdKey, OwnKey};
use crate::layout::Persist;
use crate::ptr::P;

/// With fewer items, a node is mended.
const fn least(slots: usize) -> usize {
    slots / 3
}

/// Merged nodes have no more items.
const fn most(slots: usize) -> usize {
    slots - slots / 4
}

/// Moves the entry at `place` of the leaf that the path leads to out.
pub(super) fn remove<'r, K: OrdKey<'r>, V: Persist>(
    map: P<'r, PBTreeMap<'r, K, V>>,
    tx: &mut Txn<'r>,
    leaf: P<'r, Leaf<K, V>>,
    path: &mut Path<'r, K, V>,
    place: usize,
) -> Entry<K, V> {
    let ((), entry) = leaf.remove_item(tx, place);
    tx[map].len -= 1;
    if leaf.count(tx) < least(LEAF) {
        mend(map, tx, path);
    }
    entry
}

/// Mends the nodes on the path to a leaf that may have too few entries, and its top.
#[cold]
fn mend<'r, K: OrdKey<'r>, V: Persist>(
    map: P<'r, PBTreeMap<'r, K, V>>,
    tx: &mut Txn<'r>,
    path: &mut Path<'r, K, V>,
) {
    while let Some((inner, place)) = path.pop() {
        if mend_child(tx, inner, place) != Mended::Merged {
            break;
        }
    }
    mend_top(map, tx);
}

/// Takes off what has one child or no items.
pub(super) fn mend_top<'r, K: OrdKey<'r>, V: Persist>(map: P<'r, PBTreeMap<'r, K, V>>, tx: &mut Txn<'r>) {
    loop {
        let top = tx[map].top;
        let below = match top {
            Child::Inner(inner) if inner.count(tx) == 1 => inner.child_at(tx, inner.head(tx), 0),
            Child::Inner(_) | Child::Leaf(_) if top.count(tx) == 0 => Child::None(0),
            _ => return,
        };
        tx[map].top = below;
        // SAFETY: the tree has just let go of it; what was in it is elsewhere.
        unsafe { top.free(tx) };
    }
}

/// What was done about a child.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mended {
    /// It has enough items, or no neighbour.
    Not,
    /// It has taken some from a neighbour, if that was possible.
    Evened,
    /// Its parent has one child less.
    Merged,
}

/// Mends a child of an inner node, if it has too few items.
pub(super) fn mend_child<'r, K: OrdKey<'r>, V: Persist>(
    tx: &mut Txn<'r>,
    inner: P<'r, Inner<'r, K, V>>,
    place: usize,
) -> Mended {
    let head = *inner.head(tx);
    let child_at = |tx: &Txn<'r>, place: usize| inner.child_at(tx, &head, place);
    let child = child_at(tx, place);
    let count = child.count(tx);
    if count == 0 {
        // SAFETY: all but the first child have a separator.
        unsafe { inner.remove_child(tx, place, place > 0) };
        return Mended::Merged;
    }
    let (least, most) = match child {
        Child::Leaf(_) => (least(LEAF), most(LEAF)),
        _ => (least(INNER), most(INNER)),
    };
    if count >= least {
        return Mended::Not;
    }
    let before = place.checked_sub(1);
    let behind = Some(place + 1).filter(|&place| place < head.len());
    // The neighbour with fewer items for a merge, else the one with more to take some from: they are the same if there is one only.
    let neighbours =
        || [before, behind].into_iter().flatten().map(|place| (child_at(tx, place).count(tx), place));
    let (Some(fewest), Some(most_items)) = (neighbours().min(), neighbours().max()) else {
        return Mended::Not;
    };
    let merge = fewest.0 + count <= most;
    let other = if merge { fewest.1 } else { most_items.1 };
    // The place of the latter of the two.
    let at = place.max(other);
    // SAFETY: it is not the first child, so it has a separator, unless that was lowered.
    unsafe {
        match (child_at(tx, at - 1), child_at(tx, at)) {
            (Child::Leaf(left), Child::Leaf(right)) if merge => {
                right.move_items(tx, 0, right.count(tx), left, left.count(tx));
                inner.remove_child(tx, at, true);
            }
            (Child::Inner(left), Child::Inner(right)) if merge => {
                lower_separator(tx, inner, at, right);
                right.move_items(tx, 0, right.count(tx), left, left.count(tx));
                inner.remove_child(tx, at, false);
            }
            (Child::Leaf(left), Child::Leaf(right)) => even_out_leaves(tx, inner, at, left, right),
            (Child::Inner(left), Child::Inner(right)) => {
                lower_separator(tx, inner, at, right);
                even_out(tx, left, right);
                let (prefix, key) = right.take_separator(tx, 0);
                inner.put_separator(tx, at, prefix, key);
            }
            _ => unreachable!("all children of a node are of one height"),
        }
    }
    if merge { Mended::Merged } else { Mended::Evened }
}

/// Moves items between neighbours, so that they have as many.
fn even_out<'r, T: Item<'r>, X: Near, const N: usize>(
    tx: &mut Txn<'r>,
    left: P<'r, Node<T, X, N>>,
    right: P<'r, Node<T, X, N>>,
) {
    let (l, r) = (left.count(tx), right.count(tx));
    if l < r {
        right.move_items(tx, 0, (r - l) / 2, left, l);
    } else {
        let count = (l - r) / 2;
        left.move_items(tx, l - count, count, right, 0);
    }
}

/// [`even_out`] for the leaves on both sides of a separator.
///
/// # Safety
/// There is a separator at `place`.
unsafe fn even_out_leaves<'r, K: OrdKey<'r>, V: Persist>(
    tx: &mut Txn<'r>,
    inner: P<'r, Inner<'r, K, V>>,
    place: usize,
    left: P<'r, Leaf<K, V>>,
    right: P<'r, Leaf<K, V>>,
) {
    // The first key on the right when it is done. (This is the user's code: should it panic, nothing has moved.)
    let (l, r) = (left.count(tx), right.count(tx));
    let (leaf, at) = if l < r { (right, (r - l) / 2) } else { (left, l - (l - r) / 2) };
    let query = leaf.item_at(tx, leaf.head(tx), at).key.query(tx);
    let prefix = K::prefix(query);
    let Ok(key) = OwnKey::new(tx, query) else { return };
    even_out(tx, left, right);
    // SAFETY: by the caller's promise; the key was the inner node's own.
    unsafe { inner.take_separator(tx, place).1.give_up(tx) };
    inner.put_separator(tx, place, prefix, key);
}

/// Moves a separator to the first child of the node that it leads to.
///
/// # Safety
/// There is one at `place`.
unsafe fn lower_separator<'r, K: OrdKey<'r>, V: Persist>(
    tx: &mut Txn<'r>,
    inner: P<'r, Inner<'r, K, V>>,
    place: usize,
    right: P<'r, Inner<'r, K, V>>,
) {
    // SAFETY: by the caller's promise.
    let (prefix, key) = unsafe { inner.take_separator(tx, place) };
    right.put_separator(tx, 0, prefix, key);
}
