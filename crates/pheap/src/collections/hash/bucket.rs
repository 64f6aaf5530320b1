//! Buckets, and what moves entries in and out of them.
//!
//! A slot has an entry if its tag is not 0, and one pointer leads to a bucket that is behind another one. Only this file reads and writes buckets; what leads to them
//! is in `directory`.

#![allow(unsafe_code)]

use std::marker::PhantomData;

use super::HashKey;
use super::tags::{ALL, SLOTS, Tags, bits, preferred};
use crate::Persist;
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::collections::KeyHasher;
use crate::collections::buffer::{self, Slot};
use crate::collections::common::copied;
use crate::collections::key::OwnKey;
use crate::error::Result;
use crate::os::cpu::prefetch_read;
use crate::ptr::{P, value_of};
use crate::units::LINE;

/// An entry. Whole words, so that no two of them share one.
#[derive(Persist)]
#[persist(own, id = "pheap::hash::Pair", crate = "crate")]
#[repr(C, align(8))]
pub(crate) struct Pair<K, V> {
    pub(super) key: OwnKey<K>,
    pub(super) value: V,
}

impl<K, V> Pair<K, V> {
    /// How many of them are in a cache line.
    pub(super) const IN_LINE: usize = match size_of::<Self>() {
        0..=2 => SLOTS,
        size @ 3..LINE => LINE / size,
        _ => 1,
    };
}

/// What a bucket says of its entries: all that a lookup of a key that is not there has to look at.
#[derive(Persist)]
#[persist(own, id = "pheap::hash::Head", crate = "crate")]
#[repr(C)]
pub(super) struct Head<'r, K, V> {
    tags: Tags,
    /// More entries of the same hash.
    next: Option<P<'r, Bucket<'r, K, V>>>,
}

impl<'r, K, V> Head<'r, K, V> {
    #[inline(always)]
    pub(super) fn tags(&self) -> &Tags {
        &self.tags
    }

    /// The bucket behind this one.
    #[inline(always)]
    pub(super) fn next(&self) -> Option<P<'r, Bucket<'r, K, V>>> {
        self.next
    }
}

/// Entries whose hashes begin with the same bits.
#[derive(Persist)]
#[persist(own, id = "pheap::hash::Bucket", crate = "crate")]
#[repr(C, align(64))]
pub(super) struct Bucket<'r, K, V> {
    head: Head<'r, K, V>,
    slots: [Slot<Pair<K, V>>; SLOTS],
}

/// The hash of a key.
#[inline(always)]
pub(super) fn hash_of<'r, K: HashKey<'r>>(secret: [u64; 2], query: &K::Query) -> u64 {
    let mut hasher = KeyHasher::new(secret);
    K::hash(query, &mut hasher);
    hasher.finish()
}

/// A slot of a bucket.
pub(super) type At<'r, K, V> = (P<'r, Bucket<'r, K, V>>, usize);

/// An entry, and where it is.
type Found<'v, 'r, K, V> = (At<'r, K, V>, &'v Pair<K, V>);

/// What becomes of a bucket that is divided.
pub(super) enum Halves<'r, K, V> {
    /// All entries are in the first half,
    First,
    /// or in the second one,
    Second,
    /// or those of the second one are in this new bucket.
    Both(P<'r, Bucket<'r, K, V>>),
}

/// Some entries of a bucket, or few, with the numbers of their slots. While the view is borrowed nobody changes them.
pub(super) struct Entries<'v, 'r, K, V> {
    view: &'v View<'r>,
    slots: *mut Slot<Pair<K, V>>,
    occupied: u32,
    entries: PhantomData<&'v Pair<K, V>>,
}

copied! { [K, V] Entries<'_, '_, K, V>; }

impl<'v, 'r, K: Persist, V: Persist> Entries<'v, 'r, K, V> {
    /// # Safety
    /// Live slots of the region of `view`, one behind the other. There are entries in those that are `occupied`.
    #[inline(always)]
    pub(super) unsafe fn new(view: &'v View<'r>, slots: *mut Slot<Pair<K, V>>, occupied: u32) -> Self {
        Entries { view, slots, occupied, entries: PhantomData }
    }

