//! The entries between two keys.

use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use super::node::{Child, Entry, Leaf, LeafView, MAX_HEIGHT};
use super::path::TreePath;
use super::search;
use super::search::{SearchKey, TreeLookup};
use crate::api::view::View;
use crate::collections::common::iterators;
use crate::collections::key::OrdKey;
use crate::layout::Persist;
use crate::ptr::P;

/// A range of keys, in their borrowed form: `3..7`, `..=9`, `"a".."f"`, or a pair of [`Bound`]s.
///
/// It corresponds to [`RangeBounds`] for maps of std, but ranges of borrowed keys need no type annotations.
pub trait KeyRange<Q: ?Sized> {
    /// Returns the start of the range.
    fn start(&self) -> Bound<&Q>;

    /// Returns the end of the range.
    fn end(&self) -> Bound<&Q>;
}

/// Implements `KeyRange` for types of ranges, by expressions for their ends.
macro_rules! ranges {
    ($([$($param:tt)*] $range:ty, $query:ty, |$this:ident| $start:expr, $end:expr;)*) => {$(
        impl<$($param)*> KeyRange<$query> for $range {
            fn start(&self) -> Bound<&$query> {
                let $this = self;
                $start
            }

            fn end(&self) -> Bound<&$query> {
                let $this = self;
                $end
            }
        }
    )*};
    ($($range:ident),*) => {
        ranges! {$(
            [Q] $range<Q>, Q, |range| range.start_bound(), range.end_bound();
            [Q: ?Sized] $range<&Q>, Q, |range|
                RangeBounds::<&Q>::start_bound(range).map(|key| &**key),
                RangeBounds::<&Q>::end_bound(range).map(|key| &**key);
        )*}
    };
}

type Exclusive<Q> = std::ops::Range<Q>;

ranges!(Exclusive, RangeInclusive, RangeFrom, RangeTo, RangeToInclusive);
ranges! {
    [Q: ?Sized] RangeFull, Q, |_range| Bound::Unbounded, Bound::Unbounded;
    [Q] (Bound<Q>, Bound<Q>), Q, |range| range.0.as_ref(), range.1.as_ref();
    [Q: ?Sized] (Bound<&Q>, Bound<&Q>), Q, |range| range.0, range.1;
}

/// Returns both ends of a range. `map` is the name of the map's type, for the message of a panic.
///
/// # Panics
/// If the range ends before it starts, or starts and ends at a key that both exclude.
#[track_caller]
pub(in crate::collections) fn ends<'a, Q: Ord + ?Sized>(
    range: &'a impl KeyRange<Q>,
    map: &str,
) -> (Bound<&'a Q>, Bound<&'a Q>) {
    let (start, end) = (range.start(), range.end());
    match (start, end) {
        (Bound::Excluded(a), Bound::Excluded(b)) if a == b => {
            panic!("range start and end are equal and excluded in {map}")
        }
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) if a > b => {
            panic!("range start is greater than range end in {map}")
        }
        _ => (start, end),
    }
}

/// A position between two entries: before an entry of a leaf, or after all entries.
pub(super) struct TreePosition<'r, K, V> {
    /// The leaf with the entry; `None` for the position after all entries.
    leaf: Option<P<'r, Leaf<K, V>>>,
    place: usize,
    path: TreePath<'r, K, V>,
}

impl<K, V> Clone for TreePosition<'_, K, V> {
    fn clone(&self) -> Self {
        TreePosition { ..*self }
    }
}

impl<'r, K: Persist, V: Persist> TreePosition<'r, K, V> {
    fn behind_all() -> Self {
        TreePosition { leaf: None, place: 0, path: TreePath::new() }
    }

    /// Returns the position before all entries below the child that the path leads to, or after all of them
    /// if `last`.
    fn at_end_of(
        view: &View<'r>,
        mut path: TreePath<'r, K, V>,
        mut child: Child<'r, K, V>,
        last: bool,
    ) -> Self {
        for _ in 0..MAX_HEIGHT {
            match child {
                Child::Inner(inner) => {
                    let seen = inner.node_view(view);
                    let place = if last { seen.len().max(1) - 1 } else { 0 };
                    path.push(inner, place);
                    child = seen.child(place);
                }
                Child::Leaf(leaf) => {
                    let place = if last { leaf.count(view) } else { 0 };
                    return TreePosition { leaf: Some(leaf), place, path };
                }
                Child::None(_) => break,
            }
        }
        TreePosition::behind_all()
    }

