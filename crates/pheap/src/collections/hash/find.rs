//! Looking for a key.

#![allow(unsafe_code)]

use super::split::{At, hash_of};
use super::table::{Bucket, Child, Pair, Root};
use super::tags::{bits, preferred};
use super::walk::{head, slot, walk_from};
use super::{HashKey, PHashMap};
use crate::api::view::View;
use crate::collections::buffer::{self, Slot, Slots};
use crate::layout::Persist;
use crate::os::cpu::prefetch;
use crate::ptr::P;

/// Where an entry is.
pub(super) enum Home<'r, K, V> {
    /// Among few.
    Few(usize),
    /// In a bucket, which is the first of its chain or another.
    Bucket { at: At<'r, K, V>, first: P<'r, Bucket<'r, K, V>> },
}

/// What there is instead of an entry.
pub(super) enum Absence<'r, K, V> {
    /// There are few entries, and not this one.
    Few,
    /// The hash of the key, and a slot that it can be put into, if one is at hand.
    Bucket { root: P<'r, Root<'r, K, V>>, hash: u64, free: Option<At<'r, K, V>> },
}

impl<'r, K: Persist, V: Persist> PHashMap<'r, K, V> {
    /// The slots of few entries.
    #[inline(always)]
    pub(super) fn few(&self) -> Slots<Pair<K, V>> {
        self.few.map_or_else(Slots::none, Slots::of)
    }
}

impl<'r, K: HashKey<'r>, V: Persist> PHashMap<'r, K, V> {
    /// The entry of a key.
    #[inline(always)]
    pub(super) fn pair<'v>(&self, view: &'v View<'r>, query: &K::Query) -> Option<&'v Pair<K, V>> {
        let Some(root) = self.root else { return self.pair_of_few(view, query).map(|(_, pair)| pair) };
        let &Root { secret, top } = &view[root];
        let hash = hash_of::<K>(secret, query);
        let mut next = walk_from(view, root, top, hash).bucket;
        if let Some(bucket) = next {
            ask_for(bucket, hash);
        }
        while let Some(bucket) = next {
            // SAFETY: a bucket of the map.
            let head = unsafe { buffer::read(view, head(bucket)) };
            if let Some((_, pair)) = pair_in(view, bucket, head.tags.matching(hash), query) {
                return Some(pair);
            }
            next = head.next;
        }
        None
    }

    fn pair_of_few<'v>(&self, view: &'v View<'r>, query: &K::Query) -> Option<(usize, &'v Pair<K, V>)> {
        let slots = self.few();
        (0..self.len()).find_map(|i| {
            // SAFETY: as many entries as the length says, one behind the other.
            let pair = unsafe { buffer::read(view, slots.at(i)).value() };
            (*pair.key.query(view) == *query).then_some((i, pair))
        })
    }

    /// Where a key is, or can be put.
    #[inline(always)]
    pub(super) fn find(
        &self,
        view: &View<'r>,
        query: &K::Query,
    ) -> Result<Home<'r, K, V>, Absence<'r, K, V>> {
        let Some(root) = self.root else {
            let (index, _) = self.pair_of_few(view, query).ok_or(Absence::Few)?;
            return Ok(Home::Few(index));
        };
        let &Root { secret, top } = &view[root];
        let hash = hash_of::<K>(secret, query);
        find_hash(view, root, top, hash, query)
    }

    /// The slot of an entry.
    #[inline(always)]
    pub(super) fn slot_of(&self, home: &Home<'r, K, V>) -> *mut Slot<Pair<K, V>> {
        match *home {
            // SAFETY: one of those that the map has.
            Home::Few(index) => unsafe { self.few().at(index) },
            Home::Bucket { at: (bucket, index), .. } => slot(bucket, index),
        }
    }
}

/// Where a key of this hash is, or can be put.
#[inline(always)]
pub(super) fn find_hash<'r, K: HashKey<'r>, V: Persist>(
    view: &View<'r>,
    root: P<'r, Root<'r, K, V>>,
    top: Child<'r, K, V>,
    hash: u64,
    query: &K::Query,
) -> Result<Home<'r, K, V>, Absence<'r, K, V>> {
    let mut free = None;
    if let Some(first) = walk_from(view, root, top, hash).bucket {
        ask_for(first, hash);
        // SAFETY: a bucket of the map.
        let first_head = unsafe { buffer::read(view, head(first)) };
        let (mut bucket, mut head_of) = (first, first_head);
        loop {
            if let Some((index, _)) = pair_in(view, bucket, head_of.tags.matching(hash), query) {
                return Ok(Home::Bucket { at: (bucket, index), first });
            }
            let Some(next) = head_of.next else { break };
            // SAFETY: as above.
            (bucket, head_of) = (next, unsafe { buffer::read(view, head(next)) });
        }
        if first_head.next.is_none() {
            free = first_head.tags.free_near(hash, <Pair<K, V>>::IN_LINE).map(|index| (first, index));
        }
    }
    Err(Absence::Bucket { root, hash, free })
}

/// Lets the entry of a hash, if it is where it would best be, come from memory at the same time as the tags.
#[inline(always)]
pub(super) fn ask_for<'r, K: Persist, V: Persist>(bucket: P<'r, Bucket<'r, K, V>>, hash: u64) {
    prefetch(slot(bucket, preferred(hash)).cast());
}

/// Which of these entries of a bucket has this key.
#[inline(always)]
fn pair_in<'v, 'r, K: HashKey<'r>, V: Persist>(
    view: &'v View<'r>,
    bucket: P<'r, Bucket<'r, K, V>>,
    candidates: u32,
    query: &K::Query,
) -> Option<(usize, &'v Pair<K, V>)> {
    bits(candidates).find_map(|i| {
        // SAFETY: slots with entries.
        let pair = unsafe { buffer::read(view, slot(bucket, i)).value() };
        (*pair.key.query(view) == *query).then_some((i, pair))
    })
}
