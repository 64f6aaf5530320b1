//! `PHashMap`, a hash map, and `PHashSet`.

mod bucket;
mod buckets;
mod bulk;
mod change;
mod choose;
mod directory;
mod entry;
mod iter;
mod map;
mod set;
mod split;
mod tags;

use super::common::{by_pointer, not_in_place};
use super::key::{HashKey, KeyArg};
use crate::api::view::View;
use crate::error::Result;
use crate::heap::check::rule::{CollectionRule, OwnType, TypePromise};
use crate::layout::Persist;
use crate::ptr::P;

use bucket::Pair;
use iter::HashCursor;

pub use entry::{Entry, OccupiedEntry, VacantEntry};
pub use iter::{Iter, Keys, Values};
pub use map::PHashMap;
pub use set::PHashSet;

/// Entries for the lists of [`own_types`](super::own_types): the types of this module, each with the promise
/// that [`check`](crate::Heap::check) verifies.
pub(super) const OWN_TYPES: &[OwnType] = &[
    OwnType::for_type::<PHashMap<'static, u8, u8>>(TypePromise::Collection(|ty| {
        CollectionRule::hash(ty, map::FEW, tags::FIXED)
    })),
    OwnType::for_type::<PHashSet<'static, u8>>(TypePromise::Nothing),
    OwnType::for_type::<Pair<u8, u8>>(TypePromise::Key("key")),
    OwnType::for_type::<directory::Root<'static, u8, u8>>(TypePromise::Nothing),
    OwnType::for_type::<directory::Child<'static, u8, u8>>(TypePromise::Nothing),
    OwnType::for_type::<directory::Directory<'static, u8, u8>>(TypePromise::Nothing),
    OwnType::for_type::<bucket::Bucket<'static, u8, u8>>(TypePromise::Nothing),
    OwnType::for_type::<bucket::Head<'static, u8, u8>>(TypePromise::Nothing),
    OwnType::for_type::<tags::Tags>(TypePromise::Nothing),
];

/// Reading a map.
impl<'r, K: HashKey<'r>, V: Persist> PHashMap<'r, K, V> {
    /// Returns the value of a key, if the map has the key. O(1).
    #[inline]
    pub fn get<'v>(&self, view: &'v View<'r>, key: impl KeyArg<'r, K>) -> Option<&'v V> {
        self.pair(view, key.seen(view)).map(|pair| &pair.value)
    }

    /// Returns the key as stored in the map, in its borrowed form, and its value, if the map has the key.
    /// O(1).
    #[inline]
    pub fn get_key_value<'v>(
        &self,
        view: &'v View<'r>,
        key: impl KeyArg<'r, K>,
    ) -> Option<(&'v K::Query, &'v V)> {
        self.pair(view, key.seen(view)).map(|pair| (pair.key.query(view), &pair.value))
    }

    /// Whether the map has a key. O(1).
    #[inline]
    pub fn contains_key(&self, view: &View<'r>, key: impl KeyArg<'r, K>) -> bool {
        self.pair(view, key.seen(view)).is_some()
    }

    /// Iterates over the entries in arbitrary order, which stays the same while the map is not changed.
    #[inline]
    pub fn iter<'v>(&self, view: &'v View<'r>) -> Iter<'v, 'r, K, V> {
        Iter(HashCursor::new(self, view))
    }

    /// Iterates over the keys, in the order of [`iter`](Self::iter).
    #[inline]
    pub fn keys<'v>(&self, view: &'v View<'r>) -> Keys<'v, 'r, K, V> {
        Keys(HashCursor::new(self, view))
    }

    /// Iterates over the values, in the order of [`iter`](Self::iter).
    #[inline]
    pub fn values<'v>(&self, view: &'v View<'r>) -> Values<'v, 'r, K, V> {
        Values(HashCursor::new(self, view))
    }

    /// Returns some of the entries, and a number with which the next call continues: a scan in steps, between
    /// which the map may be changed, and the heap closed and opened. A scan begins with 0, and ends when a
    /// step returns 0. This number is the only state of a scan.
    ///
    /// A scan shows each entry that is in the map from the first step to the last at least once, whatever is
    /// inserted and removed in between. It shows an entry twice only if [`clear`](P::clear),
    /// [`drain`](P::drain), [`shrink_to_fit`](P::shrink_to_fit), or [`append`](P::append) to an empty map
    /// has replaced the buckets. An entry that is inserted or removed during the scan may be shown or not.
    ///
    /// A step shows one bucket: up to 27 entries (more if keys have equal hashes), or none if all its entries
    /// have been removed. O(1). A map whose entries still form an array (up to 8) is shown in one step.
    ///
    /// The command `SCAN` of Redis has the same guarantee. Here the number is the hash at which a bucket
    /// begins. Buckets come in the order of hashes, and if a bucket is split, each of its entries stays
    /// before that hash or after it. The number is valid for this heap and its copies only: other heaps have
    /// other hashes.
    ///
    /// ```
    /// # use pheap::{Heap, PHashMap, Root};
    /// # fn main() -> pheap::Result<()> {
    /// # let heap = Heap::in_memory()?;
    /// let squares: Root<PHashMap<u64, u64>> = heap.root("squares")?;
    /// squares.txn(|tx, squares| squares.extend(tx, (0..1000).map(|n| (n, n * n))))?;
    /// let (mut seen, mut from) = (0, 0);
    /// loop {
    ///     from = squares.read(|view, squares| {
    ///         let (entries, next) = squares.scan(view, from);
    ///         seen += entries.len();
    ///         next
    ///     })?;
    ///     if from == 0 {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(seen, 1000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan<'v>(&self, view: &'v View<'r>, from: u64) -> (Iter<'v, 'r, K, V>, u64) {
        let (cursor, next) = HashCursor::of_chain(self, view, from);
        (Iter(cursor), next)
    }
}

by_pointer! {
    /// Reading a map through a `P` to it: short for `view[map].get(view, …)` and so on.
    [K: HashKey<'r>, V: Persist] PHashMap<K, V>:
    fn get(key: impl KeyArg<'r, K>) -> Option<&'v V>;
    fn contains_key(key: impl KeyArg<'r, K>) -> bool;
    fn get_key_value(key: impl KeyArg<'r, K>) -> Option<(&'v K::Query, &'v V)>;
    fn keys() -> Keys<'v, 'r, K, V>;
    fn values() -> Values<'v, 'r, K, V>;
    fn iter() -> Iter<'v, 'r, K, V>;
    fn scan(from: u64) -> (Iter<'v, 'r, K, V>, u64);
    fn choose(random: impl FnMut() -> u64) -> Option<(&'v K::Query, &'v V)>;
}

not_in_place! {
    [K, V] PHashMap<'r, K, V>:
    insert(tx, key, value) -> Result<Option<V>>;
    remove(tx, key) -> Option<V>;
    get_mut(tx, key) -> Option<&'r mut V>;
    extend(tx, entries) -> Result<()>;
    retain(tx, keep) -> ();
    clear(tx) -> ();
}
