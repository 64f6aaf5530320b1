//! An embedded ordered key-value store.
#![forbid(unsafe_code)]

mod batch;
mod eras;
mod error;
mod keys;
mod options;
mod part;
mod range;
mod reader;
mod shards;
mod snapshot;
mod space;
mod stats;
mod store;
mod unsynced;

pub use batch::Batch;
pub use error::{Error, Result};
pub use keys::{MAX_KEY, MAX_SPACES, MAX_VALUE};
pub use options::Options;
pub use pheap::{Commit, Durability, SyncPolicy};
pub use range::{Entry, Range};
pub use reader::Reader;
pub use snapshot::Snapshot;
pub use space::KeySpace;
pub use stats::Stats;
pub use store::Store;
