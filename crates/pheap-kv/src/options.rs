//! `Options`: how to open a store.

use crate::{Result, Store};
use pheap::{Durability, SyncPolicy};
use std::path::Path;

/// How to open or create a store.
///
/// ```no_run
/// # fn main() -> pheap_kv::Result<()> {
/// use pheap_kv::{Durability, Options, SyncPolicy};
/// use std::time::Duration;
///
/// let store = Options::new()
///     .durability(Durability::Wal)
///     .sync_policy(SyncPolicy::Every(Duration::from_millis(100)))
///     .open("data.kv")?;
/// # store.close()
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Options {
    heap: pheap::Options,
    policy: SyncPolicy,
}

impl Options {
    /// The defaults.
    pub fn new() -> Options {
        Options::default()
    }

    /// Which crashes survives what was written. The default, [`Durability::Auto`], is chosen by file system.
    pub fn durability(mut self, durability: Durability) -> Options {
        self.heap = self.heap.durability(durability);
        self
    }

    /// When the log is synced, with [`Durability::Wal`]; the default is at each commit.
    pub fn sync_policy(mut self, policy: SyncPolicy) -> Options {
        self.heap = self.heap.sync_policy(policy);
        self.policy = policy;
        self
    }

    /// Bytes of addresses that a new store reserves, and so its maximal size for ever: a power of two; the default is 128 GiB, the maximum 8 TiB.
    pub fn reserve(mut self, bytes: u64) -> Options {
        self.heap = self.heap.reserve(bytes);
        self
    }

    /// Limit of the file's size in bytes. Beyond it, writes fail as if the disk were full.
    pub fn max_size(mut self, bytes: u64) -> Options {
        self.heap = self.heap.max_size(bytes);
        self
    }

    /// Limit of private memory in bytes, with [`Durability::Wal`]; the default is 256 MiB.
    pub fn memory_limit(mut self, bytes: u64) -> Options {
        self.heap = self.heap.memory_limit(bytes);
        self
    }

    /// Size of the log in bytes, with [`Durability::Wal`], beyond which writes wait for a checkpoint; the default is 128 MiB.
    pub fn log_limit(mut self, bytes: u64) -> Options {
        self.heap = self.heap.log_limit(bytes);
        self
    }

    /// Bytes of the log that deferred writes leave to be synced later; the default is 8 MiB. Beyond that they wait.
    pub fn unsynced_limit(mut self, bytes: u64) -> Options {
        self.heap = self.heap.unsynced_limit(bytes);
        self
    }

    /// Unit in which the file of a new store grows, in bytes: a power of two of at least 32 KiB; the default is 64 MiB.
    pub fn growth(mut self, bytes: u64) -> Options {
        self.heap = self.heap.arena_size(bytes);
        self
    }

    /// Checks every object of the file before it is trusted: for files from elsewhere.
    pub fn verify(mut self, verify: bool) -> Options {
        self.heap = self.heap.verify(verify);
        self
    }

    /// Opens a file that is a copy of a store in use, made while nobody changed it.
    pub fn restored(mut self, restored: bool) -> Options {
        self.heap = self.heap.restored(restored);
        self
    }

    /// Opens the store in this file, or creates it.
    ///
    /// # Errors
    /// [`Error::Heap`](crate::Error::Heap) if the file cannot be opened, [`Error::NotAStore`](crate::Error::NotAStore) and [`Error::NewerFormat`](crate::Error::NewerFormat).
    pub fn open(self, path: impl AsRef<Path>) -> Result<Store> {
        Store::of(self.heap.open(path)?, self.policy)
    }
}
