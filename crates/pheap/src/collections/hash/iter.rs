//! The entries of a map, one after the other.

#![allow(unsafe_code)]

use std::marker::PhantomData;

use super::find::Home;
use super::table::{Bucket, Pair, Root};
use super::tags::bits;
use super::walk::{bucket_from, head, slot};
use super::{HashKey, PHashMap};
use crate::api::view::View;
use crate::collections::buffer::{self, Slot};
use crate::collections::common::{copied, iterators};
use crate::layout::Persist;
use crate::os::cpu::prefetch;
use crate::ptr::{P, value_of};

/// Buckets that are on their way from memory.
const AHEAD: usize = 4;

/// A place in a map, for going through its entries one by one.
pub(super) struct Cursor<'r, K, V> {
    /// Where the slots are that come next, and those of them that have entries.
    slots: *mut Slot<Pair<K, V>>,
    occupied: u32,
    /// The bucket that has them, and the first of its chain.
    bucket: Option<[P<'r, Bucket<'r, K, V>>; 2]>,
    /// Where to go on after them: behind the bucket in its chain; then at the next buckets, which are on their way from memory; then at this hash.
    next: Option<P<'r, Bucket<'r, K, V>>>,
    ahead: [Option<P<'r, Bucket<'r, K, V>>>; AHEAD],
    from: Option<u64>,
    root: Option<P<'r, Root<'r, K, V>>>,
}

copied! { [K, V] Cursor<'_, K, V>; }

impl<'r, K: Persist, V: Persist> Cursor<'r, K, V> {
    /// Before the first entry.
    #[inline]
    pub(super) fn new(map: &PHashMap<'r, K, V>, view: &View<'r>) -> Self {
        let mut cursor = Cursor {
            slots: std::ptr::dangling_mut(),
            occupied: 0,
            bucket: None,
            next: None,
            ahead: [None; AHEAD],
            from: map.root.map(|_| 0),
            root: map.root,
        };
        if map.root.is_some() {
            for _ in 0..AHEAD {
                cursor.next_bucket(view);
            }
        } else if map.len > 0 {
            // SAFETY: there is one.
            cursor.slots = unsafe { map.few().at(0) };
            cursor.occupied = (1 << map.len) - 1;
        }
        cursor
    }

    /// The next bucket. Asks for one that comes later.
    #[inline]
    fn next_bucket(&mut self, view: &View<'r>) -> Option<P<'r, Bucket<'r, K, V>>> {
        let newest = self.ahead[AHEAD - 1];
        let mut later = None;
        while let Some(root) = self.root {
            later = bucket_from(view, root, &mut self.from);
            if later.is_none() || later != newest {
                break;
            }
        }
        if let Some(bucket) = later {
            let lines = const { size_of::<Bucket<'r, K, V>>().div_ceil(64) };
            // Those of large entries come soon enough.
            for line in 0..lines.min(16) {
                prefetch(value_of(bucket).cast::<u8>().wrapping_add(64 * line));
            }
        }
        let next = self.ahead[0];
        self.ahead.rotate_left(1);
        self.ahead[AHEAD - 1] = later;
        next
    }

    /// The slot of the next entry.
    #[inline(always)]
    pub(super) fn next(&mut self, view: &View<'r>) -> Option<*mut Slot<Pair<K, V>>> {
        while self.occupied == 0 {
            self.next_slots(view)?;
        }
        let index = self.occupied.trailing_zeros() as usize;
        self.occupied &= self.occupied - 1;
        // SAFETY: one of the slots.
        Some(unsafe { self.slots.add(index) })
    }

    /// The slots of the next bucket.
    #[inline]
    fn next_slots(&mut self, view: &View<'r>) -> Option<()> {
        let [bucket, first] = match (self.next, self.bucket) {
            (Some(bucket), Some([_, first])) => [bucket, first],
            _ => [self.next_bucket(view)?; 2],
        };
        // SAFETY: a bucket of the map.
        let head = unsafe { buffer::read(view, head(bucket)) };
        self.next = head.next;
        self.bucket = Some([bucket, first]);
        self.occupied = head.tags.occupied();
        self.slots = slot(bucket, 0);
        Some(())
    }

    /// Where the entry is that came last.
    pub(super) fn home(&self, at: *mut Slot<Pair<K, V>>) -> Home<'r, K, V> {
        let index_from = |slots: *mut Slot<Pair<K, V>>| match size_of::<Pair<K, V>>() {
            // Then all entries are where the first one is.
            0 => 0,
            // SAFETY: `at` is one of these slots.
            _ => unsafe { at.offset_from(slots) as usize },
        };
        match self.bucket {
            Some([bucket, first]) => Home::Bucket { at: (bucket, index_from(slot(bucket, 0))), first },
            None => Home::Few(index_from(self.slots)),
        }
    }
}

iterators! {
    /// The entries of a [`PHashMap`]; made by [`PHashMap::iter`].
    [K: HashKey<'r>, V: Persist] Iter<K, V>(Entries<'v, 'r, K, V>) => (&'v K::Query, &'v V),
    |(view, pair)| (pair.key.query(view), &pair.value);
    debug_map of [K::Query, V] exact;

    /// The keys of a [`PHashMap`]; made by [`PHashMap::keys`].
    [K: HashKey<'r>, V: Persist] Keys<K, V>(Entries<'v, 'r, K, V>) => &'v K::Query, |(view, pair)| pair.key.query(view);
    debug_list of [K::Query] exact;

    /// The values of a [`PHashMap`]; made by [`PHashMap::values`].
    [K: HashKey<'r>, V: Persist] Values<K, V>(Entries<'v, 'r, K, V>) => &'v V, |(_, pair)| &pair.value;
    debug_list of [V] exact;
}

/// The entries, each with the view that shows its key.
pub(super) struct Entries<'v, 'r, K, V> {
    view: &'v View<'r>,
    remaining: usize,
    cursor: Cursor<'r, K, V>,
    entries: PhantomData<&'v Pair<K, V>>,
}

copied! { [K, V] Entries<'_, '_, K, V>; }

impl<'v, 'r, K: Persist, V: Persist> Entries<'v, 'r, K, V> {
    #[inline]
    pub(super) fn new(map: &PHashMap<'r, K, V>, view: &'v View<'r>) -> Self {
        Entries { view, remaining: map.len(), cursor: Cursor::new(map, view), entries: PhantomData }
    }
}

impl<'v, 'r, K: Persist, V: Persist> Iterator for Entries<'v, 'r, K, V> {
    type Item = (&'v View<'r>, &'v Pair<K, V>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let at = self.cursor.next(self.view)?;
        self.remaining -= 1;
        // SAFETY: a slot with an entry.
        Some((self.view, unsafe { buffer::read(self.view, at).value() }))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }

    /// All that come, without keeping count of them.
    #[inline]
    fn fold<B, F: FnMut(B, Self::Item) -> B>(mut self, init: B, mut f: F) -> B {
        let (view, mut all) = (self.view, init);
        loop {
            for index in bits(std::mem::take(&mut self.cursor.occupied)) {
                // SAFETY: a slot with an entry.
                all = f(all, (view, unsafe { buffer::read(view, self.cursor.slots.add(index)).value() }));
            }
            if self.cursor.next_slots(view).is_none() {
                return all;
            }
        }
    }
}
