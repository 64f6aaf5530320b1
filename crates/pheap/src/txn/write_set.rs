//! The write set of a short transaction: copies of the small objects that it writes, in volatile memory. How large an object may be, and all of them.
//!
//! Its memory grows with what a transaction writes, and is given back after many transactions that write little.

#![allow(unsafe_code)]

mod find;
mod kept;
#[cfg(test)]
mod tests;
mod widen;

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

use super::buffer::{Buffer, CAPACITY};
use super::line_index::{LineIndex, MAX_LINES, first_and_last};
use crate::os::cpu::copy_words;
use crate::tuning::Tuning;
use crate::units::LINE;

/// Objects at most: the crash lab asks for fewer.
pub(crate) const MAX_ENTRIES: usize = Tuning::SHIPPED.copies;
/// Bytes of an object at most.
pub(crate) const MAX_OBJECT: usize = 1024;
/// A range of more lines is long. None of that length has a copy.
const LONG: usize = MAX_OBJECT / LINE + 1;
/// Look-ups of long ranges may take so many steps, then the transaction is better off without a write set.
const PATIENCE: usize = 1 << 20;
/// With more entries than these a set is large: not all of their originals are in the cache.
const LARGE: usize = 256;
/// So many transactions in a row that need little memory, and the set gives back what a larger one needed.
const QUIET: u32 = 1000;

/// There is always room for so many.
const ROOM: usize = 32;

// The objects and the lines that they cover at most can be numbered.
const _: () = assert!(MAX_ENTRIES <= u16::MAX as usize && CAPACITY / LINE + 2 * MAX_ENTRIES <= MAX_LINES);

/// A copy.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    /// First address (a multiple of 8) of the original.
    addr: usize,
    /// In the buffer.
    copy: *mut u8,
    /// Bytes, a multiple of 8.
    len: usize,
}

/// What the write set holds of a range.
pub(crate) enum Find {
    /// All of it, here.
    Copy(*mut u8),
    /// Some of it only; or the set should be left, for it costs too much to find out.
    Part,
    Nothing,
}

/// Of so many copies at most, those that are made before anyone asks whether there may be more.
#[inline(always)]
pub(crate) fn first_copies(most: usize) -> usize {
    (most / 64).max(8)
}

/// Copies of objects. They stay where they are: references to them live as long as the transaction.
//
// Premises, for what is `unsafe` here:
// (1) The original of an entry is mapped, in whole words, from when it is added until the set is cleared, or forgets it. Its copy is as long, and is in the buffer;
//     no other entry has any of it. `insert` and `widen` add entries, and their callers promise the first half.
// (2) Of the slots of `entries`, so many as it has been given hold an entry; there are never fewer slots than `ROOM`, nor than there were.
pub(crate) struct WriteSet {
    entries: Entries,
    /// So many of the transaction before, unless newer ones have taken their places, are [kept](Self::keep).
    kept: usize,
    index: LineIndex,
    buffer: Buffer,
    /// Of all entries, at least.
    words: usize,
    /// Objects at most, before anyone asks whether there may be more; and what that is when the set was cleared.
    limit: usize,
    first_limit: usize,
    /// So many entries are looked at one by one, rather than through the index. There is always [room](ROOM) for them.
    unindexed: usize,
    /// Steps that look-ups of long ranges have taken in this transaction.
    steps: Cell<usize>,
    /// How many times copies were replaced by wider ones.
    pub(crate) widened: u32,
    /// Whether the set has grown, and how many transactions ago it last had to.
    grown: bool,
    quiet: u32,
}

impl WriteSet {
    /// A set for `limit` objects, unless it is given [another limit](Self::set_limit) before it is cleared.
    pub(crate) fn new(limit: usize, tuning: &Tuning) -> WriteSet {
        WriteSet {
            entries: Entries::new(),
            kept: 0,
            index: LineIndex::new(),
            buffer: Buffer::new(),
            words: 0,
            limit,
            first_limit: limit,
            unindexed: tuning.unindexed.min(ROOM),
            steps: Cell::new(0),
            widened: 0,
            grown: false,
            quiet: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether there are many copies.
    #[inline(always)]
    pub(crate) fn is_large(&self) -> bool {
        self.entries.len() > LARGE
    }

    /// The number of copies.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The number of copies that do fit.
    #[inline(always)]
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Has the set take so many copies until it is cleared.
    #[inline(always)]
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Words of all copies, or more.
    #[inline(always)]
    pub(crate) fn words(&self) -> usize {
        self.words
    }

    /// Forgets all copies. References to them must be gone.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        if self.grown {
            self.note_need();
        }
        self.forget();
        self.buffer.clear();
        self.limit = self.first_limit;
    }

