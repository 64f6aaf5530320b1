//! `PBTreeMap`, an ordered map.
//!
//! | file | |
//! |---|---|
//! | `node`, `head`, `items` | nodes, their searchable part, and their items |
//! | `branch` | the pointers between nodes |
//! | `search`, `path` | finding a key |
//! | `grow`, `shrink` | insertion and splits; removal and merges |
//! | `change`, `entry`, `bulk`, `join` | the public operations that change a map |
//! | `range`, `iter` | reading in order |
//! | `rank` | places in the order |
//! | `set` | `PBTreeSet` |

mod branch;
mod bulk;
mod change;
mod entry;
mod grow;
mod head;
mod items;
mod iter;
mod join;
mod node;
mod path;
mod range;
mod rank;
mod search;
pub mod set;
mod shrink;
#[cfg(test)]
mod tests;

use super::common::{by_pointer, not_in_place, sized};
use super::key::{KeyArg, OrdKey};
use crate::Persist;
use crate::api::view::View;
use crate::error::Result;
use crate::heap::check::rule::{CollectionRule, OwnType, TypePromise};
use crate::ptr::P;
use branch::Top;
use search::SearchKey;

pub use entry::{Entry, OccupiedEntry, VacantEntry};
pub use iter::{Iter, Keys, Values};
pub(super) use range::ends;
pub use range::{KeyRange, Range};
pub use set::PBTreeSet;

use iter::Entries;
use range::SpanEntries;

/// An ordered map: `BTreeMap` for a heap.
///
/// It is read through a reference, and changed through its pointer. Keys are passed and returned in their
/// [borrowed form](crate::collections::MapKey): a `&str` for `P<str>`, a `&u64` for `u64`.
///
/// ```
/// # use pheap::{Heap, P, PBTreeMap, Persist, Root, field};
/// #[derive(Persist, Default)]
/// #[repr(C)]
/// struct Shop<'r> {
///     opened: u64,
///     prices: PBTreeMap<'r, P<'r, str>, f64>,
/// }
///
/// # fn main() -> pheap::Result<()> {
/// # let heap = Heap::in_memory()?;
/// let shop: Root<Shop> = heap.root("shop")?;
/// shop.txn(|tx, shop| {
///     let prices = field!(shop.prices);
///     prices.insert(tx, "tea", 3.5)?;
///     prices.extend(tx, [("coffee", 4.25), ("cake", 6.0)])?;
///     *prices.entry(tx, "tea").or_insert(0.0)? += 0.25;
///     prices.remove(tx, "cake");
///     Ok(())
/// })?;
/// shop.read(|view, shop| {
///     let prices = &view[shop].prices;
///     assert_eq!(prices.get(view, "tea"), Some(&3.75));
///     assert!(prices.keys(view).eq(["coffee", "tea"]));
///     assert!(prices.range(view, "d"..).map(|(name, _)| name).eq(["tea"]));
/// })?;
/// # Ok(())
/// # }
/// ```
///
/// It is a B+-tree (Bayer and McCreight, "Organization and maintenance of large ordered indexes", 1972;
/// Comer, "The ubiquitous B-tree", 1979). A leaf has up to 32 entries, and an inner node up to 64 children;
/// as a rule, all nodes except those at the edges are at least a third full. Entries stay in the slots to
/// which they were written, until a split, a merge or a neighbour with too few entries moves them; only an
/// array of slot numbers is sorted (Chen and Jin, "Persistent B+-trees in non-volatile main memory", VLDB
/// 2015). So most insertions write an entry, that array, and a code of 16 bits for the key, which searches
/// compare first. If keys come in random order, about one insertion in 20 also splits a leaf, and writes a
/// new leaf.
///
/// An empty map has no nodes, except after a panic. A value that is a collection can be read, replaced and
/// moved, but not changed in place: use a `PBTreeMap<K, P<PVec<T>>>` for that.
///
/// If the `Ord` of keys contradicts itself, or panics, a map may find, order or keep keys in any way, but
/// nothing worse happens: no undefined behaviour, no value twice, no endless loop.
///
#[doc = include_str!("pbtreemap.md")]
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::PBTreeMap", crate = "crate")]
pub struct PBTreeMap<'r, K, V> {
    len: u64,
    top: Top<'r, K, V>,
}

/// Entries for the lists of [`own_types`](super::own_types): the types of this module, each with the promise
/// that [`check`](crate::Heap::check) verifies.
pub(super) const OWN_TYPES: &[OwnType] = &[
    OwnType::for_type::<PBTreeMap<'static, u8, u8>>(TypePromise::Collection(|ty| {
        CollectionRule::tree(ty, node::MAX_HEIGHT)
    })),
    OwnType::for_type::<PBTreeSet<'static, u8>>(TypePromise::Nothing),
    OwnType::for_type::<node::Entry<u8, u8>>(TypePromise::Key("key")),
    OwnType::for_type::<node::Branch<'static, u8, u8>>(TypePromise::Key("separator")),
    OwnType::for_type::<node::Leaf<u8, u8>>(TypePromise::Nothing),
    OwnType::for_type::<node::Child<'static, u8, u8>>(TypePromise::Nothing),
    OwnType::for_type::<head::Head<8>>(TypePromise::Nothing),
    OwnType::for_type::<head::Order<8>>(TypePromise::Nothing),
    OwnType::for_type::<head::Scale>(TypePromise::Nothing),
];

sized!(PBTreeMap<K, V> of "entries", "nodes", PBTreeMap { len: 0, top: Top::NONE }, |map| map.len as usize);

