//! `PBytes`, a growable sequence of bytes.

use std::ops::RangeBounds;

use super::common::{by_pointer, not_in_place, sized};
use super::vec::PVec;
use crate::Persist;
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::error::Result;
use crate::heap::check::rule::{OwnType, TypePromise};
use crate::ptr::{P, bounds};

/// Growable bytes: the counterpart of [`PString`](super::PString) for bytes. It can be a key of maps, too.
/// With serde, a `PBytes` is bytes (in human-readable formats, a string in hexadecimal), whereas a `PVec<u8>`
/// is a sequence of numbers. (A `P<[u8]>` has a fixed length, and is one word instead of two.)
///
/// ```
/// # use pheap::{Heap, PBytes, Root};
/// # fn main() -> pheap::Result<()> {
/// # let heap = Heap::in_memory()?;
/// let message: Root<PBytes> = heap.root("message")?;
/// message.txn(|tx, message| {
///     message.extend_from_slice(tx, b"simply there")?;
///     message.replace_range(tx, ..6, b"just")
/// })?;
/// assert!(message.read(|view, message| message.as_slice(view) == b"just there")?);
/// # Ok(())
/// # }
/// ```
///
#[doc = include_str!("pbytes.md")]
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::PBytes", crate = "crate")]
pub struct PBytes<'r> {
    bytes: PVec<'r, u8>,
}

/// Entries for the lists of [`own_types`](super::own_types): the types of this module, each with the promise
/// that [`check`](crate::Heap::check) verifies.
pub(super) const OWN_TYPES: &[OwnType] = &[OwnType::for_type::<PBytes<'static>>(TypePromise::Nothing)];

sized!(PBytes<> of "bytes", "a buffer", PBytes { bytes: PVec::new() }, |bytes| bytes.bytes.len());

impl<'r> PBytes<'r> {
    /// Makes a `PBytes` with a copy of `bytes`.
    ///
    /// # Errors
    /// As for [`Txn::alloc_slice`].
    pub fn from_slice(tx: &Txn<'r>, bytes: &[u8]) -> Result<Self> {
        Ok(PBytes { bytes: PVec::from_slice(tx, bytes)? })
    }

    /// Frees the buffer when the transaction commits, earlier than the collector would. It is for a `PBytes`
    /// that was moved out of an object, such as a value that a map has returned.
    ///
    /// ```
    /// # use pheap::{Heap, PBTreeMap, PBytes, Root};
    /// # fn main() -> pheap::Result<()> {
    /// # let heap = Heap::in_memory()?;
    /// let names: Root<PBTreeMap<u64, PBytes>> = heap.root("names")?;
    /// names.txn(|tx, names| {
    ///     let new = PBytes::from_slice(tx, b"Ann")?;
    ///     if let Some(old) = names.insert(tx, 1, new)? {
    ///         old.free(tx);
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn free(self, tx: &Txn<'r>) {
        self.bytes.free_buffer(tx);
    }

    /// Returns the number of bytes that the buffer has room for.
    pub fn capacity(&self, view: &View<'r>) -> usize {
        self.bytes.capacity(view)
    }

    /// Returns the bytes.
    #[inline]
    pub fn as_slice<'v>(&self, view: &'v View<'r>) -> &'v [u8] {
        self.bytes.as_slice(view, ..)
    }
}

by_pointer! {
    /// Reading bytes through a `P` to a `PBytes`: short for `view[bytes].as_slice(view)` and so on.
    [] PBytes<>:
    fn as_slice() -> &'v [u8];
}

/// <a id="change-PBytes"></a>Changing bytes. Operations that may allocate fail as `push` of a [`PVec`] does;
/// then they have changed nothing.
impl<'r> P<'r, PBytes<'r>> {
    #[inline(always)]
    #[allow(unsafe_code)] // `field!` expands to unsafe code
    fn bytes(self) -> P<'r, PVec<'r, u8>> {
        crate::field!(self.bytes)
    }

    /// Appends a byte.
    ///
    /// # Errors
    /// As for [`Txn::alloc_slice`].
    pub fn push(self, tx: &mut Txn<'r>, byte: u8) -> Result<()> {
        self.bytes().push(tx, byte)
    }

    /// Removes the last byte.
    pub fn pop(self, tx: &mut Txn<'r>) -> Option<u8> {
        self.bytes().pop(tx)
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    pub fn extend_from_slice(self, tx: &mut Txn<'r>, bytes: &[u8]) -> Result<()> {
        self.bytes().extend_from_slice(tx, bytes)
    }

    /// Replaces the bytes in `range` by `bytes`. O(n).
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    ///
    /// # Panics
    /// If the range is not within the bytes.
    #[track_caller]
    pub fn replace_range(self, tx: &mut Txn<'r>, range: impl RangeBounds<usize>, bytes: &[u8]) -> Result<()> {
        let (from, to) = bounds(range, self.len(tx));
        self.bytes().splice(tx, from, to, bytes)
    }

    /// Replaces all bytes.
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    pub fn set(self, tx: &mut Txn<'r>, bytes: &[u8]) -> Result<()> {
        self.replace_range(tx, .., bytes)
    }

    /// Removes all bytes from index `len` on.
    pub fn truncate(self, tx: &mut Txn<'r>, len: usize) {
        self.bytes().truncate(tx, len);
    }

    /// Removes all bytes. The buffer stays.
    pub fn clear(self, tx: &mut Txn<'r>) {
        self.bytes().clear(tx);
    }

    /// Returns the bytes in `range`, to write. All of them are made crash-safe, also those that do not
    /// change.
    ///
    /// # Panics
    /// If the range is not within the bytes.
    #[track_caller]
    pub fn as_mut_slice<'t>(self, tx: &'t mut Txn<'r>, range: impl RangeBounds<usize>) -> &'t mut [u8] {
        self.bytes().as_mut_slice(tx, range)
    }

    /// Reserves room for at least `more` additional bytes.
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    pub fn reserve(self, tx: &mut Txn<'r>, more: usize) -> Result<()> {
        self.bytes().reserve(tx, more)
    }

    /// Frees unused memory.
    ///
    /// # Errors
    /// As for [`push`](Self::push): the bytes move to a smaller buffer.
    pub fn shrink_to_fit(self, tx: &mut Txn<'r>) -> Result<()> {
        self.bytes().shrink_to_fit(tx)
    }
}

not_in_place! {
    [] PBytes<'r>:
    push(tx, byte) -> Result<()>;
    pop(tx) -> Option<u8>;
    extend_from_slice(tx, bytes) -> Result<()>;
    set(tx, bytes) -> Result<()>;
    truncate(tx, len) -> ();
    clear(tx) -> ();
}
