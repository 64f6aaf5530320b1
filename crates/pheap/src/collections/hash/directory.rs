//! What leads to buckets: a trie of directories.
//!
//! A leaf that takes `bits` bits of the hash has `1 << bits` pointers. One map leads to a node, and one pointer in it; but the pointers of a leaf, and the children of a
//! directory, may lead to the same bucket if they are neighbours. Only this file reads and writes them. Who has let go of a root forgets it.

#![allow(unsafe_code)]

use super::HashKey;
use super::bucket::{Bucket, Halves, Pair};
use super::tags::HASH;
use crate::Persist;
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::collections::buffer::{self, Slot};
use crate::collections::common::copied;
use crate::error::Result;
use crate::ptr::{P, value_of};

/// Bits of the hash that a level of directories takes. A level divides a hash without a rest.
const LEVEL: u32 = 8;
const FAN_OUT: usize = 1 << LEVEL;

/// Bytes that are written as one part at most: so many a short transaction copies.
const PART: usize = 1024;

/// A directory that grows: a power of two of pointers, by the next bits of the hash. Buckets that know fewer bits are there several times, one behind
/// the other. None where there are no entries.
type Leaf<'r, K, V> = [Option<P<'r, Bucket<'r, K, V>>>];

/// A directory whose entries may lead to further ones.
#[derive(Persist)]
#[persist(own, id = "pheap::hash::Directory", crate = "crate")]
#[repr(C)]
pub(super) struct Directory<'r, K, V> {
    children: [Child<'r, K, V>; FAN_OUT],
}

/// What holds the entries whose hashes begin with certain bits.
#[derive(Persist)]
#[persist(own, id = "pheap::hash::Child", crate = "crate")]
#[repr(u8)]
pub(super) enum Child<'r, K, V> {
    /// There are none.
    Nothing,
    Bucket(P<'r, Bucket<'r, K, V>>),
    Leaf {
        /// Bits of the hash that it takes: 1 to [`LEVEL`].
        bits: u8,
        buckets: P<'r, Leaf<'r, K, V>>,
    },
    Directory(P<'r, Directory<'r, K, V>>),
}

copied! { [K, V] Child<'_, K, V>; }

/// What a map has when it has outgrown a few entries.
#[derive(Persist)]
#[persist(own, id = "pheap::hash::Root", crate = "crate")]
#[repr(C)]
pub(super) struct Root<'r, K, V> {
    /// With what keys are hashed.
    secret: [u64; 2],
    top: Child<'r, K, V>,
}

/// Where the entries of a hash are.
pub(super) struct Way<'r, K, V> {
    /// What leads there, in the root or a directory; and how many bits of the hash it stands for.
    child: *mut Child<'r, K, V>,
    above: u32,
    /// Which of the pointers of a growing directory, if there is one.
    leaf: Option<Pointer<'r, K, V>>,
    pub(super) bucket: Option<P<'r, Bucket<'r, K, V>>>,
}

impl<K, V> Way<'_, K, V> {
    /// How many bits of the hash lead there.
    #[inline(always)]
    fn known(&self) -> u32 {
        self.above + self.leaf.map_or(0, |pointer| pointer.bits)
    }
}

impl<'r, K: Persist, V: Persist> Way<'r, K, V> {
    /// Half of the pointers to a bucket that agrees on `depth` bits, less than lead to it: the first of them, and how many.
    fn half(&self, hash: u64, depth: u32, second: bool) -> (*mut u8, usize) {
        let known = self.known();
        assert!(depth < known);
        let all = 1 << (known - depth);
        let offset = (hash >> (HASH - known)) as usize & (all - 1);
        let skip = if second { all / 2 } else { 0 };
        // SAFETY: within the directory: all pointers to a bucket are in one, for a directory is made only where buckets agree on all bits that lead to it; and they begin where the
        // bits of the hash that the bucket does not know are 0.
        unsafe {
            match self.leaf {
                Some(Pointer { buckets, index, .. }) => {
                    (word(buckets, index - offset + skip).cast(), all / 2)
                }
                None => (self.child.sub(offset).add(skip).cast(), all / 2),
            }
        }
    }
}

/// A pointer in a growing directory.
struct Pointer<'r, K, V> {
    bits: u32,
    buckets: P<'r, Leaf<'r, K, V>>,
    index: usize,
}

