//! Joining two maps, and splitting one.

#![allow(unsafe_code)]

use super::PBTreeMap;
use super::branch::NewChild;
use super::grow;
use super::node::{Child, Inner, Leaf, MAX_HEIGHT, NewNode};
use super::path::TreePath;
use super::range::TreePosition;
use super::rank::before;
use super::search::{self, SearchKey, TreeLookup};
use super::shrink::{self, MendOutcome};
use crate::api::tx::Txn;
use crate::collections::key::{KeyArg, OrdKey};
use crate::error::Result;
use crate::layout::Persist;
use crate::ptr::P;

/// <a id="change-PBTreeMap-join"></a>Joining two maps, and splitting one.
impl<'r, K: OrdKey<'r>, V: Persist<At<'r> = V>> P<'r, PBTreeMap<'r, K, V>> {
    /// Moves all entries of `other` to this map. If both have a key, the key of this map stays, with the
    /// value of `other`. O(1) if this map is empty; else O(k log n) for k entries of `other`: each is
    /// searched for, and moves together with the memory of its key.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert). Then some entries have moved, and all others are still in `other`.
    ///
    /// # Panics
    /// If `other` is this map.
    pub fn append(self, tx: &mut Txn<'r>, other: P<'r, PBTreeMap<'r, K, V>>) -> Result<()> {
        assert!(self != other, "a map cannot be appended to itself");
        if tx[self].is_empty() {
            let all = std::mem::take(&mut tx[other]);
            std::mem::replace(&mut tx[self], all).top.free_nodes(tx);
            return Ok(());
        }
        loop {
            let mut from = TreePath::new();
            let first = TreePosition::at_end(tx, tx[other].top.child(), false, &mut from);
            let Some(TreeLookup { leaf, place: Ok(at) }) = first else { return Ok(()) };
            let query: *const K::Query = leaf.node_view(tx).query(at);
            // SAFETY: the query of a key is not written as long as the key is in its map, and `other` is not
            // changed before the last use of the query: only `self` gets new nodes. If the transaction
            // becomes long in between, it copies entries, and the originals stay where they are.
            let wanted = SearchKey::new::<K>(unsafe { &*query });
            let (prefix, mut path) = (wanted.prefix, TreePath::new());
            let found = search::find_to_insert(tx, tx[self].top.child(), wanted, &mut path);
            if let Some(TreeLookup { leaf: home, place: Ok(place) }) = found {
                let entry = shrink::remove(other, tx, leaf, &mut from, at);
                *home.value_mut(tx, place) = entry.value;
                entry.key.free_key(tx);
                continue;
            }
            // Make room first, because that may fail.
            let (home, place) = grow::room(self, tx, found, &mut path, wanted)?;
            let entry = shrink::remove(other, tx, leaf, &mut from, at);
            home.insert_entry(tx, place, prefix, entry);
            tx[self].len += 1;
        }
    }

    /// Moves the entries whose keys are not less than `key` to another map. Returns that map. Only entries of
    /// leaves near the cut change their place. O(log n), except that the entries are counted: for that, the
    /// first cache line of each leaf between the cut and one end of the map is read, as for
    /// [`PBTreeMap::rank`].
    ///
    /// ```
    /// # use pheap::{Heap, PBTreeMap, Persist, Root, field};
    /// #[derive(Persist, Default)]
    /// #[repr(C)]
    /// struct Events<'r> {
    ///     old: PBTreeMap<'r, u64, u64>,
    ///     new: PBTreeMap<'r, u64, u64>,
    /// }
    ///
    /// # fn main() -> pheap::Result<()> {
    /// # let heap = Heap::in_memory()?;
    /// let events: Root<Events> = heap.root("events")?;
    /// events.txn(|tx, events| {
    ///     field!(events.new).extend(tx, (0..1000).map(|time| (time, time)).collect::<Vec<_>>().iter().map(|(k, v)| (k, *v)))?;
    ///     let rest = field!(events.new).split_off(tx, 900)?;
    ///     tx[events].old = std::mem::replace(&mut tx[events].new, rest);
    ///     assert_eq!((tx[events].old.len(), tx[events].new.len()), (900, 100));
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`insert`](Self::insert), because a split needs a new node for each level of the map. Then
    /// nothing has changed. If the program does not store the returned map, its nodes are garbage.
    pub fn split_off(self, tx: &mut Txn<'r>, key: impl KeyArg<'r, K>) -> Result<PBTreeMap<'r, K, V>> {
        let query = key.apart(tx);
        let mut path = TreePath::new();
        let found = search::seek_with_path(tx, tx[self].top.child(), SearchKey::new::<K>(&query), &mut path);
        let Some(TreeLookup { leaf, place: Ok(place) | Err(place) }) = found else {
            return Ok(PBTreeMap::new());
        };
        let len = before(tx, path, place, tx[self].len());
        let new = NewNode::<Leaf<K, V>>::alloc(tx)?;
        let upper: Vec<NewNode<'r, Inner<'r, K, V>>> =
            path.places().iter().map(|_| NewNode::alloc(tx)).collect::<Result<_>>()?;
        // From here on, nothing fails, and no code of the program runs before both trees are complete.
        leaf.split_off(tx, place, &new);
        let mut right = NewChild::Leaf(new);
        for upper in upper {
            let Some((inner, place)) = path.pop() else { break };
            inner.split_behind(tx, place, &upper, right);
            right = NewChild::Inner(upper);
        }
        let mut other = self.detach_half(tx, right, len);
        mend_edge(tx, tx[self].top.child(), true);
        shrink::mend_top(self, tx);
        mend_edge(tx, other.top.child(), false);
        other.top = other.top.lowered(tx);
        Ok(other)
    }
}

