//! The list of entries, which stay in memory when it is cleared.

#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};

use super::Entry;

/// There is always room for so many.
pub(super) const ROOM: usize = 32;

/// A list that remembers what was in it before it was cleared.
pub(super) struct Entries {
    /// Those in the list, then what is left of older ones, or nothing.
    slots: Vec<Entry>,
    len: usize,
}

impl Entries {
    pub(super) fn new() -> Entries {
        Entries { slots: vec![Entry::NOTHING; ROOM], len: 0 }
    }

    /// The number of entries for which there is room.
    #[inline(always)]
    pub(super) fn room(&self) -> usize {
        self.slots.len()
    }

    /// Makes room for twice as many.
    pub(super) fn grow(&mut self) {
        self.slots.resize(2 * self.slots.len(), Entry::NOTHING);
    }

    /// Adds an entry.
    ///
    /// # Safety
    /// There is [room](Self::room) for one more.
    #[inline(always)]
    pub(super) unsafe fn push(&mut self, entry: Entry) {
        debug_assert!(self.len < self.slots.len());
        // SAFETY: by the caller's promise.
        unsafe { *self.slots.get_unchecked_mut(self.len) = entry };
        self.len += 1;
    }

    /// What was last in the place of the entry that will be pushed next.
    #[inline(always)]
    pub(super) fn left_over(&self) -> Option<&Entry> {
        self.slots.get(self.len)
    }

    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }
}

impl Deref for Entries {
    type Target = [Entry];

    #[inline(always)]
    fn deref(&self) -> &[Entry] {
        // SAFETY: `len` entries were pushed into slots, which never get fewer.
        unsafe { self.slots.get_unchecked(..self.len) }
    }
}

impl DerefMut for Entries {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [Entry] {
        // SAFETY: as in `deref`.
        unsafe { self.slots.get_unchecked_mut(..self.len) }
    }
}
