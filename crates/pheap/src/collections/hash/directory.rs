//! The pointers to buckets: a trie of directories.
//!
//! A leaf for `bits` bits of the hash has `1 << bits` pointers to buckets. A leaf or directory has one parent
//! (the root, or a directory), and one pointer in it leads there; but neighbouring pointers of a leaf, or
//! neighbouring children of a directory, may lead to the same bucket. Of the files of a hash map, only this
//! one reads and writes directories. Code that has freed a root must not use it again.

#![allow(unsafe_code)]

use super::HashKey;
use super::bucket::{Bucket, Pair, SplitHalves};
use super::tags::HASH;
use crate::Persist;
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::collections::buffer::{self, Slot};
use crate::collections::common::copied;
use crate::error::Result;
use crate::ptr::{P, elements_of, value_of};

/// Number of hash bits that index a [`Directory`], and the most that index a [`Leaf`]. The 64 bits of a hash
/// are a multiple of it.
const LEVEL: u32 = 8;
const FAN_OUT: usize = 1 << LEVEL;

/// The most bytes of a directory that are written at once: the most that a short transaction copies at once.
const PART: usize = 1024;

/// A directory that grows: a power of two of pointers, indexed by the next bits of the hash. If the hashes of
/// a bucket share fewer bits than lead to a pointer, several neighbouring pointers lead to that bucket. A
/// pointer is `None` if there is no bucket for its hashes.
type Leaf<'r, K, V> = [Option<P<'r, Bucket<'r, K, V>>>];

/// A directory whose children may be further directories.
#[derive(Persist)]
#[persist(own, id = "pheap::hash::Directory", crate = "crate")]
#[repr(C)]
pub(super) struct Directory<'r, K, V> {
    children: [Child<'r, K, V>; FAN_OUT],
}

/// The node for the entries whose hashes begin with certain bits.
#[derive(Persist)]
#[persist(own, id = "pheap::hash::Child", crate = "crate")]
#[repr(u8)]
pub(super) enum Child<'r, K, V> {
    /// There is no bucket for these hashes.
    Nothing,
    Bucket(P<'r, Bucket<'r, K, V>>),
    Leaf {
        /// Number of hash bits that index the leaf: 1 to [`LEVEL`].
        bits: u8,
        buckets: P<'r, Leaf<'r, K, V>>,
    },
    Directory(P<'r, Directory<'r, K, V>>),
}

copied! { [K, V] Child<'_, K, V>; }

/// The root of the trie of a map that has, or has had, more than a few entries.
#[derive(Persist)]
#[persist(own, id = "pheap::hash::Root", crate = "crate")]
#[repr(C)]
pub(super) struct Root<'r, K, V> {
    /// The secret with which keys are hashed.
    secret: [u64; 2],
    top: Child<'r, K, V>,
}

/// The way from the root of the trie to the bucket for a hash.
pub(super) struct TriePath<'r, K, V> {
    /// The address of the last child on the way, in the root or in a directory; `above` is the number of hash
    /// bits that lead to that child.
    child: *mut Child<'r, K, V>,
    above: u32,
    /// The pointer in the leaf, if the child is a leaf.
    leaf: Option<LeafPointer<'r, K, V>>,
    pub(super) bucket: Option<P<'r, Bucket<'r, K, V>>>,
}

impl<K, V> TriePath<'_, K, V> {
    /// Returns the number of hash bits that lead to the bucket.
    #[inline(always)]
    fn known(&self) -> u32 {
        self.above + self.leaf.map_or(0, |pointer| pointer.bits)
    }
}

