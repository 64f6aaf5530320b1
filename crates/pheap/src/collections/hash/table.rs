//! How a map lies in the heap.

use crate::Persist;
use crate::collections::buffer::Slot;
use crate::collections::common::copied;
use crate::collections::key::OwnKey;
use crate::ptr::P;

use super::tags::{SLOTS, Tags};

/// Bits of the hash that a level of directories takes. A level divides a hash without a rest.
pub(super) const LEVEL: u32 = 8;
pub(super) const FAN_OUT: usize = 1 << LEVEL;

/// An entry. Whole words, so that no two of them share one.
#[derive(Persist)]
#[persist(own, id = "pheap::hash::Pair", crate = "crate")]
#[repr(C, align(8))]
pub(crate) struct Pair<K, V> {
    pub(super) key: OwnKey<K>,
    pub(super) value: V,
}

impl<K, V> Pair<K, V> {
    /// How many of them are in a cache line.
    pub(super) const IN_LINE: usize = match size_of::<Self>() {
        0..=2 => SLOTS,
        size @ 3..64 => 64 / size,
        _ => 1,
    };
}

/// What a bucket says of its entries: all that a lookup of a key that is not there has to look at.
#[derive(Persist)]
#[persist(own, id = "pheap::hash::Head", crate = "crate")]
#[repr(C)]
pub(super) struct Head<'r, K, V> {
    pub(super) tags: Tags,
    /// More entries of the same hash.
    pub(super) next: Option<P<'r, Bucket<'r, K, V>>>,
}

/// Entries whose hashes begin with the same bits.
#[derive(Persist)]
#[persist(own, id = "pheap::hash::Bucket", crate = "crate")]
#[repr(C, align(64))]
pub(super) struct Bucket<'r, K, V> {
    pub(super) head: Head<'r, K, V>,
    pub(super) slots: [Slot<Pair<K, V>>; SLOTS],
}

/// A directory that grows: a power of two of pointers, by the next bits of the hash. Buckets that know fewer bits are there several times, one behind
/// the other. None where there are no entries.
pub(super) type Leaf<'r, K, V> = [Option<P<'r, Bucket<'r, K, V>>>];

/// A directory whose entries may lead to further ones.
#[derive(Persist)]
#[persist(own, id = "pheap::hash::Directory", crate = "crate")]
#[repr(C)]
pub(super) struct Directory<'r, K, V> {
    pub(super) children: [Child<'r, K, V>; FAN_OUT],
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
    pub(super) secret: [u64; 2],
    pub(super) top: Child<'r, K, V>,
}