    /// Forgets all copies, but leaves them where they are: there are references to them.
    #[inline(always)]
    pub(crate) fn forget(&mut self) {
        self.kept = 0;
        self.index.clear();
        self.entries.clear();
        self.words = 0;
        self.steps.set(0);
    }

    /// Gives memory back that was not needed for long.
    #[cold]
    fn note_need(&mut self) {
        if self.buffer.is_large() || self.is_large() {
            self.quiet = 0;
            return;
        }
        self.quiet += 1;
        if self.quiet == QUIET {
            self.forget();
            self.index = LineIndex::new();
            self.buffer.clear();
            self.buffer.shrink(1);
            self.entries = Entries::new();
            (self.grown, self.quiet) = (false, 0);
        }
    }

    /// Copies the object of `len` bytes at `addr`, of which the set holds nothing yet. `None` if it does not fit.
    ///
    /// # Safety
    /// The object is live, and mapped in whole words, until the set is cleared or forgets it. `addr` is a multiple of `align`.
    #[inline(always)]
    pub(crate) unsafe fn insert(&mut self, addr: usize, len: usize, align: usize) -> Option<*mut u8> {
        // Whole words: two bytes of one word, written apart, must not undo each other.
        let start = if align >= 8 { addr } else { addr & !7 };
        debug_assert!(start.is_multiple_of(8));
        let whole = (addr - start + len).next_multiple_of(8);
        if whole > MAX_OBJECT || self.entries.len() == self.limit || align > LINE {
            return None;
        }
        if start != addr || !len.is_multiple_of(8) {
            // The rest of a word may be part of another copy already.
            if !matches!(self.find(start, whole), Find::Nothing) {
                return None;
            }
        }
        let copy = self.buffer.take(whole, align.max(8))?;
        let entry = Entry { addr: start, copy, len: whole };
        // SAFETY: the original is mapped, the caller's premise; the copy was taken for it just now.
        unsafe { self.fill(entry) };
        self.add(entry);
        Some(entry.copy_of(addr))
    }

    /// [`insert`](Self::insert), if that is simple: there are so few entries that they are not in the index, and memory for the copy is at hand. The set has nothing of the words that the object
    /// lies in.
    ///
    /// # Safety
    /// The premise of `insert`.
    #[inline(always)]
    pub(crate) unsafe fn insert_at_once(&mut self, addr: usize, len: usize, align: usize) -> Option<*mut u8> {
        let start = if align >= 8 { addr } else { addr & !7 };
        let whole = (addr - start + len).next_multiple_of(8);
        let number = self.entries.len();
        if whole > MAX_OBJECT || align > LINE || number == self.limit || number >= self.unindexed {
            return None;
        }
        let copy = self.buffer.take_at_hand(whole, align.max(8))?;
        let entry = Entry { addr: start, copy, len: whole };
        // SAFETY: the original is mapped, the caller's premise; the copy was taken for it just now.
        unsafe { self.fill(entry) };
        self.words += whole / 8;
        // SAFETY: there is room for `ROOM`, (2), and `new` has made `unindexed` no more than that.
        unsafe { self.entries.push(entry) };
        Some(entry.copy_of(addr))
    }

    /// Copies the original of an entry, which is about to be the next one, unless that was done in the transaction before.
    ///
    /// # Safety
    /// The original is mapped, and the copy as long.
    #[inline(always)]
    unsafe fn fill(&mut self, entry: Entry) {
        if !self.is_kept(entry) {
            let original = std::ptr::with_exposed_provenance::<MaybeUninit<u64>>(entry.addr);
            // SAFETY: both are of so many words: the caller's premise.
            unsafe {
                entry.copy.cast::<MaybeUninit<u64>>().copy_from_nonoverlapping(original, entry.len / 8);
            }
        }
    }

