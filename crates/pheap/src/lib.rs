#![doc = include_str!("tour.md")]

mod alloc;
mod api;
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
mod store;
mod sync;
mod tuning;
mod txn;
mod units;
mod wal;

pub use api::many::{RootSet, Shards, txn};
pub use api::root::Root;
pub use api::tx::Txn;
pub use api::view::{Shared, View};
pub use collections::{PBTreeMap, PBTreeSet, PHashMap, PHashSet, PString, PVec, PVecDeque};
pub use error::{Error, Result};
#[cfg(feature = "serde")]
pub use exchange::{Export, Import};
pub use gc::held::Held;
pub use heap::{
    Durability, Elements, Field, Fields, Heap, HeapInfo, Object, Options, Pauses, Pointer, Report, RootInfo,
    Stats, TypeInfo, Usage, Value,
};
pub use layout::{Persist, Pointee};
pub use pheap_macros::{Persist, txn};
pub use ptr::{Key, P};
pub use wal::SyncPolicy;

/// A pointer to a field of an object: `field!(p.name)`, or `field!(p.inner.name)`, for a `p: P<T>`. An expression goes into parentheses:
/// `field!((tx[p].next).name)`.
///
/// It is how a field that is a collection is changed (`field!(shop.prices).push(tx, 9.5)?`), and a way to hand a field to a function.
///
/// ```
/// # use pheap::{Heap, P, Persist, Root, Txn, field};
/// #[derive(Persist, Default)]
/// #[repr(C)]
/// struct Counters {
///     hits: u64,
///     misses: u64,
/// }
///
/// fn count<'r>(tx: &mut Txn<'r>, counter: P<'r, u64>) {
///     tx[counter] += 1;
/// }
///
/// # fn main() -> pheap::Result<()> {
/// # let heap = Heap::in_memory()?;
/// let counters: Root<Counters> = heap.root("counters")?;
/// counters.txn(|tx, counters| {
///     count(tx, field!(counters.hits));
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
#[macro_export]
macro_rules! field {
    ($object:ident . $($field:tt).+) => { $crate::field!(($object) . $($field).+) };
    (($object:expr) . $($field:tt).+) => {{
        let object: $crate::P<'_, _> = $object;
        // SAFETY: the closure is made of fields only, and no type in a heap is `Deref`: it computes an address, and runs no code of the user's.
        unsafe { object.__field(|object| &raw mut (*object).$($field).+) }
    }};
}

/// The programs of the cookbook are tests.
#[cfg(all(doctest, feature = "serde"))]
#[doc = include_str!("../../../docs/cookbook.md")]
mod cookbook {}

/// What the macros expand to. Not covered by any promise of stability.
#[doc(hidden)]
pub mod __private;
