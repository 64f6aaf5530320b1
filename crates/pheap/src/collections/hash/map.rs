//! `PHashMap`: the array of a small map, the pointer to the trie of a larger map, and the number of entries.
//!
//! Invariants: without a root, the first `len` slots of the array `few` have entries; with a root, `few` is
//! `None`. Only the map points to its array and its root. Only this file writes single fields of a map, and
//! stores entries in `few`.

#![allow(unsafe_code)]

use super::HashKey;
use super::bucket::{Bucket, BucketEntries, BucketSlot, EntryMut, Pair, change_all, hash_of};
use super::directory::Root;
use crate::Persist;
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::collections::buffer::{self, Slot, Slots};
use crate::collections::common::sized;
use crate::error::Result;
use crate::os::cpu::{prefetch_read, prefetch_write};
use crate::ptr::{P, value_of};

/// The most entries that a small map keeps in an array.
pub(super) const FEW: usize = 8;

/// The array of the entries of a small map.
type SmallMapSlots<'r, K, V> = P<'r, [Slot<Pair<K, V>>]>;

/// A hash map: `HashMap` for a heap.
///
/// It is read through a reference, and changed through its pointer. Keys are passed in their borrowed form: a
/// `&str` for `P<str>`.
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
/// **How it grows.** If there are more than 8 entries, no insertion moves all of them to a larger table. The
/// map is an *extendible hash table*: buckets of 27 entries, found by the first bits of the hash through a
/// trie of directories. An insertion into a full bucket splits it: it writes about half of its 27 entries to
/// a new bucket, and up to 4 KiB of a directory; in one of four cases it recomputes the hashes of the 27
/// keys. It does more only if all 27 fall into the same half: then it goes on with the next bit. The cost of
/// an insertion does not depend on the size of the map; so there is no `reserve` either. Entries larger than
/// some hundred bytes make a split more expensive: store a [`P`] to them.
///
/// **Memory.** A map is 24 bytes. Up to 8 entries form an array with room for 1, 2, 4 or 8 of them, and are
/// compared one by one. A map that gets more entries has buckets from then on, until it is cleared, drained
/// or shrunk. On average, buckets are about two thirds full: some 27 bytes for an entry of 16. Removing
/// entries does not free buckets (they are reused), except additional buckets for keys with equal hashes: see
/// [`shrink_to_fit`](P::shrink_to_fit) and [`clear`](P::clear).
///
/// **Hashes** are computed by SipHash-1-3 with a secret of the heap, which the map stores, so that an
/// attacker cannot prepare keys that collide. Keys with equal hashes (because of a bad [`HashKey`]) are
/// compared one by one.
///
/// A value that is a collection can be read, replaced and moved, but not changed in place: use a
/// `PHashMap<K, P<PVec<T>>>` for that.
///
#[doc = include_str!("phashmap.md")]
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::PHashMap", crate = "crate")]
pub struct PHashMap<'r, K, V> {
    len: u64,
    /// The array of the entries of a small map. A map with a root has no array.
    few: Option<SmallMapSlots<'r, K, V>>,
    /// The root of the trie of a larger map.
    root: Option<P<'r, Root<'r, K, V>>>,
}

sized!(
    PHashMap<K, V> of "entries", "a buffer", PHashMap { len: 0, few: None, root: None },
    |map| map.len as usize
);

/// The place of an entry.
pub(super) enum EntryHome<'r, K, V> {
    /// In the array of a small map, in the slot with this index.
    Few(usize),
    /// In a bucket; `first` is the first bucket of its chain.
    Bucket { at: BucketSlot<'r, K, V>, first: P<'r, Bucket<'r, K, V>> },
}

/// An entry, and its place.
pub(super) type EntryAt<'v, 'r, K, V> = (EntryHome<'r, K, V>, &'v Pair<K, V>);