    /// [`insert`](Self::insert) of a value of which the set has [parts](Self::parts_within) only: they become parts of its copy. The old copies stay where they are, for references
    /// to them, and mean nothing any more. `None` if one of them is not wholly within the range, or if it does not fit.
    ///
    /// # Safety
    /// The premise of `insert`; and nothing is written through references to the old copies from now on.
    #[cold]
    pub(crate) unsafe fn widen(&mut self, addr: usize, len: usize, align: usize) -> Option<*mut u8> {
        let start = addr & !7;
        let whole = (addr + len - start).next_multiple_of(8);
        if whole > MAX_OBJECT || self.entries.len() == self.limit || align > LINE {
            return None;
        }
        let parts = self.parts_within(start, whole)?;
        let copy = self.buffer.take(whole, align.max(8))?;
        let entry = Entry { addr: start, copy, len: whole };
        // SAFETY: the original is mapped, the premise of `insert`, and the new copy is as long.
        unsafe { copy_words(copy.cast(), std::ptr::with_exposed_provenance(start), whole / 8) };
        for part in parts {
            let part = &mut self.entries[part as usize];
            // SAFETY: the copy of a part is where (1) says, and `parts_within` has seen that its place is within the range.
            unsafe { copy_words(entry.copy_of(part.addr).cast(), part.copy.cast(), part.len / 8) };
            *part = Entry::NOTHING;
        }
        self.widened += 1;
        self.add(entry);
        Some(entry.copy_of(addr))
    }

    /// Adds an entry that overlaps no other.
    #[inline(always)]
    fn add(&mut self, Entry { addr, copy, len }: Entry) {
        self.words += len / 8;
        let number = self.entries.len();
        if number >= self.unindexed {
            return self.add_indexed(addr, copy, len);
        }
        // SAFETY: there is room for `ROOM`, (2), and `new` has made `unindexed` no more than that.
        unsafe { self.entries.push(Entry { addr, copy, len }) };
    }

    #[inline(never)]
    fn add_indexed(&mut self, addr: usize, copy: *mut u8, len: usize) {
        if self.entries.len() == self.unindexed {
            (0..self.unindexed).for_each(|number| self.index_entry(number));
        }
        if self.entries.len() == self.entries.room() {
            self.grow();
        }
        // SAFETY: there is room: there was, or it was just made.
        unsafe { self.entries.push(Entry { addr, copy, len }) };
        self.index_entry(self.entries.len() - 1);
    }

    /// Enters the lines of an entry into the index.
    #[inline(always)]
    fn index_entry(&mut self, number: usize) {
        let Entry { addr, len, .. } = self.entries[number];
        // Nothing asks for an entry that a wider one has replaced.
        if len > 0 {
            let (first, last) = first_and_last(addr, len);
            self.index.insert(first, last, number as u16);
        }
    }

    /// Makes room for more entries.
    #[cold]
    fn grow(&mut self) {
        self.entries.grow();
        self.grown = true;
    }

    /// The copies: address of the original, the copy, number of words.
    #[inline]
    pub(crate) fn copies(&self) -> impl Iterator<Item = (usize, *mut u64, usize)> + Clone + '_ {
        let entries = self.entries.iter().filter(|entry| entry.len > 0);
        entries.map(|entry| (entry.addr, entry.copy.cast(), entry.len / 8))
    }
}

impl Entry {
    const NOTHING: Entry = Entry { addr: 0, copy: std::ptr::null_mut(), len: 0 };

    #[inline(always)]
    fn covers(&self, addr: usize, len: usize) -> bool {
        let at = addr.wrapping_sub(self.addr);
        at < self.len && len <= self.len - at
    }

    #[inline(always)]
    fn overlaps(&self, addr: usize, len: usize) -> bool {
        addr < self.addr + self.len && self.addr < addr + len
    }

    #[inline(always)]
    fn copy_of(&self, addr: usize) -> *mut u8 {
        self.copy.wrapping_add(addr - self.addr)
    }

    /// Whether the copy holds the same words as its original.
    fn is_as_original(&self) -> bool {
        let original = std::ptr::with_exposed_provenance::<u64>(self.addr);
        // SAFETY: both are of so many words, premise (1) of `WriteSet`, with definite bytes since they were compared at the commit.
        let word = |of: *const u64, i: usize| unsafe { of.wrapping_add(i).read() };
        (0..self.len / 8).all(|i| word(self.copy.cast(), i) == word(original, i))
    }
}

/// A list that remembers what was in it before it was cleared.
struct Entries {
    /// Those in the list, then what is left of older ones, or nothing.
    slots: Vec<Entry>,
    len: usize,
}

impl Entries {
    fn new() -> Entries {
        Entries { slots: vec![Entry::NOTHING; ROOM], len: 0 }
    }

    /// The number of entries for which there is room.
    #[inline(always)]
    fn room(&self) -> usize {
        self.slots.len()
    }

    /// Makes room for twice as many.
    fn grow(&mut self) {
        self.slots.resize(2 * self.slots.len(), Entry::NOTHING);
    }