    #[inline(always)]
    pub(super) fn view(&self) -> &'v View<'r> {
        self.view
    }

    #[inline(always)]
    pub(super) fn none(view: &'v View<'r>) -> Self {
        Entries { view, slots: std::ptr::dangling_mut(), occupied: 0, entries: PhantomData }
    }
}

impl<'v, 'r, K: Persist, V: Persist> Iterator for Entries<'v, 'r, K, V> {
    type Item = (usize, &'v Pair<K, V>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.occupied == 0 {
            return None;
        }
        let slot = self.occupied.trailing_zeros() as usize;
        self.occupied &= self.occupied - 1;
        // SAFETY: a slot with an entry: the premise of `new`.
        Some((slot, unsafe { buffer::read(self.view, self.slots.add(slot)).value() }))
    }

    #[inline(always)]
    fn fold<B, F: FnMut(B, Self::Item) -> B>(self, init: B, mut f: F) -> B {
        let mut all = init;
        for slot in bits(self.occupied) {
            // SAFETY: a slot with an entry: the premise of `new`.
            all = f(all, (slot, unsafe { buffer::read(self.view, self.slots.add(slot)).value() }));
        }
        all
    }
}

/// An entry, to write. While this has the transaction nobody else changes anything.
pub(super) struct Place<'t, 'r, K, V> {
    tx: &'t mut Txn<'r>,
    slot: *mut Slot<Pair<K, V>>,
}

impl<'t, 'r, K: Persist, V: Persist> Place<'t, 'r, K, V> {
    /// # Safety
    /// A slot with an entry, of the region of `tx`.
    #[inline(always)]
    pub(super) unsafe fn new(tx: &'t mut Txn<'r>, slot: *mut Slot<Pair<K, V>>) -> Self {
        Place { tx, slot }
    }

    #[inline(always)]
    pub(super) fn tx(self) -> &'t mut Txn<'r> {
        self.tx
    }

    #[inline(always)]
    pub(super) fn value(&self) -> &V {
        // SAFETY: a slot with an entry.
        unsafe { &buffer::read(self.tx, self.slot).value().value }
    }

    #[inline(always)]
    pub(super) fn value_mut(&mut self) -> &mut V {
        Place { tx: self.tx, slot: self.slot }.into_mut()
    }

    #[inline(always)]
    pub(super) fn into_mut(self) -> &'t mut V {
        // SAFETY: a slot with an entry. The whole of it is written, as always: parts that overlap only partly would end the short path.
        unsafe {
            let pair = self.tx.writable(self.slot).cast::<Pair<K, V>>();
            &mut (*pair).value
        }
    }
}

/// Calls `change` with entries, whose values can be changed.
///
/// # Safety
/// Live slots of the region of `tx`, one behind the other. There are entries in those that are `occupied`.
pub(super) unsafe fn change_all<'r, K: HashKey<'r>, V: Persist>(
    tx: &mut Txn<'r>,
    slots: *mut Slot<Pair<K, V>>,
    occupied: u32,
    change: &mut impl FnMut(&K::Query, &mut V),
) {
    for slot in bits(occupied) {
        // SAFETY: a slot with an entry, as the caller promises. The key is written by nobody, neither here nor where the entry was before it was copied; and wherever a
        // transaction writes next (wider copies, the undo log, memory of its own if it is doomed), old copies stay as they are until it ends. `change` has no transaction.
        unsafe {
            let at = slots.add(slot);
            let query = std::ptr::from_ref(buffer::read(tx, at).value().key.query(tx));
            let pair = tx.writable(at).cast::<Pair<K, V>>();
            change(&*query, &mut (*pair).value);
        }
    }
}

