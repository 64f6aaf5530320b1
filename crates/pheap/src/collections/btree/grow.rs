//! Insertion, and what it splits.

#![allow(unsafe_code)]

use super::PBTreeMap;
use super::node::{Child, Entry, INNER, Inner, LEAF, Leaf};
use super::path::Path;
use super::search::{Found, Wanted};
use crate::api::tx::Txn;
use crate::collections::btree::path::MAX_HEIGHT;
use crate::collections::key::{OrdKey, OwnKey};
use crate::error::Result;
use crate::layout::Persist;
use crate::ptr::P;

/// Inserts an entry where its key was looked for and not found. Returns where it is now.
///
/// Whatever fails or panics does so before anything has changed.
#[inline]
pub(super) fn insert<'r, K: OrdKey<'r>, V: Persist<At<'r> = V>>(
    map: P<'r, PBTreeMap<'r, K, V>>,
    tx: &mut Txn<'r>,
    found: Option<Found<'r, K, V>>,
    path: &mut Path<'r, K, V>,
    wanted: Wanted<'_, K::Query>,
    value: V,
) -> Result<(P<'r, Leaf<K, V>>, usize)> {
    let key = OwnKey::new(tx, wanted.query)?;
    let entry = Entry { key, value };
    let (leaf, place) = match found {
        Some(Found { leaf, place: Err(place) | Ok(place) }) if !leaf.head(tx).is_full() => (leaf, place),
        found => make_room(map, tx, found, path, wanted)?,
    };
    let slot = leaf.insert_item(tx, place, wanted.prefix, (), entry);
    tx[map].len += 1;
    Ok((leaf, slot))
}

/// Makes room for an entry in a tree without nodes, or in one whose leaf is full.
#[cold]
fn make_room<'r, K: OrdKey<'r>, V: Persist>(
    map: P<'r, PBTreeMap<'r, K, V>>,
    tx: &mut Txn<'r>,
    found: Option<Found<'r, K, V>>,
    path: &mut Path<'r, K, V>,
    wanted: Wanted<'_, K::Query>,
) -> Result<(P<'r, Leaf<K, V>>, usize)> {
    let leaf = P::<Leaf<K, V>>::new_node(tx)?;
    let Some(Found { leaf: old, place: Err(place) | Ok(place) }) = found else {
        tx[map].top = Child::Leaf(leaf);
        return Ok((leaf, 0));
    };
    // What is appended to the tree begins a new leaf: so those before it are full if a tree is filled in order.
    let cut = if place == LEAF && path.is_last(tx) { LEAF } else { LEAF / 2 + usize::from(place > LEAF / 2) };
    let head = old.head(tx);
    let separator = if cut == LEAF {
        (wanted.prefix, OwnKey::new(tx, wanted.query)?)
    } else {
        let least = old.item_at(tx, head, cut).key.query(tx);
        (K::prefix(least), OwnKey::new(tx, least)?)
    };
    let spare = Spare::new(tx, path)?;

    // SAFETY: the new leaf.
    unsafe { old.split_off(tx, cut, leaf) };
    add_branch(map, tx, path, spare, separator, Child::Leaf(leaf));
    Ok(if cut == LEAF || place > cut { (leaf, place - cut) } else { (old, place) })
}

/// Nodes for the inner nodes on a path that are to be split, the lowest first, and for a new top.
struct Spare<'r, K, V> {
    nodes: [Option<P<'r, Inner<'r, K, V>>>; MAX_HEIGHT + 1],
}

impl<'r, K: Persist, V: Persist> Spare<'r, K, V> {
    fn new(tx: &Txn<'r>, path: &Path<'r, K, V>) -> Result<Self> {
        let mut spare = Spare { nodes: [None; MAX_HEIGHT + 1] };
        let mut path = *path;
        for node in &mut spare.nodes {
            let above = path.pop();
            if above.is_some_and(|(inner, _)| !inner.head(tx).is_full()) {
                break;
            }
            *node = Some(P::<Inner<'r, K, V>>::new_node(tx)?);
            if above.is_none() {
                break;
            }
        }
        Ok(spare)
    }
}

/// Adds a child behind the one that the path leads to.
fn add_branch<'r, K: OrdKey<'r>, V: Persist>(
    map: P<'r, PBTreeMap<'r, K, V>>,
    tx: &mut Txn<'r>,
    path: &mut Path<'r, K, V>,
    spare: Spare<'r, K, V>,
    mut separator: (u64, OwnKey<K>),
    mut child: Child<'r, K, V>,
) {
    for spare in spare.nodes {
        match (path.pop(), spare) {
            (Some((inner, place)), None) => {
                inner.insert_child(tx, place + 1, Some(separator), child);
                return;
            }
            (Some((inner, place)), Some(upper)) => {
                let place = place + 1;
                // As for leaves, but that the upper part has two children at least.
                let cut = if place == INNER { INNER - 1 } else { INNER / 2 + usize::from(place > INNER / 2) };
                // SAFETY: one of the new nodes.
                unsafe { inner.split_off(tx, cut, upper) };
                let (node, place) = if place > cut { (upper, place - cut) } else { (inner, place) };
                node.insert_child(tx, place, Some(separator), child);
                // What separated the first child of the upper part from the one before separates the two parts.
                // SAFETY: it was not the first child of the node that it comes from.
                separator = unsafe { upper.take_separator(tx, 0) };
                child = Child::Inner(upper);
            }
            (None, Some(top)) => {
                top.insert_child(tx, 0, None, tx[map].top);
                top.insert_child(tx, 1, Some(separator), child);
                tx[map].top = Child::Inner(top);
                return;
            }
            (None, None) => unreachable!("there is a node for a new top"),
        }
    }
}
