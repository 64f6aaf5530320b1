//! Changing a map.

use super::find::{Absence, Home};
use super::split::{At, drop_empty, hash_in, make_room, new_bucket};
use super::table::{Bucket, Child, Pair, Root};
use super::walk::{head, slot};
use super::{HashKey, PHashMap};
use crate::collections::buffer::{self, Slots};
use crate::collections::slot::Slot;
use crate::error::Result;
use crate::layout::Persist;
use crate::ptr::{P, value_of};
use crate::txn::Txn;

/// So many entries are kept one behind the other.
const FEW: usize = 8;

/// Changing a map.
impl<'r, K: HashKey<'r>, V: Persist<At<'r> = V>> P<'r, PHashMap<'r, K, V>> {
    /// Sets the value of a key, and returns the old one. O(1).
    #[inline]
    pub fn insert(self, tx: &mut Txn<'r>, key: &K::Query, value: V) -> Result<Option<V>> {
        match tx[self].find(tx, key) {
            Ok(home) => Ok(Some(std::mem::replace(self.value_mut(tx, &home), value))),
            Err(absence) => self.add(tx, absence, key, value).map(|_| None),
        }
    }

    /// The value of a key, to write.
    #[inline]
    pub fn get_mut<'t>(self, tx: &'t mut Txn<'r>, key: &K::Query) -> Option<&'t mut V> {
        let home = tx[self].find(tx, key).ok()?;
        Some(self.value_mut(tx, &home))
    }

    /// Removes a key, and returns its value. O(1).
    #[inline]
    pub fn remove(self, tx: &mut Txn<'r>, key: &K::Query) -> Option<V> {
        let home = tx[self].find(tx, key).ok()?;
        Some(self.take(tx, &home))
    }

    /// The value of an entry, to write.
    #[inline(always)]
    pub(super) fn value_mut<'t>(self, tx: &'t mut Txn<'r>, home: &Home<'r, K, V>) -> &'t mut V {
        let slot = tx[self].slot_of(home);
        // SAFETY: a slot with an entry. The whole of it is written, as always: parts that overlap only partly would end the short path.
        unsafe { &mut buffer::write(tx, slot).value_mut().value }
    }

    /// Adds an entry.
    #[inline(always)]
    pub(super) fn add(
        self,
        tx: &mut Txn<'r>,
        absence: Absence<'r, K, V>,
        query: &K::Query,
        value: V,
    ) -> Result<*mut Slot<Pair<K, V>>> {
        let (root, hash, free) = match absence {
            Absence::Few if tx[self].len() < FEW => return self.add_to_few(tx, query, value),
            Absence::Few => {
                let root = self.outgrow(tx)?;
                (root, super::split::hash_of::<K>(tx[root].secret, query), None)
            }
            Absence::Bucket { root, hash, free } => (root, hash, free),
        };
        let (bucket, index) = match free {
            Some(at) => at,
            None => make_room(tx, root, hash)?,
        };
        let key = K::from_query(tx, query)?;
        let at = slot(bucket, index);
        let head = head(bucket);
        // SAFETY: of a bucket of the map; no entry is in the slot.
        unsafe {
            buffer::announce(tx, &[buffer::range(at), buffer::range(head), buffer::range(value_of(self))]);
            buffer::write(tx, at).put(Pair { key, value });
            buffer::write(tx, head).tags.set(index, hash);
        }
        tx[self].len += 1;
        Ok(at)
    }

    /// Adds one to few entries.
    fn add_to_few(self, tx: &mut Txn<'r>, query: &K::Query, value: V) -> Result<*mut Slot<Pair<K, V>>> {
        let (mut slots, len) = (tx[self].few(), tx[self].len());
        if len == slots.len {
            let new = buffer::moved(tx, slots, (2 * len).max(1))?;
            if let Some(old) = tx[self].few.replace(new) {
                // SAFETY: the map's own, which it has just let go of.
                unsafe { buffer::free(tx, old) };
            }
            slots = Slots::of(new);
        }
        let key = K::from_query(tx, query)?;
        // SAFETY: there is a slot behind the entries.
        unsafe {
            let at = slots.at(len);
            buffer::announce(tx, &[buffer::range(at), buffer::range(value_of(self))]);
            buffer::write(tx, at).put(Pair { key, value });
            tx[self].len += 1;
            Ok(at)
        }
    }

    /// Moves few entries into a bucket.
    #[cold]
    fn outgrow(self, tx: &mut Txn<'r>) -> Result<P<'r, Root<'r, K, V>>> {
        let (slots, len) = (tx[self].few(), tx[self].len());
        let (bucket, at) = new_bucket(tx, 0)?;
        let root = tx.alloc(Root { secret: tx.hash_secret(), top: Child::Bucket(bucket) })?;
        for i in 0..len {
            // SAFETY: entries, that move to a new bucket, bytes and all.
            unsafe {
                let from = slots.at(i);
                let hash = hash_in(tx, root, from);
                slot_in(at, i).copy_from_nonoverlapping(buffer::read(tx, from), 1);
                (*at).head.tags.set(i, hash);
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
        // SAFETY: made by `from_query`, and nobody has seen more than what it is looked up by.
        unsafe { key.give_up(tx) };
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

/// A slot of a bucket that is new.
fn slot_in<'r, K: Persist, V: Persist>(bucket: *mut Bucket<'r, K, V>, index: usize) -> *mut Slot<Pair<K, V>> {
    // SAFETY: within the bucket.
    unsafe { (&raw mut (*bucket).slots).cast::<Slot<Pair<K, V>>>().add(index) }
}
