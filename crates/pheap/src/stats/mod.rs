//! Statistics: `Stats`, for programs, and the counters of a region (`Counters`).
//!
//! Each part of the engine that counts adds its numbers to a `Stats` itself (`add_to`), so that the heap need
//! not know these numbers.
//!
//! This module knows numbers. It must not know the parts of the engine that count.

#[cfg(feature = "metrics")]
mod metrics;
mod pauses;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) use pauses::Histogram;
pub use pauses::Pauses;

/// The sizes of a heap, and counters since it was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Number of fences. 0 except in `Pmem` durability.
    pub fences: u64,
    /// Number of flushed cache lines, not counting those of log entries. 0 except in `Pmem` durability.
    pub flushed_lines: u64,
    /// Bytes of log entries that were written.
    pub log_bytes: u64,
    /// Number of syncs of the write-ahead log. 0 except in `Wal` durability.
    pub syncs: u64,
    /// Number of checkpoints: how often records of the write-ahead log were written to the heap's file. 0
    /// except in `Wal` durability.
    pub checkpoints: u64,
    /// Bytes that checkpoints wrote to the heap's file. 0 except in `Wal` durability.
    pub checkpoint_bytes: u64,
    /// Bytes of dirty pages in private memory of this process; see
    /// [`Options::memory_limit`](crate::Options::memory_limit). 0 except in `Wal` durability.
    pub private_bytes: u64,
    /// Size of the heap in bytes: of the part of the file that belongs to the heap, or of the heap's memory
    /// if it has no file.
    pub file_bytes: u64,
    /// Bytes of the file beyond [`file_bytes`](Stats::file_bytes): space that a background thread has
    /// allocated, so that no transaction waits for space. Closing the heap gives the unused rest back.
    pub ahead_bytes: u64,
    /// How often a transaction, or another user of pages, waited until the file had grown, or could not grow.
    pub growth_waits: u64,
    /// Bytes of free pages, which no root uses.
    pub free_bytes: u64,
    /// Number of live objects: those that the last collection of their root found, and those that were
    /// allocated since and not freed. Of a root that is [not ready](Stats::ready), some or all objects are
    /// not counted.
    pub live_objects: u64,
    /// Bytes of the slots of [`live_objects`](Stats::live_objects).
    pub live_bytes: u64,
    /// Whether the live objects of all roots are known; see [`Heap::wait_ready`](crate::Heap::wait_ready).
    pub ready: bool,
    /// Number of completed collections, each of one root.
    pub collections: u64,
    /// Total time of collections, over all threads.
    pub collecting: Duration,
    /// For each slice of a collection, how long transactions on the root may have waited for it.
    pub pauses: Pauses,
    /// Number of redo records in the logs of roots, and of transactions in the write-ahead log, that the
    /// opening of the heap has replayed.
    pub replayed_records: u64,
    /// Number of undo entries that the opening of the heap has rolled back.
    pub rolled_back_entries: u64,
}

impl Stats {
    /// Returns the share (0 to 1) of the bytes in use, which are those of pages that are not free, in which
    /// no live object is: garbage, free slots for objects of one type and size, logs, and the heap's
    /// metadata. If a root is [not ready](Stats::ready), the result may be too high.
    pub fn fragmentation(&self) -> f64 {
        let used = self.file_bytes - self.free_bytes;
        if used == 0 { 0.0 } else { (1.0 - self.live_bytes as f64 / used as f64).max(0.0) }
    }
}

/// The live objects of a root ([`Root::live`](crate::Root::live)): the objects that the last collection has
/// found, and those that were allocated since and not freed. While the root is not [ready](Stats::ready), the
/// numbers may be too low.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Live {
    /// Number of live objects.
    pub objects: u64,
    /// Bytes of the slots of live objects.
    pub bytes: u64,
}

/// Counters of a region, which other threads may read. The counters have cache lines of their own, because
/// other threads write to the neighbouring regions, and processors load lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(crate) fences: Counter,
    pub(crate) flushed_lines: Counter,
    pub(crate) log_bytes: Counter,
    /// With a write-ahead log: the log position behind the newest record of this region. It is also set to
    /// the position of a record of another region that the data of this region may depend on. It is not a
    /// statistic.
    pub(crate) position: Gauge,
}

impl Counters {
    pub(crate) fn add_to(&self, stats: &mut Stats) {
        stats.fences += self.fences.get();
        stats.flushed_lines += self.flushed_lines.get();
        stats.log_bytes += self.log_bytes.get();
    }
}

/// A counter with one writer at a time; any thread may read it.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline(always)]
    pub(crate) fn add(&self, n: u64) {
        // The only writer has a lock, so this addition need not be an atomic read-modify-write.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A value with one writer at a time; any thread may read it.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicU64);

impl Gauge {
    #[inline(always)]
    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