impl<'r, K: Persist, V: Persist> TriePath<'r, K, V> {
    /// Returns the first or the second half of the pointers to the bucket: the address of the first pointer,
    /// and their number. All hashes of the bucket share `depth` bits, fewer than lead to a pointer.
    fn half(&self, hash: u64, depth: u32, second: bool) -> (*mut u8, usize) {
        let known = self.known();
        assert!(depth < known);
        let all = 1 << (known - depth);
        let offset = (hash >> (HASH - known)) as usize & (all - 1);
        let skip = if second { all / 2 } else { 0 };
        // SAFETY: all pointers to a bucket are in one leaf or directory, because a directory is made only
        // when its buckets agree on all bits that lead to it. The pointers begin where the hash bits that the
        // bucket's hashes do not share are 0. So the half is within that leaf or directory.
        unsafe {
            match self.leaf {
                Some(LeafPointer { buckets, index, .. }) => {
                    (bucket_pointer(buckets, index - offset + skip).cast(), all / 2)
                }
                None => (self.child.sub(offset).add(skip).cast(), all / 2),
            }
        }
    }
}

/// The place of a pointer in a leaf: the number of hash bits that index the leaf, the leaf, and the index.
struct LeafPointer<'r, K, V> {
    bits: u32,
    buckets: P<'r, Leaf<'r, K, V>>,
    index: usize,
}

copied! { [K, V] LeafPointer<'_, K, V>; }

/// Returns the address of pointer `index` of a leaf.
///
/// # Safety
/// `index` is less than the length of `buckets`.
#[inline(always)]
unsafe fn bucket_pointer<'r, K: Persist, V: Persist>(
    buckets: P<'r, Leaf<'r, K, V>>,
    index: usize,
) -> *mut Option<P<'r, Bucket<'r, K, V>>> {
    // SAFETY: `index` is within the slice, by the caller's premise.
    unsafe { elements_of(buckets).add(index) }
}

/// Returns the address of child `index` of a directory.
#[inline(always)]
fn child<'r, K: Persist, V: Persist>(
    directory: P<'r, Directory<'r, K, V>>,
    index: usize,
) -> *mut Child<'r, K, V> {
    debug_assert!(index < FAN_OUT);
    // SAFETY: `directory` is a live object, and `index % FAN_OUT` is less than its number of children.
    unsafe { (&raw mut (*value_of(directory)).children).cast::<Child<'r, K, V>>().add(index % FAN_OUT) }
}

impl<'r, K: Persist, V: Persist> Root<'r, K, V> {
    /// Returns the secret with which keys are hashed, and the top node.
    #[inline(always)]
    pub(super) fn parts(&self) -> ([u64; 2], Child<'r, K, V>) {
        (self.secret, self.top)
    }
}

