//! Making room for an entry: by dividing a bucket in two, as in R. Fagin, J. Nievergelt, N. Pippenger, H. R. Strong, "Extendible hashing: a fast
//! access method for dynamic files", 1979; but the directory is a trie, each node of which grows by itself, so that no step is long.

#![allow(unsafe_code)]

use super::HashKey;
use super::table::{Bucket, Child, Directory, FAN_OUT, Head, LEVEL, Leaf, Root};
use super::tags::{ALL, Tags, bits};
use super::walk::{Pointer, Spot, head, slot, walk, word};
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::collections::KeyHasher;
use crate::collections::buffer::{self, Slot};
use crate::collections::hash::tags::{HASH, SLOTS};
use crate::error::Result;
use crate::layout::Persist;
use crate::ptr::P;

use super::table::Pair;

/// Bytes that are written as one part at most: so many a short transaction copies.
const PART: usize = 1024;

/// A slot of a bucket.
pub(super) type At<'r, K, V> = (P<'r, Bucket<'r, K, V>>, usize);

/// The hash of a key.
#[inline(always)]
pub(super) fn hash_of<'r, K: HashKey<'r>>(secret: [u64; 2], query: &K::Query) -> u64 {
    let mut hasher = KeyHasher::new(secret);
    K::hash(query, &mut hasher);
    hasher.finish()
}

/// The hash of the entry in a slot.
///
/// # Safety
/// There is one.
pub(super) unsafe fn hash_in<'r, K: HashKey<'r>, V: Persist>(
    view: &View<'r>,
    secret: [u64; 2],
    at: *mut Slot<Pair<K, V>>,
) -> u64 {
    // SAFETY: by the caller's promise.
    let pair = unsafe { buffer::read(view, at).value() };
    hash_of::<K>(secret, pair.key.query(view))
}

/// A new object, and where to write into it.
type New<'r, T> = (P<'r, T>, *mut T);

/// A new bucket without entries.
pub(super) fn new_bucket<'r, K: Persist, V: Persist>(
    tx: &Txn<'r>,
    depth: u32,
) -> Result<New<'r, Bucket<'r, K, V>>> {
    let (bucket, at) = tx.alloc_uninit::<Bucket<'r, K, V>>()?;
    // SAFETY: a new object, written for the first time; all zero, it has no entries.
    unsafe {
        at.write_bytes(0, 1);
        (&raw mut (*at).head.tags).write(Tags::new(depth));
    }
    Ok((bucket, at))
}

/// Makes sure that there is a slot for an entry with this hash that is not there, and returns it.
#[cold]
#[inline(never)]
pub(super) fn make_room<'r, K, V>(
    tx: &mut Txn<'r>,
    root: P<'r, Root<'r, K, V>>,
    hash: u64,
) -> Result<At<'r, K, V>>
where
    K: HashKey<'r>,
    V: Persist<At<'r> = V>,
{
    let secret = tx[root].secret;
    loop {
        let spot = walk(tx, root, hash);
        let Some(bucket) = spot.bucket else {
            fill(tx, root, &spot)?;
            continue;
        };
        // SAFETY: a bucket of the map.
        let &Head { tags, next } = unsafe { buffer::read(tx, head(bucket)) };
        let chained = match next {
            Some(_) => {
                let Some(other) = hash_of_chain(tx, secret, bucket) else {
                    // SAFETY: a bucket of the map.
                    unsafe { drop_empty(tx, bucket) };
                    continue;
                };
                if other == hash || tags.depth() == HASH {
                    return place_in_chain(tx, bucket);
                }
                Some(other)
            }
            None => {
                if let Some(free) = tags.free_near(hash, <Pair<K, V>>::IN_LINE) {
                    return Ok((bucket, free));
                }
                // SAFETY: all slots have entries.
                let same = |slot_of| unsafe { hash_in(tx, secret, slot(bucket, slot_of)) } == hash;
                if tags.depth() == HASH || tags.all_match(hash) && (0..SLOTS).all(same) {
                    return place_in_chain(tx, bucket);
                }
                None
            }
        };
        match (tags.depth() < spot.known(), chained) {
            (false, _) => grow(tx, root, &spot)?,
            (true, Some(other)) => set_chain_apart(tx, &spot, bucket, other, hash),
            (true, None) => divide(tx, secret, &spot, bucket, hash)?,
        }
    }
}

