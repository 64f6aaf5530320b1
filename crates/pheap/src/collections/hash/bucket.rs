//! Buckets, and the moves of entries into and out of them.
//!
//! A slot has an entry if its tag is not 0. If more entries have equal hashes than a bucket has slots, their
//! buckets form a chain. Only one pointer leads to a bucket that is not the first of its chain. Of the files
//! of a hash map, only this one writes tags and chains, and moves entries into and out of buckets;
//! `directory` has the pointers to the first buckets of chains.

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

/// An entry of a hash map: a key and its value. It consists of whole words, so that no two entries share a
/// word.
#[derive(Persist)]
#[persist(own, id = "pheap::hash::Pair", crate = "crate")]
#[repr(C, align(8))]
pub(crate) struct Pair<K, V> {
    pub(super) key: OwnKey<K>,
    pub(super) value: V,
}

impl<K, V> Pair<K, V> {
    /// Number of entries that fit into a cache line: at least 1, and at most the slots of a bucket.
    pub(super) const IN_LINE: usize = match size_of::<Self>() {
        0..=2 => SLOTS,
        size @ 3..LINE => LINE / size,
        _ => 1,
    };
}

/// The tags of a bucket, and the pointer to the next bucket of its chain: most lookups of missing keys read
/// only this part of a bucket.
#[derive(Persist)]
#[persist(own, id = "pheap::hash::Head", crate = "crate")]
#[repr(C)]
pub(super) struct Head<'r, K, V> {
    tags: Tags,
    /// The next bucket of the chain, with more entries of the same hash; `None` in the last bucket.
    next: Option<P<'r, Bucket<'r, K, V>>>,
}

impl<'r, K, V> Head<'r, K, V> {
    #[inline(always)]
    pub(super) fn tags(&self) -> &Tags {
        &self.tags
    }

    /// Returns the next bucket of the chain.
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

/// Returns the hash of a key.
#[inline(always)]
pub(super) fn hash_of<'r, K: HashKey<'r>>(secret: [u64; 2], query: &K::Query) -> u64 {
    let mut hasher = KeyHasher::new(secret);
    K::hash(query, &mut hasher);
    hasher.finish()
}

/// A bucket, and the index of one of its slots.
pub(super) type BucketSlot<'r, K, V> = (P<'r, Bucket<'r, K, V>>, usize);

/// An entry, and its slot.
type FoundSlot<'v, 'r, K, V> = (BucketSlot<'r, K, V>, &'v Pair<K, V>);

/// The result of dividing a bucket in two halves by a bit of the hash.
pub(super) enum SplitHalves<'r, K, V> {
    /// All entries are in the first half.
    First,
    /// All entries are in the second half.
    Second,
    /// Both halves have entries; those of the second half are in this new bucket.
    Both(P<'r, Bucket<'r, K, V>>),
}

/// Some entries of a bucket, or of a small map, with the numbers of their slots. They do not change while the
/// view is borrowed.
pub(super) struct BucketEntries<'v, 'r, K, V> {
    view: &'v View<'r>,
    slots: *mut Slot<Pair<K, V>>,
    occupied: u32,
    entries: PhantomData<&'v Pair<K, V>>,
}

copied! { [K, V] BucketEntries<'_, '_, K, V>; }

impl<'v, 'r, K: Persist, V: Persist> BucketEntries<'v, 'r, K, V> {
    /// # Safety
    /// `slots` are consecutive live slots of the region of `view`, and those in the bit mask `occupied` have
    /// entries.
    #[inline(always)]
    pub(super) unsafe fn new(view: &'v View<'r>, slots: *mut Slot<Pair<K, V>>, occupied: u32) -> Self {
        BucketEntries { view, slots, occupied, entries: PhantomData }
    }

    #[inline(always)]
    pub(super) fn view(&self) -> &'v View<'r> {
        self.view
    }

    #[inline(always)]
    pub(super) fn none(view: &'v View<'r>) -> Self {
        BucketEntries { view, slots: std::ptr::dangling_mut(), occupied: 0, entries: PhantomData }
    }
}