impl<'r, K: Persist, V: Persist> P<'r, Root<'r, K, V>> {
    /// Follows the bits of a hash down from `top`, the top node. Returns the way to the bucket.
    #[inline(always)]
    pub(super) fn walk(self, view: &View<'r>, top: Child<'r, K, V>, hash: u64) -> TriePath<'r, K, V> {
        let (mut rest, mut above) = (hash, 0);
        // SAFETY: `self` is a live root, and `top` a part of it.
        let mut at = unsafe { &raw mut (*value_of(self)).top };
        let mut current = top;
        loop {
            let (leaf, bucket) = match current {
                Child::Directory(directory) => {
                    at = child(directory, (rest >> (HASH - LEVEL)) as usize);
                    // SAFETY: `at` is a child of a live directory, which can be reached from the root.
                    current = *unsafe { buffer::read(view, at) };
                    rest <<= LEVEL;
                    above += LEVEL;
                    continue;
                }
                Child::Leaf { bits, buckets } => {
                    let (bits, index) = (u32::from(bits), (rest >> (HASH - u32::from(bits))) as usize);
                    // SAFETY: the leaf has `1 << bits` pointers, and `index` is less than that.
                    let bucket = *unsafe { buffer::read(view, bucket_pointer(buckets, index)) };
                    (Some(LeafPointer { bits, buckets, index }), bucket)
                }
                Child::Bucket(bucket) => (None, Some(bucket)),
                Child::Nothing => (None, None),
            };
            return TriePath { child: at, above, leaf, bucket };
        }
    }

    /// Returns the bucket of the hash `from`, or the next one in the order of hashes. Sets `from` to the
    /// first hash of a later pointer, or to `None` after the last pointer. (Equal pointers that follow in the
    /// same leaf are skipped. Yet the same bucket may come again in the next call, for the next child of a
    /// directory.)
    pub(super) fn bucket_from(
        self,
        view: &View<'r>,
        from: &mut Option<u64>,
    ) -> Option<P<'r, Bucket<'r, K, V>>> {
        loop {
            let hash = (*from)?;
            let way = self.walk(view, view[self].top, hash);
            let mut last = hash;
            if let Some(LeafPointer { bits, buckets, index }) = way.leaf {
                // Count equal pointers, because the bucket with its depth may not be in the cache.
                // SAFETY: the leaf has `1 << bits` pointers, and the index is less than that.
                let same =
                    |i: &usize| *unsafe { buffer::read(view, bucket_pointer(buckets, *i)) } == way.bucket;
                let more = (index + 1..1 << bits).take_while(same).count();
                last = hash + ((more as u64) << (HASH - way.known()));
            }
            // The hash after all those that lead to the last equal pointer.
            *from = (last | u64::MAX.checked_shr(way.known()).unwrap_or(0)).checked_add(1);
            if way.bucket.is_some() {
                return way.bucket;
            }
        }
    }

    /// Returns the greatest number of hash bits that lead to a pointer to a bucket. Reads neither the
    /// pointers in leaves nor buckets.
    pub(super) fn depth(self, view: &View<'r>) -> u32 {
        deepest(view, view[self].top, 0)
    }

    /// Allocates a root with the entries of a small map.
    ///
    /// # Safety
    /// `few` are `len` consecutive slots with entries, which are not used again if this succeeds.
    pub(super) unsafe fn of_few(tx: &Txn<'r>, few: *mut Slot<Pair<K, V>>, len: usize) -> Result<Self>
    where
        K: HashKey<'r>,
        V: Persist<At<'r> = V>,
    {
        let secret = tx.hash_secret();
        // SAFETY: the caller's premise for `few` and `len` is the premise of this call.
        let bucket = unsafe { <P<Bucket<K, V>>>::of_few(tx, secret, few, len)? };
        tx.alloc(Root { secret, top: Child::Bucket(bucket) })
    }
}

/// Returns the greatest number of hash bits that lead to a pointer to a bucket, in the child `node` or below
/// it; `above` bits lead to `node`.
fn deepest<'r, K: Persist, V: Persist>(view: &View<'r>, node: Child<'r, K, V>, above: u32) -> u32 {
    match node {
        Child::Nothing | Child::Bucket(_) => above,
        Child::Leaf { bits, .. } => above + u32::from(bits),
        Child::Directory(directory) => {
            // SAFETY: the child belongs to a live directory, which can be reached from the root.
            let node = |i| *unsafe { buffer::read(view, child(directory, i)) };
            (0..FAN_OUT).fold(above, |most, i| most.max(deepest(view, node(i), above + LEVEL)))
        }
    }
}

/// The way from the root of the trie to the bucket for a hash, to change the trie there. The cursor borrows
/// the transaction, so the map cannot change in between.
pub(super) struct TrieCursor<'t, 'r, K, V> {
    tx: &'t mut Txn<'r>,
    root: P<'r, Root<'r, K, V>>,
    hash: u64,
    way: TriePath<'r, K, V>,
}

impl<'t, 'r, K: HashKey<'r>, V: Persist<At<'r> = V>> TrieCursor<'t, 'r, K, V> {
    pub(super) fn new(tx: &'t mut Txn<'r>, root: P<'r, Root<'r, K, V>>, hash: u64) -> Self {
        let way = root.walk(tx, tx[root].top, hash);
        TrieCursor { tx, root, hash, way }
    }

