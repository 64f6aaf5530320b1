//! What is measured: one way to use all the stores.

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

/// How much address space stores reserve that want to know it.
const MAP: usize = 64 << 30;

/// A store that is open. Its files are in a directory of its own.
pub(crate) trait Store: Sync {
    /// What one thread uses.
    fn session(&self) -> Result<Box<dyn Session + '_>>;
    /// Syncs what was committed without a sync.
    fn settle(&self) -> Result<()>;
    /// Entries, by the fastest way there is to know.
    fn len(&self) -> Result<u64>;
    /// Makes the files as small as the store can. Whether it can do anything.
    fn compact(&mut self) -> Result<bool>;
    /// Bytes written so far, if the store counts them.
    fn written(&self) -> Option<u64> {
        None
    }
    /// Seconds of processors that it has used in other processes.
    fn cpu_elsewhere(&self) -> Result<f64> {
        Ok(0.0)
    }
    /// Closes it as programs do.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Looking things up.
pub(crate) trait Reader {
    /// Shows the value of a key, if it is there, with as few copies as the store can.
    fn get(&mut self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<()>;
    /// Shows up to so many entries from a key on.
    fn scan(&mut self, from: &[u8], most: usize, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()>;
}

/// Each call is a transaction of its own. Stores that have a shorter way for a single entry say so.
pub(crate) trait Session: Reader + Send {
    /// Puts one entry.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.load(&mut std::iter::once((key, value)))
    }
    /// One that puts many.
    fn load(&mut self, entries: &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<()>;
    /// Removes a key, if it is there.
    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.delete_all(&mut std::iter::once(key))
    }
    /// Removes many keys.
    fn delete_all(&mut self, keys: &mut dyn Iterator<Item = &[u8]>) -> Result<()>;
    /// What to look up many things with: one transaction for all, where a transaction costs something.
    fn reader(&self) -> Result<Box<dyn Reader + '_>>;
}

/// What a store may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Bytes of a cache of its own, if it has one.
    pub(crate) cache: usize,
    /// Bytes of pheap-kv's log.
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
    /// Those that can be measured here.
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

    /// Whether it can commit like that.
    pub(crate) fn has(self, sync: bool) -> bool {
        match self {
            System::PheapKvPmem => sync,
            System::Memcached => !sync,
            _ => true,
        }
    }

    /// Whether its keys have an order, and ranges can be read.
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
