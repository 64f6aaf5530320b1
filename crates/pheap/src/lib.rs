#![doc = include_str!("tour.md")]
#![cfg_attr(docsrs, feature(doc_cfg))] // makes docs.rs show the Cargo features that each item needs
#![deny(unsafe_code)]
#![deny(clippy::multiple_unsafe_ops_per_block)]

mod alloc;
mod api;
#[allow(clippy::multiple_unsafe_ops_per_block)] // all stores to the words of a node share one premise
pub mod collections;
mod error;
#[cfg(feature = "serde")]
pub mod exchange;
mod faults;
mod gc;
mod heap;
mod layout;
mod log;
mod media;
mod os;
mod ptr;
mod region;
#[cfg(feature = "sim")]
#[doc(hidden)]
pub mod sim;
mod stats;
mod store;
mod sync;
mod tuning;
mod txn;
mod units;
mod values;
mod wal;

// Exports for changing and reading objects.
pub use api::debug::DebugObject;
pub use api::nested::Carried;
pub use api::root::Root;
pub use api::several::{RootSet, Shards, txn, with_several_heaps};
pub use api::tx::Txn;
pub use api::view::{Shared, View};
pub use collections::{
    InlineBytes, PBTreeMap, PBTreeSet, PBytes, PHashMap, PHashSet, PPriorityQueue, PSnapMap, PString, PVec,
    PVecDeque, SharedStr, Snapshot,
};
pub use error::{Error, Result};
pub use gc::held::Held;
pub use layout::{Branded, Persist, Plain, Pointee, StoreAs, Stored};
pub use pheap_macros::{Persist, txn};
pub use ptr::{Key, P};
pub use region::Watch;
pub use values::{
    PDuration, POption, PSystemTime, PTuple2, PTuple3, PTuple4, PTuple5, PTuple6, PTuple7, PTuple8, Spare,
};

// Exports for converting objects whose types have changed.
pub use api::evolve::{Evolution, Progress};
pub use layout::Migrate;

// Exports for opening and maintaining a heap.
pub use heap::{
    Backup, Durability, Heap, HeapInfo, Holders, Options, Report, RootHolders, RootInfo, TypeInfo, Usage,
};
pub use os::memory_limit;
pub use stats::{Live, Pauses, Stats};
pub use wal::SyncPolicy;

// Exports for committing and reading without waiting for a disk.
pub use api::deferred::txn_deferred;
pub use api::tasks::txn_async;
pub use wal::Commit;

// Exports for inspecting objects whose types the program does not know.
pub use heap::{Elements, Entries, Entry, Field, Fields, Object, Objects, Pointer, Purpose, SpanUse, Value};

#[cfg(feature = "serde")]
pub use exchange::{Export, Import};

/// Makes the programs in three Markdown documents of the repository doctests.
#[cfg(all(doctest, feature = "serde"))]
mod documents {
    #[doc = include_str!("../../../docs/cookbook.md")]
    mod cookbook {}
    #[doc = include_str!("../../../docs/service.md")]
    mod service {}
    #[doc = include_str!("../../../docs/coming-from.md")]
    mod coming_from {}
}

/// Items that the expansion of pheap's macros uses. Their interface is not stable.
#[doc(hidden)]
pub mod __private;
