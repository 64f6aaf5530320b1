//! `PString`, a growable string.

#![allow(unsafe_code)]

use std::ops::RangeBounds;

use super::common::{by_pointer, not_in_place, sized};
use super::vec::PVec;
use crate::Persist;
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::error::Result;
use crate::heap::check::rule::{CollectionRule, OwnType, TypePromise};
use crate::ptr::{P, bounds};

/// A growable string: `String` for a heap. (A `P<str>` has a fixed length, and is one word instead of two.)
///
/// ```
/// # use pheap::{Heap, PString, Root};
/// # fn main() -> pheap::Result<()> {
/// # let heap = Heap::in_memory()?;
/// let motto: Root<PString> = heap.root("motto")?;
/// motto.txn(|tx, motto| {
///     motto.push_str(tx, "simply ther")?;
///     motto.push(tx, 'e')
/// })?;
/// assert!(motto.read(|view, motto| motto.as_str(view) == "simply there")?);
/// # Ok(())
/// # }
/// ```
///
#[doc = include_str!("pstring.md")]
#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::PString", crate = "crate")]
pub struct PString<'r> {
    /// The text in UTF-8.
    bytes: PVec<'r, u8>,
}

/// Entries for the lists of [`own_types`](super::own_types): the types of this module, each with the promise
/// that [`check`](crate::Heap::check) verifies.
pub(super) const OWN_TYPES: &[OwnType] =
    &[OwnType::for_type::<PString<'static>>(TypePromise::Collection(CollectionRule::text))];

sized!(PString<> of "bytes", "a buffer", PString { bytes: PVec::new() }, |text| text.bytes.len());

impl<'r> PString<'r> {
    /// Makes a string with a copy of `text`.
    ///
    /// # Errors
    /// As for [`Txn::alloc_slice`].
    pub fn from_str(tx: &Txn<'r>, text: &str) -> Result<Self> {
        Ok(PString { bytes: PVec::from_slice(tx, text.as_bytes())? })
    }

    /// Frees the buffer when the transaction commits.
    pub(super) fn free_buffer(self, tx: &Txn<'r>) {
        self.bytes.free_buffer(tx);
    }

    /// Returns the number of bytes that the buffer has room for.
    pub fn capacity(&self, view: &View<'r>) -> usize {
        self.bytes.capacity(view)
    }

    /// Returns the text.
    #[inline]
    pub fn as_str<'v>(&self, view: &'v View<'r>) -> &'v str {
        // SAFETY: the bytes are UTF-8: all operations insert and remove whole characters only.
        unsafe { std::str::from_utf8_unchecked(self.bytes.as_slice(view, ..)) }
    }
}

by_pointer! {
    /// Reading a string through a `P` to it: short for `view[text].as_str(view)` and so on.
    [] PString<>:
    fn as_str() -> &'v str;
}

/// <a id="change-PString"></a>Changing a string. Operations that may allocate fail as `push` of a [`PVec`]
/// does; then they have changed nothing.
impl<'r> P<'r, PString<'r>> {
    #[inline(always)]
    fn bytes(self) -> P<'r, PVec<'r, u8>> {
        crate::field!(self.bytes)
    }

    /// Appends a character.
    ///
    /// # Errors
    /// As for [`Txn::alloc_slice`].
    pub fn push(self, tx: &mut Txn<'r>, c: char) -> Result<()> {
        self.push_str(tx, c.encode_utf8(&mut [0; 4]))
    }

    /// Appends a text.
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    pub fn push_str(self, tx: &mut Txn<'r>, text: &str) -> Result<()> {
        self.bytes().extend_from_slice(tx, text.as_bytes())
    }

    /// Removes the last character.
    pub fn pop(self, tx: &mut Txn<'r>) -> Option<char> {
        let c = self.as_str(tx).chars().next_back()?;
        let len = self.len(tx) - c.len_utf8();
        self.bytes().truncate(tx, len);
        Some(c)
    }

    /// Inserts a character at byte `at`. O(n).
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    ///
    /// # Panics
    /// If `at` is not on the boundary of a character.
    #[track_caller]
    pub fn insert(self, tx: &mut Txn<'r>, at: usize, c: char) -> Result<()> {
        self.insert_str(tx, at, c.encode_utf8(&mut [0; 4]))
    }

    /// Inserts a text at byte `at`. O(n).
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    ///
    /// # Panics
    /// If `at` is not on the boundary of a character.
    #[track_caller]
    pub fn insert_str(self, tx: &mut Txn<'r>, at: usize, text: &str) -> Result<()> {
        self.replace_range(tx, at..at, text)
    }

    /// Removes the character at byte `at`. O(n).
    ///
    /// # Panics
    /// If no character begins at byte `at`.
    #[track_caller]
    pub fn remove(self, tx: &mut Txn<'r>, at: usize) -> char {
        let c = self.as_str(tx)[at..].chars().next().expect("there is no character at the end of a string");
        drop(self.bytes().drain(tx, at..at + c.len_utf8()));
        c
    }

    /// Replaces the bytes in `range` by `text`. O(n).
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    ///
    /// # Panics
    /// If the range is not within the string, or one of its ends is not on the boundary of a character.
    #[track_caller]
    pub fn replace_range(self, tx: &mut Txn<'r>, range: impl RangeBounds<usize>, text: &str) -> Result<()> {
        let (from, to) = bounds(range, self.len(tx));
        let old = self.as_str(tx);
        assert!(
            old.is_char_boundary(from) && old.is_char_boundary(to),
            "range {from}..{to} does not begin and end at boundaries of characters"
        );
        self.bytes().splice(tx, from, to, text.as_bytes())
    }

    /// Removes all characters from byte `len` on.
    ///
    /// # Panics
    /// If `len` is within the string, and not on the boundary of a character.
    #[track_caller]
    pub fn truncate(self, tx: &mut Txn<'r>, len: usize) {
        if len < self.len(tx) {
            assert!(
                self.as_str(tx).is_char_boundary(len),
                "byte {len} is not at the boundary of a character"
            );
            self.bytes().truncate(tx, len);
        }
    }

    /// Replaces the text.
    ///
    /// # Errors
    /// As for [`push`](Self::push).
    pub fn set(self, tx: &mut Txn<'r>, text: &str) -> Result<()> {
        self.replace_range(tx, .., text)
    }

    /// Removes the characters for which `keep` is false.
    pub fn retain(self, tx: &mut Txn<'r>, mut keep: impl FnMut(char) -> bool) {
        let old = self.as_str(tx);
        let kept: String = old.chars().filter(|&c| keep(c)).collect();
        if kept.len() < old.len() {
            self.bytes().overwrite(tx, kept.as_bytes());
        }
    }

    /// Removes all characters. The buffer stays.
    pub fn clear(self, tx: &mut Txn<'r>) {
        self.bytes().clear(tx);
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
    /// As for [`push`](Self::push): the text moves to a smaller buffer.
    pub fn shrink_to_fit(self, tx: &mut Txn<'r>) -> Result<()> {
        self.bytes().shrink_to_fit(tx)
    }
}

not_in_place! {
    [] PString<'r>:
    push(tx, c) -> Result<()>;
    push_str(tx, text) -> Result<()>;
    pop(tx) -> Option<char>;
    insert(tx, at, c) -> Result<()>;
    insert_str(tx, at, text) -> Result<()>;
    set(tx, text) -> Result<()>;
    truncate(tx, len) -> ();
    clear(tx) -> ();
}
