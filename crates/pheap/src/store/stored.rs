//! Reads the content of a heap: from the file if no thread writes to the heap and the file has the same
//! content as the mapping, otherwise from the mapping.
//!
//! The first access to a page of a mapping takes a page fault. That costs more than a read of the page from
//! the file, and may map unneeded pages around it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::words::MetadataWords;
use crate::error::{Error, Result};
use crate::os::mapping::Mapping;

/// A heap from which words are read, through its file or its mapping.
#[derive(Clone, Copy)]
pub(crate) struct StoredHeap<'a> {
    /// The words of the mapped heap. Callers read them directly where they read more words near by.
    pub(crate) heap: MetadataWords<'a>,
    file: Option<&'a File>,
}

impl<'a> StoredHeap<'a> {
    /// Creates a reader for a heap that no thread writes to.
    pub(crate) fn from_mapping(mapping: &'a Mapping, heap: MetadataWords<'a>) -> StoredHeap<'a> {
        StoredHeap { heap, file: mapping.shared_file() }
    }

    /// Creates a reader that uses the mapping only, for a heap that may be in use.
    pub(crate) fn mapped(heap: MetadataWords<'a>) -> StoredHeap<'a> {
        StoredHeap { heap, file: None }
    }

    /// Reads `N` words from the offset `at` on.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read.
    ///
    /// # Panics
    /// If the words are read from the mapping, and it does not have all of them, or `at` is not a multiple of
    /// 8.
    pub(crate) fn read_words<const N: usize>(self, at: u64) -> Result<[u64; N]> {
        let Some(file) = self.file else { return Ok(self.heap.read(at)) };
        let mut bytes = [[0; 8]; N];
        let read = file.read_exact_at(bytes.as_flattened_mut(), at);
        read.map_err(|e| Error::io(format!("reading the heap at byte {at}"), e))?;
        Ok(bytes.map(u64::from_le_bytes))
    }
}
