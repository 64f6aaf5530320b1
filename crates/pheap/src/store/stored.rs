//! What a heap holds while nobody writes to it: read from its file if that says the same as the mapping.
//!
//! To look at a page of a mapping for the first time takes a page fault, which costs ten times as much as to read the page from the file, and maps others around it that
//! nobody asked for. Of what opening a heap looks at, little is looked at again.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::words::Words;
use crate::error::{Error, Result};
use crate::os::mapping::Mapping;

/// A heap to read from.
#[derive(Clone, Copy)]
pub(crate) struct Stored<'a> {
    /// Where it is mapped: for places around which more is going to be asked for.
    pub(crate) heap: Words<'a>,
    file: Option<&'a File>,
}

impl<'a> Stored<'a> {
    /// A heap that nobody writes to, and its mapping.
    pub(crate) fn of(mapping: &'a Mapping, heap: Words<'a>) -> Stored<'a> {
        Stored { heap, file: mapping.shared_file() }
    }

    /// A heap that is likely to be in use.
    pub(crate) fn mapped(heap: Words<'a>) -> Stored<'a> {
        Stored { heap, file: None }
    }

    /// So many words from offset `at` on.
    ///
    /// # Errors
    /// If the file cannot be read.
    ///
    /// # Panics
    /// If there are no such words.
    pub(crate) fn words<const N: usize>(self, at: u64) -> Result<[u64; N]> {
        let Some(file) = self.file else { return Ok(self.heap.read(at)) };
        let mut bytes = [[0; 8]; N];
        let read = file.read_exact_at(bytes.as_flattened_mut(), at);
        read.map_err(|e| Error::io(format!("reading the heap at byte {at}"), e))?;
        Ok(bytes.map(u64::from_le_bytes))
    }
}
