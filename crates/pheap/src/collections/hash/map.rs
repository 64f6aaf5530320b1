//! `PHashMap` itself: where its entries are, and how many.
//!
//! What must hold: without a root, the first `len` slots of `few` have entries, and with one, there is no `few`. Nothing but the map leads to them. Only this file
//! writes the fields, and the slots of `few`.

#![allow(unsafe_code)]

use super::HashKey;
use super::bucket::{At, Bucket, Entries, Pair, Place, change_all, hash_of};
use super::directory::Root;
use crate::Persist;
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::collections::buffer::{self, Slot, Slots};
use crate::collections::common::sized;
use crate::error::Result;
use crate::os::cpu::{prefetch_read, prefetch_write};
use crate::ptr::{P, value_of};

/// So many entries are kept one behind the other.
pub(super) const FEW: usize = 8;

/// The slots of few entries.
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
///
#[doc = include_str!("phashmap.md")]
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

sized!(PHashMap<K, V> of "entries", "a buffer", PHashMap { len: 0, few: None, root: None }, |map| map.len as usize);

/// Where an entry is.
pub(super) enum Home<'r, K, V> {
    /// Among few.
    Few(usize),
    /// In a bucket, which is the first of its chain or another.
    Bucket { at: At<'r, K, V>, first: P<'r, Bucket<'r, K, V>> },
}

/// An entry, and where it is.
pub(super) type Found<'v, 'r, K, V> = (Home<'r, K, V>, &'v Pair<K, V>);

/// What there is instead of an entry.
pub(super) enum Absence<'r, K, V> {
    /// There are few entries, and not this one.
    Few,
    /// The hash of the key, and a slot that it can be put into, if one is at hand.
    Bucket { root: P<'r, Root<'r, K, V>>, hash: u64, free: Option<At<'r, K, V>> },
}

impl<'r, K: Persist, V: Persist> PHashMap<'r, K, V> {
    /// What leads to the entries, if there are more than a few.
    #[inline(always)]
    pub(super) fn root(&self) -> Option<P<'r, Root<'r, K, V>>> {
        self.root
    }

    /// The slots of few entries, and how many of them are in use.
    #[inline(always)]
    fn slots(&self) -> (Slots<Pair<K, V>>, usize) {
        self.few.map_or((Slots::none(), 0), |few| (Slots::of(few), self.len()))
    }

    /// The entries, if they are few; else none.
    #[inline(always)]
    pub(super) fn few<'v>(&self, view: &'v View<'r>) -> Entries<'v, 'r, K, V> {
        let Some(few) = self.few else { return Entries::none(view) };
        // SAFETY: as many entries as the length says, one behind the other.
        unsafe { Entries::new(view, Slots::first_of(few, 1).at(0), (1 << self.len) - 1) }
    }
}

impl<'r, K: HashKey<'r>, V: Persist> PHashMap<'r, K, V> {
    /// The entry of a key.
    #[inline(always)]
    pub(super) fn pair<'v>(&self, view: &'v View<'r>, query: &K::Query) -> Option<&'v Pair<K, V>> {
        self.find(view, query, None, prefetch_read).ok().map(|(_, pair)| pair)
    }

    /// The entry of a key, or where it can be put. The hash, if it is known. `prefetch` starts to load the entry.
    #[inline(always)]
    fn find<'v>(
        &self,
        view: &'v View<'r>,
        query: &K::Query,
        hash: Option<u64>,
        prefetch: impl FnOnce(*const u8),
    ) -> Result<Found<'v, 'r, K, V>, Absence<'r, K, V>> {
        let Some(root) = self.root else {
            let found = self.few(view).find(|(_, pair)| *pair.key.query(view) == *query);
            return found.map(|(i, pair)| (Home::Few(i), pair)).ok_or(Absence::Few);
        };
        let (secret, top) = view[root].parts();
        let hash = hash.unwrap_or_else(|| hash_of::<K>(secret, query));
        let Some(first) = root.walk(view, top, hash).bucket else {
            return Err(Absence::Bucket { root, hash, free: None });
        };
        prefetch(first.likely_place(hash));
        match first.search(view, hash, query) {
            Ok((at, pair)) => Ok((Home::Bucket { at, first }, pair)),
            Err(free) => Err(Absence::Bucket { root, hash, free }),
        }
    }
}

/// An entry of a map. While this has the transaction nobody else changes anything.
pub(super) struct Occupied<'t, 'r, K, V> {
    map: P<'r, PHashMap<'r, K, V>>,
    home: Home<'r, K, V>,
    pub(super) place: Place<'t, 'r, K, V>,
}