impl<'v, 'r, K: Persist, V: Persist> Iterator for BucketEntries<'v, 'r, K, V> {
    type Item = (usize, &'v Pair<K, V>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.occupied == 0 {
            return None;
        }
        let slot = self.occupied.trailing_zeros() as usize;
        self.occupied &= self.occupied - 1;
        // SAFETY: the slot is one of the occupied ones, so it has an entry, by the premise of `new`.
        Some((slot, unsafe { buffer::read(self.view, self.slots.add(slot)).value() }))
    }

    #[inline(always)]
    fn fold<B, F: FnMut(B, Self::Item) -> B>(self, init: B, mut f: F) -> B {
        let mut all = init;
        for slot in bits(self.occupied) {
            // SAFETY: the slot is one of the occupied ones, so it has an entry, by the premise of `new`.
            all = f(all, (slot, unsafe { buffer::read(self.view, self.slots.add(slot)).value() }));
        }
        all
    }
}

/// An entry, to write. It borrows the transaction, so the map cannot change in between.
pub(super) struct EntryMut<'t, 'r, K, V> {
    tx: &'t mut Txn<'r>,
    slot: *mut Slot<Pair<K, V>>,
}

impl<'t, 'r, K: Persist, V: Persist> EntryMut<'t, 'r, K, V> {
    /// # Safety
    /// `slot` is a slot of the region of `tx` that has an entry.
    #[inline(always)]
    pub(super) unsafe fn new(tx: &'t mut Txn<'r>, slot: *mut Slot<Pair<K, V>>) -> Self {
        EntryMut { tx, slot }
    }

    #[inline(always)]
    pub(super) fn tx(self) -> &'t mut Txn<'r> {
        self.tx
    }

    #[inline(always)]
    pub(super) fn value(&self) -> &V {
        // SAFETY: `slot` has an entry, by the premise of `new`.
        unsafe { &buffer::read(self.tx, self.slot).value().value }
    }

    #[inline(always)]
    pub(super) fn value_mut(&mut self) -> &mut V {
        EntryMut { tx: self.tx, slot: self.slot }.into_mut()
    }

    #[inline(always)]
    pub(super) fn into_mut(self) -> &'t mut V {
        // SAFETY: `slot` has an entry, by the premise of `new`. The whole slot is made crash-safe, as in all
        // writes of entries: copies that overlap only partly could make the transaction long.
        unsafe {
            let pair = self.tx.writable(self.slot).cast::<Pair<K, V>>();
            &mut (*pair).value
        }
    }
}

