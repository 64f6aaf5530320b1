//! The systems that are measured, behind one interface.

mod floor;
#[expect(dead_code, reason = "this benchmark neither scans nor removes, and leaves some of the stores out")]
#[path = "../../../kv/src/systems/mod.rs"]
mod kv;
mod others;
mod pheap;

use crate::Result;
use pheap_suite::Rng;
use std::path::Path;

pub(crate) use floor::{Floor, median_of_syncs};
use others::Other;

/// A key that is inserted and looked up.
pub(crate) type Key = [u8; 16];
pub(crate) type Value = [u8; 100];

/// Memory that a store may use for its own cache, if it has one. Only pheap-kv has a log of this size, and it
/// is not measured here.
const ROOM: kv::Room = kv::Room { cache: 1 << 30, log: 0 };

/// Returns the value that belongs to a key, so that values need not be kept for comparisons.
pub(crate) fn value_of(key: &Key) -> Value {
    let mut seed = [0; 8];
    seed.copy_from_slice(&key[..8]);
    let mut rng = Rng::from_seed(u64::from_le_bytes(seed));
    let mut value = [0; 100];
    for part in value.chunks_mut(8) {
        part.copy_from_slice(&rng.next_u64().to_le_bytes()[..part.len()]);
    }
    value
}

/// The values that threads update: `each` values of 8 bytes for each thread, 0 at first.
#[derive(Clone, Copy)]
pub(crate) struct Values {
    pub(crate) threads: usize,
    pub(crate) each: u64,
}

impl Values {
    /// No values: for sessions that insert and look up.
    pub(crate) const NONE: Values = Values { threads: 0, each: 0 };

    /// Returns the key of a value in a store that has one table.
    fn key(self, thread: usize, index: u64) -> u64 {
        thread as u64 * self.each + index
    }

    fn keys(self) -> std::ops::Range<u64> {
        0..self.threads as u64 * self.each
    }
}

/// An open store, with its files in a separate directory.
pub(crate) trait Store: Sync {
    /// Creates the values.
    fn preload(&self, values: Values) -> Result<()>;
    /// Opens a session for one thread, which updates the values of that thread.
    fn session<'s>(&'s self, values: Values, thread: usize) -> Result<Box<dyn Session + 's>>;
    /// Creates this number of values that all threads share, in the structure in which the store keeps keys.
    fn preload_shared(&self, values: u64) -> Result<()> {
        self.preload(Values { threads: 1, each: values })
    }
    /// Opens a session for one thread, which looks up or updates the shared values. `deferred`: if the store
    /// has a choice, lookups do not wait until the values are durable.
    fn shared<'s>(&'s self, values: u64, _deferred: bool) -> Result<Box<dyn Session + 's>> {
        self.session(Values { threads: 1, each: values }, 0)
    }
    /// Syncs the commits that were not synced.
    fn settle(&self) -> Result<()>;
    /// Closes the store as programs do.
    fn close(self: Box<Self>) -> Result<()>;
}

pub(crate) trait Session: Send {
    /// Sets one value in a transaction.
    fn update(&mut self, index: u64, value: u64) -> Result<()>;
    fn value(&mut self, index: u64) -> Result<u64>;
    /// Inserts these keys with their [values](value_of) in a transaction.
    fn insert(&mut self, keys: &[Key]) -> Result<()>;
    /// Looks up the keys in a read transaction. A single key is looked up in the store's cheapest way. All
    /// keys must be there.
    fn get(&mut self, keys: &[Key], see: &mut dyn FnMut(&Key, &[u8])) -> Result<()>;
}

/// Returns the error for an entry that is missing.
fn missing() -> Box<dyn std::error::Error + Send + Sync> {
    "what was written is not there".into()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub(crate) enum System {
    Pheap,
    Redb,
    Heed,
    Fjall,
    Rusqlite,
    Floor,
}

impl System {
    pub(crate) fn name(self) -> &'static str {
        match self {
            System::Pheap => "pheap",
            System::Redb => "redb",
            System::Heed => "heed",
            System::Fjall => "fjall",
            System::Rusqlite => "rusqlite",
            System::Floor => "floor",
        }
    }

    /// Returns the policy of its commits.
    pub(crate) fn policy(self, sync: bool) -> &'static str {
        match (self, sync) {
            (System::Pheap, true) => "wal:every_commit",
            (System::Pheap, false) => "wal:on_demand",
            (System::Redb, true) => "immediate",
            (System::Redb, false) => "none",
            (System::Heed, true) => "sync",
            (System::Heed, false) => "nosync",
            (System::Fjall, true) => "sync_data",
            (System::Fjall, false) => "buffer",
            (System::Rusqlite, true) => "wal:full",
            (System::Rusqlite, false) => "wal:off",
            (System::Floor, _) => "pwrite_4k+fdatasync",
        }
    }

    /// Returns the structure that it keeps keys in.
    pub(crate) fn structure(self) -> &'static str {
        match self {
            System::Pheap => "B+-tree (`PBTreeMap`)",
            System::Redb => "copy-on-write B-tree",
            System::Heed => "copy-on-write B+-tree",
            System::Fjall => "LSM tree",
            System::Rusqlite => "B-tree",
            System::Floor => "",
        }
    }

    /// Opens the store in this directory, or creates it.
    pub(crate) fn open(self, dir: &Path, sync: bool) -> Result<Box<dyn Store>> {
        let other = |system: kv::System| -> Result<Box<dyn Store>> {
            Ok(Box::new(Other(system.open(dir, sync, ROOM)?)))
        };
        Ok(match self {
            System::Pheap => Box::new(pheap::Pheap::open(dir, sync)?),
            System::Redb => other(kv::System::Redb)?,
            System::Heed => other(kv::System::Lmdb)?,
            System::Fjall => other(kv::System::Fjall)?,
            System::Rusqlite => other(kv::System::Sqlite)?,
            System::Floor => Box::new(Floor::open(dir)),
        })
    }
}
