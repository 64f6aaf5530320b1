//! The write set of a short transaction: copies, in DRAM, of the small objects, and of the parts of objects,
//! that it writes. Also the limits of the number and size of copies.
//!
//! The memory of the write set grows with the writes of a transaction. If the list of entries has grown, the
//! memory is freed after many transactions that write little.

#![allow(unsafe_code)]

mod find;
mod kept;
#[cfg(test)]
mod tests;
mod widen;

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

use super::buffer::{BumpAllocator, CAPACITY};
use super::line_index::{LineIndex, MAX_LINES, first_and_last};
use crate::os::cpu::copy_words;
use crate::tuning::Tuning;
use crate::units::LINE;

/// The largest number of copies in a write set. The crash lab sets a smaller number.
pub(crate) const MAX_ENTRIES: usize = Tuning::SHIPPED.copies;
/// The most bytes of a copy.
pub(crate) const MAX_OBJECT: usize = 1024;
/// A range of addresses is long if the number of its last cache line exceeds that of its first line by more
/// than this. No copy is so long.
const LONG: usize = MAX_OBJECT / LINE + 1;
/// Number of steps of lookups of [long](LONG) ranges after which a transaction should spill.
const PATIENCE: usize = 1 << 20;
/// Number of entries above which a write set is large: its originals are probably not all in the processor's
/// cache.
const LARGE: usize = 256;
/// Number of successive transactions with a small write set after which the set frees the memory that a
/// larger transaction has needed.
const QUIET: u32 = 1000;

/// The number of entries for which the list of entries always has room.
const ROOM: usize = 32;

// The indices of entries, and of the lines that they cover, fit into 16 bits.
const _: () = assert!(MAX_ENTRIES <= u16::MAX as usize && CAPACITY / LINE + 2 * MAX_ENTRIES <= MAX_LINES);

/// A copy of a range of the heap.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    /// Address of the original, a multiple of 8.
    addr: usize,
    /// Address of the copy, in the buffer.
    copy: *mut u8,
    /// Bytes of the original and of the copy, a multiple of 8; 0 for an entry that a wider one has replaced.
    len: usize,
}

/// The result of a lookup of a range.
pub(crate) enum RangeLookup {
    /// A copy has the whole range, at this address.
    Copy(*mut u8),
    /// Copies have parts of the range, and none has all of it, aligned as needed; or finding out costs too
    /// much, and the transaction should spill.
    Part,
    Nothing,
}

/// Returns the number of copies that a new set takes before it must be
/// [checked](super::context::Context::may_grow) whether it may take more. `most` is the largest number of
/// copies.
#[inline(always)]
pub(crate) fn first_copies(most: usize) -> usize {
    (most / 64).max(8)
}

/// Copies of objects. They never move: references to them live as long as the transaction.
//
// Premises of the `unsafe` code here:
// (1) The original of an entry is mapped, in whole words, from when it is added until the set is cleared or
// forgets it. Its copy is as long, and is in the buffer; copies of different entries do not overlap.
// `insert`, `insert_at_once` and `widen` add entries, and their callers guarantee the first half.
// (2) The first `len` slots of `entries` hold an entry. An `EntryList` has at least `ROOM` slots, and never
// loses one.
pub(crate) struct WriteSet {
    entries: EntryList,
    /// Number of entries that the previous transaction has [left](Self::retain_copies): those from the
    /// present length on have copies that may be used again. 0 once an entry was added that differs from the
    /// entry of the previous transaction at its index.
    kept: usize,
    index: LineIndex,
    buffer: BumpAllocator,
    /// Number of words of all entries, including replaced ones.
    words: usize,
    /// The number of copies that the set takes; and the value to which `clear` resets that number.
    limit: usize,
    first_limit: usize,
    /// Up to this many entries are searched one by one, without the index. At most [`ROOM`].
    unindexed: usize,
    /// How many entries or cache lines the lookups of [long](LONG) ranges of addresses have looked at in this
    /// transaction, at most. After [`PATIENCE`] of them, such lookups say that the transaction should spill.
    steps: Cell<usize>,
    /// Number of copies that were made to replace narrower ones.
    pub(crate) widened: u32,
    /// Whether the list of entries has grown since its memory was last freed; and the number of transactions
    /// since one has needed so much memory.
    grown: bool,
    quiet: u32,
}

