//! Changing many entries of a map.

use std::borrow::Borrow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::bucket::{Pair, hash_of};
use super::buckets::Buckets;
use super::iter::HashCursor;
use super::map::{EntryHome, FEW, MissingKey};
use super::split::make_room;
use super::{HashKey, PHashMap};
use crate::api::tx::Txn;
use crate::collections::key::OwnKey;
use crate::error::Result;
use crate::layout::Persist;
use crate::os::cpu::prefetch_write;
use crate::ptr::P;

/// Number of entries that [`P::extend`] looks up at a time.
const GROUP: usize = 16;

/// <a id="change-PHashMap-more"></a>Changing many entries.
impl<'r, K: HashKey<'r>, V: Persist<At<'r> = V>> P<'r, PHashMap<'r, K, V>> {
    /// Inserts the items of an iterator. In a map of more than 8 entries, the waits for the memory of several
    /// entries overlap, as they would not with one [`insert`](Self::insert) after the other.
    ///
    /// # Errors
    /// As for [`insert`](Self::insert). Then the earlier items stay inserted, unless the transaction is
    /// rolled back.
    ///
    /// # Panics
    /// If the iterator or a key panics. Then the earlier items stay inserted, unless the transaction is
    /// rolled back.
    pub fn extend<Q: Borrow<K::Query>>(
        self,
        tx: &mut Txn<'r>,
        entries: impl IntoIterator<Item = (Q, V)>,
    ) -> Result<()> {
        // Fused, because `next` is called again after the group in which the iterator has ended.
        let mut entries = entries.into_iter().fuse();
        let (mut keys, mut values) = (Vec::with_capacity(GROUP), Vec::with_capacity(GROUP));
        loop {
            let mut queries = [None; GROUP];
            let gathered = catch_unwind(AssertUnwindSafe(|| {
                for (key, value) in entries.by_ref().take(GROUP) {
                    keys.push(key);
                    values.push(value);
                }
            }));
            let gathered = gathered.and_then(|()| {
                catch_unwind(AssertUnwindSafe(|| {
                    let Some(root) = tx[self].root() else { return };
                    let (secret, top) = tx[root].parts();
                    for (key, query) in std::iter::zip(&keys, &mut queries) {
                        let key = Borrow::borrow(key);
                        let hash = hash_of::<K>(secret, key);
                        if let Some(bucket) = root.walk(tx, top, hash).bucket {
                            prefetch_write(bucket.likely_place(hash));
                        }
                        *query = Some((key, hash));
                    }
                }))
            });
            let is_over = keys.is_empty();
            let inserted =
                std::iter::zip(&keys, queries).zip(values.drain(..)).try_for_each(|((key, query), value)| {
                    // A key with a query is not borrowed again: its `Borrow` may return another value the
                    // next time.
                    let (key, hash) = match query {
                        Some((key, hash)) => (key, Some(hash)),
                        None => (key.borrow(), None),
                    };
                    match self.find_entry_mut(tx, key, hash) {
                        Ok(found) => *found.place.into_mut() = value,
                        Err((tx, absence)) => {
                            let key = OwnKey::new(tx, key)?;
                            self.add(tx, absence, Pair { key, value })?;
                        }
                    }
                    Ok(())
                });
            keys.clear();
            // A panic is resumed only now, after the insertion of the items before it.
            gathered.unwrap_or_else(|panic| resume_unwind(panic));
            inserted?;
            if is_over {
                return Ok(());
            }
        }
    }

    /// Moves all entries of `other` to this map. If both have a key, the key of this map stays, with the
    /// value of `other`. If this map is empty, this is O(1), except that it frees the buckets that removed
    /// entries have left. Else it is O(k) for k entries of `other`, which move together with the memory of
    /// their keys. (Buckets of `other` that removed entries have left cost time as well.)
    ///
    /// # Errors
    /// As for [`insert`](Self::insert). Then some entries have moved, and all others are still in `other`.
    ///
    /// # Panics
    /// If `other` is this map.
    pub fn append(self, tx: &mut Txn<'r>, other: P<'r, PHashMap<'r, K, V>>) -> Result<()> {
        assert!(self != other, "a map cannot be appended to itself");
        if tx[self].is_empty() {
            let all = std::mem::take(&mut tx[other]);
            std::mem::replace(&mut tx[self], all).free_table(tx);
            return Ok(());
        }
        let homes = other.homes(tx, |_, _| true);
        self.take_all(tx, other, homes, |tx, absence, query| {
            let (root, hash) = match absence {
                MissingKey::Few if tx[self].len() < FEW => {
                    self.room_among_few(tx)?;
                    return Ok(MissingKey::Few);
                }
                MissingKey::Few => {
                    let root = self.outgrow(tx)?;
                    (root, hash_of::<K>(tx[root].parts().0, query))
                }
                MissingKey::Bucket { root, hash, free: None } => (root, hash),
                free @ MissingKey::Bucket { free: Some(_), .. } => return Ok(free),
            };
            let free = Some(make_room(tx, root, hash)?);
            Ok(MissingKey::Bucket { root, hash, free })
        })
    }

    /// Removes the entries for which `keep` is false. O(n).
    pub fn retain(self, tx: &mut Txn<'r>, mut keep: impl FnMut(&K::Query, &V) -> bool) {
        for home in self.homes(tx, |key, value| !keep(key, value)) {
            self.take_value(tx, home);
        }
    }

    /// Removes the entries for which `is_wanted` is true, and returns them, in no particular order. O(n).
    pub fn extract_if(
        self,
        tx: &mut Txn<'r>,
        is_wanted: impl FnMut(&K::Query, &V) -> bool,
    ) -> std::vec::IntoIter<(K, V)> {
        let homes = self.homes(tx, is_wanted);
        let mut taken = Vec::with_capacity(homes.len());
        for home in homes {
            let Pair { key, value } = self.take_pair(tx, home);
            taken.push((key.into_inner(), value));
        }
        taken.into_iter()
    }

    /// Returns the places of the entries for which `is_wanted` is true, in an order in which they can be
    /// removed.
    fn homes(
        self,
        tx: &Txn<'r>,
        mut is_wanted: impl FnMut(&K::Query, &V) -> bool,
    ) -> Vec<EntryHome<'r, K, V>> {
        let mut cursor = HashCursor::new(&tx[self], tx);
        let mut homes = Vec::new();
        // `is_wanted` is called for all entries first: if it panics, nothing has changed.
        while let Some((home, pair)) = cursor.next_home() {
            if is_wanted(pair.key.query(tx), &pair.value) {
                homes.push(home);
            }
        }
        // The last entry is removed first: in a small map, the last entry moves to the place of a removed
        // one.
        homes.reverse();
        homes
    }

    /// Calls `change` with each entry; `change` may change the value. O(n). All entries are made crash-safe.
    /// To change a few of many entries, look them up by their keys instead.
    pub fn for_each_mut(self, tx: &mut Txn<'r>, mut change: impl FnMut(&K::Query, &mut V)) {
        self.change_few(tx, &mut change);
        let mut buckets = Buckets::new(&tx[self], tx);
        while let Some(([bucket, _], _)) = buckets.next(tx) {
            bucket.change_all(tx, &mut change);
        }
    }

    /// Removes all entries and returns them, in no particular order. O(n).
    pub fn drain(self, tx: &mut Txn<'r>) -> std::vec::IntoIter<(K, V)> {
        let mut drained = Vec::with_capacity(tx[self].len());
        let old = std::mem::take(&mut tx[self]);
        old.drain(tx, |_, pair| drained.push((pair.key.into_inner(), pair.value)));
        drained.into_iter()
    }

    /// Removes all entries. The memory of the map, and of keys that own memory, is freed when the transaction
    /// commits. O(n). Objects that values point to are left to the collector.
    pub fn clear(self, tx: &mut Txn<'r>) {
        let old = std::mem::take(&mut tx[self]);
        if K::POINTERS { old.drain(tx, |tx, pair| pair.key.free_key(tx)) } else { old.free_table(tx) }
    }

    /// Frees unused memory: all entries move to a new table. O(n).
    ///
    /// # Errors
    /// As for [`insert`](Self::insert); then nothing has changed.
    pub fn shrink_to_fit(self, tx: &mut Txn<'r>) -> Result<()> {
        self.rebuild(tx, |new, tx, pair| {
            let absence = match tx[new].root() {
                Some(root) => {
                    let hash = hash_of::<K>(tx[root].parts().0, pair.key.query(tx));
                    MissingKey::Bucket { root, hash, free: None }
                }
                None => MissingKey::Few,
            };
            new.add(tx, absence, pair).map(drop)
        })
    }
}
