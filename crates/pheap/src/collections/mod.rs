//! Collections that live in a heap: [`PVec`], [`PVecDeque`], [`PString`], [`PBytes`], [`PPriorityQueue`],
//! [`PHashMap`], [`PHashSet`], [`PBTreeMap`], [`PBTreeSet`], [`PSnapMap`].
//!
//! | file | |
//! |---|---|
//! | `buffer` | slots for values; how buffers are read, written and freed |
//! | `common` | macros for several collections: sizes, iterators, entries of keys, sets made of maps |
//! | `key` | the types of keys, and how they are hashed and ordered |
//! | `own_types` | lists the types of this folder, and what `check` verifies of each |
//! | `vec`, `string`, `bytes`, `deque`, `priority` | a buffer that grows |
//! | `hash` | maps and sets by hash |
//! | `btree` | maps and sets in order |
//! | `snap` | ordered maps with snapshots |
//!
//! A collection is a few words, for instance a field of a struct, or the root object itself. Its elements lie
//! in other objects. Read it through a reference or its pointer, passing the view
//! (`view[list].names.get(view, 3)`). Change it through its pointer, passing the transaction
//! (`list.push(tx, 42)`; [`field!`](crate::field) makes the pointer to a field).
//!
//! **Ownership.** A collection cannot be copied, only moved, and the program never gets a `P` into its
//! buffers. So only the collection has pointers to its buffers: an operation can move values out of a buffer,
//! and if it replaces or drops a buffer, the commit frees the buffer, without a run of the collector. (The
//! nodes of a [`PSnapMap`] are an exception: snapshots share them.)

pub mod btree;
mod buffer;
mod bytes;
mod common;
pub mod deque;
pub mod hash;
mod key;
mod own_types;
pub mod priority;
pub mod snap;
mod string;
pub mod vec;

pub use btree::{PBTreeMap, PBTreeSet};
pub use bytes::PBytes;
pub use deque::PVecDeque;
pub use hash::{PHashMap, PHashSet};
#[doc(hidden)]
pub use key::ByValue;
pub use key::{HashKey, InlineBytes, KeyArg, KeyHasher, MapKey, OrdKey, SharedStr};
pub use priority::PPriorityQueue;
pub use snap::{Frozen, PSnapMap, Snapshot};
pub use string::PString;
pub use vec::PVec;

/// Returns how many elements to reserve room for. `hint` is their number as an iterator or input data say; a
/// wrong hint must not reserve more than 1 MiB.
pub(crate) fn believed<T>(hint: usize) -> usize {
    hint.min((1 << 20) / size_of::<T>().max(1))
}