copied! { [K, V] Pointer<'_, K, V>; }

/// A pointer to a bucket, as a raw pointer.
///
/// # Safety
/// `index` is less than the length.
#[inline(always)]
unsafe fn word<'r, K: Persist, V: Persist>(
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
fn child<'r, K: Persist, V: Persist>(
    directory: P<'r, Directory<'r, K, V>>,
    index: usize,
) -> *mut Child<'r, K, V> {
    debug_assert!(index < FAN_OUT);
    // SAFETY: a live directory.
    unsafe { (&raw mut (*value_of(directory)).children).cast::<Child<'r, K, V>>().add(index % FAN_OUT) }
}

impl<'r, K: Persist, V: Persist> Root<'r, K, V> {
    /// With what keys are hashed, and what is at the top.
    #[inline(always)]
    pub(super) fn parts(&self) -> ([u64; 2], Child<'r, K, V>) {
        (self.secret, self.top)
    }
}

impl<'r, K: Persist, V: Persist> P<'r, Root<'r, K, V>> {
    /// Follows a hash from what is at the top.
    #[inline(always)]
    pub(super) fn walk(self, view: &View<'r>, top: Child<'r, K, V>, hash: u64) -> Way<'r, K, V> {
        let (mut rest, mut above) = (hash, 0);
        // SAFETY: a live root.
        let mut at = unsafe { &raw mut (*value_of(self)).top };
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
            return Way { child: at, above, leaf, bucket };
        }
    }

    /// The bucket of the hash `from`, or the next one in the order of hashes. `from` becomes the next hash that leads elsewhere (perhaps not the first
    /// one: a bucket may come again), or none behind the last one.
    pub(super) fn bucket_from(
        self,
        view: &View<'r>,
        from: &mut Option<u64>,
    ) -> Option<P<'r, Bucket<'r, K, V>>> {
        loop {
            let hash = (*from)?;
            let way = self.walk(view, view[self].top, hash);
            let mut last = hash;
            if let Some(Pointer { bits, buckets, index }) = way.leaf {
                // No look at the bucket itself, which may be far away.
                // SAFETY: so many pointers that the bits are an index.
                let same = |i: &usize| *unsafe { buffer::read(view, word(buckets, *i)) } == way.bucket;
                let more = (index + 1..1 << bits).take_while(same).count();
                last = hash + ((more as u64) << (HASH - way.known()));
            }
            // Behind all hashes that agree with the last one on the bits that lead there.
            *from = (last | u64::MAX.checked_shr(way.known()).unwrap_or(0)).checked_add(1);
            if way.bucket.is_some() {
                return way.bucket;
            }
        }
    }

    /// So many bits of the hash lead to a bucket at most, and to some that many. No look at pointers in leaves, nor at buckets.
    pub(super) fn depth(self, view: &View<'r>) -> u32 {
        deepest(view, view[self].top, 0)
    }

    /// A new root, for few entries.
    ///
    /// # Safety
    /// Slots with entries, one behind the other, that are not used again if this succeeds.
    pub(super) unsafe fn of_few(tx: &Txn<'r>, few: *mut Slot<Pair<K, V>>, len: usize) -> Result<Self>
    where
        K: HashKey<'r>,
        V: Persist<At<'r> = V>,
    {
        let secret = tx.hash_secret();
        // SAFETY: passed on to the caller.
        let bucket = unsafe { <P<Bucket<K, V>>>::of_few(tx, secret, few, len)? };
        tx.alloc(Root { secret, top: Child::Bucket(bucket) })
    }
}

/// How many bits of the hash lead to a bucket at most, if `above` lead to this child.
fn deepest<'r, K: Persist, V: Persist>(view: &View<'r>, node: Child<'r, K, V>, above: u32) -> u32 {
    match node {
        Child::Nothing | Child::Bucket(_) => above,
        Child::Leaf { bits, .. } => above + u32::from(bits),
        Child::Directory(directory) => {
            // SAFETY: of a directory that can be reached from the root.
            let node = |i| *unsafe { buffer::read(view, child(directory, i)) };
            (0..FAN_OUT).fold(above, |most, i| most.max(deepest(view, node(i), above + LEVEL)))
        }
    }
}

