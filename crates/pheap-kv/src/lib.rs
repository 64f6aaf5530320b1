#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

//! # In the source
//!
//! | file | |
//! |---|---|
//! | `part` | what a shard consists of in the heap, and what a transaction on it does |
//! | `shards` | which shard has a key; reads and transactions; in `split`, when there is one more or less |
//! | `eras`, `snapshot` | which versions snapshots need |
//! | `unsynced` | which keys' reads must wait for a disk |
//! | `store`, `space`, `reader`, `range`, `batch`, `options` | what programs call |
//! | `spaces` | numbers and handles of key spaces; removals that were interrupted |
//! | `keys`, `meta`, `stats`, `error` | stored keys and limits; what a store is recognised by; counters; errors |

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