impl<'r, K: Persist, V: Persist> P<'r, Bucket<'r, K, V>> {
    #[inline(always)]
    fn head_ptr(self) -> *mut Head<'r, K, V> {
        // SAFETY: a part of a live object.
        unsafe { &raw mut (*value_of(self)).head }
    }

    #[inline(always)]
    pub(super) fn slot_ptr(self, slot: usize) -> *mut Slot<Pair<K, V>> {
        assert!(slot < SLOTS);
        // SAFETY: a part of a live object.
        unsafe { (&raw mut (*value_of(self)).slots).cast::<Slot<Pair<K, V>>>().add(slot) }
    }

    #[inline(always)]
    pub(super) fn head<'v>(self, view: &'v View<'r>) -> &'v Head<'r, K, V> {
        // SAFETY: a part of a live object.
        unsafe { buffer::read(view, self.head_ptr()) }
    }

    #[inline(always)]
    fn head_mut<'t>(self, tx: &'t mut Txn<'r>) -> &'t mut Head<'r, K, V> {
        // SAFETY: a part of a live object.
        unsafe { buffer::write(tx, self.head_ptr()) }
    }

    #[inline(always)]
    pub(super) fn tags<'v>(self, view: &'v View<'r>) -> &'v Tags {
        // SAFETY: a part of a live object, all of which is looked up, as it is written.
        unsafe { &(*view.place_of(self.head_ptr())).tags }
    }

    /// The one behind it.
    #[inline(always)]
    pub(super) fn next(self, view: &View<'r>) -> Option<Self> {
        self.head(view).next
    }

    #[inline(always)]
    pub(super) fn entries<'v>(self, view: &'v View<'r>) -> Entries<'v, 'r, K, V> {
        self.those(view, self.tags(view).occupied())
    }

    /// Its entries, and the bucket behind it.
    #[inline(always)]
    pub(super) fn parts<'v>(self, view: &'v View<'r>) -> (Entries<'v, 'r, K, V>, Option<Self>) {
        let head = self.head(view);
        (self.those(view, head.tags.occupied()), head.next)
    }

    /// Those of its entries that are in these slots: of [`occupied`](Tags::occupied) ones some, or all.
    #[inline(always)]
    fn those<'v>(self, view: &'v View<'r>, occupied: u32) -> Entries<'v, 'r, K, V> {
        Entries { view, slots: self.slot_ptr(0), occupied, entries: PhantomData }
    }

    /// Where the entry of a hash would best be. A search asks for it before it has looked at the tags.
    #[inline(always)]
    pub(super) fn likely_place(self, hash: u64) -> *const u8 {
        self.slot_ptr(preferred(hash)).cast()
    }

    /// Lets all of it come from memory; of large entries only the first, for the others come soon enough.
    #[inline(always)]
    pub(super) fn ask_for_all(self) {
        let lines = const { size_of::<Bucket<'r, K, V>>().div_ceil(LINE) };
        for line in 0..lines.min(16) {
            prefetch_read(value_of(self).cast::<u8>().wrapping_add(LINE * line));
        }
    }

    /// A new one without entries.
    pub(super) fn alloc(tx: &Txn<'r>, depth: u32) -> Result<Self> {
        let (bucket, at) = tx.alloc_uninit::<Bucket<'r, K, V>>()?;
        // SAFETY: a new object, written for the first time; all zero, it has no entries.
        unsafe {
            at.write_bytes(0, 1);
            (&raw mut (*at).head.tags).write(Tags::new(depth));
        }
        Ok(bucket)
    }

    /// Puts an entry into a slot that has none. What `map` leads to will be written as well.
    #[inline(always)]
    pub(super) fn put<M: Persist>(
        self,
        tx: &mut Txn<'r>,
        slot: usize,
        hash: u64,
        pair: Pair<K, V>,
        map: P<'r, M>,
    ) {
        let (at, head) = (self.slot_ptr(slot), self.head_ptr());
        // SAFETY: parts of live objects.
        unsafe {
            buffer::announce(tx, &[buffer::range(at), buffer::range(head), buffer::range(value_of(map))]);
            buffer::write(tx, at).put(pair);
        }
        self.head_mut(tx).tags.set(slot, hash);
    }

    /// Moves an entry out. What `map` leads to will be written as well.
    #[inline(always)]
    pub(super) fn take<M: Persist>(self, tx: &mut Txn<'r>, slot: usize, map: P<'r, M>) -> Pair<K, V> {
        let (at, head) = (self.slot_ptr(slot), self.head_ptr());
        // SAFETY: parts of live objects. There is an entry, as is seen, and it is not read there again, for the tag says so.
        unsafe {
            let vacated = if <Pair<K, V>>::POINTERS { buffer::range(at) } else { (at.cast(), 0) };
            buffer::announce(tx, &[vacated, buffer::range(head), buffer::range(value_of(map))]);
            let tags = &mut buffer::write(tx, head).tags;
            assert!(tags.has(slot), "there is no entry");
            tags.clear(slot);
            let pair = buffer::read(tx, at).take();
            if <Pair<K, V>>::POINTERS {
                buffer::write(tx, at).vacate();
            }
            pair
        }
    }

    /// A new bucket without entries behind this one.
    pub(super) fn push_behind(self, tx: &mut Txn<'r>) -> Result<Self> {
        let &Head { tags, next } = self.head(tx);
        let new = Self::alloc(tx, tags.depth())?;
        // SAFETY: a part of a new object.
        unsafe { (&raw mut (*value_of(new)).head.next).write(next) };
        self.head_mut(tx).next = Some(new);
        Ok(new)
    }

    /// Gives up the buckets behind this one that have no entries.
    pub(super) fn drop_empty(self, tx: &mut Txn<'r>) {
        let mut last = self;
        while let Some(bucket) = last.next(tx) {
            let &Head { tags, next } = bucket.head(tx);
            if tags.occupied() == 0 {
                last.head_mut(tx).next = next;
                // SAFETY: only the one before led to it.
                unsafe { buffer::free(tx, bucket) };
            } else {
                last = bucket;
            }
        }
    }

    /// Moves all entries out, until there is an error.
    ///
    /// # Safety
    /// They are not used again here, or those that `each` has got are not used again.
    pub(super) unsafe fn move_out(
        self,
        tx: &mut Txn<'r>,
        each: &mut impl FnMut(&mut Txn<'r>, Pair<K, V>) -> Result<()>,
    ) -> Result<()> {
        bits(self.tags(tx).occupied()).try_for_each(|slot| {
            // SAFETY: a slot with an entry. That it moves is the caller's premise.
            let pair = unsafe { buffer::read(tx, self.slot_ptr(slot)).take() };
            each(tx, pair)
        })
    }
}

impl<'r, K: HashKey<'r>, V: Persist> P<'r, Bucket<'r, K, V>> {
    /// The entry of a key, in this bucket or behind it; or a slot that it can be put into, if one is at hand.
    #[inline(always)]
    pub(super) fn search<'v>(
        self,
        view: &'v View<'r>,
        hash: u64,
        query: &K::Query,
    ) -> Result<Found<'v, 'r, K, V>, Option<At<'r, K, V>>> {
        let first = self.head(view);
        let (mut bucket, mut head) = (self, first);
        loop {
            let mut candidates = bucket.those(view, head.tags.matching(hash));
            if let Some((slot, pair)) = candidates.find(|(_, pair)| *pair.key.query(view) == *query) {
                return Ok(((bucket, slot), pair));
            }
            let Some(next) = head.next else { break };
            (bucket, head) = (next, next.head(view));
        }
        if first.next.is_some() {
            return Err(None);
        }
        Err(first.tags.free_near(hash, <Pair<K, V>>::IN_LINE).map(|slot| (self, slot)))
    }

    /// Calls `change` with each entry; the value can be changed.
    pub(super) fn change_all(self, tx: &mut Txn<'r>, change: &mut impl FnMut(&K::Query, &mut V)) {
        // SAFETY: slots with entries.
        unsafe { change_all(tx, self.slot_ptr(0), self.tags(tx).occupied(), change) };
    }

    /// A new one of few entries.
    ///
    /// # Safety
    /// Slots with entries, one behind the other, that are not used again if this succeeds.
    pub(super) unsafe fn of_few(
        tx: &Txn<'r>,
        secret: [u64; 2],
        few: *mut Slot<Pair<K, V>>,
        len: usize,
    ) -> Result<Self> {
        let bucket = Self::alloc(tx, 0)?;
        for i in 0..len {
            // SAFETY: entries, as the caller promises, that move to a new bucket.
            unsafe {
                let from = few.add(i);
                let hash = hash_of::<K>(secret, buffer::read(tx, from).value().key.query(tx));
                let tags = &mut (*bucket.head_ptr()).tags;
                let slot = tags.free_near(hash, <Pair<K, V>>::IN_LINE).expect("a bucket has room for few");
                buffer::move_to_new(tx, from, bucket.slot_ptr(slot));
                tags.set(slot, hash);
            }
        }
        Ok(bucket)
    }

    /// Divides it, which is full, by the next bit of the hash. Returns how many bits were known before. What leads to half of it, as `links` says, will be written as well.
    ///
    /// # Safety
    /// That is within live objects of the region.
    pub(super) unsafe fn divide(
        self,
        tx: &mut Txn<'r>,
        secret: [u64; 2],
        links: impl FnOnce(u32) -> (*mut u8, usize),
    ) -> Result<(u32, Halves<'r, K, V>)> {
        let &Head { mut tags, next } = self.head(tx);
        assert!(next.is_none() && tags.free() == 0);
        let (depth, second) = (tags.depth(), tags.second_half());
        let mut hashes = [0; SLOTS];
        let moves = tags.deepen();
        if moves {
            // The user's code comes first: should it panic, nothing has changed.
            for (slot, pair) in self.entries(tx) {
                hashes[slot] = hash_of::<K>(secret, pair.key.query(tx));
            }
        }
        let note = |tags: &mut Tags, slots: u32| bits(slots).for_each(|i| tags.set(i, hashes[i]));
        if second == 0 || second == ALL {
            if moves {
                note(&mut tags, ALL);
            }
            self.head_mut(tx).tags = tags;
            return Ok((depth, if second == 0 { Halves::First } else { Halves::Second }));
        }
        let new = Self::alloc(tx, tags.depth())?;
        let mut new_tags = Tags::new(tags.depth());
        tags.move_to(&mut new_tags, second);
        if moves {
            note(&mut tags, ALL & !second);
            note(&mut new_tags, second);
        }
        // SAFETY: parts of live objects; entries move to the same slots of a new bucket, and the tags say so.
        unsafe {
            (*new.head_ptr()).tags = new_tags;
            bits(second).for_each(|i| buffer::move_to_new(tx, self.slot_ptr(i), new.slot_ptr(i)));
            if tx.logs_in_place() {
                let mut parts = vec![buffer::range(self.head_ptr()), links(depth)];
                if <Pair<K, V>>::POINTERS {
                    parts.extend(bits(second).map(|i| buffer::range(self.slot_ptr(i))));
                }
                buffer::announce(tx, &parts);
            }
            self.head_mut(tx).tags = tags;
            if <Pair<K, V>>::POINTERS {
                bits(second).for_each(|i| buffer::write(tx, self.slot_ptr(i)).vacate());
            }
        }
        Ok((depth, Halves::Both(new)))
    }

    /// Knows one bit more of the hash, which all entries of the chain have.
    pub(super) fn deepen(self, tx: &mut Txn<'r>, hash: u64) {
        let tags = &mut self.head_mut(tx).tags;
        if tags.deepen() {
            // Those of the first bucket are what counts when it is the only one again.
            bits(tags.occupied()).for_each(|i| tags.set(i, hash));
        }
    }
}