/// Mends the nodes along an edge of a tree that was cut: along the last children if `last`, else along the
/// first.
fn mend_edge<'r, K: OrdKey<'r>, V: Persist>(tx: &mut Txn<'r>, top: Child<'r, K, V>, last: bool) {
    // Empty nodes are removed first of all, because a search cannot get past a node without items.
    drop_empty(tx, top, last, MAX_HEIGHT);
    // A node that had no neighbour may have one after its parent was merged.
    for _ in 0..MAX_HEIGHT {
        if !mend(tx, top, last, MAX_HEIGHT) {
            break;
        }
    }
}

/// Returns the place of the last child of a node if `last`, else of the first one.
fn at_edge<'r, K: OrdKey<'r>, V: Persist>(tx: &Txn<'r>, inner: P<'r, Inner<'r, K, V>>, last: bool) -> usize {
    if last { inner.count(tx) - 1 } else { 0 }
}

/// Removes the nodes without items along an edge of the tree below a child.
fn drop_empty<'r, K: OrdKey<'r>, V: Persist>(
    tx: &mut Txn<'r>,
    child: Child<'r, K, V>,
    last: bool,
    height: usize,
) {
    let Child::Inner(inner) = child else { return };
    if height == 0 || inner.count(tx) == 0 {
        return;
    }
    let place = at_edge(tx, inner, last);
    let child = inner.node_view(tx).child(place);
    drop_empty(tx, child, last, height - 1);
    if child.count(tx) == 0 {
        inner.remove_child(tx, place);
    }
}

/// Mends the nodes along an edge of the tree that have too few items, from the bottom up. Returns whether
/// there may be more to mend.
fn mend<'r, K: OrdKey<'r>, V: Persist>(
    tx: &mut Txn<'r>,
    child: Child<'r, K, V>,
    last: bool,
    height: usize,
) -> bool {
    let Child::Inner(inner) = child else { return false };
    if height == 0 || inner.count(tx) == 0 {
        return false;
    }
    let child = inner.node_view(tx).child(at_edge(tx, inner, last));
    let mut again = mend(tx, child, last, height - 1);
    while inner.count(tx) > 1 {
        let mended = shrink::mend_child(tx, inner, at_edge(tx, inner, last));
        again |= mended > MendOutcome::Not;
        if mended != MendOutcome::Merged {
            break;
        }
    }
    again
}