/// Calls `change` with the key and the value of each entry in the slots `occupied`. `change` may change the
/// value.
///
/// # Safety
/// `slots` are consecutive live slots of the region of `tx`, and those in the bit mask `occupied` have
/// entries.
pub(super) unsafe fn change_all<'r, K: HashKey<'r>, V: Persist>(
    tx: &mut Txn<'r>,
    slots: *mut Slot<Pair<K, V>>,
    occupied: u32,
    change: &mut impl FnMut(&K::Query, &mut V),
) {
    for slot in bits(occupied) {
        // SAFETY: `at` has an entry, by the caller's premise. Nothing writes the key, neither here nor at the
        // place from which the entry was copied. If the transaction moves its writes (to wider copies, to the
        // undo log, to private memory if it is doomed), old copies stay as they are until it ends. `change`
        // does not get the transaction.
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
        // SAFETY: `head` is a part of a live object.
        unsafe { &raw mut (*value_of(self)).head }
    }

    #[inline(always)]
    pub(super) fn slot_ptr(self, slot: usize) -> *mut Slot<Pair<K, V>> {
        assert!(slot < SLOTS);
        // SAFETY: the slot is a part of a live object, because `slot < SLOTS`.
        unsafe { (&raw mut (*value_of(self)).slots).cast::<Slot<Pair<K, V>>>().add(slot) }
    }

    #[inline(always)]
    pub(super) fn head<'v>(self, view: &'v View<'r>) -> &'v Head<'r, K, V> {
        // SAFETY: the head is a part of a live object, and there is no `&mut` to it while the view is
        // borrowed.
        unsafe { buffer::read(view, self.head_ptr()) }
    }

    #[inline(always)]
    fn head_mut<'t>(self, tx: &'t mut Txn<'r>) -> &'t mut Head<'r, K, V> {
        // SAFETY: the head is a part of a live object.
        unsafe { buffer::write(tx, self.head_ptr()) }
    }

    #[inline(always)]
    pub(super) fn tags<'v>(self, view: &'v View<'r>) -> &'v Tags {
        // SAFETY: the head is a part of a live object. The whole head is looked up, because it is written as
        // a whole.
        unsafe { &(*view.place_of(self.head_ptr())).tags }
    }

    /// Returns the next bucket of the chain.
    #[inline(always)]
    pub(super) fn next(self, view: &View<'r>) -> Option<Self> {
        self.head(view).next
    }

    #[inline(always)]
    pub(super) fn entries<'v>(self, view: &'v View<'r>) -> BucketEntries<'v, 'r, K, V> {
        self.those(view, self.tags(view).occupied())
    }

    /// Returns the bucket's entries, and the next bucket of the chain.
    #[inline(always)]
    pub(super) fn parts<'v>(self, view: &'v View<'r>) -> (BucketEntries<'v, 'r, K, V>, Option<Self>) {
        let head = self.head(view);
        (self.those(view, head.tags.occupied()), head.next)
    }

    /// Returns the bucket's entries in the slots of the bit mask `occupied`: all [occupied](Tags::occupied)
    /// slots, or some of them.
    #[inline(always)]
    fn those<'v>(self, view: &'v View<'r>, occupied: u32) -> BucketEntries<'v, 'r, K, V> {
        BucketEntries { view, slots: self.slot_ptr(0), occupied, entries: PhantomData }
    }

    /// Returns the address of the preferred slot for an entry with this hash. A search prefetches that slot
    /// before it reads the tags.
    #[inline(always)]
    pub(super) fn likely_place(self, hash: u64) -> *const u8 {
        self.slot_ptr(preferred(hash)).cast()
    }

    /// Prefetches the bucket; if it has more than 16 cache lines, only the first 16.
    #[inline(always)]
    pub(super) fn ask_for_all(self) {
        let lines = const { size_of::<Bucket<'r, K, V>>().div_ceil(LINE) };
        for line in 0..lines.min(16) {
            prefetch_read(value_of(self).cast::<u8>().wrapping_add(LINE * line));
        }
    }

    /// Allocates a bucket without entries.
    pub(super) fn alloc(tx: &Txn<'r>, depth: u32) -> Result<Self> {
        let (bucket, at) = tx.alloc_uninit::<Bucket<'r, K, V>>()?;
        // SAFETY: `at` is a new object, not written yet; with all bytes zero it has no entries.
        unsafe {
            at.write_bytes(0, 1);
            (&raw mut (*at).head.tags).write(Tags::new(depth));
        }
        Ok(bucket)
    }

    /// Stores an entry in a free slot, and sets its tag. Also announces the write of `map`, the object with
    /// the number of entries: the caller writes that next.
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
        // SAFETY: the slot, the head and the map are live objects of the region, or parts of them.
        unsafe {
            buffer::announce(tx, &[buffer::range(at), buffer::range(head), buffer::range(value_of(map))]);
            buffer::write(tx, at).put(pair);
        }
        self.head_mut(tx).tags.set(slot, hash);
    }

    /// Moves an entry out of its slot, and clears its tag. Also announces the write of `map`, the object with
    /// the number of entries: the caller writes that next.
    #[inline(always)]
    pub(super) fn take_entry<M: Persist>(self, tx: &mut Txn<'r>, slot: usize, map: P<'r, M>) -> Pair<K, V> {
        let (at, head) = (self.slot_ptr(slot), self.head_ptr());
        // SAFETY: the slot, the head and the map are live objects of the region, or parts of them. The
        // assertion shows that the slot has an entry; its tag is cleared, so the entry is not read there
        // again.
        unsafe {
            let vacated = if <Pair<K, V>>::POINTERS { buffer::range(at) } else { (at.cast(), 0) };
            buffer::announce(tx, &[vacated, buffer::range(head), buffer::range(value_of(map))]);
            let tags = &mut buffer::write(tx, head).tags;
            assert!(tags.has(slot), "there is no entry");
            tags.clear(slot);
            let pair = buffer::read(tx, at).move_out();
            if <Pair<K, V>>::POINTERS {
                buffer::write(tx, at).vacate();
            }
            pair
        }
    }

    /// Adds a new bucket without entries to the chain, after this one.
    pub(super) fn push_behind(self, tx: &mut Txn<'r>) -> Result<Self> {
        let &Head { tags, next } = self.head(tx);
        let new = Self::alloc(tx, tags.depth())?;
        // SAFETY: `next` is a part of a new object.
        unsafe { (&raw mut (*value_of(new)).head.next).write(next) };
        self.head_mut(tx).next = Some(new);
        Ok(new)
    }

    /// Frees the buckets of the chain, after this one, that have no entries.
    pub(super) fn drop_empty(self, tx: &mut Txn<'r>) {
        let mut last = self;
        while let Some(bucket) = last.next(tx) {
            let &Head { tags, next } = bucket.head(tx);
            if tags.occupied() == 0 {
                last.head_mut(tx).next = next;
                // SAFETY: only the previous bucket of the chain pointed to `bucket`, and it does not any
                // more.
                unsafe { buffer::free(tx, bucket) };
            } else {
                last = bucket;
            }
        }
    }

    /// Moves the entries of this bucket out, and passes each to `each`, until `each` returns an error.
    ///
    /// # Safety
    /// Either the caller does not use the entries in this bucket again, or it does not use those that `each`
    /// has got.
    pub(super) unsafe fn move_out(
        self,
        tx: &mut Txn<'r>,
        each: &mut impl FnMut(&mut Txn<'r>, Pair<K, V>) -> Result<()>,
    ) -> Result<()> {
        bits(self.tags(tx).occupied()).try_for_each(|slot| {
            // SAFETY: the slot is occupied, so it has an entry. The caller's premise allows the move.
            let pair = unsafe { buffer::read(tx, self.slot_ptr(slot)).move_out() };
            each(tx, pair)
        })
    }
}

