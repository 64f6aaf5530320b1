//! `PSnapMap`, an ordered map with snapshots.
//!
//! | file | |
//! |---|---|
//! | `frozen` | the types of keys and values |
//! | `node`, `path` | the tree, and ways through it |
//! | `change` | new versions of the map |
//! | `seen`, `range` | reading |
//! | `snapshot` | kept versions, which are read without the lock of their region |

mod change;
#[cfg(all(test, not(pheap_loom)))]
mod durable_tests;
mod frozen;
mod node;
mod path;
mod range;
mod seen;
mod snapshot;
#[cfg(test)]
mod tests;

use super::common::{by_pointer, not_in_place};
use crate::Persist;
use crate::api::view::View;
use crate::collections::btree::KeyRange;
use crate::error::Result;
use crate::heap::check::rule::{CollectionRule, OwnType, TypePromise};
use crate::ptr::P;
use node::Child;
use range::SnapEntries;

pub use frozen::Frozen;
pub use range::{Iter, Keys, Range, Values};
pub use seen::SnapRef;
pub use snapshot::Snapshot;

/// An ordered map with snapshots: a [`Snapshot`] keeps a version of the map, which any thread can read
/// without waiting for transactions.
///
/// ```
/// # use pheap::{Heap, P, PSnapMap, Persist, Root, field};
/// #[derive(Persist, Default)]
/// #[repr(C)]
/// struct Shop<'r> {
///     opened: u64,
///     prices: PSnapMap<'r, P<'r, str>, f64>,
/// }
///
/// # fn main() -> pheap::Result<()> {
/// # let heap = Heap::in_memory()?;
/// let shop: Root<Shop> = heap.root("shop")?;
/// shop.txn(|tx, shop| {
///     let prices = field!(shop.prices);
///     prices.insert(tx, "tea", &3.5)?;
///     prices.extend(tx, [("coffee", 4.25), ("cake", 6.0)])
/// })?;
/// let snapshot = shop.read(|view, shop| view[shop].prices.snapshot(view))??;
/// shop.txn(|tx, shop| field!(shop.prices).remove(tx, "tea"))?;
///
/// std::thread::spawn(move || {
///     snapshot.read(|prices| {
///         assert_eq!(prices.get("tea"), Some(&3.5));
///         assert!(prices.keys().eq(["cake", "coffee", "tea"]));
///     })
/// })
/// .join()
/// .unwrap()?;
/// assert_eq!(shop.read(|view, shop| view[shop].prices.get(view, "tea").copied())?, None);
/// # Ok(())
/// # }
/// ```
///
/// It is read and changed like the other [collections](crate::collections), but there is no `&mut` to a
/// value: keys and values are copied into the map, and do not change there. They are [`Frozen`]:
/// [`Plain`](crate::Plain) types, `P<str>` and `P<[T]>`. A `P<str>` is passed and shown as a `&str`, a plain
/// type as a reference to it. Plain types lie in nodes, which are copied as a whole, so a key and its value
/// have at most 1 KiB together, or the code does not compile: put larger ones into a `P<[T]>`.
///
/// It is a B+-tree with path copying (Driscoll, Sarnak, Sleator and Tarjan, "Making data structures
/// persistent", 1989). A transaction writes a new copy of each node on the way to its changes, once, and then
/// the map itself, which is three words. Old nodes are garbage, unless a kept version has them. So a change
/// costs more than a change of a [`PBTreeMap`](crate::PBTreeMap): with keys and values of 8 bytes, about half
/// a KiB for each level of the tree. Several changes in one transaction share that. A removal drops a node
/// that it leaves empty, and joins a node that it leaves small with a neighbour if they fit into one node.
///
/// If the `Ord` of keys contradicts itself, or panics, a map may find, order or keep keys in any way, but
/// nothing worse happens.
///
#[doc = include_str!("psnapmap.md")]
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::PSnapMap", crate = "crate")]
pub struct PSnapMap<'r, K, V> {
    len: u64,
    top: Child<'r, K, V>,
}

/// Entries for the lists of [`own_types`](super::own_types): the types of this module, each with the promise
/// that [`check`](crate::Heap::check) verifies.
pub(super) const OWN_TYPES: &[OwnType] = &[
    OwnType::for_type::<PSnapMap<'static, u8, u8>>(TypePromise::Collection(|ty| {
        CollectionRule::snap(ty, node::MAX_HEIGHT)
    })),
    OwnType::for_type::<node::Node<u8, u8, 1>>(TypePromise::Frozen),
    OwnType::for_type::<Child<'static, u8, u8>>(TypePromise::Nothing),
];

