//! The systems that are measured, behind one interface.

mod fjall;
mod heed;
mod pheap;
mod redb;
mod rocksdb;
mod server;
mod sqlite;

use crate::Result;
use clap::ValueEnum;
use pheap_suite::arguments;
use std::path::Path;

/// Bytes of address space that a store reserves, if it needs to know them.
const MAP: usize = 64 << 30;

/// An open store, with its files in a separate directory.
pub(crate) trait Store: Sync {
    /// Opens a session, which one thread uses.
    fn session(&self) -> Result<Box<dyn Session + '_>>;
    /// Syncs the commits that were not synced.
    fn settle(&self) -> Result<()>;
    /// Returns the number of entries, in the store's fastest way.
    fn len(&self) -> Result<u64>;
    /// Makes the files as small as the store can. Returns whether the store can do this.
    fn compact(&mut self) -> Result<bool>;
    /// Returns the bytes written so far, if the store counts them.
    fn written(&self) -> Option<u64> {
        None
    }
    /// Returns the processor time in seconds that the store has used in other processes.
    fn cpu_elsewhere(&self) -> Result<f64> {
        Ok(0.0)
    }
    /// Closes the store as programs do.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Looks up keys.
pub(crate) trait Reader {
    /// Passes the value of a key to `see`, if the key is there, with as few copies as possible.
    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<()>;
    /// Passes up to `most` entries to `see`, beginning with the key `from`.
    fn scan(&mut self, from: &[u8], most: usize, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()>;
}

/// A session of a thread. Each call is a separate transaction (in a server, requests). Stores with a faster
/// way for single entries override the defaults.
pub(crate) trait Session: Reader + Send {
    /// Puts one entry.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.load(&mut std::iter::once((key, value)))
    }
    /// Puts many entries in one transaction.
    fn load(&mut self, entries: &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<()>;
    /// Removes a key, if it is there.
    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.delete_all(&mut std::iter::once(key))
    }
    /// Removes many keys in one transaction.
    fn delete_all(&mut self, keys: &mut dyn Iterator<Item = &[u8]>) -> Result<()>;
    /// Returns a reader for many lookups. It has one transaction for all of them, if transactions cost
    /// something.
    fn reader(&self) -> Result<Box<dyn Reader + '_>>;
}

/// Memory that a store may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Bytes of the store's own cache, if it has one.
    pub(crate) cache: usize,
    /// Bytes of the log of pheap-kv.
    pub(crate) log: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum System {
    /// pheap-kv with a log.
    PheapKv,
    /// pheap-kv with `Durability::Pmem`, for a directory in memory.
    PheapKvPmem,
    Redb,
    Lmdb,
    Fjall,
    Sqlite,
    /// With a shared library that is installed.
    Rocksdb,
    /// A server that is installed; its log is synced by `always`, or not.
    Redis,
    /// A server that is installed, and keeps nothing.
    Memcached,
}

impl System {
    /// Returns the systems that can be measured on this machine.
    pub(crate) fn all_there() -> Vec<System> {
        let is_there = |system: &System| match system {
            System::Rocksdb => rocksdb::is_there(),
            System::Redis => server::Kind::Redis.is_there(),
            System::Memcached => server::Kind::Memcached.is_there(),
            _ => true,
        };
        System::value_variants().iter().copied().filter(is_there).collect()
    }

    pub(crate) fn name(self) -> String {
        arguments::name(&self)
    }

    /// Returns whether the system can commit with or without a sync.
    pub(crate) fn has(self, sync: bool) -> bool {
        match self {
            System::PheapKvPmem => sync,
            System::Memcached => !sync,
            _ => true,
        }
    }

    /// Returns whether keys have an order, so that ranges can be read.
    pub(crate) fn has_order(self) -> bool {
        !matches!(self, System::Redis | System::Memcached)
    }

    /// Opens the store in this directory, or creates it.
    pub(crate) fn open(self, dir: &Path, sync: bool, room: Room) -> Result<Box<dyn Store>> {
        let cache = room.cache;
        Ok(match self {
            System::PheapKv => Box::new(pheap::Pheap::open(dir, sync, false, room)?),
            System::PheapKvPmem => Box::new(pheap::Pheap::open(dir, sync, true, room)?),
            System::Redb => Box::new(redb::Redb::open(dir, sync, cache)?),
            System::Lmdb => Box::new(heed::Heed::open(dir, sync)?),
            System::Fjall => Box::new(fjall::Fjall::open(dir, sync, cache)?),
            System::Sqlite => Box::new(sqlite::Sqlite::open(dir, sync, cache)?),
            System::Rocksdb => Box::new(rocksdb::RocksDb::open(dir, sync, cache)?),
            System::Redis => Box::new(server::Server::open(server::Kind::Redis, dir, sync, cache)?),
            System::Memcached => Box::new(server::Server::open(server::Kind::Memcached, dir, sync, cache)?),
        })
    }
}
