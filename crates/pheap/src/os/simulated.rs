//! The interfaces to the simulator: a simulated medium for mappings, and for stores, flushes and fences.
//! [`storage`](super::storage) has the interface of a simulated file.

use std::fmt::Debug;
use std::io;

use super::reservation::MappedWords;
use super::storage::Storage;
use crate::error::Result;

/// A simulated medium. The mapping of the heap is a copy of it.
pub(crate) trait SimulatedMedium: Send + Sync + Debug {
    /// Fills `into`, a part of the mapping, with the content of the medium from `offset` on.
    ///
    /// # Errors
    /// Those of the simulated file.
    fn read(&self, into: &mut [u8], offset: u64) -> Result<()>;

    /// Makes stores to memory durable, and does nothing for a file. Stores to a file are made durable by
    /// [`SyncedFile`](crate::media::SyncedFile), or by the write-ahead log, or, if the file is
    /// [mapped shared](Self::mapped_file), by `Mapping::sync`.
    fn sync(&self);

    /// Makes the medium longer, durably. Memory becomes longer when it is mapped.
    ///
    /// # Errors
    /// Those of the simulated file.
    fn extend(&self, from: u64, to: u64) -> io::Result<()>;

    /// Returns the file if it is mapped shared: then [`Storage::write_copy`] brings stores to the page cache.
    fn mapped_file(&self) -> Option<&dyn Storage>;
}

/// Persistent memory that knows which of its content is durable.
pub(crate) trait SimulatedMemory: Send + Sync + Debug {
    /// Sets where the memory is mapped, until the next call.
    fn mapped(&self, place: MappedWords);

    /// Calls `copy`, which stores to `len` mapped bytes at `dst`, and notes the stores.
    fn store(&self, dst: *const u8, len: usize, copy: &mut dyn FnMut());

    /// Starts to write back the lines of these bytes.
    fn flush(&self, addr: *const u8, len: usize);

    /// Makes flushed lines durable.
    fn fence(&self);

    /// Notes that the open transaction may change these bytes by plain stores.
    fn expect_stores(&self, addr: *const u8, len: usize);

    /// Notes that the plain stores of the open transaction are over.
    fn no_more_stores(&self);
}