/// Puts a bucket where there is none.
fn fill<'r, K: Persist<At<'r> = K>, V: Persist<At<'r> = V>>(
    tx: &mut Txn<'r>,
    root: P<'r, Root<'r, K, V>>,
    spot: &Spot<'r, K, V>,
) -> Result<()> {
    match spot.leaf {
        Some(Pointer { buckets, index, .. }) => {
            let (bucket, _) = new_bucket(tx, spot.known())?;
            // SAFETY: a directory of the map.
            unsafe { *buffer::write(tx, word(buckets, index)) = Some(bucket) };
        }
        None => {
            let (bucket, _) = new_bucket(tx, spot.known())?;
            set_child(tx, root, spot, Child::Bucket(bucket));
        }
    }
    Ok(())
}

/// Lets more bits of the hash lead to a bucket.
fn grow<'r, K: Persist<At<'r> = K>, V: Persist<At<'r> = V>>(
    tx: &mut Txn<'r>,
    root: P<'r, Root<'r, K, V>>,
    spot: &Spot<'r, K, V>,
) -> Result<()> {
    let Some(Pointer { bits, buckets: old, .. }) = spot.leaf else {
        let buckets = tx.alloc_slice(2, |_| spot.bucket)?;
        set_child(tx, root, spot, Child::Leaf { bits: 1, buckets });
        return Ok(());
    };
    // SAFETY: a directory of the map, that has so many pointers.
    let bucket = |i: usize| unsafe { *buffer::read(tx, word(old, i)) };
    let new = if bits < LEVEL {
        let buckets: P<'r, Leaf<'r, K, V>> = tx.alloc_slice(2 << bits, |i| bucket(i / 2))?;
        Child::Leaf { bits: bits as u8 + 1, buckets }
    } else {
        let (directory, at) = tx.alloc_uninit::<Directory<'r, K, V>>()?;
        for i in 0..FAN_OUT {
            // SAFETY: the children of a new object, written for the first time.
            unsafe {
                let at = (&raw mut (*at).children).cast::<Child<'r, K, V>>().add(i);
                at.write(bucket(i).map_or(Child::Nothing, Child::Bucket));
                Child::zero_padding(at);
            }
        }
        Child::Directory(directory)
    };
    set_child(tx, root, spot, new);
    // SAFETY: the map's own, which it has just let go of.
    unsafe { buffer::free(tx, old) };
    Ok(())
}

/// Replaces what leads to a spot.
fn set_child<'r, K: Persist<At<'r> = K>, V: Persist<At<'r> = V>>(
    tx: &mut Txn<'r>,
    root: P<'r, Root<'r, K, V>>,
    spot: &Spot<'r, K, V>,
    child: Child<'r, K, V>,
) {
    if spot.above == 0 {
        // The whole root, as it is read.
        tx[root].top = child;
    } else {
        // SAFETY: of a directory of the map.
        unsafe { *buffer::write(tx, spot.child) = child };
    }
}

/// Pointers to a bucket, one behind the other, and the next bit of the hash by which they are divided.
struct Run<'s, 'r, K, V> {
    spot: &'s Spot<'r, K, V>,
    /// How many pointers are half of them, and which of all of them the spot is.
    half: usize,
    offset: usize,
}

impl<'s, 'r, K: Persist<At<'r> = K>, V: Persist<At<'r> = V>> Run<'s, 'r, K, V> {
    /// Those to a bucket that agrees on `depth` bits, less than lead to it.
    fn new(spot: &'s Spot<'r, K, V>, hash: u64, depth: u32) -> Self {
        let known = spot.known();
        let count = 1 << (known - depth);
        Run { spot, half: count / 2, offset: (hash >> (HASH - known)) as usize & (count - 1) }
    }

    /// The bytes of a half.
    fn part(&self, second: bool) -> (*mut u8, usize) {
        let skip = if second { self.half } else { 0 };
        // SAFETY: within the directory.
        unsafe {
            match self.spot.leaf {
                Some(Pointer { buckets, index, .. }) => (
                    word(buckets, index - self.offset + skip).cast(),
                    self.half * size_of::<Option<P<'_, ()>>>(),
                ),
                None => (
                    self.spot.child.sub(self.offset).add(skip).cast(),
                    self.half * size_of::<Child<'r, K, V>>(),
                ),
            }
        }
    }

