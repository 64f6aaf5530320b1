//! The entries between two keys.

use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use super::head::Head;
use super::node::{Child, Entry, LEAF, Leaf};
use super::path::Path;
use super::search::{self, MAX_HEIGHT, Wanted};
use crate::collections::key::OrdKey;
use crate::layout::Persist;
use crate::ptr::P;
use crate::txn::View;

/// A range of keys, in the form that they are looked up by: `3..7`, `..=9`, `"a".."f"`, or a pair of [`Bound`]s.
///
/// It is what [`RangeBounds`] is for maps of std, but that ranges of what keys are looked up by need no type annotations.
pub trait KeyRange<Q: ?Sized> {
    /// Where it starts.
    fn start(&self) -> Bound<&Q>;

    /// Where it ends.
    fn end(&self) -> Bound<&Q>;
}

macro_rules! ranges {
    ($($range:ident),*) => {$(
        impl<Q> KeyRange<Q> for $range<Q> {
            fn start(&self) -> Bound<&Q> {
                self.start_bound()
            }

            fn end(&self) -> Bound<&Q> {
                self.end_bound()
            }
        }

        impl<Q: ?Sized> KeyRange<Q> for $range<&Q> {
            fn start(&self) -> Bound<&Q> {
                RangeBounds::<&Q>::start_bound(self).map(|key| &**key)
            }

            fn end(&self) -> Bound<&Q> {
                RangeBounds::<&Q>::end_bound(self).map(|key| &**key)
            }
        }
    )*};
}

type Exclusive<Q> = std::ops::Range<Q>;

ranges!(Exclusive, RangeInclusive, RangeFrom, RangeTo, RangeToInclusive);

impl<Q: ?Sized> KeyRange<Q> for RangeFull {
    fn start(&self) -> Bound<&Q> {
        Bound::Unbounded
    }

    fn end(&self) -> Bound<&Q> {
        Bound::Unbounded
    }
}

impl<Q> KeyRange<Q> for (Bound<Q>, Bound<Q>) {
    fn start(&self) -> Bound<&Q> {
        self.0.as_ref()
    }

    fn end(&self) -> Bound<&Q> {
        self.1.as_ref()
    }
}

impl<Q: ?Sized> KeyRange<Q> for (Bound<&Q>, Bound<&Q>) {
    fn start(&self) -> Bound<&Q> {
        self.0
    }

    fn end(&self) -> Bound<&Q> {
        self.1
    }
}

/// A place between two entries: in front of one of a leaf, or behind all.
pub(super) struct Position<'v, 'r, K, V> {
    /// `None` behind all.
    pub(super) leaf: Option<(P<'r, Leaf<K, V>>, &'v Head<LEAF>)>,
    pub(super) place: usize,
    path: Path<'r, K, V>,
    entries: PhantomData<&'v Entry<K, V>>,
}

impl<K, V> Clone for Position<'_, '_, K, V> {
    fn clone(&self) -> Self {
        Position { ..*self }
    }
}

impl<'v, 'r, K: Persist, V: Persist> Position<'v, 'r, K, V> {
    fn behind_all() -> Self {
        Position { leaf: None, place: 0, path: Path::new(), entries: PhantomData }
    }

    /// In front of, or behind, all that is below the child that the path leads to.
    fn at_end_of(
        view: &'v View<'r>,
        mut path: Path<'r, K, V>,
        mut child: Child<'r, K, V>,
        last: bool,
    ) -> Self {
        for _ in 0..MAX_HEIGHT {
            match child {
                Child::Inner(inner) => {
                    let head = inner.head(view);
                    let place = if last { head.len().max(1) - 1 } else { 0 };
                    path.push(inner, place);
                    child = inner.child_at(view, head, place);
                }
                Child::Leaf(leaf) => {
                    let head = leaf.head(view);
                    let place = if last { head.len() } else { 0 };
                    return Position { leaf: Some((leaf, head)), place, path, entries: PhantomData };
                }
                Child::None(_) => break,
            }
        }
        Position::behind_all()
    }

    /// In front of the first entry behind this place: the same place, but never at the end of a leaf.
    fn forward(mut self, view: &'v View<'r>) -> Self {
        while let Some((_, head)) = self.leaf {
            if self.place < head.len() {
                break;
            }
            self = self.next_leaf(view);
        }
        self
    }

    #[inline(never)]
    fn next_leaf(&self, view: &'v View<'r>) -> Self {
        let mut path = self.path;
        while let Some((inner, place)) = path.pop() {
            let head = inner.head(view);
            let place = place + 1;
            if place < head.len() {
                let child = inner.child_at(view, head, place);
                path.push(inner, place);
                return Position::at_end_of(view, path, child, false);
            }
        }
        Position::behind_all()
    }

    /// Behind the last entry of the leaf before this one.
    #[inline(never)]
    fn previous_leaf(&self, view: &'v View<'r>) -> Self {
        let mut path = self.path;
        while let Some((inner, place)) = path.pop() {
            if let Some(place) = place.checked_sub(1) {
                let child = inner.child_at(view, inner.head(view), place);
                path.push(inner, place);
                return Position::at_end_of(view, path, child, true);
            }
        }
        Position::behind_all()
    }

