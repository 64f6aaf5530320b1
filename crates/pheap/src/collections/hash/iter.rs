//! The entries of a map, one after the other.

use std::iter::FusedIterator;
use std::marker::PhantomData;

use super::table::{Pair, Root};
use super::walk::{head, next_bucket, slot};
use super::{HashKey, PHashMap};
use crate::collections::buffer;
use crate::collections::slot::Slot;
use crate::layout::Persist;
use crate::ptr::P;
use crate::txn::View;

/// The entries of a [`PHashMap`]; made by [`PHashMap::iter`].
pub struct Iter<'v, 'r, K, V> {
    view: &'v View<'r>,
    remaining: usize,
    /// Where the slots are that come next, and those of them that have entries.
    slots: *mut Slot<Pair<K, V>>,
    occupied: u32,
    /// Where to go on after them.
    root: Option<P<'r, Root<'r, K, V>>>,
    next: Option<P<'r, super::table::Bucket<'r, K, V>>>,
    from: Option<u64>,
    entries: PhantomData<&'v Pair<K, V>>,
}

impl<'v, 'r, K: HashKey<'r>, V: Persist> Iter<'v, 'r, K, V> {
    #[inline]
    pub(super) fn new(map: &PHashMap<'r, K, V>, view: &'v View<'r>) -> Self {
        let mut iter = Iter {
            view,
            remaining: map.len(),
            slots: std::ptr::dangling_mut(),
            occupied: 0,
            root: map.root,
            next: None,
            from: map.root.map(|_| 0),
            entries: PhantomData,
        };
        if map.root.is_none() && map.len > 0 {
            // SAFETY: there is one.
            iter.slots = unsafe { map.few().at(0) };
            iter.occupied = (1 << map.len) - 1;
        }
        iter
    }

    /// The next entry.
    #[inline(always)]
    fn pair(&mut self) -> Option<&'v Pair<K, V>> {
        while self.occupied == 0 {
            let bucket = match self.next {
                Some(bucket) => bucket,
                None => next_bucket(self.view, self.root?, &mut self.from)?,
            };
            // SAFETY: a bucket of the map.
            let head = unsafe { buffer::read(self.view, head(bucket)) };
            self.next = head.next;
            self.occupied = head.tags.occupied();
            self.slots = slot(bucket, 0);
        }
        let index = self.occupied.trailing_zeros() as usize;
        self.occupied &= self.occupied - 1;
        self.remaining -= 1;
        // SAFETY: a slot with an entry.
        Some(unsafe { buffer::read(self.view, self.slots.add(index)).value() })
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