    /// Adds an entry.
    ///
    /// # Safety
    /// There is [room](Self::room) for one more.
    #[inline(always)]
    unsafe fn push(&mut self, entry: Entry) {
        debug_assert!(self.len < self.slots.len());
        // SAFETY: a slot that is there, the caller's premise.
        unsafe { *self.slots.get_unchecked_mut(self.len) = entry };
        self.len += 1;
    }

    /// What was last in the place of the entry that will be pushed next.
    #[inline(always)]
    fn left_over(&self) -> Option<&Entry> {
        self.slots.get(self.len)
    }

    #[inline(always)]
    fn clear(&mut self) {
        self.len = 0;
    }
}

impl Deref for Entries {
    type Target = [Entry];

    #[inline(always)]
    fn deref(&self) -> &[Entry] {
        // SAFETY: `len` entries were pushed into slots, which never get fewer: premise (2) of `WriteSet`.
        unsafe { self.slots.get_unchecked(..self.len) }
    }
}

impl DerefMut for Entries {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [Entry] {
        // SAFETY: `len` entries were pushed into slots, which never get fewer: premise (2) of `WriteSet`.
        unsafe { self.slots.get_unchecked_mut(..self.len) }
    }
}

/// The lines of a range as bits of a filter of 64: what is not in the filter is not in the write set.
#[inline(always)]
pub(crate) fn filter_bits(addr: usize, len: usize) -> u64 {
    let first = addr / LINE;
    let count = (addr + len.max(1) - 1) / LINE - first + 1;
    if count >= 64 { u64::MAX } else { ((1u64 << count) - 1).rotate_left(first as u32 % 64) }
}

/// The same of a value that is aligned to `align`, at less cost if that says that it lies in one line.
#[inline(always)]
pub(crate) fn filter_bits_aligned(addr: usize, len: usize, align: usize) -> u64 {
    if len <= align && align <= LINE { 1 << (addr / LINE % 64) } else { filter_bits(addr, len) }
}

#[cfg(test)]
mod trial {
    use super::*;

    /// Words as those of a heap, and copies of them, for tests.
    pub(super) struct Trial {
        pub(super) words: Vec<u64>,
        pub(super) set: WriteSet,
    }

    impl Trial {
        pub(super) fn new(words: Vec<u64>) -> Trial {
            Trial { words, set: WriteSet::new(MAX_ENTRIES, &Tuning::SHIPPED) }
        }

        /// The address of the byte `at`, if there are so many words from there on.
        pub(super) fn addr(&mut self, at: usize, len: usize) -> usize {
            assert!((at + len).next_multiple_of(8) <= self.words.len() * 8);
            self.words.as_mut_ptr().expose_provenance() + at
        }

        pub(super) fn find(&mut self, at: usize, len: usize) -> Find {
            let addr = self.addr(at, len);
            self.set.find(addr, len)
        }

        /// Bytes of a copy.
        pub(super) fn copy(&mut self, copy: *mut u8, len: usize) -> &mut [u8] {
            // SAFETY: of an entry, which is where (1) says; its bytes are those of words.
            unsafe { std::slice::from_raw_parts_mut(copy, len) }
        }

        pub(super) fn found(&mut self, at: usize, len: usize) -> Option<&mut [u8]> {
            let Find::Copy(copy) = self.find(at, len) else { return None };
            Some(self.copy(copy, len))
        }

        pub(super) fn insert(&mut self, at: usize, len: usize, align: usize) -> Option<&mut [u8]> {
            let addr = self.addr(at, len);
            // SAFETY: words of the vector, which is never longer or shorter.
            let copy = unsafe { self.set.insert(addr, len, align) }?;
            Some(self.copy(copy, len))
        }

        pub(super) fn widen(&mut self, at: usize, len: usize, align: usize) -> Option<&mut [u8]> {
            let addr = self.addr(at, len);
            // SAFETY: words of the vector, which is never longer or shorter. A copy is borrowed from this, so nothing is written to an old one.
            let copy = unsafe { self.set.widen(addr, len, align) }?;
            Some(self.copy(copy, len))
        }

        /// The copies, by the numbers of their first words.
        pub(super) fn copies(&mut self) -> Vec<(usize, Vec<u64>)> {
            let start = self.addr(0, 0);
            let copies = self.set.copies().map(|(addr, copy, words)| {
                // SAFETY: of an entry, which is where (1) says; its bytes are those of words.
                ((addr - start) / 8, (0..words).map(|i| unsafe { copy.wrapping_add(i).read() }).collect())
            });
            copies.collect()
        }
    }
}
