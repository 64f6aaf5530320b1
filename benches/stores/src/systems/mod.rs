//! What is measured: one way to use all the stores.

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

/// What is inserted and looked up.
pub(crate) type Key = [u8; 16];
pub(crate) type Value = [u8; 100];

/// How much memory a store may use for a cache of its own, if it has one. The log is pheap-kv's.
const ROOM: kv::Room = kv::Room { cache: 1 << 30, log: 0 };

/// What belongs to a key, so that nobody has to remember it.
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

/// The `each` values of each thread: values of 8 bytes, 0 at first.
#[derive(Clone, Copy)]
pub(crate) struct Values {
    pub(crate) threads: usize,
    pub(crate) each: u64,
}

impl Values {
    /// For those who insert and look up.
    pub(crate) const NONE: Values = Values { threads: 0, each: 0 };

    /// Where a store that has one table keeps a value.
    fn key(self, thread: usize, index: u64) -> u64 {
        thread as u64 * self.each + index
    }

    fn keys(self) -> std::ops::Range<u64> {
        0..self.threads as u64 * self.each
    }
}

/// A store that is open. Its files are in a directory of its own.
pub(crate) trait Store: Sync {
    /// Creates the values.
    fn preload(&self, values: Values) -> Result<()>;
    /// What one thread uses. Updates the values of that thread.
    fn session<'s>(&'s self, values: Values, thread: usize) -> Result<Box<dyn Session + 's>>;
    /// Creates so many values that all threads share, in what the store keeps keys in.
    fn preload_shared(&self, values: u64) -> Result<()> {
        self.preload(Values { threads: 1, each: values })
    }
    /// What one thread uses that looks up these, or updates them. `deferred`: lookups do not wait until what they see is durable, if it is for the store to choose.
    fn shared<'s>(&'s self, values: u64, _deferred: bool) -> Result<Box<dyn Session + 's>> {
        self.session(Values { threads: 1, each: values }, 0)
    }
    /// Syncs what was committed without a sync.
    fn settle(&self) -> Result<()>;
    /// Closes it as programs do.
    fn close(self: Box<Self>) -> Result<()>;
}

pub(crate) trait Session: Send {
    /// A transaction that sets one value.
    fn update(&mut self, index: u64, value: u64) -> Result<()>;
    fn value(&mut self, index: u64) -> Result<u64>;
    /// A transaction that inserts these keys, with their [values](value_of).
    fn insert(&mut self, keys: &[Key]) -> Result<()>;
    /// A read transaction (the cheapest there is, for a single key) that looks the keys up, which must be there.
    fn get(&mut self, keys: &[Key], see: &mut dyn FnMut(&Key, &[u8])) -> Result<()>;
}

/// What a store that should have it does not have.
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

    /// How it commits.
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

    /// In what it keeps keys.
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
