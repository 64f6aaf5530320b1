//! Counters.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What was written to a shard, in a line of its own. Only who has the shard's lock counts.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counts {
    puts: AtomicU64,
    deletes: AtomicU64,
    bytes: AtomicU64,
}

impl Counts {
    pub(crate) fn put(&self, bytes: usize) {
        add(&self.puts, 1);
        add(&self.bytes, bytes as u64);
    }

    pub(crate) fn delete(&self, bytes: usize) {
        add(&self.deletes, 1);
        add(&self.bytes, bytes as u64);
    }

    /// What was written to two shards, of which nobody counts any more.
    pub(crate) fn sum(one: &Counts, other: &Counts) -> Counts {
        let sum = |counter: fn(&Counts) -> &AtomicU64| {
            AtomicU64::new(counter(one).load(Relaxed) + counter(other).load(Relaxed))
        };
        Counts {
            puts: sum(|counts| &counts.puts),
            deletes: sum(|counts| &counts.deletes),
            bytes: sum(|counts| &counts.bytes),
        }
    }

    pub(crate) fn add_to(&self, stats: &mut Stats) {
        stats.puts += self.puts.load(Relaxed);
        stats.deletes += self.deletes.load(Relaxed);
        stats.bytes_put += self.bytes.load(Relaxed);
    }
}

/// There is one writer at a time.
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed) + n, Relaxed);
}

/// Sizes of a store, and counters since it was opened; see [`Store::stats`](crate::Store::stats).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Entries of all key spaces, and an entry for the name of each. Those that have expired, and those of
    /// key spaces that were removed, count until they are gone. So does a note of such a key space.
    pub entries: u64,
    /// Values that were set. (What was rolled back counts, too.)
    pub puts: u64,
    /// Keys that were to be removed.
    pub deletes: u64,
    /// Bytes of keys and values of these.
    pub bytes_put: u64,
    /// Shards that keys are in.
    pub shards: usize,
    /// What the heap counts: sizes, fences, syncs, collections.
    pub heap: pheap::Stats,
}

impl Stats {
    /// Bytes that were written for [`bytes_put`](Self::bytes_put) of payload: with [`Durability::Pmem`](crate::Durability::Pmem) lines flushed and log entries, with
    /// [`Durability::Wal`](crate::Durability::Wal) log entries and pages of checkpoints. 0 with `Process`, where the kernel writes pages as it likes.
    pub fn bytes_written(&self) -> u64 {
        64 * self.heap.flushed_lines + self.heap.checkpoint_bytes + self.heap.log_bytes
    }

    /// [`bytes_written`](Self::bytes_written) for each byte put.
    pub fn write_amplification(&self) -> f64 {
        if self.bytes_put == 0 { 0.0 } else { self.bytes_written() as f64 / self.bytes_put as f64 }
    }
}
