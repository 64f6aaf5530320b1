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

    /// Changes the other options of the heap below: limits of memory and of the log, how files from elsewhere are checked, when garbage is collected.
    ///
    /// ```
    /// let options = pheap_kv::Options::new().heap(|heap| heap.memory_limit(1 << 30).verify(true));
    /// ```
    pub fn heap(mut self, change: impl FnOnce(pheap::Options) -> pheap::Options) -> Options {
        self.heap = change(self.heap);
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
