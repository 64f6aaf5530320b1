//! Searches for a key.

use std::cmp::Ordering;

use super::head::Head;
use super::node::{Child, Inner, InnerView, Leaf, LeafView, MAX_HEIGHT};
use super::path::TreePath;
use crate::api::view::View;
use crate::collections::common::copied;
use crate::collections::key::{MapKey, OrdKey};
use crate::layout::Persist;
use crate::os::cpu::{prefetch_read, prefetch_write};
use crate::ptr::P;

/// The wanted key, and its prefix.
pub(super) struct SearchKey<'q, Q: ?Sized> {
    pub(super) query: &'q Q,
    pub(super) prefix: u64,
}

copied! { [Q: ?Sized] SearchKey<'_, Q>; }

/// How many bytes the wanted key has at least in common with two of the keys that were compared with it: one
/// that is not greater, and one that is greater. `below` is for the former key, `above` for the latter. All
/// keys between the two keys begin with the lesser number of these bytes, so comparisons with them skip as
/// many. Both are 0 for keys that are not ordered by their bytes.
#[derive(Clone, Copy, Default)]
struct CommonPrefixes {
    below: usize,
    above: usize,
}

impl CommonPrefixes {
    #[inline(always)]
    fn known(self) -> usize {
        self.below.min(self.above)
    }
}

impl<'q, Q: ?Sized + Ord> SearchKey<'q, Q> {
    #[inline(always)]
    pub(super) fn new<'r, K: OrdKey<'r> + MapKey<'r, Query = Q>>(query: &'q Q) -> Self {
        SearchKey { query, prefix: K::prefix(query) }
    }

    /// Compares another key with the wanted one. If the prefixes differ, this does not read the keys.
    #[inline(always)]
    fn compare<'r, 'a, K: OrdKey<'r> + MapKey<'r, Query = Q>>(
        &self,
        (prefix, query): (u64, impl FnOnce() -> &'a Q),
    ) -> Ordering
    where
        Q: 'a,
    {
        match prefix.cmp(&self.prefix) {
            Ordering::Equal if !K::EXACT => query().cmp(self.query),
            order => order,
        }
    }
}

/// Returns the place of a key in a leaf: `Ok` if the leaf has the key, else `Err` with the place that the key
/// would get.
#[inline(always)]
fn in_leaf<'r, K: OrdKey<'r>, V: Persist>(
    leaf: LeafView<'_, 'r, K, V>,
    wanted: SearchKey<'_, K::Query>,
    common: &mut CommonPrefixes,
) -> Result<usize, usize> {
    let head = leaf.head();
    let code = head.code(wanted.prefix);
    let place = head.less(code);
    if place == head.len() || head.code_at(place) != code {
        return Err(place);
    }
    among_equals::<K, _, _>(head, code, place, wanted, common, |place| {
        let query = leaf.query(place);
        (K::prefix(query), move || query)
    })
}

/// Returns the place of the child of an inner node below which the wanted key is, if the tree has it.
#[inline(always)]
fn in_inner<'r, K: OrdKey<'r>, V: Persist>(
    inner: InnerView<'_, 'r, K, V>,
    wanted: SearchKey<'_, K::Query>,
    common: &mut CommonPrefixes,
) -> usize {
    let head = inner.head();
    let code = head.code(wanted.prefix);
    // The first child is for all keys that are less than the separators.
    let place = head.less(code).max(1);
    if place >= head.len() || head.code_at(place) != code {
        return place - 1;
    }
    let found = among_equals::<K, _, _>(head, code, place, wanted, common, |place| inner.separator(place));
    found.unwrap_or_else(|place| place - 1)
}

/// Searches for the wanted key among the items that have this code; `place` is that of the first one. `item`
/// returns the prefix of an item, and its key.
#[inline(always)]
fn among_equals<'a, 'r, K: OrdKey<'r, Query: 'a>, F: FnOnce() -> &'a K::Query, const N: usize>(
    head: &Head<N>,
    code: i16,
    place: usize,
    wanted: SearchKey<'_, K::Query>,
    common: &mut CommonPrefixes,
    item: impl Fn(usize) -> (u64, F),
) -> Result<usize, usize> {
    // Usually only one item has the code. If several have it, and comparing keys is expensive, compare only
    // the keys that a binary search needs.
    if !K::EXACT && place + 1 < head.len() && head.code_at(place + 1) == code {
        return search::<K, F>(place, head.less_or_equal(code), wanted, common, item);
    }
    match wanted.compare::<K>(item(place)) {
        Ordering::Equal => Ok(place),
        Ordering::Greater => Err(place),
        Ordering::Less if K::EXACT => {
            search::<K, F>(place + 1, head.less_or_equal(code), wanted, common, item)
        }
        Ordering::Less => Err(place + 1),
    }
}

