//! `SharedStr`.

use crate::Persist;
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::error::Result;
use crate::ptr::P;

/// A text in a heap that stays as it is, so that many can have it: fields, values, and the keys of several maps. It is a pointer, and `Copy`.
///
/// A map whose keys are `P<str>` allocates a text for each key, and frees it with the entry. One whose keys are `SharedStr` keeps the text that it is given, if that is a
/// `SharedStr`, and leaves it to the collector when nobody has it any more. In both, keys are looked up by a `&str`.
///
/// Two of them are equal if they are the same text in the heap; to compare what they say, look at [`as_str`](Self::as_str).
//
// Invariant: nobody writes the text. No `P` to it is ever handed out, and `check` looks for others in a file (`Promise::Frozen`).
#[derive(Persist, Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
#[persist(own, id = "pheap::SharedStr", crate = "crate")]
pub struct SharedStr<'r> {
    text: P<'r, str>,
}

impl<'r> SharedStr<'r> {
    /// A new text.
    ///
    /// # Errors
    /// As for [`Txn::alloc`].
    pub fn new(tx: &Txn<'r>, text: &str) -> Result<Self> {
        Ok(SharedStr { text: tx.alloc_str(text)? })
    }

    /// The text.
    #[inline]
    pub fn as_str<'v>(&self, view: &'v View<'r>) -> &'v str {
        &view[self.text]
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Whether the text is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