impl<'r, K: HashKey<'r>, V: Persist> Occupied<'_, 'r, K, V> {
    /// Moves the value out, and frees the key.
    #[inline(always)]
    pub(super) fn take(self) -> V {
        self.map.take(self.place.tx(), self.home)
    }

    /// Moves the key and the value out.
    pub(super) fn take_pair(self) -> (K, V) {
        let Pair { key, value } = self.map.take_pair(self.place.tx(), self.home);
        (key.into_inner(), value)
    }
}

impl<'r, K: HashKey<'r>, V: Persist> P<'r, PHashMap<'r, K, V>> {
    /// The entry of a key, or where it can be put. The hash, if it is known.
    #[inline(always)]
    #[allow(clippy::type_complexity)] // it gives the transaction back
    pub(super) fn find<'t>(
        self,
        tx: &'t mut Txn<'r>,
        query: &K::Query,
        hash: Option<u64>,
    ) -> Result<Occupied<'t, 'r, K, V>, (&'t mut Txn<'r>, Absence<'r, K, V>)> {
        let home = match tx[self].find(tx, query, hash, prefetch_write) {
            Ok((home, _)) => home,
            Err(absence) => return Err((tx, absence)),
        };
        let slot = self.slot_of(tx, &home);
        // SAFETY: that of an entry.
        Ok(Occupied { map: self, home, place: unsafe { Place::new(tx, slot) } })
    }

    /// Moves entries of another map here, from these homes, in an order in which they can be taken. `room` makes room for one, whose key is not there.
    ///
    /// # Errors
    /// Those of `room`. Some entries have moved then, and all others are still in the other map.
    pub(super) fn take_all(
        self,
        tx: &mut Txn<'r>,
        other: Self,
        homes: Vec<Home<'r, K, V>>,
        mut room: impl FnMut(&mut Txn<'r>, Absence<'r, K, V>, &K::Query) -> Result<Absence<'r, K, V>>,
    ) -> Result<()>
    where
        V: Persist<At<'r> = V>,
    {
        for home in homes {
            // SAFETY: the home of an entry.
            let pair = unsafe { buffer::read(tx, other.slot_of(tx, &home)).value() };
            let query: *const K::Query = pair.key.query(tx);
            // SAFETY: what a key is looked up by is not written to as long as the key is in its map, and this one is until the last use of this. What is copied meanwhile, for entries beside it or by a
            // transaction that goes on with its undo log, stays where it was as well.
            let query = unsafe { &*query };
            match tx[self].find(tx, query, None, prefetch_write) {
                Ok((here, _)) => {
                    let pair = other.take_pair(tx, home);
                    // SAFETY: that of an entry.
                    *unsafe { Place::new(tx, self.slot_of(tx, &here)) }.into_mut() = pair.value;
                    pair.key.give_up(tx);
                }
                Err(absence) => {
                    // First, for it may fail.
                    let absence = room(tx, absence, query)?;
                    let pair = other.take_pair(tx, home);
                    self.add(tx, absence, pair)?;
                }
            }
        }
        Ok(())
    }

    /// The slot of an entry.
    fn slot_of(self, view: &View<'r>, home: &Home<'r, K, V>) -> *mut Slot<Pair<K, V>> {
        match *home {
            // SAFETY: one of those that the map has.
            Home::Few(index) => unsafe { view[self].slots().0.at(index) },
            Home::Bucket { at: (bucket, slot), .. } => bucket.slot_ptr(slot),
        }
    }

    /// Makes room for one among few entries.
    pub(super) fn room_among_few(self, tx: &mut Txn<'r>) -> Result<Slots<Pair<K, V>>> {
        assert!(tx[self].root.is_none());
        let (slots, len) = tx[self].slots();
        if len < slots.len {
            return Ok(slots);
        }
        let new = buffer::moved(tx, slots, (2 * len).max(1))?;
        if let Some(old) = tx[self].few.replace(new) {
            // SAFETY: the map's own, which it has just let go of.
            unsafe { buffer::free(tx, old) };
        }
        Ok(Slots::of(new))
    }

    /// Adds one to few entries.
    pub(super) fn add_to_few<'t>(self, tx: &'t mut Txn<'r>, pair: Pair<K, V>) -> Result<Place<'t, 'r, K, V>> {
        let (slots, len) = (self.room_among_few(tx)?, tx[self].len());
        // SAFETY: there is a slot behind the entries.
        unsafe {
            let at = slots.at(len);
            buffer::announce(tx, &[buffer::range(at), buffer::range(value_of(self))]);
            buffer::write(tx, at).put(pair);
            tx[self].len += 1;
            Ok(Place::new(tx, at))
        }
    }

    /// Puts an entry into a slot that has none, of a bucket of the map.
    #[inline(always)]
    pub(super) fn put<'t>(
        self,
        tx: &'t mut Txn<'r>,
        (bucket, slot): At<'r, K, V>,
        hash: u64,
        pair: Pair<K, V>,
    ) -> Place<'t, 'r, K, V> {
        bucket.put(tx, slot, hash, pair, self);
        tx[self].len += 1;
        // SAFETY: there is an entry now.
        unsafe { Place::new(tx, bucket.slot_ptr(slot)) }
    }

    /// Moves few entries into a bucket.
    #[cold]
    pub(super) fn outgrow(self, tx: &mut Txn<'r>) -> Result<P<'r, Root<'r, K, V>>>
    where
        V: Persist<At<'r> = V>,
    {
        let (slots, len) = tx[self].slots();
        // SAFETY: so many entries, of which the map lets go.
        let root = unsafe { <P<'r, Root<'r, K, V>>>::of_few(tx, slots.range(0, len).cast(), len)? };
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
    pub(super) fn take(self, tx: &mut Txn<'r>, home: Home<'r, K, V>) -> V {
        let Pair { key, value } = self.take_pair(tx, home);
        key.give_up(tx);
        value
    }

    /// The same, with the key.
    pub(super) fn take_pair(self, tx: &mut Txn<'r>, home: Home<'r, K, V>) -> Pair<K, V> {
        match home {
            Home::Few(index) => self.take_from_few(tx, index),
            Home::Bucket { at: (bucket, slot), first } => {
                let pair = bucket.take(tx, slot, self);
                tx[self].len -= 1;
                if bucket != first && bucket.tags(tx).occupied() == 0 {
                    first.drop_empty(tx);
                }
                pair
            }
        }
    }

    fn take_from_few(self, tx: &mut Txn<'r>, index: usize) -> Pair<K, V> {
        let (slots, len) = tx[self].slots();
        assert!(index < len, "there is no entry");
        // SAFETY: entries: the last one moves to where the one that is taken was.
        unsafe {
            let (at, last) = (slots.at(index), slots.at(len - 1));
            buffer::announce(tx, &[buffer::range(at), buffer::range(last), buffer::range(value_of(self))]);
            let pair = buffer::read(tx, at).take();
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

    /// Calls `change` with each of few entries; the value can be changed.
    pub(super) fn change_few(self, tx: &mut Txn<'r>, change: &mut impl FnMut(&K::Query, &mut V)) {
        if let Some(few) = tx[self].few {
            // SAFETY: as many entries as the length says, one behind the other.
            unsafe { change_all(tx, Slots::first_of(few, 1).at(0), (1 << tx[self].len) - 1, change) };
        }
    }

    /// Moves all entries to a map that `add` adds them to, and frees all memory of this one. If there is an error, nothing has changed.
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
        // SAFETY: if there is an error, what is in the new map is garbage, and `add` keeps nothing, for it has no place to. Else the map lets go of its buffers, and
        // all entries are moved out. The new map has never been anything but a way to make another one.
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
    /// Shows `each` all entries, which move out, and frees all memory when the transaction commits.
    pub(super) fn drain(self, tx: &mut Txn<'r>, mut each: impl FnMut(&Txn<'r>, Pair<K, V>)) {
        let each = &mut |tx: &mut Txn<'r>, pair| {
            each(tx, pair);
            Ok(())
        };
        // SAFETY: a map is moved and never copied, so nothing else leads to what is in this one.
        unsafe {
            let moved = self.move_out(tx, each);
            debug_assert!(moved.is_ok());
            self.free(tx);
        }
    }

    /// Frees all memory when the transaction commits. What entries lead to is left to the next collection.
    pub(super) fn give_up(self, tx: &mut Txn<'r>) {
        // SAFETY: a map is moved and never copied, so nothing else leads to what is in this one.
        unsafe { self.free(tx) };
    }

    /// Moves all entries out, until there is an error.
    ///
    /// # Safety
    /// They are not used again here, or those that `each` has got are not used again.
    unsafe fn move_out(
        &self,
        tx: &mut Txn<'r>,
        each: &mut impl FnMut(&mut Txn<'r>, Pair<K, V>) -> Result<()>,
    ) -> Result<()> {
        let (few, len) = self.slots();
        for i in 0..len {
            // SAFETY: as many entries as the length says. That they move is the caller's premise.
            let pair = unsafe { buffer::read(tx, few.at(i)).take() };
            each(tx, pair)?;
        }
        // SAFETY: passed on to the caller.
        self.root.map_or(Ok(()), |root| unsafe { root.move_out(tx, each) })
    }

    /// Frees all memory when the transaction commits.
    ///
    /// # Safety
    /// Nothing leads to it but this map, which is not used again.
    unsafe fn free(self, tx: &mut Txn<'r>) {
        // SAFETY: passed on to the caller.
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
