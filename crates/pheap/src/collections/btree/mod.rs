//! `PBTreeMap`, an ordered map.
//!
//! | file | |
//! |---|---|
//! | [`node`], [`head`], [`branch`] | nodes, what a search looks at, and what is particular about inner ones |
//! | [`search`], [`path`] | finding a key |
//! | [`grow`], [`shrink`] | insertion and splits; removal and merges |
//! | [`change`] | the public operations |
//! | [`range`], [`iter`] | reading in order |

mod branch;
mod change;
mod grow;
mod head;
mod iter;
mod node;
mod path;
mod range;
mod search;
mod shrink;

use super::key::OrdKey;
use crate::Persist;
use crate::ptr::P;
use crate::txn::View;
use node::Child;
use search::Wanted;

pub use iter::{Iter, Keys, Values};
pub use range::{KeyRange, Range};

/// An ordered map: `BTreeMap` for a heap.
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::PBTreeMap", crate = "crate")]
pub struct PBTreeMap<'r, K, V> {
    len: u64,
    top: Child<'r, K, V>,
}

impl<K, V> Default for PBTreeMap<'_, K, V> {
    fn default() -> Self {
        PBTreeMap::new()
    }
}

impl<K, V> PBTreeMap<'_, K, V> {
    /// Without entries, and without nodes.
    pub const fn new() -> Self {
        PBTreeMap { len: 0, top: Child::None(0) }
    }

    /// Number of entries.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are no entries.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Reading.
impl<'r, K: OrdKey<'r>, V: Persist> PBTreeMap<'r, K, V> {
    /// The value of a key, if it is there. O(log n).
    #[inline]
    pub fn get<'v>(&self, view: &'v View<'r>, key: &K::Query) -> Option<&'v V> {
        let wanted = Wanted::new::<K>(key);
        let leaf = search::descend(view, self.top, wanted, |_, _| {})?;
        let head = leaf.head(view);
        let place = search::in_leaf(view, leaf, head, wanted).ok()?;
        Some(leaf.value_at(view, head, place))
    }

    /// Whether a key is there. O(log n).
    #[inline]
    pub fn contains_key(&self, view: &View<'r>, key: &K::Query) -> bool {
        self.get(view, key).is_some()
    }

    /// The entries in the order of their keys, from both ends.
    #[inline]
    pub fn iter<'v>(&self, view: &'v View<'r>) -> Iter<'v, 'r, K, V> {
        Iter::new(self.range(view, ..), self.len())
    }

    /// The keys in order.
    pub fn keys<'v>(&self, view: &'v View<'r>) -> Keys<'v, 'r, K, V> {
        Keys(self.iter(view))
    }

    /// The values in the order of their keys.
    pub fn values<'v>(&self, view: &'v View<'r>) -> Values<'v, 'r, K, V> {
        Values(self.iter(view))
    }

    /// The entries whose keys are in a range, in order, from both ends.
    ///
    /// # Panics
    /// If the range ends before it starts, or starts and ends at a key that both exclude.
    #[track_caller]
    pub fn range<'v>(&self, view: &'v View<'r>, range: impl KeyRange<K::Query>) -> Range<'v, 'r, K, V> {
        Range::new(view, self.top, range)
    }
}

/// Reading a map by its pointer: short for `view[map].get(view, …)`.
impl<'r, K: OrdKey<'r>, V: Persist> P<'r, PBTreeMap<'r, K, V>> {
    /// [`PBTreeMap::len`].
    #[inline]
    #[allow(clippy::len_without_is_empty)] // it is there; clippy does not see through the `impl` blocks
    pub fn len(self, view: &View<'r>) -> usize {
        view[self].len()
    }

    /// [`PBTreeMap::is_empty`].
    #[inline]
    pub fn is_empty(self, view: &View<'r>) -> bool {
        view[self].is_empty()
    }

    /// [`PBTreeMap::get`].
    #[inline]
    pub fn get<'v>(self, view: &'v View<'r>, key: &K::Query) -> Option<&'v V> {
        view[self].get(view, key)
    }

    /// [`PBTreeMap::contains_key`].
    #[inline]
    pub fn contains_key(self, view: &View<'r>, key: &K::Query) -> bool {
        view[self].contains_key(view, key)
    }

    /// [`PBTreeMap::iter`].
    #[inline]
    pub fn iter<'v>(self, view: &'v View<'r>) -> Iter<'v, 'r, K, V> {
        view[self].iter(view)
    }

    /// [`PBTreeMap::range`].
    ///
    /// # Panics
    /// As there.
    #[inline]
    #[track_caller]
    pub fn range<'v>(self, view: &'v View<'r>, range: impl KeyRange<K::Query>) -> Range<'v, 'r, K, V> {
        view[self].range(view, range)
    }
}