    pub(super) fn view(&self) -> &View<'r> {
        self.tx
    }

    pub(super) fn bucket(&self) -> Option<P<'r, Bucket<'r, K, V>>> {
        self.way.bucket
    }

    /// Returns the number of hash bits that lead to the bucket.
    pub(super) fn known(&self) -> u32 {
        self.way.known()
    }

    /// Adds a bucket for the hash, for which there is none.
    pub(super) fn insert_bucket(self) -> Result<()> {
        assert!(self.way.bucket.is_none());
        let bucket = <P<'r, Bucket<'r, K, V>>>::alloc(self.tx, self.known())?;
        match self.way.leaf {
            // SAFETY: `buckets` is a leaf of the map, and `walk` has found `index` in it.
            Some(LeafPointer { buckets, index, .. }) => unsafe {
                *buffer::write(self.tx, bucket_pointer(buckets, index)) = Some(bucket);
            },
            None => self.set_child(Child::Bucket(bucket)),
        }
        Ok(())
    }

    /// Makes the trie deeper on the way: one more hash bit leads to the bucket, or a full-sized leaf becomes
    /// a directory, whose children can be leaves.
    pub(super) fn grow(self) -> Result<()> {
        let Some(LeafPointer { bits, buckets: old, .. }) = self.way.leaf else {
            let buckets = self.tx.alloc_slice(2, |_| self.way.bucket)?;
            self.set_child(Child::Leaf { bits: 1, buckets });
            return Ok(());
        };
        let tx = &*self.tx;
        // SAFETY: `old` is a leaf of the map with `1 << bits` pointers, and `i` is less than that.
        let bucket = |i: usize| unsafe { *buffer::read(tx, bucket_pointer(old, i)) };
        let new = if bits < LEVEL {
            let buckets: P<'r, Leaf<'r, K, V>> = tx.alloc_slice(2 << bits, |i| bucket(i / 2))?;
            Child::Leaf { bits: bits as u8 + 1, buckets }
        } else {
            let directory = tx.alloc_uninit::<Directory<'r, K, V>>()?.0;
            for i in 0..FAN_OUT {
                let at = child(directory, i);
                // SAFETY: `at` is a child of a new object, not written yet.
                unsafe {
                    at.write(bucket(i).map_or(Child::Nothing, Child::Bucket));
                    Child::zero_padding(at);
                }
            }
            Child::Directory(directory)
        };
        // SAFETY: the map owned the leaf; `set_child` below replaces the only pointer to it.
        unsafe { buffer::free(tx, old) };
        self.set_child(new);
        Ok(())
    }

    /// Replaces the last child on the way.
    fn set_child(self, child: Child<'r, K, V>) {
        if self.way.above == 0 {
            // Write the whole root, because it is read as a whole.
            self.tx[self.root].top = child;
        } else {
            // SAFETY: `above` is not 0, so `walk` has found `child` in a directory of the map.
            unsafe { *buffer::write(self.tx, self.way.child) = child };
        }
    }

    /// Redirects the first or the second half of the pointers to the bucket: to another bucket, or to none.
    fn relink(self, depth: u32, second: bool, bucket: Option<P<'r, Bucket<'r, K, V>>>) {
        let (first, count) = self.way.half(self.hash, depth, second);
        match self.way.leaf {
            Some(_) => fill_part(self.tx, first.cast(), count, bucket),
            None => fill_part(self.tx, first.cast(), count, bucket.map_or(Child::Nothing, Child::Bucket)),
        }
    }

    /// Divides the bucket, which is full, by the next bit of the hash, and redirects the pointers of one
    /// half.
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
        // SAFETY: `links` returns a range of pointers within a leaf or directory of the map.
        match unsafe { bucket.divide(self.tx, secret, links)? } {
            (depth, SplitHalves::First) => self.relink(depth, true, None),
            (depth, SplitHalves::Second) => self.relink(depth, false, None),
            (depth, SplitHalves::Both(new)) => self.relink(depth, true, Some(new)),
        }
        Ok(())
    }

    /// Removes the half of the pointers to a chain of buckets to which no entry of the chain belongs. `other`
    /// is the hash of all entries of the chain.
    pub(super) fn set_chain_apart(self, other: u64) {
        let bucket = self.way.bucket.expect("a chain");
        let depth = bucket.tags(self.tx).depth();
        bucket.deepen(self.tx, other);
        self.relink(depth, other << depth >> (HASH - 1) == 0, None);
    }
}