/// The result of a search for a missing key.
pub(super) enum MissingKey<'r, K, V> {
    /// The map is small, and does not have the key.
    Few,
    /// The map has a trie with this root, and no entry for the key. Also the hash of the key, and a free slot
    /// for it, if one is known.
    Bucket { root: P<'r, Root<'r, K, V>>, hash: u64, free: Option<BucketSlot<'r, K, V>> },
}

impl<'r, K: Persist, V: Persist> PHashMap<'r, K, V> {
    /// Returns the root of the trie, if the map is not small.
    #[inline(always)]
    pub(super) fn root(&self) -> Option<P<'r, Root<'r, K, V>>> {
        self.root
    }

    /// Returns the slots of the array of a small map, and how many are in use; no slots for a larger map.
    #[inline(always)]
    fn slots(&self, view: &View<'r>) -> (Slots<Pair<K, V>>, usize) {
        self.few.map_or((Slots::none(), 0), |few| (Slots::from_buffer(view, few), self.len()))
    }

    /// Returns the entries of a small map; of a larger one, none.
    #[inline(always)]
    pub(super) fn few<'v>(&self, view: &'v View<'r>) -> BucketEntries<'v, 'r, K, V> {
        let Some(few) = self.few else { return BucketEntries::none(view) };
        // SAFETY: by the invariant, the first `len` slots of `few` have entries.
        unsafe { BucketEntries::new(view, Slots::first_of(few, 1).slot_ptr(0), (1 << self.len) - 1) }
    }
}

impl<'r, K: HashKey<'r>, V: Persist> PHashMap<'r, K, V> {
    /// Returns the entry of a key, if the map has the key.
    #[inline(always)]
    pub(super) fn pair<'v>(&self, view: &'v View<'r>, query: &K::Query) -> Option<&'v Pair<K, V>> {
        self.find_entry(view, query, None, prefetch_read).ok().map(|(_, pair)| pair)
    }

    /// Finds the entry of a key, or the place for it. `hash` is the hash of the key, if the caller knows it.
    /// Before a search in a bucket, `prefetch` gets the address at which the entry probably is.
    #[inline(always)]
    fn find_entry<'v>(
        &self,
        view: &'v View<'r>,
        query: &K::Query,
        hash: Option<u64>,
        prefetch: impl FnOnce(*const u8),
    ) -> Result<EntryAt<'v, 'r, K, V>, MissingKey<'r, K, V>> {
        let Some(root) = self.root else {
            let found = self.few(view).find(|(_, pair)| *pair.key.query(view) == *query);
            return found.map(|(i, pair)| (EntryHome::Few(i), pair)).ok_or(MissingKey::Few);
        };
        let (secret, top) = view[root].parts();
        let hash = hash.unwrap_or_else(|| hash_of::<K>(secret, query));
        let Some(first) = root.walk(view, top, hash).bucket else {
            return Err(MissingKey::Bucket { root, hash, free: None });
        };
        prefetch(first.likely_place(hash));
        match first.search(view, hash, query) {
            Ok((at, pair)) => Ok((EntryHome::Bucket { at, first }, pair)),
            Err(free) => Err(MissingKey::Bucket { root, hash, free }),
        }
    }
}

/// An entry of a map that a search has found. It borrows the transaction, so the map cannot change in
/// between.
pub(super) struct FoundEntry<'t, 'r, K, V> {
    map: P<'r, PHashMap<'r, K, V>>,
    home: EntryHome<'r, K, V>,
    pub(super) place: EntryMut<'t, 'r, K, V>,
}

impl<'r, K: HashKey<'r>, V: Persist> FoundEntry<'_, 'r, K, V> {
    /// Removes the entry, frees the key, and returns the value.
    #[inline(always)]
    pub(super) fn take_value(self) -> V {
        self.map.take_value(self.place.tx(), self.home)
    }

    /// Removes the entry, and returns the key and the value.
    pub(super) fn take_pair(self) -> (K, V) {
        let Pair { key, value } = self.map.take_pair(self.place.tx(), self.home);
        (key.into_inner(), value)
    }
}

