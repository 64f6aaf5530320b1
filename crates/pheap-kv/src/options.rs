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
    /// Returns the default options.
    pub fn new() -> Options {
        Options::default()
    }

    /// Sets which crashes committed writes survive. The default, [`Durability::Auto`], chooses by file
    /// system.
    pub fn durability(mut self, durability: Durability) -> Options {
        self.heap = self.heap.durability(durability);
        self
    }

    /// Sets when the log is synced with [`Durability::Wal`]. The default is at each commit.
    pub fn sync_policy(mut self, policy: SyncPolicy) -> Options {
        self.heap = self.heap.sync_policy(policy);
        self.policy = policy;
        self
    }

    /// Sets the bytes of address space that a new store reserves: a power of two, at most 8 TiB. The store
    /// can never become larger. The default is 128 GiB, or less with a small [`max_size`](Self::max_size).
    pub fn reserve(mut self, bytes: u64) -> Options {
        self.heap = self.heap.reserve(bytes);
        self
    }

    /// Limits the size of the file, in bytes. At the limit, writes fail as if the disk were full.
    pub fn max_size(mut self, bytes: u64) -> Options {
        self.heap = self.heap.max_size(bytes);
        self
    }

    /// Changes other options of the heap: limits of memory and of the log, checks of files from elsewhere,
    /// garbage collection.
    ///
    /// ```
    /// let options = pheap_kv::Options::new().heap(|heap| heap.memory_limit(1 << 30).verify(true));
    /// ```
    pub fn heap(mut self, change: impl FnOnce(pheap::Options) -> pheap::Options) -> Options {
        self.heap = change(self.heap);
        self
    }

    /// Opens the store in this file. Creates the file if there is none.
    ///
    /// # Errors
    /// [`Error::Heap`](crate::Error::Heap), for instance if the file cannot be opened;
    /// [`Error::NotAStore`](crate::Error::NotAStore) and [`Error::NewerFormat`](crate::Error::NewerFormat).
    pub fn open(self, path: impl AsRef<Path>) -> Result<Store> {
        Store::of(self.heap.open(path)?, self.policy)
    }
}