/// Writes `value` to `count` neighbouring pointers of a leaf, or children of a directory, in parts of at most
/// `PART` bytes.
fn fill_part<T: Persist + Copy>(tx: &mut Txn<'_>, first: *mut T, count: usize, value: T) {
    let step = PART / size_of::<T>();
    for from in (0..count).step_by(step) {
        // SAFETY: the part is within the range that `half` has returned, which is within a leaf or directory
        // of the map.
        unsafe {
            let part = std::ptr::slice_from_raw_parts_mut(first.add(from), step.min(count - from));
            buffer::write(tx, part).fill(value);
        }
    }
}

/// A node of the trie of a map, without the root.
enum TrieNode<'r, K, V> {
    Bucket(P<'r, Bucket<'r, K, V>>),
    Leaf(P<'r, Leaf<'r, K, V>>),
    Directory(P<'r, Directory<'r, K, V>>),
}

/// Calls `f` once with the child `node` and with each node below it, children before parents, until `f`
/// returns an error.
fn visit<'r, K: Persist, V: Persist>(
    tx: &mut Txn<'r>,
    node: Child<'r, K, V>,
    f: &mut impl FnMut(&mut Txn<'r>, TrieNode<'r, K, V>) -> Result<()>,
) -> Result<()> {
    let mut last = None;
    match node {
        Child::Nothing => Ok(()),
        Child::Bucket(first) => {
            let mut next = Some(first);
            while let Some(bucket) = next {
                next = bucket.next(tx);
                f(tx, TrieNode::Bucket(bucket))?;
            }
            Ok(())
        }
        Child::Leaf { bits, buckets } => {
            for i in 0..1 << bits {
                // SAFETY: the leaf has `1 << bits` pointers, and the index is less than that.
                let bucket = unsafe { *buffer::read(tx, bucket_pointer(buckets, i)) };
                if bucket != last
                    && let Some(bucket) = bucket
                {
                    visit(tx, Child::Bucket(bucket), f)?;
                }
                last = bucket;
            }
            f(tx, TrieNode::Leaf(buckets))
        }
        Child::Directory(directory) => {
            for i in 0..FAN_OUT {
                // SAFETY: the child with index `i` is a part of a live directory.
                let node = unsafe { *buffer::read(tx, child(directory, i)) };
                let bucket = if let Child::Bucket(bucket) = node { Some(bucket) } else { None };
                if bucket.is_none() || bucket != last {
                    visit(tx, node, f)?;
                }
                last = bucket;
            }
            f(tx, TrieNode::Directory(directory))
        }
    }
}

impl<'r, K: Persist, V: Persist> P<'r, Root<'r, K, V>> {
    /// Moves all entries of the map out of their buckets, and passes each to `each`, until `each` returns an
    /// error.
    ///
    /// # Safety
    /// Either the caller does not use the entries in the buckets again, or it does not use those that `each`
    /// has got.
    pub(super) unsafe fn move_out(
        self,
        tx: &mut Txn<'r>,
        each: &mut impl FnMut(&mut Txn<'r>, Pair<K, V>) -> Result<()>,
    ) -> Result<()> {
        visit(tx, tx[self].top, &mut |tx, node| match node {
            // SAFETY: the caller's premise for all entries covers those of this bucket.
            TrieNode::Bucket(bucket) => unsafe { bucket.move_out(tx, each) },
            TrieNode::Leaf(_) | TrieNode::Directory(_) => Ok(()),
        })
    }

    /// Frees the root and all nodes below it when the transaction commits.
    ///
    /// # Safety
    /// At the commit there is no pointer to the root. (Entries that were not moved out are lost.)
    pub(super) unsafe fn free(self, tx: &mut Txn<'r>) {
        let freed = visit(tx, tx[self].top, &mut |tx, node| {
            // SAFETY: at the commit there is no pointer to the nodes; a freed object can still be read in
            // this transaction.
            unsafe {
                match node {
                    TrieNode::Bucket(bucket) => buffer::free(tx, bucket),
                    TrieNode::Leaf(leaf) => buffer::free(tx, leaf),
                    TrieNode::Directory(directory) => buffer::free(tx, directory),
                }
            }
            Ok(())
        });
        debug_assert!(freed.is_ok());
        // SAFETY: the caller guarantees that at the commit no pointer leads to `self`, the root of the trie.
        unsafe { buffer::free(tx, self) };
    }
}