/// Searches for the wanted key among the places `from..to`, by binary search; the keys of all items before
/// `from` are less.
#[inline(never)]
fn search<'a, 'r, K: OrdKey<'r, Query: 'a>, F: FnOnce() -> &'a K::Query>(
    mut from: usize,
    mut to: usize,
    wanted: SearchKey<'_, K::Query>,
    common: &mut CommonPrefixes,
    item: impl Fn(usize) -> (u64, F),
) -> Result<usize, usize> {
    while from < to {
        let middle = from + (to - from) / 2;
        if !K::EXACT && to - from > 2 {
            // One of these two keys is compared next. The processor loads both while it waits for the middle
            // key.
            for next in [from + (middle - from) / 2, middle + (to - middle).div_ceil(2)] {
                prefetch_read(std::ptr::from_ref(item(next).1()).cast::<u8>().wrapping_add(common.known()));
            }
        }
        let (prefix, query) = item(middle);
        let (order, equal) = if K::EXACT || prefix != wanted.prefix {
            (prefix.cmp(&wanted.prefix), 0) // too few equal bytes to be worth counting
        } else {
            K::compare(query(), wanted.query, common.known())
        };
        match order {
            Ordering::Less => (from, common.below) = (middle + 1, equal),
            Ordering::Equal => {
                common.below = equal;
                return Ok(middle);
            }
            Ordering::Greater => (to, common.above) = (middle, equal),
        }
    }
    Err(from)
}

/// Finds the leaf and the place of a key, or the place that the key would get. Calls `step` with each inner
/// node on the way and the place of the child taken there, and `arrive` with the leaf before it is searched.
/// `None` in a tree without nodes, or in an invalid one that is too high.
#[inline(always)]
fn descend<'v, 'r, K: OrdKey<'r>, V: Persist>(
    view: &'v View<'r>,
    mut child: Child<'r, K, V>,
    wanted: SearchKey<'_, K::Query>,
    mut step: impl FnMut(P<'r, Inner<'r, K, V>>, usize),
    arrive: impl FnOnce(LeafView<'v, 'r, K, V>),
) -> Option<(LeafView<'v, 'r, K, V>, Result<usize, usize>)> {
    let mut common = CommonPrefixes::default();
    for _ in 0..MAX_HEIGHT {
        match child {
            Child::Inner(inner) => {
                let seen = inner.node_view(view);
                let place = in_inner(seen, wanted, &mut common);
                step(inner, place);
                child = seen.child(place);
                child.prefetch();
                // If the known common bytes include the whole prefix, all keys below the child have the same
                // prefix, and so the same code: the search compares the entries themselves.
                if !K::EXACT && common.known() >= size_of_val(&wanted.prefix) {
                    child.prefetch_entries();
                }
            }
            Child::Leaf(leaf) => {
                let leaf = leaf.node_view(view);
                arrive(leaf);
                return Some((leaf, in_leaf(leaf, wanted, &mut common)));
            }
            Child::None(_) => return None,
        }
    }
    None
}

