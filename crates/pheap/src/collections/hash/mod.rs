//! `PHashMap`, a hash map, and `PHashSet`.

mod change;
mod find;
mod iter;
mod split;
mod table;
mod tags;
mod walk;

use super::key::HashKey;
use super::slot::Slot;
use crate::Persist;
use crate::ptr::P;
use crate::txn::View;

use table::{Pair, Root};

pub use iter::{Iter, Keys, Values};

/// A hash map: `HashMap` for a heap.
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::PHashMap", crate = "crate")]
pub struct PHashMap<'r, K, V> {
    len: u64,
    /// The entries one behind the other, while they are few.
    few: Option<P<'r, [Slot<Pair<K, V>>]>>,
    /// What leads to them when they are more.
    root: Option<P<'r, Root<'r, K, V>>>,
}

impl<K, V> Default for PHashMap<'_, K, V> {
    fn default() -> Self {
        PHashMap::new()
    }
}

impl<K, V> PHashMap<'_, K, V> {
    /// Without entries, and without a buffer.
    pub const fn new() -> Self {
        PHashMap { len: 0, few: None, root: None }
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
impl<'r, K: HashKey<'r>, V: Persist> PHashMap<'r, K, V> {
    /// The value of a key. O(1), as are the next two.
    #[inline]
    pub fn get<'v>(&self, view: &'v View<'r>, key: &K::Query) -> Option<&'v V> {
        self.pair(view, key).map(|pair| &pair.value)
    }

    /// A key as it is in the map, and its value.
    #[inline]
    pub fn get_key_value<'v>(&self, view: &'v View<'r>, key: &K::Query) -> Option<(&'v K::Query, &'v V)> {
        self.pair(view, key).map(|pair| (pair.key.query(view), &pair.value))
    }

    /// Whether there is such a key.
    #[inline]
    pub fn contains_key(&self, view: &View<'r>, key: &K::Query) -> bool {
        self.pair(view, key).is_some()
    }

    /// The entries, in an order that means nothing, and stays the same while the map is not changed.
    #[inline]
    pub fn iter<'v>(&self, view: &'v View<'r>) -> Iter<'v, 'r, K, V> {
        Iter::new(self, view)
    }

    /// The keys, in the order of [`iter`](Self::iter).
    #[inline]
    pub fn keys<'v>(&self, view: &'v View<'r>) -> Keys<'v, 'r, K, V> {
        Keys(self.iter(view))
    }

    /// The values, in the order of [`iter`](Self::iter).
    #[inline]
    pub fn values<'v>(&self, view: &'v View<'r>) -> Values<'v, 'r, K, V> {
        Values(self.iter(view))
    }
}

/// Reading a map by its pointer: short for `view[map].get(view, …)`.
impl<'r, K: HashKey<'r>, V: Persist> P<'r, PHashMap<'r, K, V>> {
    /// [`PHashMap::len`].
    #[inline]
    #[allow(clippy::len_without_is_empty)] // it is there; clippy does not see through the `impl` blocks
    pub fn len(self, view: &View<'r>) -> usize {
        view[self].len()
    }

    /// [`PHashMap::is_empty`].
    #[inline]
    pub fn is_empty(self, view: &View<'r>) -> bool {
        view[self].is_empty()
    }

    /// [`PHashMap::get`].
    #[inline]
    pub fn get<'v>(self, view: &'v View<'r>, key: &K::Query) -> Option<&'v V> {
        view[self].get(view, key)
    }

    /// [`PHashMap::contains_key`].
    #[inline]
    pub fn contains_key(self, view: &View<'r>, key: &K::Query) -> bool {
        view[self].contains_key(view, key)
    }

    /// [`PHashMap::iter`].
    #[inline]
    pub fn iter<'v>(self, view: &'v View<'r>) -> Iter<'v, 'r, K, V> {
        view[self].iter(view)
    }
}
