//! `SharedStr`, a text that never changes and that several objects can share.

use crate::Persist;
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::error::Result;
use crate::ptr::P;

/// A text in a heap that never changes, so that many objects can share it: fields, values, and the keys of
/// several maps. It is a pointer, and `Copy`.
///
/// A map whose keys are `P<str>` allocates a text for each key, and frees it with the entry. A map whose keys
/// are `SharedStr` keeps the text of the argument, if that is a `SharedStr`, and leaves it to the collector
/// when no object points to it any more. In both maps, keys are looked up by a `&str`.
///
/// Two `SharedStr`s are equal if they point to the same object; to compare their contents, compare
/// [`as_str`](Self::as_str).
//
// Invariant: the text is never written. The program never gets a `P` to the text, and `check` searches a file
// for other pointers to it (`TypePromise::Frozen`).
#[derive(Persist, Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
#[persist(own, id = "pheap::SharedStr", crate = "crate")]
pub struct SharedStr<'r> {
    text: P<'r, str>,
}

impl<'r> SharedStr<'r> {
    /// Allocates a text.
    ///
    /// # Errors
    /// As for [`Txn::alloc_str`].
    pub fn new(tx: &Txn<'r>, text: &str) -> Result<Self> {
        Ok(SharedStr { text: tx.alloc_str(text)? })
    }

    /// Returns the text.
    #[inline]
    pub fn as_str<'v>(&self, view: &'v View<'r>) -> &'v str {
        &view[self.text]
    }

    /// Returns the length in bytes.
    #[inline]
    pub fn len(&self, view: &View<'r>) -> usize {
        self.text.len(view)
    }

    /// Whether the text is empty.
    #[inline]
    pub fn is_empty(&self, view: &View<'r>) -> bool {
        self.len(view) == 0
    }
}