/// Reading a map.
impl<'r, K: OrdKey<'r>, V: Persist> PBTreeMap<'r, K, V> {
    /// Returns the value of a key, if the map has the key. O(log n).
    #[inline]
    pub fn get<'v>(&self, view: &'v View<'r>, key: impl KeyArg<'r, K>) -> Option<&'v V> {
        let wanted = SearchKey::new::<K>(key.seen(view));
        let (leaf, place) = search::get(view, self.top.child(), wanted)?;
        Some(leaf.value(place))
    }

    /// Returns the key, in its borrowed form, and its value, if the map has the key. O(log n).
    pub fn get_key_value<'v>(
        &self,
        view: &'v View<'r>,
        key: impl KeyArg<'r, K>,
    ) -> Option<(&'v K::Query, &'v V)>
    where
        K: 'v,
    {
        let wanted = SearchKey::new::<K>(key.seen(view));
        let (leaf, place) = search::get(view, self.top.child(), wanted)?;
        let entry = leaf.item(place);
        Some((entry.key.query(view), &entry.value))
    }

    /// Prefetches most of the memory that [`get`](Self::get), or a change, will read for each of these keys,
    /// several at a time. A program that is about to access many keys of a large map in no order waits less
    /// for memory then. Pass some dozens of keys at a time, or the first ones leave the cache before they are
    /// used. This is only a hint: it has no other effect.
    ///
    /// ```
    /// # use pheap::{Heap, PBTreeMap, Root};
    /// # fn main() -> pheap::Result<()> {
    /// # let heap = Heap::in_memory()?;
    /// let squares: Root<PBTreeMap<u64, u64>> = heap.root("squares")?;
    /// squares.txn(|tx, squares| {
    ///     for some in [[700, 3, 20], [5, 80, 1]] {
    ///         squares.prefetch(tx, &some);
    ///         some.iter().try_for_each(|n| squares.insert(tx, *n, n * n).map(drop))?;
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn prefetch<'q>(&self, view: &View<'r>, keys: impl IntoIterator<Item = &'q K::Query>)
    where
        K::Query: 'q,
    {
        let (top, keys) = (self.top.child(), keys.into_iter().fuse());
        view.glance(|view| search::prefetch(view, top, keys));
    }

    /// Returns the entry with the least key. O(log n).
    pub fn first_key_value<'v>(&self, view: &'v View<'r>) -> Option<(&'v K::Query, &'v V)>
    where
        K: 'v,
    {
        self.iter(view).next()
    }

    /// Returns the entry with the greatest key. O(log n).
    pub fn last_key_value<'v>(&self, view: &'v View<'r>) -> Option<(&'v K::Query, &'v V)>
    where
        K: 'v,
    {
        self.iter(view).next_back()
    }

    /// Whether the map has a key. O(log n).
    #[inline]
    pub fn contains_key(&self, view: &View<'r>, key: impl KeyArg<'r, K>) -> bool {
        self.get(view, key).is_some()
    }

    #[inline]
    fn entries<'v>(&self, view: &'v View<'r>) -> Entries<'v, 'r, K, V> {
        Entries::new(SpanEntries::new(view, self.top.child(), ..), self.len())
    }

    /// Iterates over the entries in the order of their keys; the iterator is double-ended.
    #[inline]
    pub fn iter<'v>(&self, view: &'v View<'r>) -> Iter<'v, 'r, K, V> {
        Iter(self.entries(view))
    }

    /// Iterates over the keys in order.
    pub fn keys<'v>(&self, view: &'v View<'r>) -> Keys<'v, 'r, K, V> {
        Keys(self.entries(view))
    }

    /// Iterates over the values in the order of their keys.
    pub fn values<'v>(&self, view: &'v View<'r>) -> Values<'v, 'r, K, V> {
        Values(self.entries(view))
    }

    /// Iterates over the entries whose keys are in a range, in order; the iterator is double-ended.
    ///
    /// # Panics
    /// If the range ends before it starts, or starts and ends at a key that both exclude.
    #[track_caller]
    pub fn range<'v>(&self, view: &'v View<'r>, range: impl KeyRange<K::Query>) -> Range<'v, 'r, K, V> {
        Range(SpanEntries::new(view, self.top.child(), range))
    }
}

by_pointer! {
    /// Reading a map through a `P` to it: short for `view[map].get(view, …)` and so on.
    [K: OrdKey<'r>, V: Persist] PBTreeMap<K, V>:
    fn get(key: impl KeyArg<'r, K>) -> Option<&'v V>;
    fn contains_key(key: impl KeyArg<'r, K>) -> bool;
    fn iter() -> Iter<'v, 'r, K, V>;
    fn rank(key: impl KeyArg<'r, K>) -> usize;
    #[doc = "\n# Panics\nAs there."]
    #[track_caller]
    fn range(range: impl KeyRange<K::Query>) -> Range<'v, 'r, K, V>;
}

impl<'r, K: OrdKey<'r>, V: Persist> P<'r, PBTreeMap<'r, K, V>> {
    /// Prefetches memory for several keys; see [`PBTreeMap::prefetch`].
    #[inline]
    pub fn prefetch<'q>(self, view: &View<'r>, keys: impl IntoIterator<Item = &'q K::Query>)
    where
        K::Query: 'q,
    {
        view[self].prefetch(view, keys);
    }
}

not_in_place! {
    [K, V] PBTreeMap<'r, K, V>:
    insert(tx, key, value) -> Result<Option<V>>;
    remove(tx, key) -> Option<V>;
    get_mut(tx, key) -> Option<&'r mut V>;
    extend(tx, entries) -> Result<()>;
    retain(tx, keep) -> ();
    clear(tx) -> ();
}
