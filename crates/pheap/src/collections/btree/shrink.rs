//! Removal, and the merges that it causes.
//!
//! If a removal leaves less than a third of a node's slots in use, the node is merged with a neighbour, if
//! both fit into three quarters of a node; otherwise it takes items from its fuller neighbour. (For leaves,
//! the latter needs a new separator. If there is no memory for it, the leaf stays as it is: removal does not
//! fail.)

use super::PBTreeMap;
use super::node::{Child, Entry, INNER, Inner, LEAF, Leaf};
use super::path::TreePath;
use crate::api::tx::Txn;
use crate::collections::key::OrdKey;
use crate::layout::Persist;
use crate::ptr::P;

/// Returns the least number of items of a node with `slots` slots. A node with fewer items is mended: merged,
/// or filled from a neighbour.
const fn least(slots: usize) -> usize {
    slots / 3
}

/// Returns the most items that a merge of two nodes may put into a node with `slots` slots.
const fn most(slots: usize) -> usize {
    slots - slots / 4
}

/// Removes the entry at `place` of the leaf that the path leads to, and returns it. Mends the leaf if it then
/// has too few entries.
pub(super) fn remove<'r, K: OrdKey<'r>, V: Persist>(
    map: P<'r, PBTreeMap<'r, K, V>>,
    tx: &mut Txn<'r>,
    leaf: P<'r, Leaf<K, V>>,
    path: &mut TreePath<'r, K, V>,
    place: usize,
) -> Entry<K, V> {
    let entry = leaf.remove_entry(tx, place);
    tx[map].len -= 1;
    if leaf.count(tx) < least(LEAF) {
        mend(map, tx, path);
    }
    entry
}

/// Mends the leaf that the path leads to, which may have too few entries, each node above a merge, and the
/// top of the tree.
#[cold]
fn mend<'r, K: OrdKey<'r>, V: Persist>(
    map: P<'r, PBTreeMap<'r, K, V>>,
    tx: &mut Txn<'r>,
    path: &mut TreePath<'r, K, V>,
) {
    while let Some((inner, place)) = path.pop() {
        if mend_child(tx, inner, place) != MendOutcome::Merged {
            break;
        }
    }
    mend_top(map, tx);
}

/// Removes the top node as long as it has one child or no items.
pub(super) fn mend_top<'r, K: OrdKey<'r>, V: Persist>(map: P<'r, PBTreeMap<'r, K, V>>, tx: &mut Txn<'r>) {
    while map.lower(tx) {}
}

/// Whether a node has so few items that it must be mended.
pub(super) fn is_thin<'r, K: Persist, V: Persist>(tx: &Txn<'r>, child: Child<'r, K, V>) -> bool {
    child.count(tx) < least(if let Child::Leaf(_) = child { LEAF } else { INNER })
}

/// The result of mending a child.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MendOutcome {
    /// The child is unchanged: it has enough items, or no neighbour.
    Not,
    /// The child has taken items from a neighbour, if there was memory for that.
    Evened,
    /// The child was merged or removed: its parent has one child less.
    Merged,
}

/// Mends the child of an inner node at `place`, if the child has too few items.
pub(super) fn mend_child<'r, K: OrdKey<'r>, V: Persist>(
    tx: &mut Txn<'r>,
    inner: P<'r, Inner<'r, K, V>>,
    place: usize,
) -> MendOutcome {
    let seen = inner.node_view(tx);
    let (child, len) = (seen.child(place), seen.len());
    let count = child.count(tx);
    if count == 0 {
        inner.remove_child(tx, place);
        return MendOutcome::Merged;
    }
    let (least, most) = match child {
        Child::Leaf(_) => (least(LEAF), most(LEAF)),
        _ => (least(INNER), most(INNER)),
    };
    if count >= least {
        return MendOutcome::Not;
    }
    let before = place.checked_sub(1);
    let behind = Some(place + 1).filter(|&place| place < len);
    // Of the neighbours, the one with the fewest items is for a merge, and the one with the most to take
    // items from. If there is only one neighbour, these are the same.
    let neighbours =
        || [before, behind].into_iter().flatten().map(|place| (seen.child(place).count(tx), place));
    let (Some(fewest), Some(most_items)) = (neighbours().min(), neighbours().max()) else {
        return MendOutcome::Not;
    };
    let merge = fewest.0 + count <= most;
    let other = if merge { fewest.1 } else { most_items.1 };
    // The place of the child or of the neighbour, whichever comes later.
    let at = place.max(other);
    if merge {
        inner.merge(tx, at);
        MendOutcome::Merged
    } else {
        inner.even_out(tx, at);
        MendOutcome::Evened
    }
}