    /// Whether it is the same place.
    #[inline(always)]
    fn is(&self, other: &Self) -> bool {
        self.place == other.place && self.leaf.map(|(leaf, _)| leaf) == other.leaf.map(|(leaf, _)| leaf)
    }

    /// Whether this place is before the other one.
    fn is_before(&self, other: &Self) -> bool {
        match (self.leaf, other.leaf) {
            (Some(_), None) => true,
            (None, _) => false,
            _ => (self.path.places(), self.place) < (other.path.places(), other.place),
        }
    }
}

/// The entries of a [`PBTreeMap`](super::PBTreeMap) in a range of keys, in order; made by [`PBTreeMap::range`](super::PBTreeMap::range).
pub struct Range<'v, 'r, K, V> {
    view: &'v View<'r>,
    /// In front of the first entry, and in front of the first one behind the last.
    front: Position<'v, 'r, K, V>,
    back: Position<'v, 'r, K, V>,
    top: Child<'r, K, V>,
}

impl<'v, 'r, K: OrdKey<'r>, V: Persist> Range<'v, 'r, K, V> {
    #[track_caller]
    pub(super) fn new(view: &'v View<'r>, top: Child<'r, K, V>, range: impl KeyRange<K::Query>) -> Self {
        let (start, end) = (range.start(), range.end());
        match (start, end) {
            (Bound::Excluded(a), Bound::Excluded(b)) if a == b => {
                panic!("range start and end are equal and excluded in PBTreeMap")
            }
            (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) if a > b => {
                panic!("range start is greater than range end in PBTreeMap")
            }
            _ => {}
        }
        let front = match start {
            Bound::Unbounded => Position::at_end_of(view, Path::new(), top, false).forward(view),
            Bound::Included(key) => Self::position(view, top, key, false),
            Bound::Excluded(key) => Self::position(view, top, key, true),
        };
        let back = match end {
            Bound::Unbounded => Position::behind_all(),
            Bound::Included(key) => Self::position(view, top, key, true),
            Bound::Excluded(key) => Self::position(view, top, key, false),
        };
        // If keys are ordered now one way and now another: whatever is found, the ends must meet.
        let back = if back.is_before(&front) { front.clone() } else { back };
        Range { view, front, back, top }
    }

    /// In front of the first entry that is not less, or that is greater, than a key.
    fn position(
        view: &'v View<'r>,
        top: Child<'r, K, V>,
        key: &K::Query,
        greater: bool,
    ) -> Position<'v, 'r, K, V> {
        let Some(found) = search::find(view, top, Wanted::new::<K>(key)) else {
            return Position::behind_all();
        };
        let place = match found.place {
            Ok(place) => place + usize::from(greater),
            Err(place) => place,
        };
        let leaf = Some((found.leaf, found.leaf.head(view)));
        Position { leaf, place, path: found.path, entries: PhantomData }.forward(view)
    }

    #[inline(always)]
    pub(super) fn next_entry(&mut self) -> Option<&'v Entry<K, V>> {
        if self.front.is(&self.back) {
            return None;
        }
        let (leaf, head) = self.front.leaf?;
        let entry = leaf.item_at(self.view, head, self.front.place);
        self.front.place += 1;
        if self.front.place >= head.len() {
            self.front = self.front.next_leaf(self.view).forward(self.view);
        }
        Some(entry)
    }

    #[inline(always)]
    pub(super) fn next_entry_back(&mut self) -> Option<&'v Entry<K, V>> {
        if self.front.is(&self.back) {
            return None;
        }
        while self.back.place == 0 {
            self.back = match self.back.leaf {
                Some(_) => self.back.previous_leaf(self.view),
                None => Position::at_end_of(self.view, Path::new(), self.top, true),
            };
            self.back.leaf?;
        }
        let (leaf, head) = self.back.leaf?;
        self.back.place -= 1;
        Some(leaf.item_at(self.view, head, self.back.place))
    }

    #[inline(always)]
    pub(super) fn view(&self) -> &'v View<'r> {
        self.view
    }
}

impl<'v, 'r, K: OrdKey<'r>, V: Persist> Iterator for Range<'v, 'r, K, V> {
    type Item = (&'v K::Query, &'v V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.next_entry().map(|entry| (entry.key.query(self.view), &entry.value))
    }
}

impl<'r, K: OrdKey<'r>, V: Persist> DoubleEndedIterator for Range<'_, 'r, K, V> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.next_entry_back().map(|entry| (entry.key.query(self.view), &entry.value))
    }
}

impl<'r, K: OrdKey<'r>, V: Persist> FusedIterator for Range<'_, 'r, K, V> {}

impl<K, V> Clone for Range<'_, '_, K, V> {
    fn clone(&self) -> Self {
        Range { view: self.view, front: self.front.clone(), back: self.back.clone(), top: self.top }
    }
}

impl<'r, K, V> std::fmt::Debug for Range<'_, 'r, K, V>
where
    K: OrdKey<'r, Query: std::fmt::Debug>,
    V: Persist + std::fmt::Debug,
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.clone()).finish()
    }
}