/// Returns the leaf and the place of the entry of a key, if the tree has the key.
#[inline(always)]
pub(super) fn get<'v, 'r, K: OrdKey<'r>, V: Persist>(
    view: &'v View<'r>,
    top: Child<'r, K, V>,
    wanted: SearchKey<'_, K::Query>,
) -> Option<(LeafView<'v, 'r, K, V>, usize)> {
    let (leaf, place) = descend(view, top, wanted, |_, _| {}, |_| {})?;
    Some((leaf, place.ok()?))
}

/// The result of a search: the leaf, and the place in it: `Ok` if the leaf has the key, else `Err` with the
/// place that the key would get.
pub(super) struct TreeLookup<'r, K, V> {
    pub(super) leaf: P<'r, Leaf<K, V>>,
    pub(super) place: Result<usize, usize>,
}

copied! { [K, V] TreeLookup<'_, K, V>; }

/// Finds the leaf and the place of a key, and adds the inner nodes on the way to the path. `None` in a tree
/// without nodes.
#[inline]
pub(super) fn seek_with_path<'r, K: OrdKey<'r>, V: Persist>(
    view: &View<'r>,
    top: Child<'r, K, V>,
    wanted: SearchKey<'_, K::Query>,
    path: &mut TreePath<'r, K, V>,
) -> Option<TreeLookup<'r, K, V>> {
    let (leaf, place) = descend(view, top, wanted, |inner, place| path.push(inner, place), |_| {})?;
    Some(TreeLookup { leaf: leaf.node(), place })
}

/// Like [`seek_with_path`], for an insertion: also prefetches the slot that a new entry would take.
#[inline]
pub(super) fn find_to_insert<'r, K: OrdKey<'r>, V: Persist>(
    view: &View<'r>,
    top: Child<'r, K, V>,
    wanted: SearchKey<'_, K::Query>,
    path: &mut TreePath<'r, K, V>,
) -> Option<TreeLookup<'r, K, V>> {
    let step = |inner, place| path.push(inner, place);
    let (leaf, place) =
        descend(view, top, wanted, step, |leaf| leaf.free_slot().into_iter().for_each(prefetch_write))?;
    Some(TreeLookup { leaf: leaf.node(), place })
}

/// Number of keys for which [`prefetch`] goes down the tree at the same time.
const SIDE_BY_SIDE: usize = 16;

/// A search on its way down a tree: the wanted key, and the node that the search has reached.
struct Descent<'q, 'r, K: OrdKey<'r>, V> {
    wanted: SearchKey<'q, K::Query>,
    child: Child<'r, K, V>,
    common: CommonPrefixes,
}

/// Prefetches most of the memory that [`seek_with_path`] will read for each of these keys: one level of the
/// tree for several keys at a time, so that the waits for memory overlap.
#[inline]
pub(super) fn prefetch<'q, 'r, K: OrdKey<'r>, V: Persist>(
    view: &View<'r>,
    top: Child<'r, K, V>,
    mut keys: impl Iterator<Item = &'q K::Query>,
) where
    K::Query: 'q,
{
    loop {
        let mut ways: [Option<Descent<'q, 'r, K, V>>; SIDE_BY_SIDE] = [const { None }; SIDE_BY_SIDE];
        let mut is_more = false;
        // The iterator is code of the program, so there must be no references into the heap here.
        for (way, key) in ways.iter_mut().zip(&mut keys) {
            *way = Some(Descent {
                wanted: SearchKey::new::<K>(key),
                child: top,
                common: CommonPrefixes::default(),
            });
            is_more = true;
        }
        if !is_more {
            return;
        }
        for _ in 0..MAX_HEIGHT {
            let mut goes_on = false;
            for Descent { wanted, child, common } in ways.iter_mut().flatten() {
                match *child {
                    Child::Inner(inner) => {
                        let seen = inner.node_view(view);
                        *child = seen.child(in_inner(seen, *wanted, common));
                        child.prefetch();
                        goes_on = true;
                    }
                    Child::Leaf(leaf) => {
                        leaf.node_view(view).likely_slot(wanted.prefix).into_iter().for_each(prefetch_read);
                        *child = Child::None(0);
                    }
                    Child::None(_) => {}
                }
            }
            if !goes_on {
                break;
            }
        }
    }
}
