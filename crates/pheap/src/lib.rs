#![doc = include_str!("tour.md")]
#![cfg_attr(docsrs, feature(doc_cfg))] // shows the features that items need
#![deny(unsafe_code)]
#![deny(clippy::multiple_unsafe_ops_per_block)]

mod alloc;
mod api;
#[allow(clippy::multiple_unsafe_ops_per_block)] // a node is written under one premise, word by word
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

// Changing and reading objects.
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

// Types that have changed.
pub use api::evolve::{Evolution, Progress};
pub use layout::Migrate;

// Opening and maintaining a heap.
pub use heap::{
    Backup, Durability, Heap, HeapInfo, Holders, Options, Report, RootHolders, RootInfo, TypeInfo, Usage,
};
pub use os::memory_limit;
pub use stats::{Live, Pauses, Stats};
pub use wal::SyncPolicy;

// Committing and reading without waiting for a disk.
pub use api::deferred::txn_deferred;
pub use api::tasks::txn_async;
pub use wal::Commit;

// Objects whose types the program does not know.
pub use heap::{Elements, Entries, Entry, Field, Fields, Object, Objects, Pointer, Purpose, SpanUse, Value};

#[cfg(feature = "serde")]
pub use exchange::{Export, Import};

/// The programs in these documents are tests.
#[cfg(all(doctest, feature = "serde"))]
mod documents {
    #[doc = include_str!("../../../docs/cookbook.md")]
    mod cookbook {}
    #[doc = include_str!("../../../docs/service.md")]
    mod service {}
    #[doc = include_str!("../../../docs/coming-from.md")]
    mod coming_from {}
}

/// The expansion of macros uses these items. They have no stable interface.
#[doc(hidden)]
pub mod __private;
