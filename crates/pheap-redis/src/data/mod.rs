//! The stored data: shards, which are roots of the heap; databases; values. This module does not depend on
//! the modules of clients and commands.

mod db;
pub mod files;
mod lookups;
pub mod memory;
mod order;
mod owned;
mod progress;
pub mod size;
mod slots;
mod sorted;
mod store;
pub mod streams;
mod value;

pub use db::{Change, Db, Entry};
pub use lookups::Lookups;
pub use order::{Item, Items};
pub use owned::{Owned, OwnedGroup, OwnedStream};
pub use progress::{Position, Progress};
pub use slots::{SLOTS, slot};
pub use sorted::{Rank, Sorted};
pub use store::{
    DATABASES, MOST_SHARDS, OpenError, SHARDS, SHARDS_OF_ONE, Settings, Shard, Store, explained,
};
pub use value::{Hash, List, Set, Str, Value};

pub use pheap::{P, Txn, View};
