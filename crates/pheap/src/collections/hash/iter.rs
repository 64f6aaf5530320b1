//! Iteration over the entries of a map.

use super::bucket::{Bucket, BucketEntries, Pair};
use super::buckets::Buckets;
use super::map::{EntryAt, EntryHome};
use super::{HashKey, PHashMap};
use crate::api::view::View;
use crate::collections::common::{copied, iterators};
use crate::layout::Persist;
use crate::ptr::P;

iterators! {
    /// The entries of a [`PHashMap`]; made by [`PHashMap::iter`].
    [K: HashKey<'r>, V: Persist] Iter<K, V>(HashCursor<'v, 'r, K, V>) => (&'v K::Query, &'v V),
    |(view, pair)| (pair.key.query(view), &pair.value);
    debug_map of [K::Query, V] exact;

    /// The keys of a [`PHashMap`]; made by [`PHashMap::keys`].
    [K: HashKey<'r>, V: Persist] Keys<K, V>(HashCursor<'v, 'r, K, V>) => &'v K::Query,
    |(view, pair)| pair.key.query(view);
    debug_list of [K::Query] exact;

    /// The values of a [`PHashMap`]; made by [`PHashMap::values`].
    [K: HashKey<'r>, V: Persist] Values<K, V>(HashCursor<'v, 'r, K, V>) => &'v V, |(_, pair)| &pair.value;
    debug_list of [V] exact;
}

/// A position between the entries of a map, in a view.
pub(super) struct HashCursor<'v, 'r, K, V> {
    remaining: usize,
    entries: BucketEntries<'v, 'r, K, V>,
    /// The bucket of `entries`, and the first bucket of its chain; `None` for the entries of a small map.
    bucket: Option<[P<'r, Bucket<'r, K, V>>; 2]>,
    /// The position before the bucket that follows.
    buckets: Buckets<'r, K, V>,
}

copied! { [K, V] HashCursor<'_, '_, K, V>; }

impl<'v, 'r, K: Persist, V: Persist> HashCursor<'v, 'r, K, V> {
    /// Returns the position before the first entry.
    #[inline]
    pub(super) fn new(map: &PHashMap<'r, K, V>, view: &'v View<'r>) -> Self {
        HashCursor {
            remaining: map.len(),
            entries: map.few(view),
            bucket: None,
            buckets: Buckets::new(map, view),
        }
    }

    /// Returns the position before the first entry of the chain that the hash `from` leads to, or of the next
    /// chain. The iteration ends with that chain. Also returns the first hash after the chain, or 0 if there
    /// is none. A small map has no buckets: all its entries come at once.
    pub(super) fn of_chain(map: &PHashMap<'r, K, V>, view: &'v View<'r>, from: u64) -> (Self, u64) {
        let Some(root) = map.root() else { return (Self::new(map, view), 0) };
        let mut behind = Some(from);
        let first = root.bucket_from(view, &mut behind);
        let next = first.map_or(0, |first| {
            // `last` is one of the hashes that lead to the bucket, perhaps not the greatest one.
            let last = behind.map_or(u64::MAX, |behind| behind - 1);
            (last | first.tags(view).rest()).wrapping_add(1)
        });
        let chain = std::iter::successors(first, |bucket| bucket.next(view));
        let remaining = chain.map(|bucket| bucket.tags(view).occupied().count_ones() as usize).sum();
        let buckets = Buckets::of_chain(first);
        (HashCursor { remaining, entries: BucketEntries::none(view), bucket: None, buckets }, next)
    }

    /// Goes on to the next bucket; `None` at the end.
    #[inline]
    fn next_bucket(&mut self) -> Option<()> {
        let (bucket, entries) = self.buckets.next(self.entries.view())?;
        (self.bucket, self.entries) = (Some(bucket), entries);
        Some(())
    }

    /// Returns the next entry, and its place in the map.
    #[inline]
    pub(super) fn next_home(&mut self) -> Option<EntryAt<'v, 'r, K, V>> {
        loop {
            if let Some((slot, pair)) = self.entries.next() {
                let home = match self.bucket {
                    Some([bucket, first]) => EntryHome::Bucket { at: (bucket, slot), first },
                    None => EntryHome::Few(slot),
                };
                return Some((home, pair));
            }
            self.next_bucket()?;
        }
    }
}

impl<'v, 'r, K: Persist, V: Persist> Iterator for HashCursor<'v, 'r, K, V> {
    /// An entry, with the view that shows its key.
    type Item = (&'v View<'r>, &'v Pair<K, V>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((_, pair)) = self.entries.next() {
                self.remaining -= 1;
                return Some((self.entries.view(), pair));
            }
            self.next_bucket()?;
        }
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }

    /// Visits all remaining entries, without counting them.
    #[inline]
    fn fold<B, F: FnMut(B, Self::Item) -> B>(self, init: B, mut f: F) -> B {
        let HashCursor { mut entries, mut buckets, .. } = self;
        let (view, mut all) = (entries.view(), init);
        loop {
            all = entries.fold(all, |all, (_, pair)| f(all, (view, pair)));
            let Some((_, next)) = buckets.next(view) else { return all };
            entries = next;
        }
    }
}
