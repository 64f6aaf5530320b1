//! Words of metadata where they are mapped.
//!
//! A view checks the bounds of the words that it reads and stores, and accesses them as atomics. So threads
//! that read and write the same words at once see old words or new ones. Locks see to it that words which
//! belong together are read together.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Store;
use crate::error::Result;
use crate::layout::Words as ObjectWords;
use crate::media::Media;

/// A view of metadata, addressed by offsets in the heap. Copies of a view show the same words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MetadataWords<'a> {
    base: *mut u8,
    start: u64,
    end: u64,
    mapped: PhantomData<&'a [AtomicU64]>,
}

// SAFETY: a view can only be used like the shared reference `&[AtomicU64]`, which is `Send`.
unsafe impl Send for MetadataWords<'_> {}
// SAFETY: a view can only be used like the shared reference `&[AtomicU64]`, which is `Sync`.
unsafe impl Sync for MetadataWords<'_> {}

impl MetadataWords<'static> {
    /// Maps more of the heap, up to `end`, and extends the view to it.
    ///
    /// # Errors
    /// See [`Mapping::map`](crate::os::mapping::Mapping::map). Also an error if the tables with an entry for
    /// each page or word cannot be extended.
    ///
    /// # Panics
    /// If this is not the view of all of the store, if it ends behind `end`, or if `end` is behind the
    /// store's reservation.
    pub(super) fn extend(&mut self, store: &Store, end: u64) -> Result<()> {
        assert!(self.base == store.base() && self.start == 0, "a view of something else");
        assert!(end >= self.end, "a view does not shrink");
        store.extend_tables(end)?;
        store.mapping.map(self.end, end)?;
        // SAFETY: the bytes before `end` are mapped by now. The store keeps its medium and its mapping as
        // long as it exists. The regions and threads that use the medium end before the store does.
        unsafe { store.medium.mapped(store.base(), end) };
        // Premise 1 of `new` holds for the longer view, because the new bytes stay mapped as long as the old
        // ones. Premise 2 is about the accesses through the view, wherever they go; and no thread has the new
        // bytes yet.
        self.end = end;
        Ok(())
    }
}

impl<'a> MetadataWords<'a> {
    /// Creates a view of the words at the offsets `range`, which are multiples of 8.
    ///
    /// # Safety
    /// 1. The bytes at `base + range` are mapped for `'a`, and `base` is aligned to 8.
    /// 2. Each word that is accessed through this view, its parts or its copies is metadata, or no other
    ///    thread has the heap, or no thread writes to it. So no `&mut` to such a word exists, and a thread
    ///    stores to it through a view only, or while no other thread accesses it.
    pub(crate) unsafe fn new(base: *mut u8, range: Range<u64>) -> MetadataWords<'a> {
        assert!(base.addr().is_multiple_of(8) && range.start.is_multiple_of(8) && range.start <= range.end);
        MetadataWords { base, start: range.start, end: range.end, mapped: PhantomData }
    }

    /// Returns a view of `bytes` bytes, which are whole words, from the offset `at` on.
    ///
    /// # Panics
    /// If this view does not have all of them, or `at` is not a multiple of 8.
    pub(crate) fn part(self, at: u64, bytes: u64) -> MetadataWords<'a> {
        self.slice(at, bytes as usize / 8);
        MetadataWords { start: at, end: at + bytes, ..self }
    }

    /// Returns the offset of the view's first word.
    pub(crate) fn start(self) -> u64 {
        self.start
    }

    /// Returns the address of the byte at an offset in the heap. The offset is not checked.
    pub(crate) fn addr(self, at: u64) -> *mut u8 {
        self.base.wrapping_add(at as usize)
    }

    /// Returns `words` words from the offset `at` on.
    ///
    /// # Panics
    /// If the view does not have all of them, or `at` is not a multiple of 8.
    #[inline]
    pub(crate) fn slice(self, at: u64, words: usize) -> &'a [AtomicU64] {
        let inside = at >= self.start && at <= self.end && words as u64 <= (self.end - at) / 8;
        assert!(inside && at.is_multiple_of(8), "there are no {words} words at byte {at}");
        // SAFETY: `at` and `words` lie within the view, by the assertion above. So the words are mapped for
        // `'a` (premise 1 of `new`), and accessed by atomics only (premise 2).
        unsafe { std::slice::from_raw_parts(self.addr(at).cast(), words) }
    }

    /// Returns `words` words of objects from the offset `at` on.
    ///
    /// # Panics
    /// If the view does not have all of them, or `at` is not a multiple of 8.
    pub(super) fn objects(self, at: u64, words: usize) -> ObjectWords<'a> {
        let words = self.slice(at, words);
        // SAFETY: the words are mapped for `'a` (premise 1 of `new`), and definite, because they come from a
        // file. Words of objects are no metadata, so by premise 2 no other thread has the heap, or no thread
        // writes to these words.
        unsafe { ObjectWords::new(words.as_ptr().cast(), words.len()) }
    }

    /// Returns the word at an offset.
    #[inline]
    pub(crate) fn get(self, at: u64) -> u64 {
        self.slice(at, 1)[0].load(Ordering::Relaxed)
    }

    /// Returns a copy of `N` words from the offset `at` on.
    #[inline]
    pub(crate) fn read<const N: usize>(self, at: u64) -> [u64; N] {
        let words = self.slice(at, N);
        std::array::from_fn(|i| words[i].load(Ordering::Relaxed))
    }

    /// Returns a copy of `bytes` bytes, which are whole words, from the offset `at` on.
    pub(crate) fn bytes(self, at: u64, bytes: u64) -> Vec<u8> {
        self.slice(at, bytes as usize / 8)
            .iter()
            .flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes())
            .collect()
    }

    /// Stores a commit word, which makes other words count, after all earlier stores. A flush and a fence
    /// must follow.
    pub(crate) fn set(self, media: &Media, at: u64, word: u64) {
        let place = self.slice(at, 1)[0].as_ptr();
        // SAFETY: `place` comes from a slice of the view, so it is mapped and aligned (premise 1 of `new`),
        // and other threads access it by atomics only (premise 2).
        unsafe { media.store_word(place, word) };
    }

    /// Stores words from the offset `at` on. A flush and a fence must follow.
    pub(crate) fn store(self, media: &Media, at: u64, words: &[u64]) {
        media.store_shared(self.slice(at, words.len()), words);
    }

    /// [Stores](Self::store) bytes, which are whole words, from the offset `at` on.
    pub(crate) fn store_bytes(self, media: &Media, at: u64, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        debug_assert!(rest.is_empty());
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        self.store(media, at, &words);
    }

    /// Makes bytes that were stored durable without a record in the write-ahead log: see
    /// [`Media::persist_directly`].
    #[track_caller]
    pub(crate) fn persist_directly(self, media: &Media, at: u64, bytes: usize) {
        media.persist_directly(self.base, self.addr(at), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::mapping::Mapping;

    impl<'a> MetadataWords<'a> {
        /// Creates an empty view of a heap, to be [extended](Self::extend).
        pub(in crate::store) fn none(mapping: &Mapping) -> MetadataWords<'a> {
            MetadataWords { base: mapping.base(), start: 0, end: 0, mapped: PhantomData }
        }
    }
}