    /// Lets a half lead to another bucket, or nowhere.
    fn relink(&self, tx: &mut Txn<'r>, second: bool, bucket: Option<P<'r, Bucket<'r, K, V>>>) {
        let (first, _) = self.part(second);
        match self.spot.leaf {
            Some(_) => fill_part(tx, first.cast(), self.half, bucket),
            None => fill_part(tx, first.cast(), self.half, bucket.map_or(Child::Nothing, Child::Bucket)),
        }
    }
}

/// Writes `count` words or children of a directory.
fn fill_part<T: Persist + Copy>(tx: &mut Txn<'_>, first: *mut T, count: usize, value: T) {
    let step = PART / size_of::<T>();
    for from in (0..count).step_by(step) {
        // SAFETY: within a directory of the map.
        unsafe {
            let part = std::ptr::slice_from_raw_parts_mut(first.add(from), step.min(count - from));
            buffer::write(tx, part).fill(value);
        }
    }
}

/// Divides a bucket that is full by the next bit of the hash.
fn divide<'r, K, V>(
    tx: &mut Txn<'r>,
    secret: [u64; 2],
    spot: &Spot<'r, K, V>,
    bucket: P<'r, Bucket<'r, K, V>>,
    hash: u64,
) -> Result<()>
where
    K: HashKey<'r>,
    V: Persist<At<'r> = V>,
{
    // SAFETY: a bucket of the map.
    let mut tags = unsafe { buffer::read(tx, head(bucket)) }.tags;
    let run = Run::new(spot, hash, tags.depth());
    let second = tags.second_half();
    let moves = tags.deepen();
    // The user's code comes first: should it panic, nothing has changed.
    let mut hashes = [0; SLOTS];
    if moves {
        // SAFETY: all slots have entries.
        hashes = std::array::from_fn(|i| unsafe { hash_in(tx, secret, slot(bucket, i)) });
    }
    let note = |tags: &mut Tags, slots: u32| bits(slots).for_each(|i| tags.set(i, hashes[i]));
    if second == 0 || second == ALL {
        if moves {
            note(&mut tags, ALL);
        }
        // SAFETY: a bucket of the map.
        unsafe { buffer::write(tx, head(bucket)) }.tags = tags;
        run.relink(tx, second == 0, None);
        return Ok(());
    }
    let (new, at) = new_bucket(tx, tags.depth())?;
    let mut new_tags = Tags::new(tags.depth());
    tags.move_to(&mut new_tags, second);
    if moves {
        note(&mut tags, ALL & !second);
        note(&mut new_tags, second);
    }
    // SAFETY: buckets of the map; entries move from the old one to the same slots of the new one.
    unsafe {
        (&raw mut (*at).head.tags).write(new_tags);
        for i in bits(second) {
            buffer::move_to_new(
                tx,
                slot(bucket, i),
                (&raw mut (*at).slots).cast::<Slot<Pair<K, V>>>().add(i),
            );
        }
        if tx.__logs_in_place() {
            let mut parts = vec![buffer::range(head(bucket)), run.part(true)];
            if <Pair<K, V>>::POINTERS {
                parts.extend(bits(second).map(|i| buffer::range(slot(bucket, i))));
            }
            buffer::announce(tx, &parts);
        }
        buffer::write(tx, head(bucket)).tags = tags;
        if <Pair<K, V>>::POINTERS {
            bits(second).for_each(|i| buffer::write(tx, slot(bucket, i)).vacate());
        }
    }
    run.relink(tx, true, Some(new));
    Ok(())
}

/// Takes a chain, all of which has the hash `other`, away from half of the pointers to it.
fn set_chain_apart<'r, K: Persist<At<'r> = K>, V: Persist<At<'r> = V>>(
    tx: &mut Txn<'r>,
    spot: &Spot<'r, K, V>,
    bucket: P<'r, Bucket<'r, K, V>>,
    other: u64,
    hash: u64,
) {
    // SAFETY: a bucket of the map.
    let tags = unsafe { &mut buffer::write(tx, head(bucket)).tags };
    let depth = tags.depth();
    if tags.deepen() {
        // Those of the first bucket are what counts when it is the only one again.
        bits(tags.occupied()).for_each(|i| tags.set(i, other));
    }
    Run::new(spot, hash, depth).relink(tx, other << depth >> (HASH - 1) == 0, None);
}

