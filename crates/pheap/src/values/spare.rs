//! `Spare`: room for future fields.

use std::fmt;

use pheap_macros::Persist;

use crate::layout::Plain;

/// `N` bytes for fields that a type gets later. A field that is put there, with `#[persist(since = 2)]`,
/// needs no migration, and is zero in older objects, unless it has a `default`.
///
/// ```
/// use pheap::{Heap, Persist, Spare};
///
/// mod v1 {
///     # use pheap::{Persist, Spare};
///     #[derive(Persist, Default)]
///     #[repr(C)]
///     pub struct Job {
///         pub priority: u64,
///         pub spare: Spare<24>,
///     }
/// }
///
/// #[derive(Persist, Default)]
/// #[repr(C)]
/// struct Job {
///     priority: u64,
///     #[persist(since = 2)]
///     attempts: u32,
///     spare: Spare<20>, // what is left
/// }
///
/// # fn main() -> pheap::Result<()> {
/// let heap = Heap::in_memory()?;
/// heap.root::<v1::Job>("job")?.txn(|tx, job| Ok(tx[job].priority = 7))?; // as the old program did
/// let job = heap.root::<Job>("job")?;
/// assert_eq!(job.read(|view, job| (view[job].priority, view[job].attempts))?, (7, 0));
/// # Ok(())
/// # }
/// ```
///
/// A `Spare` consists of bytes, so that it needs no alignment: place a new field where it is aligned, and
/// choose the number of spare bytes so that the size of the type stays the same. All of the bytes are zero.
//
// Invariant: all bytes are zero, also in files: safe code of programs cannot make other values.
#[derive(Persist, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
#[persist(own, id = "pheap::Spare", crate = "crate")]
pub struct Spare<const N: usize>([u8; N]);

impl<const N: usize> Plain for Spare<N> {}

impl<const N: usize> Spare<N> {
    /// The only value of the type: all bytes are zero.
    pub const NEW: Spare<N> = Spare([0; N]);
}

impl<const N: usize> Default for Spare<N> {
    fn default() -> Spare<N> {
        Spare::NEW
    }
}

impl<const N: usize> fmt::Debug for Spare<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spare<{N}>")
    }
}
