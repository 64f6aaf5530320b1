//! The way from the root to a bucket.

#![allow(unsafe_code)]

use super::table::{Bucket, Child, Directory, FAN_OUT, Head, LEVEL, Leaf, Pair, Root};
use crate::api::view::View;
use crate::collections::buffer::{self, Slot};
use crate::collections::common::copied;
use crate::collections::hash::tags::{HASH, SLOTS};
use crate::layout::Persist;
use crate::ptr::{P, value_of};

/// Where the entries of a hash are.
pub(super) struct Spot<'r, K, V> {
    /// What leads there, in the root or a directory; and how many bits of the hash it stands for.
    pub(super) child: *mut Child<'r, K, V>,
    pub(super) above: u32,
    /// Which of the pointers of a growing directory, if there is one.
    pub(super) leaf: Option<Pointer<'r, K, V>>,
    pub(super) bucket: Option<P<'r, Bucket<'r, K, V>>>,
}

impl<K, V> Spot<'_, K, V> {
    /// How many bits of the hash lead there.
    #[inline(always)]
    pub(super) fn known(&self) -> u32 {
        self.above + self.leaf.map_or(0, |pointer| pointer.bits)
    }
}

/// A pointer in a growing directory.
pub(super) struct Pointer<'r, K, V> {
    pub(super) bits: u32,
    pub(super) buckets: P<'r, Leaf<'r, K, V>>,
    pub(super) index: usize,
}

copied! { [K, V] Pointer<'_, K, V>; }

/// A pointer to a bucket, as a raw pointer.
///
/// # Safety
/// `index` is less than the length.
#[inline(always)]
pub(super) unsafe fn word<'r, K: Persist, V: Persist>(
    buckets: P<'r, Leaf<'r, K, V>>,
    index: usize,
) -> *mut Option<P<'r, Bucket<'r, K, V>>> {
    debug_assert!(index < buckets.len());
    let first = value_of(buckets).cast::<Option<P<'r, Bucket<'r, K, V>>>>();
    // SAFETY: within the slice.
    unsafe { first.add(index) }
}

/// A child, as a raw pointer.
#[inline(always)]
pub(super) fn child<'r, K: Persist, V: Persist>(
    directory: P<'r, Directory<'r, K, V>>,
    index: usize,
) -> *mut Child<'r, K, V> {
    debug_assert!(index < FAN_OUT);
    // SAFETY: a live directory.
    unsafe { (&raw mut (*value_of(directory)).children).cast::<Child<'r, K, V>>().add(index % FAN_OUT) }
}

/// Follows a hash.
#[inline(always)]
pub(super) fn walk<'r, K: Persist, V: Persist>(
    view: &View<'r>,
    root: P<'r, Root<'r, K, V>>,
    hash: u64,
) -> Spot<'r, K, V> {
    walk_from(view, root, view[root].top, hash)
}

/// Follows a hash from what is at the top of the root.
#[inline(always)]
pub(super) fn walk_from<'r, K: Persist, V: Persist>(
    view: &View<'r>,
    root: P<'r, Root<'r, K, V>>,
    top: Child<'r, K, V>,
    hash: u64,
) -> Spot<'r, K, V> {
    let (mut rest, mut above) = (hash, 0);
    // SAFETY: a live root.
    let mut at = unsafe { &raw mut (*value_of(root)).top };
    let mut current = top;
    loop {
        let (leaf, bucket) = match current {
            Child::Directory(directory) => {
                at = child(directory, (rest >> (HASH - LEVEL)) as usize);
                // SAFETY: of a directory that can be reached from the root.
                current = *unsafe { buffer::read(view, at) };
                rest <<= LEVEL;
                above += LEVEL;
                continue;
            }
            Child::Leaf { bits, buckets } => {
                let (bits, index) = (u32::from(bits), (rest >> (HASH - u32::from(bits))) as usize);
                // SAFETY: so many pointers that the bits are an index.
                let bucket = *unsafe { buffer::read(view, word(buckets, index)) };
                (Some(Pointer { bits, buckets, index }), bucket)
            }
            Child::Bucket(bucket) => (None, Some(bucket)),
            Child::Nothing => (None, None),
        };
        return Spot { child: at, above, leaf, bucket };
    }
}

/// The bucket of the hash `from`, or the next one in the order of hashes. `from` becomes the next hash that leads elsewhere (perhaps not the first
/// one: a bucket may come again), or none behind the last one.
pub(super) fn bucket_from<'r, K: Persist, V: Persist>(
    view: &View<'r>,
    root: P<'r, Root<'r, K, V>>,
    from: &mut Option<u64>,
) -> Option<P<'r, Bucket<'r, K, V>>> {
    loop {
        let hash = (*from)?;
        let spot = walk(view, root, hash);
        let mut last = hash;
        if let Some(Pointer { bits, buckets, index }) = spot.leaf {
            // No look at the bucket itself, which may be far away.
            // SAFETY: so many pointers that the bits are an index.
            let same = |i: &usize| *unsafe { buffer::read(view, word(buckets, *i)) } == spot.bucket;
            let more = (index + 1..1 << bits).take_while(same).count();
            last = hash + ((more as u64) << (HASH - spot.known()));
        }
        // Behind all hashes that agree with the last one on the bits that lead there.
        *from = (last | u64::MAX.checked_shr(spot.known()).unwrap_or(0)).checked_add(1);
        if spot.bucket.is_some() {
            return spot.bucket;
        }
    }
}

/// What a bucket says of its entries, as a raw pointer.
#[inline(always)]
pub(super) fn head<'r, K: Persist, V: Persist>(bucket: P<'r, Bucket<'r, K, V>>) -> *mut Head<'r, K, V> {
    // SAFETY: a live bucket.
    unsafe { &raw mut (*value_of(bucket)).head }
}

/// A slot of a bucket, as a raw pointer.
#[inline(always)]
pub(super) fn slot<'r, K: Persist, V: Persist>(
    bucket: P<'r, Bucket<'r, K, V>>,
    index: usize,
) -> *mut Slot<Pair<K, V>> {
    debug_assert!(index < SLOTS);
    // SAFETY: a live bucket, that has so many slots.
    unsafe { (&raw mut (*value_of(bucket)).slots).cast::<Slot<Pair<K, V>>>().add(index) }
}
