#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

//! # In the source
//!
//! | file | |
//! |---|---|
//! | `part` | a shard's content in the heap, and the transactions on it |
//! | `shards` | the map from keys to shards; reads and transactions; `split` adds and removes shards |
//! | `eras`, `snapshot` | which versions snapshots need |
//! | `unsynced` | which reads must wait for the disk |
//! | `store`, `space`, `reader`, `range`, `batch`, `options` | the public interface |
//! | `spaces` | numbers and handles of key spaces; interrupted removals |
//! | `keys`, `meta`, `stats`, `error` | stored keys and limits; identification of a store; counters; errors |

mod batch;
mod eras;
mod error;
mod keys;
mod meta;
mod options;
mod part;
mod range;
mod reader;
mod shards;
mod snapshot;
mod space;
mod spaces;
mod stats;
mod store;
mod unsynced;

pub use batch::Batch;
pub use error::{Error, Result};
pub use keys::{MAX_KEY, MAX_VALUE};
pub use options::Options;
pub use pheap::{Commit, Durability, SyncPolicy};
pub use range::{Entry, Range};
pub use reader::Reader;
pub use snapshot::Snapshot;
pub use space::KeySpace;
pub use stats::Stats;
pub use store::Store;
