//! What is stored: shards, which are roots of the heap; databases; values. Knows nothing of clients and commands.

mod db;
mod slots;
mod store;
pub mod streams;
mod value;

pub use db::{Change, Db, Entry};
pub use slots::{SLOTS, slot};
pub use store::{DATABASES, OpenError, Settings, Shard, Store};
pub use value::{Hash, List, Set, Str, Value};

pub use pheap::{P, Txn, View};