/// The hash of all entries of a chain, if there are any.
fn hash_of_chain<'r, K: HashKey<'r>, V: Persist>(
    view: &View<'r>,
    secret: [u64; 2],
    first: P<'r, Bucket<'r, K, V>>,
) -> Option<u64> {
    let mut next = Some(first);
    while let Some(bucket) = next {
        // SAFETY: buckets of the map, and a slot with an entry.
        unsafe {
            let head = buffer::read(view, head(bucket));
            if let Some(occupied) = bits(head.tags.occupied()).next() {
                return Some(hash_in(view, secret, slot(bucket, occupied)));
            }
            next = head.next;
        }
    }
    None
}

/// A free slot in the chain that begins with `first`; a new bucket behind that one if there is none.
fn place_in_chain<'r, K: Persist<At<'r> = K>, V: Persist<At<'r> = V>>(
    tx: &mut Txn<'r>,
    first: P<'r, Bucket<'r, K, V>>,
) -> Result<At<'r, K, V>> {
    let mut next = Some(first);
    while let Some(bucket) = next {
        // SAFETY: a bucket of the map.
        let head = unsafe { buffer::read(tx, head(bucket)) };
        if let Some(free) = bits(head.tags.free()).next() {
            return Ok((bucket, free));
        }
        next = head.next;
    }
    // SAFETY: buckets of the map; the new one is written for the first time.
    unsafe {
        let Head { tags, next } = *buffer::read(tx, head(first));
        let (new, at) = new_bucket(tx, tags.depth())?;
        (&raw mut (*at).head.next).write(next);
        buffer::write(tx, head(first)).next = Some(new);
        Ok((new, 0))
    }
}

/// Gives up the buckets behind `first` that have no entries.
///
/// # Safety
/// A bucket of a map, that a directory leads to.
pub(super) unsafe fn drop_empty<'r, K: Persist<At<'r> = K>, V: Persist<At<'r> = V>>(
    tx: &mut Txn<'r>,
    first: P<'r, Bucket<'r, K, V>>,
) {
    let mut last = first;
    // SAFETY: buckets of the map; those that are freed are not in the chain any more.
    unsafe {
        while let Some(bucket) = buffer::read(tx, head(last)).next {
            let &Head { tags, next } = buffer::read(tx, head(bucket));
            if tags.occupied() == 0 {
                buffer::write(tx, head(last)).next = next;
                buffer::free(tx, bucket);
            } else {
                last = bucket;
            }
        }
    }
}

/// Frees all that a child leads to when the transaction commits.
///
/// # Safety
/// Nothing will lead there.
pub(super) unsafe fn free_all<'r, K: Persist, V: Persist>(tx: &Txn<'r>, child: Child<'r, K, V>) {
    // SAFETY: passed on to the caller; what is freed can still be read in this transaction.
    unsafe {
        match child {
            Child::Nothing => {}
            Child::Bucket(bucket) => free_chain(tx, bucket),
            Child::Leaf { bits, buckets } => {
                let mut last = None;
                for i in 0..1 << bits {
                    let bucket = *buffer::read(tx, word(buckets, i));
                    if bucket != last
                        && let Some(bucket) = bucket
                    {
                        free_chain(tx, bucket);
                    }
                    last = bucket;
                }
                buffer::free(tx, buckets);
            }
            Child::Directory(directory) => {
                let mut last = None;
                for i in 0..FAN_OUT {
                    match *buffer::read(tx, super::walk::child(directory, i)) {
                        Child::Bucket(bucket) if last == Some(bucket) => {}
                        child => {
                            last = if let Child::Bucket(bucket) = child { Some(bucket) } else { None };
                            free_all(tx, child);
                        }
                    }
                }
                buffer::free(tx, directory);
            }
        }
    }
}

/// Frees a bucket, and those behind it.
///
/// # Safety
/// As for [`free_all`].
unsafe fn free_chain<'r, K: Persist, V: Persist>(tx: &Txn<'r>, first: P<'r, Bucket<'r, K, V>>) {
    let mut next = Some(first);
    while let Some(bucket) = next {
        // SAFETY: passed on to the caller.
        unsafe {
            next = buffer::read(tx, head(bucket)).next;
            buffer::free(tx, bucket);
        }
    }
}