impl<'r, K: Frozen<'r>, V: Frozen<'r>> Default for PSnapMap<'r, K, V> {
    fn default() -> Self {
        PSnapMap::new()
    }
}

impl<'r, K: Frozen<'r>, V: Frozen<'r>> PSnapMap<'r, K, V> {
    /// Returns a map without entries and without nodes.
    pub const fn new() -> Self {
        PSnapMap { len: 0, top: Child::None(0) }
    }
}

/// Reading a map.
impl<'r, K: Frozen<'r>, V: Frozen<'r>> PSnapMap<'r, K, V> {
    /// Returns the number of entries.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are no entries.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the version of the map that this view shows, to read it several times.
    #[inline(always)]
    pub fn seen<'v>(&self, view: &'v View<'r>) -> SnapRef<'v, 'r, K, V> {
        SnapRef::new(view, self.top, self.len())
    }

    /// Iterates over the entries in the order of their keys, in the form in which nodes store them.
    #[cfg_attr(not(feature = "serde"), allow(dead_code))]
    pub(crate) fn stored<'v>(&self, view: &'v View<'r>) -> impl Iterator<Item = (&'v K, &'v V)> {
        SnapEntries::all(view, self.top).map(|(_, key, value)| (key, value))
    }

    /// Returns the value of a key, if the map has the key; see [`SnapRef::get`].
    #[inline]
    pub fn get<'v>(&self, view: &'v View<'r>, key: &K::Shown) -> Option<&'v V::Shown>
    where
        K: Frozen<'r, Shown: Ord>,
    {
        self.seen(view).get(key)
    }

    /// Whether the map has a key; see [`SnapRef::contains_key`].
    #[inline]
    pub fn contains_key(&self, view: &View<'r>, key: &K::Shown) -> bool
    where
        K: Frozen<'r, Shown: Ord>,
    {
        self.seen(view).contains_key(key)
    }

    /// Returns the entry with the least key; see [`SnapRef::first_key_value`].
    pub fn first_key_value<'v>(&self, view: &'v View<'r>) -> Option<(&'v K::Shown, &'v V::Shown)> {
        self.seen(view).first_key_value()
    }

    /// Returns the entry with the greatest key; see [`SnapRef::last_key_value`].
    pub fn last_key_value<'v>(&self, view: &'v View<'r>) -> Option<(&'v K::Shown, &'v V::Shown)> {
        self.seen(view).last_key_value()
    }

    /// Iterates over the entries in the order of their keys; see [`SnapRef::iter`].
    pub fn iter<'v>(&self, view: &'v View<'r>) -> Iter<'v, 'r, K, V> {
        self.seen(view).iter()
    }

    /// Iterates over the keys in order; see [`SnapRef::keys`].
    pub fn keys<'v>(&self, view: &'v View<'r>) -> Keys<'v, 'r, K, V> {
        self.seen(view).keys()
    }

    /// Iterates over the values in the order of their keys; see [`SnapRef::values`].
    pub fn values<'v>(&self, view: &'v View<'r>) -> Values<'v, 'r, K, V> {
        self.seen(view).values()
    }

    /// Iterates over the entries whose keys are in a range, in order; see [`SnapRef::range`].
    ///
    /// # Panics
    /// If the range ends before it starts, or starts and ends at a key that both exclude.
    #[track_caller]
    pub fn range<'v>(&self, view: &'v View<'r>, range: impl KeyRange<K::Shown>) -> Range<'v, 'r, K, V>
    where
        K: Frozen<'r, Shown: Ord>,
    {
        self.seen(view).range(range)
    }
}

by_pointer! {
    /// Reading a map through a `P` to it: short for `view[map].get(view, …)` and so on.
    [K: Frozen<'r, Shown: Ord>, V: Frozen<'r>] PSnapMap<K, V>:
    fn get(key: &K::Shown) -> Option<&'v V::Shown>;
    fn contains_key(key: &K::Shown) -> bool;
    fn iter() -> Iter<'v, 'r, K, V>;
    #[doc = "\n# Panics\nAs there."]
    #[track_caller]
    fn range(range: impl KeyRange<K::Shown>) -> Range<'v, 'r, K, V>;
    #[doc = "\n# Errors\nAs there."]
    fn snapshot() -> crate::Result<Snapshot<K::Unbranded, V::Unbranded>>;
}

not_in_place! {
    [K, V] PSnapMap<'r, K, V>:
    insert(tx, key, value) -> Result<bool>;
    remove(tx, key) -> Result<bool>;
    extend(tx, entries) -> Result<()>;
    clear(tx) -> ();
}