impl<'r, K: HashKey<'r>, V: Persist> P<'r, Bucket<'r, K, V>> {
    /// Finds the entry of a key in the chain that begins with this bucket. If the key is missing, returns a
    /// free slot for it as the error; `None` if there is a chain, or no slot is free.
    #[inline(always)]
    pub(super) fn search<'v>(
        self,
        view: &'v View<'r>,
        hash: u64,
        query: &K::Query,
    ) -> Result<FoundSlot<'v, 'r, K, V>, Option<BucketSlot<'r, K, V>>> {
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

    /// Calls `change` with the key and the value of each entry of this bucket. `change` may change the value.
    pub(super) fn change_all(self, tx: &mut Txn<'r>, change: &mut impl FnMut(&K::Query, &mut V)) {
        // SAFETY: the tags say that the occupied slots have entries.
        unsafe { change_all(tx, self.slot_ptr(0), self.tags(tx).occupied(), change) };
    }

    /// Allocates a bucket with the entries of a small map.
    ///
    /// # Safety
    /// `few` are `len` consecutive slots with entries, which are not used again if this succeeds.
    pub(super) unsafe fn of_few(
        tx: &Txn<'r>,
        secret: [u64; 2],
        few: *mut Slot<Pair<K, V>>,
        len: usize,
    ) -> Result<Self> {
        let bucket = Self::alloc(tx, 0)?;
        for i in 0..len {
            // SAFETY: the slot `from` has an entry, by the caller's premise, which moves to a free slot of
            // the new bucket.
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

    /// Divides this bucket, which is full and has no chain, by the next bit of the hash. Returns the depth
    /// before: the number of bits that all its hashes shared. `links` gets that depth, and returns the range
    /// of the pointers that the caller writes next if both halves have entries.
    ///
    /// # Safety
    /// `links` returns a place within a live object of the region.
    pub(super) unsafe fn divide(
        self,
        tx: &mut Txn<'r>,
        secret: [u64; 2],
        links: impl FnOnce(u32) -> (*mut u8, usize),
    ) -> Result<(u32, SplitHalves<'r, K, V>)> {
        let &Head { mut tags, next } = self.head(tx);
        assert!(next.is_none() && tags.free() == 0);
        let (depth, second) = (tags.depth(), tags.second_half());
        let mut hashes = [0; SLOTS];
        let moves = tags.deepen();
        if moves {
            // The keys are hashed first: if the program's code panics, nothing has changed.
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
            return Ok((depth, if second == 0 { SplitHalves::First } else { SplitHalves::Second }));
        }
        let new = Self::alloc(tx, tags.depth())?;
        let mut new_tags = Tags::new(tags.depth());
        tags.move_to(&mut new_tags, second);
        if moves {
            note(&mut tags, ALL & !second);
            note(&mut new_tags, second);
        }
        // SAFETY: all places are parts of live objects. The entries move to the same slots of a new bucket,
        // and the tags record that.
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
        Ok((depth, SplitHalves::Both(new)))
    }

    /// Increases the depth of this bucket, the first of a chain, by one: all entries of the chain share one
    /// more bit of the hash.
    pub(super) fn deepen(self, tx: &mut Txn<'r>, hash: u64) {
        let tags = &mut self.head_mut(tx).tags;
        if tags.deepen() {
            // Set the tags of the first bucket again: a split reads them when this bucket is the only one of
            // the chain again.
            bits(tags.occupied()).for_each(|i| tags.set(i, hash));
        }
    }
}
