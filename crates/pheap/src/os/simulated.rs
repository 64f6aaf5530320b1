//! The seams for the simulator: what a simulated medium is to a map, and to who stores, flushes and fences. What a simulated file is, [`storage`](super::storage) says.

use std::fmt::Debug;
use std::io;

use super::reservation::Place;
use super::storage::Storage;
use crate::error::Result;

/// What a map is a copy of.
pub(crate) trait Simulated: Send + Sync + Debug {
    /// Fills a part of the map with what the medium holds from `offset` on.
    ///
    /// # Errors
    /// Those of the simulated file.
    fn read(&self, into: &mut [u8], offset: u64) -> Result<()>;

    /// Makes durable what was stored to memory. A file is another matter: see [`SyncedFile`](crate::media::SyncedFile).
    fn sync(&self);

    /// Makes the medium longer, durably. Memory becomes so when it is mapped.
    ///
    /// # Errors
    /// Those of the simulated file.
    fn extend(&self, from: u64, to: u64) -> io::Result<()>;

    /// The file, if it is mapped and shared: stores are in the page cache, where [`Storage::write_copy`] sees to it.
    fn mapped_file(&self) -> Option<&dyn Storage>;
}

/// Persistent memory that remembers what is durable.
pub(crate) trait Memory: Send + Sync + Debug {
    /// Says where it is mapped, until the next call.
    fn mapped(&self, place: Place);

    /// Notes what `copy` stores to `len` bytes at `dst`, which are mapped.
    fn store(&self, dst: *const u8, len: usize, copy: &mut dyn FnMut());

    /// Starts to write back the lines of these bytes.
    fn flush(&self, addr: *const u8, len: usize);

    /// Makes durable what was flushed.
    fn fence(&self);

    /// The open transaction may change these bytes by plain stores.
    fn expect_stores(&self, addr: *const u8, len: usize);

    /// Plain stores are over.
    fn no_more_stores(&self);
}
