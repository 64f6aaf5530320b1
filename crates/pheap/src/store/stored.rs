//! What a heap holds while nobody writes to it: read from its file if that says the same as the mapping.
//!
//! To look at a page of a mapping for the first time takes a page fault, which costs ten times as much as to read the page from the file, and maps others around it that
//! nobody asked for. Of what opening a heap looks at, little is looked at again.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::error::{Error, Result};
use crate::os::mapping::Mapping;

/// A heap to read from.
#[derive(Clone, Copy)]
pub(crate) struct Stored<'a> {
    base: *mut u8,
    len: u64,
    file: Option<&'a File>,
}

impl<'a> Stored<'a> {
    /// The first `len` bytes of what is mapped.
    ///
    /// # Safety
    /// They are, and while this is used, nobody writes to what is asked for.
    pub(crate) unsafe fn of(mapping: &'a Mapping, len: u64) -> Stored<'a> {
        Stored { base: mapping.base(), len, file: mapping.shared_file() }
    }

    /// So many bytes that are mapped at `base`, and likely to be in use.
    ///
    /// # Safety
    /// As for [`of`](Self::of).
    pub(crate) unsafe fn at(base: *mut u8, len: u64) -> Stored<'static> {
        Stored { base, len, file: None }
    }

    /// Where it is mapped.
    pub(crate) fn base(self) -> *mut u8 {
        self.base
    }

    /// So many words from offset `at` on.
    ///
    /// # Errors
    /// If the file cannot be read.
    ///
    /// # Panics
    /// If there are no such words.
    pub(crate) fn words<const N: usize>(self, at: u64) -> Result<[u64; N]> {
        let Some(file) = self.file else { return Ok(self.mapped(at)) };
        let mut bytes = [[0; 8]; N];
        let read = file.read_exact_at(bytes.as_flattened_mut(), at);
        read.map_err(|e| Error::io(format!("reading the heap at byte {at}"), e))?;
        Ok(bytes.map(u64::from_le_bytes))
    }

    /// [`words`](Self::words), through the mapping: for places around which more is going to be asked for.
    #[inline]
    pub(crate) fn mapped<const N: usize>(self, at: u64) -> [u64; N] {
        assert!(at.is_multiple_of(8) && at + N as u64 * 8 <= self.len, "there are no {N} words at byte {at}");
        // SAFETY: within what is mapped; the rest is the promise of whoever made this.
        unsafe { self.base.add(at as usize).cast::<[u64; N]>().read_volatile() }
    }
}