/// Where the entries of a hash are, to change it. While this has the transaction nobody else changes anything.
pub(super) struct Spot<'t, 'r, K, V> {
    tx: &'t mut Txn<'r>,
    root: P<'r, Root<'r, K, V>>,
    hash: u64,
    way: Way<'r, K, V>,
}

impl<'t, 'r, K: HashKey<'r>, V: Persist<At<'r> = V>> Spot<'t, 'r, K, V> {
    pub(super) fn new(tx: &'t mut Txn<'r>, root: P<'r, Root<'r, K, V>>, hash: u64) -> Self {
        let way = root.walk(tx, tx[root].top, hash);
        Spot { tx, root, hash, way }
    }

    pub(super) fn view(&self) -> &View<'r> {
        self.tx
    }

    pub(super) fn bucket(&self) -> Option<P<'r, Bucket<'r, K, V>>> {
        self.way.bucket
    }

    /// How many bits of the hash lead there.
    pub(super) fn known(&self) -> u32 {
        self.way.known()
    }

    /// Puts a bucket where there is none.
    pub(super) fn fill(self) -> Result<()> {
        assert!(self.way.bucket.is_none());
        let bucket = <P<'r, Bucket<'r, K, V>>>::alloc(self.tx, self.known())?;
        match self.way.leaf {
            // SAFETY: a directory of the map.
            Some(Pointer { buckets, index, .. }) => unsafe {
                *buffer::write(self.tx, word(buckets, index)) = Some(bucket);
            },
            None => self.set_child(Child::Bucket(bucket)),
        }
        Ok(())
    }

    /// Lets more bits of the hash lead to a bucket.
    pub(super) fn grow(self) -> Result<()> {
        let Some(Pointer { bits, buckets: old, .. }) = self.way.leaf else {
            let buckets = self.tx.alloc_slice(2, |_| self.way.bucket)?;
            self.set_child(Child::Leaf { bits: 1, buckets });
            return Ok(());
        };
        let tx = &*self.tx;
        // SAFETY: a directory of the map, that has so many pointers.
        let bucket = |i: usize| unsafe { *buffer::read(tx, word(old, i)) };
        let new = if bits < LEVEL {
            let buckets: P<'r, Leaf<'r, K, V>> = tx.alloc_slice(2 << bits, |i| bucket(i / 2))?;
            Child::Leaf { bits: bits as u8 + 1, buckets }
        } else {
            let directory = tx.alloc_uninit::<Directory<'r, K, V>>()?.0;
            for i in 0..FAN_OUT {
                let at = child(directory, i);
                // SAFETY: the children of a new object, written for the first time.
                unsafe {
                    at.write(bucket(i).map_or(Child::Nothing, Child::Bucket));
                    Child::zero_padding(at);
                }
            }
            Child::Directory(directory)
        };
        // SAFETY: the map's own, which it lets go of.
        unsafe { buffer::free(tx, old) };
        self.set_child(new);
        Ok(())
    }

    /// Replaces what leads there.
    fn set_child(self, child: Child<'r, K, V>) {
        if self.way.above == 0 {
            // The whole root, as it is read.
            self.tx[self.root].top = child;
        } else {
            // SAFETY: of a directory of the map.
            unsafe { *buffer::write(self.tx, self.way.child) = child };
        }
    }

    /// Lets half of the pointers to a bucket lead to another one, or nowhere.
    fn relink(self, depth: u32, second: bool, bucket: Option<P<'r, Bucket<'r, K, V>>>) {
        let (first, count) = self.way.half(self.hash, depth, second);
        match self.way.leaf {
            Some(_) => fill_part(self.tx, first.cast(), count, bucket),
            None => fill_part(self.tx, first.cast(), count, bucket.map_or(Child::Nothing, Child::Bucket)),
        }
    }

    /// Divides the bucket, which is full, by the next bit of the hash.
    pub(super) fn divide(self, secret: [u64; 2]) -> Result<()> {
        let bucket = self.way.bucket.expect("a bucket that is full");
        let size = match self.way.leaf {
            Some(_) => size_of::<Option<P<'_, ()>>>(),
            None => size_of::<Child<'r, K, V>>(),
        };
        let (hash, way) = (self.hash, &self.way);
        let links = |depth| {
            let (first, count) = way.half(hash, depth, true);
            (first, count * size)
        };
        // SAFETY: a part of a directory of the map.
        match unsafe { bucket.divide(self.tx, secret, links)? } {
            (depth, Halves::First) => self.relink(depth, true, None),
            (depth, Halves::Second) => self.relink(depth, false, None),
            (depth, Halves::Both(new)) => self.relink(depth, true, Some(new)),
        }
        Ok(())
    }

    /// Takes a chain of buckets, all of which has the hash `other`, away from half of the pointers to it.
    pub(super) fn set_chain_apart(self, other: u64) {
        let bucket = self.way.bucket.expect("a chain");
        let depth = bucket.tags(self.tx).depth();
        bucket.deepen(self.tx, other);
        self.relink(depth, other << depth >> (HASH - 1) == 0, None);
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

/// What a map consists of below its root.
enum Node<'r, K, V> {
    Bucket(P<'r, Bucket<'r, K, V>>),
    Leaf(P<'r, Leaf<'r, K, V>>),
    Directory(P<'r, Directory<'r, K, V>>),
}

