//! Changing a map.

#![allow(unsafe_code)]

use super::entry::Entry;
use super::find::{Absence, Home};
use super::split::{At, drop_empty, hash_in, hash_of, make_room, new_bucket};
use super::table::{Bucket, Child, Pair, Root};
use super::walk::{head, slot};
use super::{HashKey, PHashMap};
use crate::api::tx::Txn;
use crate::collections::buffer::{self, Slot, Slots};
use crate::collections::key::OwnKey;
use crate::error::Result;
use crate::layout::Persist;
use crate::ptr::{P, value_of};

/// So many entries are kept one behind the other.
pub(super) const FEW: usize = 8;

/// Changing a map.
///
/// Whatever these return, a transaction that ends in an error leaves the map as it was. Operations that may allocate fail with
/// [`Error::OutOfSpace`](crate::Error::OutOfSpace) or [`Error::ReservationFull`](crate::Error::ReservationFull) if the heap cannot grow; then they have
/// changed nothing. If user code panics (`Eq` of a key, or a closure), the map keeps the changes made so far, and stays valid.
impl<'r, K: HashKey<'r>, V: Persist<At<'r> = V>> P<'r, PHashMap<'r, K, V>> {
    /// Sets the value of a key, and returns the old one. O(1), not only amortised: see [`PHashMap`].
    ///
    /// # Errors
    /// If there is no memory for it; see [above](#impl-P<'r,+PHashMap<'r,+K,+V>>).
    #[inline]
    pub fn insert(self, tx: &mut Txn<'r>, key: &K::Query, value: V) -> Result<Option<V>> {
        match tx[self].find(tx, key) {
            Ok(home) => Ok(Some(std::mem::replace(self.value_mut(tx, &home), value))),
            Err(absence) => self.add(tx, absence, key, value).map(|_| None),
        }
    }

    /// Adds a key of a set. Returns whether it was not there.
    #[inline]
    pub(super) fn insert_key(self, tx: &mut Txn<'r>, key: &K::Query) -> Result<bool>
    where
        V: Default,
    {
        match tx[self].find(tx, key) {
            Ok(_) => Ok(false),
            Err(absence) => self.add(tx, absence, key, V::default()).map(|_| true),
        }
    }

    /// The value of a key, to write. O(1). The entry is logged.
    #[inline]
    pub fn get_mut<'t>(self, tx: &'t mut Txn<'r>, key: &K::Query) -> Option<&'t mut V> {
        let home = tx[self].find(tx, key).ok()?;
        Some(self.value_mut(tx, &home))
    }

    /// Removes a key, and returns its value. O(1). Its slot is reused; only [`clear`](Self::clear) and
    /// [`shrink_to_fit`](Self::shrink_to_fit) free the memory.
    #[inline]
    pub fn remove(self, tx: &mut Txn<'r>, key: &K::Query) -> Option<V> {
        let home = tx[self].find(tx, key).ok()?;
        Some(self.take(tx, &home))
    }

    /// The entry of a key, existing or vacant, to read and change with one search. O(1).
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

    /// The value of an entry, to write.
    #[inline(always)]
    pub(super) fn value_mut<'t>(self, tx: &'t mut Txn<'r>, home: &Home<'r, K, V>) -> &'t mut V {
        let slot = tx[self].slot_of(home);
        // SAFETY: a slot with an entry. The whole of it is written, as always: parts that overlap only partly would end the short path.
        unsafe { &mut buffer::write(tx, slot).value_mut().value }
    }

    /// Adds an entry that is not there.
    #[inline(always)]
    pub(super) fn add(
        self,
        tx: &mut Txn<'r>,
        absence: Absence<'r, K, V>,
        query: &K::Query,
        value: V,
    ) -> Result<*mut Slot<Pair<K, V>>> {
        self.add_pair(tx, absence, query, |tx| Ok(Pair { key: OwnKey::new(tx, query)?, value }))
    }

    /// Adds an entry that is not there, and is made when there is room for it.
    #[inline(always)]
    pub(super) fn add_pair(
        self,
        tx: &mut Txn<'r>,
        absence: Absence<'r, K, V>,
        query: &K::Query,
        pair: impl FnOnce(&Txn<'r>) -> Result<Pair<K, V>>,
    ) -> Result<*mut Slot<Pair<K, V>>> {
        let (root, hash, free) = match absence {
            Absence::Few if tx[self].len() < FEW => return self.add_to_few(tx, pair),
            Absence::Few => {
                let root = self.outgrow(tx)?;
                (root, hash_of::<K>(tx[root].secret, query), None)
            }
            Absence::Bucket { root, hash, free } => (root, hash, free),
        };
        let (bucket, index) = match free {
            Some(at) => at,
            None => make_room(tx, root, hash)?,
        };
        let pair = pair(tx)?;
        let at = slot(bucket, index);
        let head = head(bucket);
        // SAFETY: of a bucket of the map; no entry is in the slot.
        unsafe {
            buffer::announce(tx, &[buffer::range(at), buffer::range(head), buffer::range(value_of(self))]);
            buffer::write(tx, at).put(pair);
            buffer::write(tx, head).tags.set(index, hash);
        }
        tx[self].len += 1;
        Ok(at)
    }

    /// Adds one to few entries.
    fn add_to_few(
        self,
        tx: &mut Txn<'r>,
        pair: impl FnOnce(&Txn<'r>) -> Result<Pair<K, V>>,
    ) -> Result<*mut Slot<Pair<K, V>>> {
        let (mut slots, len) = (tx[self].few(), tx[self].len());
        if len == slots.len {
            let new = buffer::moved(tx, slots, (2 * len).max(1))?;
            if let Some(old) = tx[self].few.replace(new) {
                // SAFETY: the map's own, which it has just let go of.
                unsafe { buffer::free(tx, old) };
            }
            slots = Slots::of(new);
        }
        let pair = pair(tx)?;
        // SAFETY: there is a slot behind the entries.
        unsafe {
            let at = slots.at(len);
            buffer::announce(tx, &[buffer::range(at), buffer::range(value_of(self))]);
            buffer::write(tx, at).put(pair);
            tx[self].len += 1;
            Ok(at)
        }
    }

    /// Moves few entries into a bucket.
    #[cold]
    fn outgrow(self, tx: &mut Txn<'r>) -> Result<P<'r, Root<'r, K, V>>> {
        let (slots, len) = (tx[self].few(), tx[self].len());
        let (bucket, at) = new_bucket(tx, 0)?;
        let secret = tx.hash_secret();
        let root = tx.alloc(Root { secret, top: Child::Bucket(bucket) })?;
        for i in 0..len {
            // SAFETY: entries, that move to a new bucket.
            unsafe {
                let from = slots.at(i);
                let hash = hash_in(tx, secret, from);
                let tags = &mut (*at).head.tags;
                let index = tags.free_near(hash, <Pair<K, V>>::IN_LINE).expect("a bucket has room for few");
                buffer::move_to_new(tx, from, slot(bucket, index));
                tags.set(index, hash);
            }
        }
        let map = &mut tx[self];
        let old = map.few.take();
        map.root = Some(root);
        if let Some(old) = old {
            // SAFETY: the map's own, which it has just let go of.
            unsafe { buffer::free(tx, old) };
        }
        Ok(root)
    }

    /// Moves a value out, and frees its key.
    #[inline(always)]
    pub(super) fn take(self, tx: &mut Txn<'r>, home: &Home<'r, K, V>) -> V {
        let Pair { key, value } = match *home {
            Home::Few(index) => self.take_from_few(tx, index),
            Home::Bucket { at, first } => self.take_from_bucket(tx, at, first),
        };
        key.give_up(tx);
        value
    }

    fn take_from_few(self, tx: &mut Txn<'r>, index: usize) -> Pair<K, V> {
        let (slots, last) = (tx[self].few(), tx[self].len() - 1);
        // SAFETY: entries: the last one moves to where the one that is taken was.
        unsafe {
            buffer::announce(
                tx,
                &[
                    buffer::range(slots.at(index)),
                    buffer::range(slots.at(last)),
                    buffer::range(value_of(self)),
                ],
            );
            let pair = buffer::read(tx, slots.at(index)).take();
            if index != last {
                let moved = std::ptr::read(buffer::read(tx, slots.at(last)));
                *buffer::write(tx, slots.at(index)) = moved;
            }
            if <Pair<K, V>>::POINTERS {
                buffer::write(tx, slots.at(last)).vacate();
            }
            tx[self].len -= 1;
            pair
        }
    }

    fn take_from_bucket(
        self,
        tx: &mut Txn<'r>,
        (bucket, index): At<'r, K, V>,
        first: P<'r, Bucket<'r, K, V>>,
    ) -> Pair<K, V> {
        let (at, head) = (slot(bucket, index), head(bucket));
        // SAFETY: a slot with an entry, of a bucket of the map.
        unsafe {
            let slot = if <Pair<K, V>>::POINTERS { buffer::range(at) } else { (at.cast(), 0) };
            buffer::announce(tx, &[slot, buffer::range(head), buffer::range(value_of(self))]);
            let pair = buffer::read(tx, at).take();
            if <Pair<K, V>>::POINTERS {
                buffer::write(tx, at).vacate();
            }
            let head = buffer::write(tx, head);
            head.tags.clear(1 << index);
            let emptied = bucket != first && head.tags.occupied() == 0;
            tx[self].len -= 1;
            if emptied {
                drop_empty(tx, first);
            }
            pair
        }
    }
}
