//! Insertion, and the splits that it causes.

use super::PBTreeMap;
use super::branch::{NewChild, Separator};
use super::node::{Entry, INNER, Inner, LEAF, Leaf, MAX_HEIGHT, NewNode};
use super::path::TreePath;
use super::search::{SearchKey, TreeLookup};
use crate::api::tx::Txn;
use crate::collections::key::{OrdKey, OwnKey};
use crate::error::Result;
use crate::layout::Persist;
use crate::ptr::P;

/// Inserts an entry after a search that has not found its key. Returns the leaf of the entry, and its place
/// there.
///
/// If this fails, the map has not changed. If the code of the keys panics, the entry is not inserted.
#[inline]
pub(super) fn insert<'r, K: OrdKey<'r>, V: Persist<At<'r> = V>>(
    map: P<'r, PBTreeMap<'r, K, V>>,
    tx: &mut Txn<'r>,
    found: Option<TreeLookup<'r, K, V>>,
    path: &mut TreePath<'r, K, V>,
    wanted: SearchKey<'_, K::Query>,
    entry: Entry<K, V>,
) -> Result<(P<'r, Leaf<K, V>>, usize)> {
    let (leaf, place) = room(map, tx, found, path, wanted)?;
    leaf.insert_entry(tx, place, wanted.prefix, entry);
    tx[map].len += 1;
    Ok((leaf, place))
}

/// Returns a leaf that is not full, and the place in it for an entry, after a search that has not found its
/// key.
#[inline]
pub(super) fn room<'r, K: OrdKey<'r>, V: Persist>(
    map: P<'r, PBTreeMap<'r, K, V>>,
    tx: &mut Txn<'r>,
    found: Option<TreeLookup<'r, K, V>>,
    path: &mut TreePath<'r, K, V>,
    wanted: SearchKey<'_, K::Query>,
) -> Result<(P<'r, Leaf<K, V>>, usize)> {
    match found {
        Some(TreeLookup { leaf, place: Err(place) | Ok(place) }) if leaf.count(tx) < LEAF => {
            Ok((leaf, place))
        }
        found => make_room(map, tx, found, path, wanted),
    }
}

/// Makes room for an entry in a tree without nodes, or whose leaf for the entry is full. Returns the leaf,
/// and the place for the entry in it.
#[cold]
fn make_room<'r, K: OrdKey<'r>, V: Persist>(
    map: P<'r, PBTreeMap<'r, K, V>>,
    tx: &mut Txn<'r>,
    found: Option<TreeLookup<'r, K, V>>,
    path: &mut TreePath<'r, K, V>,
    wanted: SearchKey<'_, K::Query>,
) -> Result<(P<'r, Leaf<K, V>>, usize)> {
    let new = NewNode::<Leaf<K, V>>::alloc(tx)?;
    let leaf = new.node();
    let Some(TreeLookup { leaf: old, place: Err(place) | Ok(place) }) = found else {
        map.plant(tx, new);
        return Ok((leaf, 0));
    };
    // An entry that is appended to the tree starts a new leaf: so if a tree is filled in order, all earlier
    // leaves are full.
    let cut = if place == LEAF && path.is_last(tx) { LEAF } else { LEAF / 2 + usize::from(place > LEAF / 2) };
    let separator = if cut == LEAF {
        (wanted.prefix, OwnKey::new(tx, wanted.query)?)
    } else {
        let least = old.node_view(tx).query(cut);
        (K::prefix(least), OwnKey::new(tx, least)?)
    };
    let spare = spare(tx, path)?;
    old.split_off(tx, cut, &new);
    add_branch(map, tx, path, spare, separator, NewChild::Leaf(new));
    Ok(if cut == LEAF || place > cut { (leaf, place - cut) } else { (old, place) })
}

/// New nodes that the splits of the full inner nodes on a path will need, for the lowest one first, and a new
/// top if the top will be split.
type SpareInners<'r, K, V> = [Option<NewNode<'r, Inner<'r, K, V>>>; MAX_HEIGHT + 1];

fn spare<'r, K: Persist, V: Persist>(
    tx: &Txn<'r>,
    path: &TreePath<'r, K, V>,
) -> Result<SpareInners<'r, K, V>> {
    let (mut spare, mut path) = ([const { None }; MAX_HEIGHT + 1], *path);
    for node in &mut spare {
        let above = path.pop();
        if above.is_some_and(|(inner, _)| inner.count(tx) < INNER) {
            break;
        }
        *node = Some(NewNode::alloc(tx)?);
        if above.is_none() {
            break;
        }
    }
    Ok(spare)
}

/// Adds a child to the tree, after the child that the path leads to. Splits full nodes, for which `spare` has
/// new nodes.
fn add_branch<'r, K: OrdKey<'r>, V: Persist>(
    map: P<'r, PBTreeMap<'r, K, V>>,
    tx: &mut Txn<'r>,
    path: &mut TreePath<'r, K, V>,
    spare: SpareInners<'r, K, V>,
    mut separator: Separator<K>,
    mut child: NewChild<'r, K, V>,
) {
    for spare in spare {
        match (path.pop(), spare) {
            (Some((inner, place)), None) => return inner.insert_child(tx, place + 1, separator, child),
            (Some((inner, place)), Some(upper)) => {
                let place = place + 1;
                // Each part gets about half of the children. But if the new child is the last one, the lower
                // part stays almost full: the upper part gets the last child, and the new one.
                let cut = if place == INNER { INNER - 1 } else { INNER / 2 + usize::from(place > INNER / 2) };
                // The separator of the first child of the upper part becomes the separator of the two parts.
                let between = inner.split_off(tx, cut, &upper);
                let (node, place) = if place > cut { (upper.node(), place - cut) } else { (inner, place) };
                node.insert_child(tx, place, separator, child);
                (separator, child) = (between, NewChild::Inner(upper));
            }
            (None, Some(top)) => return map.raise(tx, top, separator, child),
            (None, None) => unreachable!("there is a node for a new top"),
        }
    }
}
