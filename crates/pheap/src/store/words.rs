//! Words of metadata where they are mapped: the one place of this room, and of those above it that read metadata, that turns offsets into memory.
//!
//! A view is bounds-checked, and all accesses are atomic, so threads that read and write the same words at once see old words or new ones. Which of them belong together
//! is the business of locks.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Store;
use crate::error::Result;
use crate::layout::Words as ObjectWords;
use crate::media::Media;

/// A view of metadata, whose places are offsets in the heap. Copies are of the same words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a> {
    base: *mut u8,
    start: u64,
    end: u64,
    mapped: PhantomData<&'a [AtomicU64]>,
}

// SAFETY: a view is no more than shared references to atomics.
unsafe impl Send for Words<'_> {}
// SAFETY: a view is no more than shared references to atomics.
unsafe impl Sync for Words<'_> {}

impl Words<'static> {
    /// Maps more of the heap, up to `end`, and shows it.
    ///
    /// # Errors
    /// As for [`Mapping::map`].
    ///
    /// # Panics
    /// If this is no view of all that the store has, or if it ends behind `end`.
    pub(super) fn extend(&mut self, store: &Store, end: u64) -> Result<()> {
        assert!(self.base == store.base() && self.start == 0, "a view of something else");
        assert!(end >= self.end, "a view does not shrink");
        store.extend_tables(end)?;
        store.mapping.map(self.end, end)?;
        // SAFETY: mapped just now. A store has its medium and its mapping as long as it is there, as have the regions and threads that use the medium, which are gone before.
        unsafe { store.medium.mapped(store.base(), end) };
        // What is new stays mapped as long as what was there (premise 1 of `new`). It belongs to nobody yet, and premise 2 is about what will be asked for, wherever it is.
        self.end = end;
        Ok(())
    }
}

impl<'a> Words<'a> {
    /// The words of a heap at these offsets, which are multiples of 8.
    ///
    /// # Safety
    /// 1. Memory is mapped there, relative to `base`, which is aligned; and it stays so for `'a`.
    /// 2. What is asked for through the view, its parts and its copies is metadata, or nobody else has the heap, or nobody writes to it. So nobody has a `&mut` to it, and
    ///    who stores to it does so through a view, or while nobody else looks at the same words.
    pub(crate) unsafe fn new(base: *mut u8, range: Range<u64>) -> Words<'a> {
        assert!(base.addr().is_multiple_of(8) && range.start.is_multiple_of(8) && range.start <= range.end);
        Words { base, start: range.start, end: range.end, mapped: PhantomData }
    }

    /// A part of it.
    ///
    /// # Panics
    /// If it is not all there.
    pub(crate) fn part(self, at: u64, bytes: u64) -> Words<'a> {
        self.slice(at, bytes as usize / 8);
        Words { start: at, end: at + bytes, ..self }
    }

    /// Offset of the first word.
    pub(crate) fn start(self) -> u64 {
        self.start
    }

    /// The address of what is at an offset.
    pub(crate) fn addr(self, at: u64) -> *mut u8 {
        self.base.wrapping_add(at as usize)
    }

    /// So many words.
    ///
    /// # Panics
    /// If they are not all there.
    #[inline]
    pub(crate) fn slice(self, at: u64, words: usize) -> &'a [AtomicU64] {
        let inside = at >= self.start && at <= self.end && words as u64 <= (self.end - at) / 8;
        assert!(inside && at.is_multiple_of(8), "there are no {words} words at byte {at}");
        // SAFETY: within the view, as was just checked, and so mapped for `'a` (premise 1 of `new`) and accessed by atomics only (premise 2).
        unsafe { std::slice::from_raw_parts(self.addr(at).cast(), words) }
    }

    /// So many words, of objects.
    ///
    /// # Panics
    /// If they are not all there.
    pub(super) fn objects(self, at: u64, words: usize) -> ObjectWords<'a> {
        let words = self.slice(at, words);
        // SAFETY: they are mapped for `'a` (premise 1 of `new`), and definite, as is what comes from a file. They are no metadata, so nobody else has the heap, or nobody writes to it
        // (premise 2).
        unsafe { ObjectWords::new(words.as_ptr().cast(), words.len()) }
    }

    /// A word.
    #[inline]
    pub(crate) fn get(self, at: u64) -> u64 {
        self.slice(at, 1)[0].load(Ordering::Relaxed)
    }

    /// So many words, as they are now.
    #[inline]
    pub(crate) fn read<const N: usize>(self, at: u64) -> [u64; N] {
        let words = self.slice(at, N);
        std::array::from_fn(|i| words[i].load(Ordering::Relaxed))
    }

    /// So many bytes, whole words, as they are now.
    pub(crate) fn bytes(self, at: u64, bytes: u64) -> Vec<u8> {
        self.slice(at, bytes as usize / 8)
            .iter()
            .flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes())
            .collect()
    }

    /// Stores a word that makes others count: after all that was stored before it. Durable after a flush and a fence.
    pub(crate) fn set(self, media: &Media, at: u64, word: u64) {
        let place = self.slice(at, 1)[0].as_ptr();
        // SAFETY: a word of the view, so it is mapped, aligned, and others access it by atomics only (premises 1 and 2 of `new`).
        unsafe { media.store_word(place, word) };
    }

    /// Stores words. Durable after a flush and a fence.
    pub(crate) fn store(self, media: &Media, at: u64, words: &[u64]) {
        media.store_shared(self.slice(at, words.len()), words);
    }

    /// [`store`](Self::store) of bytes that are whole words.
    pub(crate) fn store_bytes(self, media: &Media, at: u64, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        debug_assert!(rest.is_empty());
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        self.store(media, at, &words);
    }

    /// Makes what was stored durable, past the write-ahead log: see [`Media::persist_directly`].
    #[track_caller]
    pub(crate) fn persist_directly(self, media: &Media, at: u64, bytes: usize) {
        media.persist_directly(self.base, self.addr(at), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::mapping::Mapping;

    impl<'a> Words<'a> {
        /// Nothing of a heap, to be [extended](Self::extend).
        pub(in crate::store) fn none(mapping: &Mapping) -> Words<'a> {
            Words { base: mapping.base(), start: 0, end: 0, mapped: PhantomData }
        }
    }
}