impl WriteSet {
    /// Creates a set for `limit` copies, unless it gets [another limit](Self::set_limit).
    pub(crate) fn new(limit: usize, tuning: &Tuning) -> WriteSet {
        WriteSet {
            entries: EntryList::new(),
            kept: 0,
            index: LineIndex::new(),
            buffer: BumpAllocator::new(),
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

    /// Returns the number of copies, including replaced ones.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of copies that the set takes.
    #[inline(always)]
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Lets the set take `limit` copies, until it is cleared.
    #[inline(always)]
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Returns the number of words of all copies, or more.
    #[inline(always)]
    pub(crate) fn copied_words(&self) -> usize {
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

    /// Forgets all copies, but leaves them in memory, because there may be references to them.
    #[inline(always)]
    pub(crate) fn forget(&mut self) {
        self.kept = 0;
        self.index.clear();
        self.entries.clear();
        self.words = 0;
        self.steps.set(0);
    }

    /// Counts a transaction that ends. Frees the memory that the last [`QUIET`] transactions have not needed.
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
            self.entries = EntryList::new();
            (self.grown, self.quiet) = (false, 0);
        }
    }

    /// Copies the object of `len` bytes at `addr`, of which the set has no copy yet. `None` if it does not
    /// fit, if its alignment exceeds a line, or if another copy has the rest of its first or last word.
    ///
    /// # Safety
    /// The object is live, and mapped in whole words, until the set is cleared or forgets it. `addr` is a
    /// multiple of `align`.
    #[inline(always)]
    pub(crate) unsafe fn insert(&mut self, addr: usize, len: usize, align: usize) -> Option<*mut u8> {
        // A copy covers whole words: two bytes of one word that are written separately must not undo each
        // other.
        let start = if align >= 8 { addr } else { addr & !7 };
        debug_assert!(start.is_multiple_of(8));
        let whole = (addr - start + len).next_multiple_of(8);
        if whole > MAX_OBJECT || self.entries.len() == self.limit || align > LINE {
            return None;
        }
        if start != addr || !len.is_multiple_of(8) {
            // Another copy may have the rest of a word already.
            if !matches!(self.find_copy(start, whole), RangeLookup::Nothing) {
                return None;
            }
        }
        let copy = self.buffer.allocate(whole, align.max(8))?;
        let entry = Entry { addr: start, copy, len: whole };
        // SAFETY: the caller guarantees that the original is mapped. The copy was allocated just now, with
        // `whole` bytes.
        unsafe { self.copy_original(entry) };
        self.add(entry);
        Some(entry.copy_of(addr))
    }

    /// [`insert`](Self::insert), if that is simple: there are too few entries for the index, and the present
    /// piece of the buffer has room. `None` otherwise. The set has no copy of the words that the object lies
    /// in.
    ///
    /// # Safety
    /// The premise of [`insert`](Self::insert).
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
        // SAFETY: the caller guarantees that the original is mapped. The copy was allocated just now, with
        // `whole` bytes.
        unsafe { self.copy_original(entry) };
        self.words += whole / 8;
        // SAFETY: there is room for `ROOM` entries (2), `number` is less than `unindexed`, and `new` has made
        // that at most `ROOM`.
        unsafe { self.entries.push(entry) };
        Some(entry.copy_of(addr))
    }

    /// Copies the original of an entry, which is about to be added, unless the copy is kept from the last
    /// transaction.
    ///
    /// # Safety
    /// The original is mapped, and the copy is as long.
    #[inline(always)]
    unsafe fn copy_original(&mut self, entry: Entry) {
        if !self.is_kept(entry) {
            let original = std::ptr::with_exposed_provenance::<MaybeUninit<u64>>(entry.addr);
            // SAFETY: the caller guarantees that original and copy have `entry.len` bytes. The buffer is not
            // in the heap, so they do not overlap.
            unsafe {
                entry.copy.cast::<MaybeUninit<u64>>().copy_from_nonoverlapping(original, entry.len / 8);
            }
        }
    }

