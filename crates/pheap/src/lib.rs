#![doc = include_str!("tour.md")]

mod error;
mod heap;
mod layout;
mod media;
mod ptr;
mod region;
mod txn;

pub use error::{Error, Result};
pub use heap::{
    Durability, Elements, Field, Fields, Heap, HeapInfo, Object, Options, Pauses, Pointer, Report, RootInfo,
    Stats, SyncPolicy, TypeInfo, Usage, Value,
};
pub use layout::{Persist, Pointee};
pub use pheap_macros::{Persist, txn};
pub use ptr::{Key, P};
pub use region::Root;
pub use region::held::Held;
pub use txn::{RootSet, Shards, Shared, Txn, View, txn};

/// The crash simulator, for tests of pheap itself.
#[cfg(feature = "sim")]
#[doc(hidden)]
pub use media::sim;

/// What the macros expand to. Not covered by any promise of stability.
#[doc(hidden)]
pub mod __private;
