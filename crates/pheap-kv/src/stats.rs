//! Counters of a store.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of the writes to a shard, on a separate cache line. Only the writer that holds the shard's lock
/// changes them.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct WriteCounts {
    puts: AtomicU64,
    deletes: AtomicU64,
    bytes: AtomicU64,
}

impl WriteCounts {
    pub(crate) fn put(&self, bytes: usize) {
        add(&self.puts, 1);
        add(&self.bytes, bytes as u64);
    }

    pub(crate) fn delete(&self, bytes: usize) {
        add(&self.deletes, 1);
        add(&self.bytes, bytes as u64);
    }

    /// Returns the sum of the counters of two shards. No writer may change them any more.
    pub(crate) fn sum(one: &WriteCounts, other: &WriteCounts) -> WriteCounts {
        let sum = |counter: fn(&WriteCounts) -> &AtomicU64| {
            AtomicU64::new(counter(one).load(Relaxed) + counter(other).load(Relaxed))
        };
        WriteCounts {
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

/// Adds `n` to a counter without an atomic addition, because there is one writer at a time.
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed) + n, Relaxed);
}

/// Sizes of a store, and counters since it was opened; see [`Store::stats`](crate::Store::stats).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Entries of all key spaces, and one entry for each name of a key space. Expired entries, entries of
    /// removed key spaces, and the marks of those key spaces count until they are removed.
    pub entries: u64,
    /// Number of values set, including those of transactions that failed later.
    pub puts: u64,
    /// Number of keys that calls have removed or tried to remove.
    pub deletes: u64,
    /// Bytes of the keys and values of `puts` and `deletes`. Keys count with the prefix of their key space.
    pub bytes_put: u64,
    /// Number of shards in use.
    pub shards: usize,
    /// Counters of the heap: sizes, fences, syncs, collections.
    pub heap: pheap::Stats,
}

impl Stats {
    /// Returns the bytes written for the payload [`bytes_put`](Self::bytes_put). With
    /// [`Durability::Pmem`](crate::Durability::Pmem), these are flushed lines and log entries; with
    /// [`Durability::Wal`](crate::Durability::Wal), log entries and pages of checkpoints. With `Process`,
    /// only log entries count: the kernel decides when to write pages.
    pub fn bytes_written(&self) -> u64 {
        64 * self.heap.flushed_lines + self.heap.checkpoint_bytes + self.heap.log_bytes
    }

    /// Returns [`bytes_written`](Self::bytes_written) per byte of payload; 0 without payload.
    pub fn write_amplification(&self) -> f64 {
        if self.bytes_put == 0 { 0.0 } else { self.bytes_written() as f64 / self.bytes_put as f64 }
    }
}
