//! Changing a map.

use super::bucket::{EntryMut, Pair, hash_of};
use super::entry::Entry;
use super::map::{FEW, MissingKey};
use super::split::make_room;
use super::{HashKey, PHashMap};
use crate::api::tx::Txn;
use crate::collections::key::{KeyArg, OwnKey};
use crate::error::Result;
use crate::layout::Persist;
use crate::ptr::P;

/// <a id="change-PHashMap"></a>Changing a map.
///
/// If a transaction ends in an error, it leaves the map as it was, whatever its methods have returned.
/// Operations that may allocate fail as [`Txn::alloc_slice`] does: for instance with
/// [`Error::OutOfSpace`](crate::Error::OutOfSpace) or
/// [`Error::ReservationFull`](crate::Error::ReservationFull) if the heap cannot grow. Then the map has the
/// same entries as before, except that `extend` and `append` keep the entries that they have inserted or
/// moved. If the program's code panics (`Eq` of a key, or a closure), the map keeps the changes made so far,
/// and stays valid.
impl<'r, K: HashKey<'r>, V: Persist<At<'r> = V>> P<'r, PHashMap<'r, K, V>> {
    /// Sets the value of a key, and returns the old one. O(1), and not only amortised, if few keys have equal
    /// hashes: see [`PHashMap`].
    ///
    /// # Errors
    /// As for [`Txn::alloc_slice`]; see [Changing a map](P#change-PHashMap).
    #[inline]
    pub fn insert(self, tx: &mut Txn<'r>, key: impl KeyArg<'r, K>, value: V) -> Result<Option<V>> {
        let query = key.apart(tx);
        match self.find_entry_mut(tx, &query, None) {
            Ok(found) => Ok(Some(std::mem::replace(found.place.into_mut(), value))),
            Err((tx, absence)) => {
                let key = OwnKey::from_argument(tx, &key, &query)?;
                self.add(tx, absence, Pair { key, value }).map(|_| None)
            }
        }
    }

    /// Adds a key of a set. Returns whether it is new.
    #[inline]
    pub(super) fn insert_key(self, tx: &mut Txn<'r>, key: impl KeyArg<'r, K>) -> Result<bool>
    where
        V: Default,
    {
        let query = key.apart(tx);
        match self.find_entry_mut(tx, &query, None) {
            Ok(_) => Ok(false),
            Err((tx, absence)) => {
                let key = OwnKey::from_argument(tx, &key, &query)?;
                self.add(tx, absence, Pair { key, value: V::default() }).map(|_| true)
            }
        }
    }

    /// Returns the value of a key, to write, if the map has the key. O(1).
    #[inline]
    pub fn get_mut<'t>(self, tx: &'t mut Txn<'r>, key: impl KeyArg<'r, K>) -> Option<&'t mut V> {
        let query = key.apart(tx);
        Some(self.find_entry_mut(tx, &query, None).ok()?.place.into_mut())
    }

    /// Removes a key, and returns its value. O(1). Memory that the key in the map owns is freed when the
    /// transaction commits. A later insertion can reuse the slot; [`clear`](Self::clear),
    /// [`drain`](Self::drain) and [`shrink_to_fit`](Self::shrink_to_fit) free the memory of slots.
    #[inline]
    pub fn remove(self, tx: &mut Txn<'r>, key: impl KeyArg<'r, K>) -> Option<V> {
        let query = key.apart(tx);
        Some(self.find_entry_mut(tx, &query, None).ok()?.take_value())
    }

    /// Removes a key, and returns the key and its value. O(1).
    pub fn remove_entry(self, tx: &mut Txn<'r>, key: impl KeyArg<'r, K>) -> Option<(K, V)> {
        let query = key.apart(tx);
        Some(self.find_entry_mut(tx, &query, None).ok()?.take_pair())
    }

    /// Returns the entry of a key, existing or vacant, to read and change with one search. O(1).
    ///
    /// ```
    /// # use pheap::{Heap, P, PHashMap, Root};
    /// # fn main() -> pheap::Result<()> {
    /// # let heap = Heap::in_memory()?;
    /// let words: Root<PHashMap<P<str>, u64>> = heap.root("words")?;
    /// words.txn(|tx, words| {
    ///     for word in ["to", "be", "or", "not", "to", "be"] {
    ///         *words.entry(tx, word).or_insert(0)? += 1;
    ///     }
    ///     assert_eq!(words.get(tx, "be"), Some(&2));
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn entry<'t, 'q>(self, tx: &'t mut Txn<'r>, key: &'q K::Query) -> Entry<'t, 'q, 'r, K, V> {
        Entry::new(self, tx, key)
    }

    /// Adds an entry after a search has not found its key. If memory cannot be allocated, the memory of the
    /// key is garbage.
    #[inline(always)]
    pub(super) fn add<'t>(
        self,
        tx: &'t mut Txn<'r>,
        absence: MissingKey<'r, K, V>,
        pair: Pair<K, V>,
    ) -> Result<EntryMut<'t, 'r, K, V>> {
        let (root, hash, free) = match absence {
            MissingKey::Few if tx[self].len() < FEW => return self.add_to_few(tx, pair),
            MissingKey::Few => {
                let root = self.outgrow(tx)?;
                (root, hash_of::<K>(tx[root].parts().0, pair.key.query(tx)), None)
            }
            MissingKey::Bucket { root, hash, free } => (root, hash, free),
        };
        let at = match free {
            Some(at) => at,
            None => make_room(tx, root, hash)?,
        };
        Ok(self.put(tx, at, hash, pair))
    }
}