impl<'r, K: HashKey<'r>, V: Persist> P<'r, PHashMap<'r, K, V>> {
    /// Finds the entry of a key, to write, or the place for it. `hash` is the hash of the key, if the caller
    /// knows it.
    #[inline(always)]
    #[allow(clippy::type_complexity)] // the error returns the transaction to the caller
    pub(super) fn find_entry_mut<'t>(
        self,
        tx: &'t mut Txn<'r>,
        query: &K::Query,
        hash: Option<u64>,
    ) -> Result<FoundEntry<'t, 'r, K, V>, (&'t mut Txn<'r>, MissingKey<'r, K, V>)> {
        let home = match tx[self].find_entry(tx, query, hash, prefetch_write) {
            Ok((home, _)) => home,
            Err(absence) => return Err((tx, absence)),
        };
        let slot = self.slot_of(tx, &home);
        // SAFETY: `find_entry` has returned the place of an entry, so its slot has one.
        Ok(FoundEntry { map: self, home, place: unsafe { EntryMut::new(tx, slot) } })
    }

    /// Moves entries of another map to this one, from the places `homes`, which are in an order in which they
    /// can be removed. `room` makes room for an entry whose key this map does not have.
    ///
    /// # Errors
    /// The errors of `room`. Then some entries have moved, and all others are still in the other map.
    pub(super) fn take_all(
        self,
        tx: &mut Txn<'r>,
        other: Self,
        homes: Vec<EntryHome<'r, K, V>>,
        mut room: impl FnMut(&mut Txn<'r>, MissingKey<'r, K, V>, &K::Query) -> Result<MissingKey<'r, K, V>>,
    ) -> Result<()>
    where
        V: Persist<At<'r> = V>,
    {
        for home in homes {
            // SAFETY: `home` is the place of an entry of `other`.
            let pair = unsafe { buffer::read(tx, other.slot_of(tx, &home)).value() };
            let query: *const K::Query = pair.key.query(tx);
            // SAFETY: the query of a key is not written as long as the key is in its map, and this key is in
            // `other` until the last use of the query. If the transaction copies the entry in between, for
            // its neighbours or because it becomes long, the original stays where it is.
            let query = unsafe { &*query };
            match tx[self].find_entry(tx, query, None, prefetch_write) {
                Ok((here, _)) => {
                    let pair = other.take_pair(tx, home);
                    // SAFETY: `find_entry` has returned the place of an entry, so its slot has one.
                    *unsafe { EntryMut::new(tx, self.slot_of(tx, &here)) }.into_mut() = pair.value;
                    pair.key.free_key(tx);
                }
                Err(absence) => {
                    // Make room first, because that may fail.
                    let absence = room(tx, absence, query)?;
                    let pair = other.take_pair(tx, home);
                    self.add(tx, absence, pair)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the slot of an entry.
    fn slot_of(self, view: &View<'r>, home: &EntryHome<'r, K, V>) -> *mut Slot<Pair<K, V>> {
        match *home {
            // SAFETY: `index` is the place of an entry, so it is less than the number of slots.
            EntryHome::Few(index) => unsafe { view[self].slots(view).0.slot_ptr(index) },
            EntryHome::Bucket { at: (bucket, slot), .. } => bucket.slot_ptr(slot),
        }
    }

    /// Makes room for one more entry in the array of a small map. Returns the slots of the array.
    pub(super) fn room_among_few(self, tx: &mut Txn<'r>) -> Result<Slots<Pair<K, V>>> {
        assert!(tx[self].root.is_none());
        let (slots, len) = tx[self].slots(tx);
        if len < slots.len {
            return Ok(slots);
        }
        let new = buffer::moved(tx, slots, (2 * len).max(1))?;
        if let Some(old) = tx[self].few.replace(new) {
            // SAFETY: the map owned the array, and has just dropped it.
            unsafe { buffer::free(tx, old) };
        }
        Ok(Slots::from_buffer(tx, new))
    }

    /// Adds an entry to a small map.
    pub(super) fn add_to_few<'t>(
        self,
        tx: &'t mut Txn<'r>,
        pair: Pair<K, V>,
    ) -> Result<EntryMut<'t, 'r, K, V>> {
        let (slots, len) = (self.room_among_few(tx)?, tx[self].len());
        // SAFETY: `room_among_few` has made the number of slots greater than `len`.
        unsafe {
            let at = slots.slot_ptr(len);
            buffer::announce(tx, &[buffer::range(at), buffer::range(value_of(self))]);
            buffer::write(tx, at).put(pair);
            tx[self].len += 1;
            Ok(EntryMut::new(tx, at))
        }
    }

    /// Stores an entry in a free slot of a bucket of the map.
    #[inline(always)]
    pub(super) fn put<'t>(
        self,
        tx: &'t mut Txn<'r>,
        (bucket, slot): BucketSlot<'r, K, V>,
        hash: u64,
        pair: Pair<K, V>,
    ) -> EntryMut<'t, 'r, K, V> {
        bucket.put(tx, slot, hash, pair, self);
        tx[self].len += 1;
        // SAFETY: `put` has stored an entry in the slot.
        unsafe { EntryMut::new(tx, bucket.slot_ptr(slot)) }
    }

    /// Moves the entries of a small map to a bucket below a new root, and returns the root.
    #[cold]
    pub(super) fn outgrow(self, tx: &mut Txn<'r>) -> Result<P<'r, Root<'r, K, V>>>
    where
        V: Persist<At<'r> = V>,
    {
        let (slots, len) = tx[self].slots(tx);
        // SAFETY: by the invariant, the first `len` slots have entries. The map drops the array below.
        let root = unsafe { <P<'r, Root<'r, K, V>>>::of_few(tx, slots.range(0, len).cast(), len)? };
        let map = &mut tx[self];
        let old = map.few.take();
        map.root = Some(root);
        if let Some(old) = old {
            // SAFETY: the map owned the array, and has just dropped it.
            unsafe { buffer::free(tx, old) };
        }
        Ok(root)
    }

    /// Removes the entry at `home`, frees its key, and returns its value.
    #[inline(always)]
    pub(super) fn take_value(self, tx: &mut Txn<'r>, home: EntryHome<'r, K, V>) -> V {
        let Pair { key, value } = self.take_pair(tx, home);
        key.free_key(tx);
        value
    }

    /// Removes the entry at `home`, and returns it.
    pub(super) fn take_pair(self, tx: &mut Txn<'r>, home: EntryHome<'r, K, V>) -> Pair<K, V> {
        match home {
            EntryHome::Few(index) => self.take_from_few(tx, index),
            EntryHome::Bucket { at: (bucket, slot), first } => {
                let pair = bucket.take_entry(tx, slot, self);
                tx[self].len -= 1;
                if bucket != first && bucket.tags(tx).occupied() == 0 {
                    first.drop_empty(tx);
                }
                pair
            }
        }
    }

    fn take_from_few(self, tx: &mut Txn<'r>, index: usize) -> Pair<K, V> {
        let (slots, len) = tx[self].slots(tx);
        assert!(index < len, "there is no entry");
        // SAFETY: the slots `index` and `len - 1` have entries, by the assertion. The last entry moves to the
        // place of the removed one.
        unsafe {
            let (at, last) = (slots.slot_ptr(index), slots.slot_ptr(len - 1));
            buffer::announce(tx, &[buffer::range(at), buffer::range(last), buffer::range(value_of(self))]);
            let pair = buffer::read(tx, at).move_out();
            if at != last {
                let moved = std::ptr::read(buffer::read(tx, last));
                *buffer::write(tx, at) = moved;
            }
            if <Pair<K, V>>::POINTERS {
                buffer::write(tx, last).vacate();
            }
            tx[self].len -= 1;
            pair
        }
    }

    /// Calls `change` with each entry, if the map is small. `change` may change the value.
    pub(super) fn change_few(self, tx: &mut Txn<'r>, change: &mut impl FnMut(&K::Query, &mut V)) {
        if let Some(few) = tx[self].few {
            // SAFETY: by the invariant, the first `len` slots of `few` have entries.
            unsafe { change_all(tx, Slots::first_of(few, 1).slot_ptr(0), (1 << tx[self].len) - 1, change) };
        }
    }

    /// Moves all entries to a new table by `add`, and frees the memory of the old table. If this fails,
    /// nothing has changed.
    pub(super) fn rebuild(
        self,
        tx: &mut Txn<'r>,
        add: fn(Self, &mut Txn<'r>, Pair<K, V>) -> Result<()>,
    ) -> Result<()>
    where
        V: Persist<At<'r> = V>,
    {
        let new = tx.alloc(PHashMap::new())?;
        let PHashMap { len, few, root } = tx[self];
        let old = PHashMap { len, few, root };
        // SAFETY: if this fails, the new map with its entries is garbage, and `add` cannot keep any of them
        // elsewhere. Otherwise `self` gets the new map's fields, and all entries were moved out of the old
        // buffers. Only this call has had the new map.
        unsafe {
            old.move_out(tx, &mut |tx, pair| add(new, tx, pair))?;
            tx[self] = std::mem::take(&mut tx[new]);
            buffer::free(tx, new);
            old.free(tx);
        }
        Ok(())
    }
}

impl<'r, K: Persist, V: Persist> PHashMap<'r, K, V> {
    /// Moves all entries out, and passes each to `each`. Frees the memory of the map when the transaction
    /// commits.
    pub(super) fn drain(self, tx: &mut Txn<'r>, mut each: impl FnMut(&Txn<'r>, Pair<K, V>)) {
        let each = &mut |tx: &mut Txn<'r>, pair| {
            each(tx, pair);
            Ok(())
        };
        // SAFETY: a map is moved and never copied, so there is no other pointer to the nodes and entries of
        // this one.
        unsafe {
            let moved = self.move_out(tx, each);
            debug_assert!(moved.is_ok());
            self.free(tx);
        }
    }

    /// Frees the memory of the map when the transaction commits. Objects that the entries point to are left
    /// to the next collection.
    pub(super) fn free_table(self, tx: &mut Txn<'r>) {
        // SAFETY: a map is moved and never copied, so there is no other pointer to the nodes of this one.
        unsafe { self.free(tx) };
    }

    /// Moves all entries of the map out of their slots, and passes each to `each`, until `each` returns an
    /// error.
    ///
    /// # Safety
    /// Either the caller does not use the entries in the map again, or it does not use those that `each` has
    /// got.
    unsafe fn move_out(
        &self,
        tx: &mut Txn<'r>,
        each: &mut impl FnMut(&mut Txn<'r>, Pair<K, V>) -> Result<()>,
    ) -> Result<()> {
        let (few, len) = self.slots(tx);
        for i in 0..len {
            // SAFETY: by the invariant, the first `len` slots have entries. The caller's premise allows the
            // move.
            let pair = unsafe { buffer::read(tx, few.slot_ptr(i)).move_out() };
            each(tx, pair)?;
        }
        // SAFETY: the caller's premise for all entries covers those below the root.
        self.root.map_or(Ok(()), |root| unsafe { root.move_out(tx, each) })
    }

    /// Frees the array, or the trie, of the map when the transaction commits.
    ///
    /// # Safety
    /// Only this map points to its array, and to its root.
    unsafe fn free(self, tx: &mut Txn<'r>) {
        // SAFETY: only this map points to the array and to the root, by the caller's premise, and it is
        // consumed.
        unsafe {
            if let Some(few) = self.few {
                buffer::free(tx, few);
            }
            if let Some(root) = self.root {
                root.free(tx);
            }
        }
    }
}