    /// Returns the first entry of a tree, or the last one if `last`, and sets `path` to the way to its leaf.
    pub(super) fn at_end(
        view: &View<'r>,
        top: Child<'r, K, V>,
        last: bool,
        path: &mut TreePath<'r, K, V>,
    ) -> Option<TreeLookup<'r, K, V>> {
        let mut end = TreePosition::at_end_of(view, TreePath::new(), top, last);
        if last {
            while end.place == 0 {
                end.leaf?;
                end = end.neighbour(view, true);
            }
            end.place -= 1;
        } else {
            end = end.forward(view);
        }
        *path = end.path;
        Some(TreeLookup { leaf: end.leaf?, place: Ok(end.place) })
    }

    /// Returns the same position as one before an entry or after all entries: never at the end of a leaf.
    fn forward(mut self, view: &View<'r>) -> Self {
        while self.leaf.is_some_and(|leaf| self.place >= leaf.count(view)) {
            self = self.neighbour(view, false);
        }
        self
    }

    /// Returns the position before all entries of the next leaf, or, if `back`, after all entries of the
    /// previous leaf. If there is no such leaf, returns the position after all entries of the tree.
    #[inline(never)]
    fn neighbour(&self, view: &View<'r>, back: bool) -> Self {
        let mut path = self.path;
        while let Some((inner, place)) = path.pop() {
            let seen = inner.node_view(view);
            let place = if back { place.wrapping_sub(1) } else { place + 1 };
            if place < seen.len() {
                path.push(inner, place);
                return TreePosition::at_end_of(view, path, seen.child(place), back);
            }
        }
        TreePosition::behind_all()
    }

    /// Whether both positions are the same.
    #[inline(always)]
    fn is_same_position(&self, other: &Self) -> bool {
        self.place == other.place && self.leaf == other.leaf
    }

    /// Whether this position is before the other one.
    fn is_before(&self, other: &Self) -> bool {
        match (self.leaf, other.leaf) {
            (Some(_), None) => true,
            (None, _) => false,
            _ => (self.path.places(), self.place) < (other.path.places(), other.place),
        }
    }
}

/// The entries between two positions.
pub(super) struct TreeSpan<'r, K, V> {
    /// `front` is before the first entry, and `back` before the entry that follows the last one. Neither is
    /// at the end of a leaf.
    front: TreePosition<'r, K, V>,
    back: TreePosition<'r, K, V>,
    top: Child<'r, K, V>,
}

impl<K, V> Clone for TreeSpan<'_, K, V> {
    fn clone(&self) -> Self {
        TreeSpan { front: self.front.clone(), back: self.back.clone(), top: self.top }
    }
}

