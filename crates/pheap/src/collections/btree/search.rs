//! Finding the place of a key.

use std::cmp::Ordering;

use super::head::Head;
use super::node::{Child, Inner, Leaf, MAX_HEIGHT, SeenInner, SeenLeaf};
use super::path::Path;
use crate::api::view::View;
use crate::collections::common::copied;
use crate::collections::key::OrdKey;
use crate::layout::Persist;
use crate::ptr::P;

/// What is looked for: a key, and the number that orders it as far as it goes.
pub(super) struct Wanted<'q, Q: ?Sized> {
    pub(super) query: &'q Q,
    pub(super) prefix: u64,
}

copied! { [Q: ?Sized] Wanted<'_, Q>; }

impl<'q, Q: ?Sized + Ord> Wanted<'q, Q> {
    #[inline(always)]
    pub(super) fn new<'r, K: OrdKey<'r> + crate::collections::MapKey<'r, Query = Q>>(query: &'q Q) -> Self {
        Wanted { query, prefix: K::prefix(query) }
    }

    /// Compares another key with this one.
    #[inline(always)]
    fn compare<'r, 'a, K: OrdKey<'r> + crate::collections::MapKey<'r, Query = Q>>(
        &self,
        prefix: u64,
        query: impl FnOnce() -> &'a Q,
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

/// The place of a key in a leaf: `Ok` if it is there, else the place where it would be.
#[inline(always)]
pub(super) fn in_leaf<'r, K: OrdKey<'r>, V: Persist>(
    leaf: SeenLeaf<'_, 'r, K, V>,
    wanted: Wanted<'_, K::Query>,
) -> Result<usize, usize> {
    let head = leaf.head();
    let code = head.code(wanted.prefix);
    let place = head.less(code);
    if place == head.len() || head.code_at(place) != code {
        return Err(place);
    }
    among_equals(head, code, place, |place| {
        let query = leaf.query(place);
        wanted.compare::<K>(K::prefix(query), || query)
    })
}

/// The place of the child of an inner node that a key is below.
#[inline(always)]
pub(super) fn in_inner<'r, K: OrdKey<'r>, V: Persist>(
    inner: SeenInner<'_, 'r, K, V>,
    wanted: Wanted<'_, K::Query>,
) -> usize {
    let head = inner.head();
    let code = head.code(wanted.prefix);
    // The first child is there for all keys that are less than the separators.
    let place = head.less(code).max(1);
    if place >= head.len() || head.code_at(place) != code {
        return place - 1;
    }
    let found = among_equals(head, code, place, |place| {
        let (prefix, query) = inner.separator(place);
        wanted.compare::<K>(prefix, query)
    });
    found.unwrap_or_else(|place| place - 1)
}

/// Looks among the items from `place` on that have this code.
#[inline(always)]
fn among_equals<const N: usize>(
    head: &Head<N>,
    code: i16,
    place: usize,
    mut compare: impl FnMut(usize) -> Ordering,
) -> Result<usize, usize> {
    // Most often there is one.
    match compare(place) {
        Ordering::Equal => Ok(place),
        Ordering::Greater => Err(place),
        Ordering::Less => search(place + 1, head.less_or_equal(code), compare),
    }
}

/// Binary search, of places before which all items are less.
#[cold]
#[inline(never)]
fn search(
    mut from: usize,
    mut to: usize,
    mut compare: impl FnMut(usize) -> Ordering,
) -> Result<usize, usize> {
    while from < to {
        let middle = from.midpoint(to);
        match compare(middle) {
            Ordering::Less => from = middle + 1,
            Ordering::Equal => return Ok(middle),
            Ordering::Greater => to = middle,
        }
    }
    Err(from)
}

/// The leaf that a key is below, and its head. `step` is told the inner nodes on the way, and which child of theirs was taken.
#[inline(always)]
pub(super) fn descend<'v, 'r, K: OrdKey<'r>, V: Persist>(
    view: &'v View<'r>,
    mut child: Child<'r, K, V>,
    wanted: Wanted<'_, K::Query>,
    mut step: impl FnMut(P<'r, Inner<'r, K, V>>, usize),
) -> Option<P<'r, Leaf<K, V>>> {
    for _ in 0..MAX_HEIGHT {
        match child {
            Child::Inner(inner) => {
                let seen = inner.seen(view);
                let place = in_inner(seen, wanted);
                step(inner, place);
                child = seen.child(place);
                child.prefetch();
            }
            Child::Leaf(leaf) => return Some(leaf),
            Child::None(_) => return None,
        }
    }
    None
}

/// Where a key is, or would be: the leaf, and the place in it.
pub(super) struct Found<'r, K, V> {
    pub(super) leaf: P<'r, Leaf<K, V>>,
    pub(super) place: Result<usize, usize>,
}

copied! { [K, V] Found<'_, K, V>; }

/// Finds a key. The way to it is added to the path. `None` in a tree without nodes.
#[inline]
pub(super) fn find<'r, K: OrdKey<'r>, V: Persist>(
    view: &View<'r>,
    top: Child<'r, K, V>,
    wanted: Wanted<'_, K::Query>,
    path: &mut Path<'r, K, V>,
) -> Option<Found<'r, K, V>> {
    let leaf = descend(view, top, wanted, |inner, place| path.push(inner, place))?;
    let seen = leaf.seen(view);
    seen.prefetch_free();
    let place = in_leaf(seen, wanted);
    Some(Found { leaf, place })
}

/// How many keys [`prefetch`] goes down with side by side: about as many lines as a processor loads at a time, for a head has several.
const SIDE_BY_SIDE: usize = 16;

/// What is looked for, and where that was led to by now.
struct Way<'q, 'r, K: OrdKey<'r>, V> {
    wanted: Wanted<'q, K::Query>,
    child: Child<'r, K, V>,
}

/// Loads what [`find`] will look at for each of these keys: a level of several at a time, so that memory is not waited for once for each node of each key.
#[inline]
pub(super) fn prefetch<'q, 'r, K: OrdKey<'r>, V: Persist>(
    view: &View<'r>,
    top: Child<'r, K, V>,
    mut keys: impl Iterator<Item = &'q K::Query>,
) where
    K::Query: 'q,
{
    loop {
        let mut ways: [Option<Way<'q, 'r, K, V>>; SIDE_BY_SIDE] = [const { None }; SIDE_BY_SIDE];
        let mut is_more = false;
        // What has the keys is somebody else's: there are no references into the heap here.
        for (way, key) in ways.iter_mut().zip(&mut keys) {
            *way = Some(Way { wanted: Wanted::new::<K>(key), child: top });
            is_more = true;
        }
        if !is_more {
            return;
        }
        for _ in 0..MAX_HEIGHT {
            let mut goes_on = false;
            for Way { wanted, child } in ways.iter_mut().flatten() {
                match *child {
                    Child::Inner(inner) => {
                        let seen = inner.seen(view);
                        *child = seen.child(in_inner(seen, *wanted));
                        child.prefetch();
                        goes_on = true;
                    }
                    Child::Leaf(leaf) => {
                        leaf.seen(view).prefetch_slot(wanted.prefix);
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