/// Calls `f` with each node that a child leads to, once, after those below it.
fn visit<'r, K: Persist, V: Persist>(
    tx: &mut Txn<'r>,
    node: Child<'r, K, V>,
    f: &mut impl FnMut(&mut Txn<'r>, Node<'r, K, V>) -> Result<()>,
) -> Result<()> {
    let mut last = None;
    match node {
        Child::Nothing => Ok(()),
        Child::Bucket(first) => {
            let mut next = Some(first);
            while let Some(bucket) = next {
                next = bucket.next(tx);
                f(tx, Node::Bucket(bucket))?;
            }
            Ok(())
        }
        Child::Leaf { bits, buckets } => {
            for i in 0..1 << bits {
                // SAFETY: it has so many pointers.
                let bucket = unsafe { *buffer::read(tx, word(buckets, i)) };
                if bucket != last
                    && let Some(bucket) = bucket
                {
                    visit(tx, Child::Bucket(bucket), f)?;
                }
                last = bucket;
            }
            f(tx, Node::Leaf(buckets))
        }
        Child::Directory(directory) => {
            for i in 0..FAN_OUT {
                // SAFETY: a part of a live object.
                let node = unsafe { *buffer::read(tx, child(directory, i)) };
                let bucket = if let Child::Bucket(bucket) = node { Some(bucket) } else { None };
                if bucket.is_none() || bucket != last {
                    visit(tx, node, f)?;
                }
                last = bucket;
            }
            f(tx, Node::Directory(directory))
        }
    }
}

impl<'r, K: Persist, V: Persist> P<'r, Root<'r, K, V>> {
    /// Moves all entries out, until there is an error.
    ///
    /// # Safety
    /// They are not used again here, or those that `each` has got are not used again.
    pub(super) unsafe fn move_out(
        self,
        tx: &mut Txn<'r>,
        each: &mut impl FnMut(&mut Txn<'r>, Pair<K, V>) -> Result<()>,
    ) -> Result<()> {
        visit(tx, tx[self].top, &mut |tx, node| match node {
            // SAFETY: passed on to the caller.
            Node::Bucket(bucket) => unsafe { bucket.move_out(tx, each) },
            Node::Leaf(_) | Node::Directory(_) => Ok(()),
        })
    }

    /// Frees all nodes when the transaction commits.
    ///
    /// # Safety
    /// Nothing will lead to the root, and no entry is there.
    pub(super) unsafe fn free(self, tx: &mut Txn<'r>) {
        let freed = visit(tx, tx[self].top, &mut |tx, node| {
            // SAFETY: nothing will lead there; what is freed can still be read in this transaction.
            unsafe {
                match node {
                    Node::Bucket(bucket) => buffer::free(tx, bucket),
                    Node::Leaf(leaf) => buffer::free(tx, leaf),
                    Node::Directory(directory) => buffer::free(tx, directory),
                }
            }
            Ok(())
        });
        debug_assert!(freed.is_ok());
        // SAFETY: nothing will lead there, as the caller promises.
        unsafe { buffer::free(tx, self) };
    }
}
