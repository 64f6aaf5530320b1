//! The entries of a map, one after the other.

use std::iter::FusedIterator;
use std::marker::PhantomData;

use super::find::Home;
use super::table::{Bucket, Pair, Root};
use super::tags::bits;
use super::walk::{bucket_from, head, slot};
use super::{HashKey, PHashMap};
use crate::api::view::View;
use crate::collections::buffer;
use crate::collections::slot::Slot;
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

impl<K, V> Clone for Cursor<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Cursor<'_, K, V> {}

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

/// The entries of a [`PHashMap`]; made by [`PHashMap::iter`].
pub struct Iter<'v, 'r, K, V> {
    view: &'v View<'r>,
    remaining: usize,
    cursor: Cursor<'r, K, V>,
    entries: PhantomData<&'v Pair<K, V>>,
}

impl<'v, 'r, K: HashKey<'r>, V: Persist> Iter<'v, 'r, K, V> {
    #[inline]
    pub(super) fn new(map: &PHashMap<'r, K, V>, view: &'v View<'r>) -> Self {
        Iter { view, remaining: map.len(), cursor: Cursor::new(map, view), entries: PhantomData }
    }

    /// The next entry.
    #[inline(always)]
    pub(super) fn pair(&mut self) -> Option<&'v Pair<K, V>> {
        let at = self.cursor.next(self.view)?;
        self.remaining -= 1;
        // SAFETY: a slot with an entry.
        Some(unsafe { buffer::read(self.view, at).value() })
    }

    /// All that come, without keeping count of them.
    #[inline]
    fn fold_pairs<B>(mut self, init: B, mut f: impl FnMut(B, &'v Pair<K, V>) -> B) -> B {
        let (view, mut all) = (self.view, init);
        loop {
            for index in bits(std::mem::take(&mut self.cursor.occupied)) {
                // SAFETY: a slot with an entry.
                all = f(all, unsafe { buffer::read(view, self.cursor.slots.add(index)).value() });
            }
            if self.cursor.next_slots(view).is_none() {
                return all;
            }
        }
    }
}

impl<'v, 'r, K: HashKey<'r>, V: Persist> Iterator for Iter<'v, 'r, K, V> {
    type Item = (&'v K::Query, &'v V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let pair = self.pair()?;
        Some((pair.key.query(self.view), &pair.value))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }

    #[inline]
    fn fold<B, F: FnMut(B, Self::Item) -> B>(self, init: B, mut f: F) -> B {
        let view = self.view;
        self.fold_pairs(init, |all, pair| f(all, (pair.key.query(view), &pair.value)))
    }
}

impl<'r, K: HashKey<'r>, V: Persist> ExactSizeIterator for Iter<'_, 'r, K, V> {}
impl<'r, K: HashKey<'r>, V: Persist> FusedIterator for Iter<'_, 'r, K, V> {}

impl<K, V> Clone for Iter<'_, '_, K, V> {
    fn clone(&self) -> Self {
        Iter { ..*self }
    }
}

/// The keys of a [`PHashMap`]; made by [`PHashMap::keys`].
pub struct Keys<'v, 'r, K, V>(pub(super) Iter<'v, 'r, K, V>);

/// The values of a [`PHashMap`]; made by [`PHashMap::values`].
pub struct Values<'v, 'r, K, V>(pub(super) Iter<'v, 'r, K, V>);

macro_rules! half {
    ($name:ident, $item:ty, |$pair:ident, $view:ident| $part:expr) => {
        impl<'v, 'r, K: HashKey<'r>, V: Persist> Iterator for $name<'v, 'r, K, V> {
            type Item = $item;

            #[inline]
            fn next(&mut self) -> Option<Self::Item> {
                let $view = self.0.view;
                self.0.pair().map(|$pair| $part)
            }

            #[inline]
            fn size_hint(&self) -> (usize, Option<usize>) {
                self.0.size_hint()
            }

            #[inline]
            fn fold<B, F: FnMut(B, Self::Item) -> B>(self, init: B, mut f: F) -> B {
                let $view = self.0.view;
                self.0.fold_pairs(init, |all, $pair| f(all, $part))
            }
        }

        impl<'r, K: HashKey<'r>, V: Persist> ExactSizeIterator for $name<'_, 'r, K, V> {}
        impl<'r, K: HashKey<'r>, V: Persist> FusedIterator for $name<'_, 'r, K, V> {}

        impl<K, V> Clone for $name<'_, '_, K, V> {
            fn clone(&self) -> Self {
                $name(self.0.clone())
            }
        }
    };
}

half!(Keys, &'v K::Query, |pair, view| pair.key.query(view));
half!(Values, &'v V, |pair, _view| &pair.value);

impl<'r, K: HashKey<'r, Query: std::fmt::Debug>, V: Persist + std::fmt::Debug> std::fmt::Debug
    for Iter<'_, 'r, K, V>
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.clone()).finish()
    }
}

impl<'r, K: HashKey<'r, Query: std::fmt::Debug>, V: Persist> std::fmt::Debug for Keys<'_, 'r, K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

impl<'r, K: HashKey<'r>, V: Persist + std::fmt::Debug> std::fmt::Debug for Values<'_, 'r, K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}