impl<'r, K: OrdKey<'r>, V: Persist> TreeSpan<'r, K, V> {
    #[track_caller]
    pub(super) fn new(view: &View<'r>, top: Child<'r, K, V>, range: impl KeyRange<K::Query>) -> Self {
        let (start, end) = ends(&range, "PBTreeMap");
        let front = match start {
            Bound::Unbounded => TreePosition::at_end_of(view, TreePath::new(), top, false).forward(view),
            Bound::Included(key) => Self::position(view, top, key, false),
            Bound::Excluded(key) => Self::position(view, top, key, true),
        };
        let back = match end {
            Bound::Unbounded => TreePosition::behind_all(),
            Bound::Included(key) => Self::position(view, top, key, true),
            Bound::Excluded(key) => Self::position(view, top, key, false),
        };
        // If the order of the keys contradicts itself, `back` may be before `front`. The two must meet in any
        // case.
        let back = if back.is_before(&front) { front.clone() } else { back };
        TreeSpan { front, back, top }
    }

    /// Returns the position before the first entry that is not less than a key, or, if `greater`, before the
    /// first one that is greater.
    fn position(
        view: &View<'r>,
        top: Child<'r, K, V>,
        key: &K::Query,
        greater: bool,
    ) -> TreePosition<'r, K, V> {
        let mut path = TreePath::new();
        let Some(TreeLookup { leaf, place }) =
            search::seek_with_path(view, top, SearchKey::new::<K>(key), &mut path)
        else {
            return TreePosition::behind_all();
        };
        let place = match place {
            Ok(place) => place + usize::from(greater),
            Err(place) => place,
        };
        TreePosition { leaf: Some(leaf), place, path }.forward(view)
    }

    /// Returns the ways from the top to the first entry, and to the entry that follows the last one, if there
    /// is such an entry. A way has the place of the child in each inner node, and the place of the entry in
    /// the leaf. Returns `None` if the span has no entries.
    pub(super) fn ways(&self) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let way =
            |end: &TreePosition<'r, K, V>| end.leaf.map(|_| [end.path.places(), &[end.place as u8]].concat());
        if self.front.is_same_position(&self.back) {
            None
        } else {
            Some((way(&self.front)?, way(&self.back)))
        }
    }

    /// Removes the first entry from the span, and returns its leaf, and its place there.
    #[inline(always)]
    pub(super) fn next<'v>(&mut self, view: &'v View<'r>) -> Option<(LeafView<'v, 'r, K, V>, usize)> {
        if self.front.is_same_position(&self.back) {
            return None;
        }
        let (leaf, place) = (self.front.leaf?.node_view(view), self.front.place);
        self.front.place += 1;
        if self.front.place >= leaf.len() {
            self.front = self.front.neighbour(view, false).forward(view);
        }
        Some((leaf, place))
    }

    /// Removes the last entry from the span, and returns its leaf, and its place there.
    #[inline(always)]
    fn next_back<'v>(&mut self, view: &'v View<'r>) -> Option<(LeafView<'v, 'r, K, V>, usize)> {
        if self.front.is_same_position(&self.back) {
            return None;
        }
        while self.back.place == 0 {
            self.back = match self.back.leaf {
                Some(_) => self.back.neighbour(view, true),
                None => TreePosition::at_end_of(view, TreePath::new(), self.top, true),
            };
            self.back.leaf?;
        }
        let leaf = self.back.leaf?.node_view(view);
        self.back.place -= 1;
        Some((leaf, self.back.place))
    }
}

iterators! {
    /// The entries of a [`PBTreeMap`](super::PBTreeMap) in a range of keys, in order; made by
    /// [`PBTreeMap::range`](super::PBTreeMap::range).
    [K: OrdKey<'r>, V: Persist] Range<K, V>(SpanEntries<'v, 'r, K, V>) => (&'v K::Query, &'v V),
    |(view, entry)| (entry.key.query(view), &entry.value);
    debug_map of [K::Query, V] both_ends;
}

/// An iterator over the entries of a span, each with the view that shows its key.
pub(super) struct SpanEntries<'v, 'r, K, V> {
    view: &'v View<'r>,
    span: TreeSpan<'r, K, V>,
    entries: PhantomData<&'v Entry<K, V>>,
}

impl<K, V> Clone for SpanEntries<'_, '_, K, V> {
    fn clone(&self) -> Self {
        SpanEntries { span: self.span.clone(), ..*self }
    }
}

impl<'v, 'r, K: OrdKey<'r>, V: Persist> SpanEntries<'v, 'r, K, V> {
    #[track_caller]
    pub(super) fn new(view: &'v View<'r>, top: Child<'r, K, V>, range: impl KeyRange<K::Query>) -> Self {
        SpanEntries { view, span: TreeSpan::new(view, top, range), entries: PhantomData }
    }
}

impl<'v, 'r, K: OrdKey<'r>, V: Persist> Iterator for SpanEntries<'v, 'r, K, V> {
    type Item = (&'v View<'r>, &'v Entry<K, V>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let (leaf, place) = self.span.next(self.view)?;
        Some((self.view, leaf.item(place)))
    }
}

impl<'r, K: OrdKey<'r>, V: Persist> DoubleEndedIterator for SpanEntries<'_, 'r, K, V> {
    #[inline(always)]
    fn next_back(&mut self) -> Option<Self::Item> {
        let (leaf, place) = self.span.next_back(self.view)?;
        Some((self.view, leaf.item(place)))
    }
}