    /// [`insert`](Self::insert) for a value of which only [parts](Self::parts_within) have copies. The new
    /// copy gets their content. The old copies stay in memory, for references to them, and are not used any
    /// more. `None` if no part has a copy, if one of the old copies is not wholly within the range, if the
    /// new copy does not fit, or if its alignment exceeds a line.
    ///
    /// # Safety
    /// The premise of [`insert`](Self::insert). Also, nothing is written through references to the old copies
    /// from now on.
    #[cold]
    pub(crate) unsafe fn widen(&mut self, addr: usize, len: usize, align: usize) -> Option<*mut u8> {
        let start = addr & !7;
        let whole = (addr + len - start).next_multiple_of(8);
        if whole > MAX_OBJECT || self.entries.len() == self.limit || align > LINE {
            return None;
        }
        let parts = self.parts_within(start, whole)?;
        let copy = self.buffer.allocate(whole, align.max(8))?;
        let entry = Entry { addr: start, copy, len: whole };
        // SAFETY: the caller guarantees that the original is mapped, and the new copy is as long.
        unsafe { copy_words(copy.cast(), std::ptr::with_exposed_provenance(start), whole / 8) };
        for part in parts {
            let part = &mut self.entries[part as usize];
            // SAFETY: the copy of a part is as long as its original (1), and `parts_within` has checked that
            // the part is within the range.
            unsafe { copy_words(entry.copy_of(part.addr).cast(), part.copy.cast(), part.len / 8) };
            *part = Entry::NOTHING;
        }
        self.widened += 1;
        self.add(entry);
        Some(entry.copy_of(addr))
    }

    /// Adds an entry that overlaps no other entry.
    #[inline(always)]
    fn add(&mut self, Entry { addr, copy, len }: Entry) {
        self.words += len / 8;
        let number = self.entries.len();
        if number >= self.unindexed {
            return self.add_indexed(addr, copy, len);
        }
        // SAFETY: there is room for `ROOM` entries (2), `number` is less than `unindexed`, and `new` has made
        // that at most `ROOM`.
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
        // SAFETY: `room` was larger than `len`, or `grow` has made it larger.
        unsafe { self.entries.push(Entry { addr, copy, len }) };
        self.index_entry(self.entries.len() - 1);
    }

    /// Adds the lines of an entry to the index.
    #[inline(always)]
    fn index_entry(&mut self, number: usize) {
        let Entry { addr, len, .. } = self.entries[number];
        // No lookup needs an entry that a wider one has replaced.
        if len > 0 {
            let (first, last) = first_and_last(addr, len);
            self.index.insert(first, last, number as u16);
        }
    }

    /// Makes room for more entries in the list.
    #[cold]
    fn grow(&mut self) {
        self.entries.grow();
        self.grown = true;
    }

    /// Returns the copies: address of the original, address of the copy, number of words.
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

    /// Whether the copy has the same words as its original.
    fn is_as_original(&self) -> bool {
        let original = std::ptr::with_exposed_provenance::<u64>(self.addr);
        // SAFETY: copy and original have `len` bytes (premise 1 of `WriteSet`), which the comparison at the
        // commit has made definite.
        let word = |of: *const u64, i: usize| unsafe { of.wrapping_add(i).read() };
        (0..self.len / 8).all(|i| word(self.copy.cast(), i) == word(original, i))
    }
}

/// A list whose slots keep their old entries after it is cleared.
struct EntryList {
    /// The `len` entries of the list; then entries that were in the list before it was cleared, or `NOTHING`.
    slots: Vec<Entry>,
    len: usize,
}

impl EntryList {
    fn new() -> EntryList {
        EntryList { slots: vec![Entry::NOTHING; ROOM], len: 0 }
    }

    /// Returns the number of entries for which there is room.
    #[inline(always)]
    fn room(&self) -> usize {
        self.slots.len()
    }

    /// Doubles the room.
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
        // SAFETY: the caller guarantees that `len` is less than the number of slots.
        unsafe { *self.slots.get_unchecked_mut(self.len) = entry };
        self.len += 1;
    }

    /// Returns the old entry, or `NOTHING`, in the slot of the next push; `None` if there is no such slot.
    #[inline(always)]
    fn left_over(&self) -> Option<&Entry> {
        self.slots.get(self.len)
    }

    #[inline(always)]
    fn clear(&mut self) {
        self.len = 0;
    }
}

