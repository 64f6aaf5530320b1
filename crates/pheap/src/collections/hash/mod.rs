//! `PHashMap`, a hash map, and `PHashSet`.

mod bulk;
mod change;
mod entry;
mod find;
mod iter;
mod set;
mod split;
mod table;
mod tags;
mod walk;

use super::buffer::Slot;
use super::common::{by_pointer, sized};
use super::key::HashKey;
use crate::Persist;
use crate::api::view::View;
use crate::heap::check::rule::{OwnType, Promise, Rule};
use crate::ptr::P;

use iter::Entries;
use table::{Pair, Root};

pub use entry::{Entry, OccupiedEntry, VacantEntry};
pub use iter::{Iter, Keys, Values};
pub use set::PHashSet;

/// The entries of a map, while they are few.
type Few<'r, K, V> = P<'r, [Slot<Pair<K, V>>]>;

/// A hash map: `HashMap` for a heap.
///
/// It is read through a reference, and mutated through its pointer. Keys are passed in their borrowed form: a `&str` for `P<str>`.
///
/// ```
/// # use pheap::{Heap, P, PHashMap, Persist, Root, field};
/// #[derive(Persist, Default)]
/// #[repr(C)]
/// struct Shop<'r> {
///     name: u64,
///     stock: PHashMap<'r, P<'r, str>, u64>,
/// }
///
/// # fn main() -> pheap::Result<()> {
/// # let heap = Heap::in_memory()?;
/// let shop: Root<Shop> = heap.root("shop")?;
/// shop.txn(|tx, shop| {
///     let stock = field!(shop.stock);
///     stock.insert(tx, "apples", 12)?;
///     stock.insert(tx, "pears", 3)?;
///     *stock.entry(tx, "apples").or_insert(0)? -= 2;
///     assert_eq!(stock.remove(tx, "pears"), Some(3));
///     Ok(())
/// })?;
/// shop.read(|view, shop| {
///     let stock = &view[shop].stock;
///     assert_eq!(stock.get(view, "apples"), Some(&10));
///     assert!(stock.iter(view).eq([("apples", &10)]));
/// })?;
/// # Ok(())
/// # }
/// ```
///
/// **How it grows.** There is no moment at which all entries move to a larger table. The map is an *extendible hash table*: buckets of 27 entries, found
/// by the first bits of the hash through a trie of directories. An insertion that finds its bucket full splits it: it reads 27 entries,
/// writes about half of them to a new bucket, and up to 4 KiB of a directory; in one of four cases it recomputes the hashes of the 27 keys. An insertion
/// never does more, however large the map is; so there is no `reserve` either. Entries larger than some hundred bytes make a split more expensive:
/// store a [`P`] to them.
///
/// **Memory.** A map is 24 bytes. Up to 8 entries form an array with room for 1, 2, 4 or 8 of them, and are compared one by one. Beyond
/// that, buckets are about two thirds full: 27 bytes for an entry of 16. Removing entries does not free buckets (they are reused):
/// see [`shrink_to_fit`](P::shrink_to_fit) and [`clear`](P::clear).
///
/// **Hashes** are computed by SipHash-1-3 with a secret of the heap, kept with the map, so that nobody can prepare keys that collide. Keys with equal
/// hashes (because of a bad [`HashKey`]) are compared one by one.
///
/// Values that are collections themselves can be read, replaced and moved, but not changed in place: use a `PHashMap<K, P<PVec<T>>>` for that.
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::PHashMap", crate = "crate")]
pub struct PHashMap<'r, K, V> {
    len: u64,
    /// The entries one behind the other, while they are few.
    few: Option<Few<'r, K, V>>,
    /// What leads to them when they are more.
    root: Option<P<'r, Root<'r, K, V>>>,
}

/// See [`own_types`](super::own_types).
pub(super) const OWN_TYPES: &[OwnType] = &[
    OwnType::of::<PHashMap<'static, u8, u8>>(Promise::Collection(Rule::hash)),
    OwnType::of::<PHashSet<'static, u8>>(Promise::Nothing),
    OwnType::of::<Pair<u8, u8>>(Promise::Key("key")),
    OwnType::of::<table::Root<'static, u8, u8>>(Promise::Nothing),
    OwnType::of::<table::Child<'static, u8, u8>>(Promise::Nothing),
    OwnType::of::<table::Directory<'static, u8, u8>>(Promise::Nothing),
    OwnType::of::<table::Bucket<'static, u8, u8>>(Promise::Nothing),
    OwnType::of::<table::Head<'static, u8, u8>>(Promise::Nothing),
    OwnType::of::<tags::Tags>(Promise::Nothing),
];

sized!(PHashMap<K, V> of "entries", "a buffer", PHashMap { len: 0, few: None, root: None }, |map| map.len as usize);

/// Reading.
impl<'r, K: HashKey<'r>, V: Persist> PHashMap<'r, K, V> {
    /// The value of a key. O(1), as are the next two.
    #[inline]
    pub fn get<'v>(&self, view: &'v View<'r>, key: &K::Query) -> Option<&'v V> {
        self.pair(view, key).map(|pair| &pair.value)
    }

    /// The key as stored in the map, and its value.
    #[inline]
    pub fn get_key_value<'v>(&self, view: &'v View<'r>, key: &K::Query) -> Option<(&'v K::Query, &'v V)> {
        self.pair(view, key).map(|pair| (pair.key.query(view), &pair.value))
    }

    /// Whether the map has a key.
    #[inline]
    pub fn contains_key(&self, view: &View<'r>, key: &K::Query) -> bool {
        self.pair(view, key).is_some()
    }

    /// The entries in arbitrary order, which stays the same while the map is not changed.
    #[inline]
    pub fn iter<'v>(&self, view: &'v View<'r>) -> Iter<'v, 'r, K, V> {
        Iter(Entries::new(self, view))
    }

    /// The keys, in the order of [`iter`](Self::iter).
    #[inline]
    pub fn keys<'v>(&self, view: &'v View<'r>) -> Keys<'v, 'r, K, V> {
        Keys(Entries::new(self, view))
    }

    /// The values, in the order of [`iter`](Self::iter).
    #[inline]
    pub fn values<'v>(&self, view: &'v View<'r>) -> Values<'v, 'r, K, V> {
        Values(Entries::new(self, view))
    }
}

by_pointer! {
    /// Reading a map by its pointer: short for `view[map].get(view, …)`.
    [K: HashKey<'r>, V: Persist] PHashMap<K, V>:
    fn get(key: &K::Query) -> Option<&'v V>;
    fn contains_key(key: &K::Query) -> bool;
    fn get_key_value(key: &K::Query) -> Option<(&'v K::Query, &'v V)>;
    fn keys() -> Keys<'v, 'r, K, V>;
    fn values() -> Values<'v, 'r, K, V>;
    fn iter() -> Iter<'v, 'r, K, V>;
}
