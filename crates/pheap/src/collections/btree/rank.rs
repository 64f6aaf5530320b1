//! Order statistics: the number of entries before a key, and the entry at a place.
//!
//! Nodes do not record how many entries are below them, because each insertion would have to write all nodes
//! on its way. But leaves record how many they have. So a search that has to skip entries reads the first
//! cache line of each skipped leaf, many lines at a time.

use std::ops::Range;

use super::PBTreeMap;
use super::node::{Child, Inner, MAX_HEIGHT};
use super::path::TreePath;
use super::search::{self, SearchKey, TreeLookup};
use crate::api::view::View;
use crate::collections::key::{KeyArg, OrdKey};
use crate::layout::Persist;
use crate::ptr::P;

/// Places in the order of the keys.
///
/// `rank` and `nth` read the first cache line of each leaf between the place and one end of the map, as a
/// rule the nearer end. So they are O(n), but read much less memory than an iteration to the place.
impl<'r, K: OrdKey<'r>, V: Persist> PBTreeMap<'r, K, V> {
    /// Returns how many keys of the map are less than `key`: the place of `key`, counted from 0. The map need
    /// not have `key`.
    ///
    /// ```
    /// # use pheap::{Heap, PBTreeMap, Root};
    /// # fn main() -> pheap::Result<()> {
    /// # let heap = Heap::in_memory()?;
    /// let scores: Root<PBTreeMap<u64, u32>> = heap.root("scores")?;
    /// scores.txn(|tx, scores| scores.extend(tx, [(&70, 1), (&90, 2), (&80, 3)]))?;
    /// scores.read(|view, scores| {
    ///     let scores = &view[scores];
    ///     assert_eq!((scores.rank(view, 80), scores.rank(view, 85)), (1, 2));
    ///     assert_eq!(scores.nth(view, 1), Some((&80, &3)));
    ///     assert_eq!(scores.nth(view, 3), None);
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn rank(&self, view: &View<'r>, key: impl KeyArg<'r, K>) -> usize {
        let wanted = SearchKey::new::<K>(key.seen(view));
        let mut path = TreePath::new();
        let found = search::seek_with_path(view, self.top.child(), wanted, &mut path);
        found.map_or(0, |TreeLookup { place: Ok(place) | Err(place), .. }| {
            before(view, path, place, self.len())
        })
    }

    /// Returns the entry at place `n` in the order of the keys, counted from 0; `None` if there are not more
    /// than `n` entries.
    pub fn nth<'v>(&self, view: &'v View<'r>, n: usize) -> Option<(&'v K::Query, &'v V)>
    where
        K: 'v,
    {
        // The numbers of entries below `child`: `before` the wanted place, and from it on (`from_here`, until
        // a child of the top is chosen).
        let mut before = n;
        let mut from_here = Some(self.len().checked_sub(n).filter(|&entries| entries > 0)?);
        let mut child = self.top.child();
        for _ in 0..MAX_HEIGHT {
            match child {
                Child::Inner(inner) => {
                    let (seen, children) = (inner.node_view(view), inner.count(view));
                    let count = |place| entries(view, inner, place..place + 1, MAX_HEIGHT);
                    child = seen.child(match from_here.take() {
                        Some(mut from_here) if from_here < before => {
                            let place = (0..children).rev().find(|&place| {
                                let entries = count(place);
                                before = entries.wrapping_sub(from_here);
                                from_here = from_here.saturating_sub(entries);
                                from_here == 0
                            });
                            place?
                        }
                        _ => (0..children).find(|&place| {
                            let entries = count(place);
                            let is_here = before < entries;
                            before -= if is_here { 0 } else { entries };
                            is_here
                        })?,
                    });
                }
                Child::Leaf(leaf) => {
                    let seen = leaf.node_view(view);
                    return (before < seen.len()).then(|| (seen.query(before), seen.value(before)));
                }
                Child::None(_) => return None,
            }
        }
        None
    }
}

/// Returns how many entries of a tree with `all` entries are before a place in the leaf that a path leads to.
pub(super) fn before<'r, K: OrdKey<'r>, V: Persist>(
    view: &View<'r>,
    mut path: TreePath<'r, K, V>,
    place: usize,
    all: usize,
) -> usize {
    let mut before = place;
    while let Some((inner, place)) = path.pop() {
        let (children, is_top) = (inner.count(view), path.places().is_empty());
        before += if is_top && place > children / 2 {
            all.saturating_sub(entries(view, inner, place..children, MAX_HEIGHT))
        } else {
            entries(view, inner, 0..place, MAX_HEIGHT)
        };
    }
    before
}

/// Returns how many entries are below the children of a node at `places`.
fn entries<'r, K: OrdKey<'r>, V: Persist>(
    view: &View<'r>,
    inner: P<'r, Inner<'r, K, V>>,
    places: Range<usize>,
    height: usize,
) -> usize {
    let seen = inner.node_view(view);
    // Prefetch the heads of all children first: these loads do not depend on one another.
    places.clone().for_each(|place| seen.child(place).prefetch_count());
    let below = |place| match seen.child(place) {
        Child::Leaf(leaf) => leaf.count(view),
        Child::Inner(inner) if height > 0 => entries(view, inner, 0..inner.count(view), height - 1),
        Child::Inner(_) | Child::None(_) => 0,
    };
    places.map(below).sum()
}