impl Deref for EntryList {
    type Target = [Entry];

    #[inline(always)]
    fn deref(&self) -> &[Entry] {
        // SAFETY: `len` entries were pushed, each into a slot, and the number of slots never decreases
        // (premise 2 of `WriteSet`).
        unsafe { self.slots.get_unchecked(..self.len) }
    }
}

impl DerefMut for EntryList {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [Entry] {
        // SAFETY: `len` entries were pushed, each into a slot, and the number of slots never decreases
        // (premise 2 of `WriteSet`).
        unsafe { self.slots.get_unchecked_mut(..self.len) }
    }
}

/// Returns the lines of a range as bits of the 64-bit filter. A line whose bit is not in the filter has no
/// copy.
#[inline(always)]
pub(crate) fn filter_bits(addr: usize, len: usize) -> u64 {
    let first = addr / LINE;
    let count = (addr + len.max(1) - 1) / LINE - first + 1;
    if count >= 64 { u64::MAX } else { ((1u64 << count) - 1).rotate_left(first as u32 % 64) }
}

/// [`filter_bits`] for a value that is aligned to `align`. This is cheaper if the alignment proves that the
/// value lies in one line.
#[inline(always)]
pub(crate) fn filter_bits_aligned(addr: usize, len: usize, align: usize) -> u64 {
    if len <= align && align <= LINE { 1 << (addr / LINE % 64) } else { filter_bits(addr, len) }
}

#[cfg(test)]
mod trial {
    use super::*;

    /// Words that stand for a heap, and a set with copies of them, for tests.
    pub(super) struct Trial {
        pub(super) words: Vec<u64>,
        pub(super) set: WriteSet,
    }

    impl Trial {
        pub(super) fn new(words: Vec<u64>) -> Trial {
            Trial { words, set: WriteSet::new(MAX_ENTRIES, &Tuning::SHIPPED) }
        }

        /// Returns the address of byte `at`. Panics if there are not `len` bytes, in whole words, from there
        /// on.
        pub(super) fn addr(&mut self, at: usize, len: usize) -> usize {
            assert!((at + len).next_multiple_of(8) <= self.words.len() * 8);
            self.words.as_mut_ptr().expose_provenance() + at
        }

        pub(super) fn find_copy(&mut self, at: usize, len: usize) -> RangeLookup {
            let addr = self.addr(at, len);
            self.set.find_copy(addr, len)
        }

        /// Returns the bytes of a copy.
        pub(super) fn copy(&mut self, copy: *mut u8, len: usize) -> &mut [u8] {
            // SAFETY: `copy` is that of an entry with at least `len` bytes, premise (1); they are bytes of
            // words, so they are definite.
            unsafe { std::slice::from_raw_parts_mut(copy, len) }
        }

        pub(super) fn found(&mut self, at: usize, len: usize) -> Option<&mut [u8]> {
            let RangeLookup::Copy(copy) = self.find_copy(at, len) else { return None };
            Some(self.copy(copy, len))
        }

        pub(super) fn insert(&mut self, at: usize, len: usize, align: usize) -> Option<&mut [u8]> {
            let addr = self.addr(at, len);
            // SAFETY: the range is within the vector, whose length never changes.
            let copy = unsafe { self.set.insert(addr, len, align) }?;
            Some(self.copy(copy, len))
        }

        pub(super) fn widen(&mut self, at: usize, len: usize, align: usize) -> Option<&mut [u8]> {
            let addr = self.addr(at, len);
            // SAFETY: the range is within the vector, whose length never changes. Copies are borrowed from
            // `self`, so no reference to an old one is alive.
            let copy = unsafe { self.set.widen(addr, len, align) }?;
            Some(self.copy(copy, len))
        }

        /// Returns the copies, with the indices of their first words.
        pub(super) fn copies(&mut self) -> Vec<(usize, Vec<u64>)> {
            let start = self.addr(0, 0);
            let copies = self.set.copies().map(|(addr, copy, words)| {
                // SAFETY: an entry's copy has `words` words, premise (1), which were copied from definite
                // words.
                ((addr - start) / 8, (0..words).map(|i| unsafe { copy.wrapping_add(i).read() }).collect())
            });
            copies.collect()
        }
    }
}
