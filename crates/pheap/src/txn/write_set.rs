//! The write set of a short transaction: copies of the small objects that it writes, in volatile memory.
//!
//! Its memory grows with what a transaction writes, and is given back after many transactions that write little.

#![allow(unsafe_code)]

mod entries;
mod kept;
mod widen;

use std::cell::Cell;
use std::mem::MaybeUninit;

use super::buffer::{Buffer, CAPACITY};
use super::line_index::{LineIndex, MAX_LINES, first_and_last};
use crate::tuning::Tuning;
use crate::units::LINE;
use entries::{Entries, ROOM};

/// Objects at most, whatever the [`Tuning`] says.
pub(crate) const MAX_ENTRIES: usize = 8192;
/// Bytes of an object at most.
const MAX_OBJECT: usize = 1024;
/// A range of more lines is long. None of that length has a copy.
const LONG: usize = MAX_OBJECT / LINE + 1;
/// Look-ups of long ranges may take so many steps, then the transaction is better off without a write set.
const PATIENCE: usize = 1 << 20;
/// With more entries than these a set is large: not all of their originals are in the cache.
const LARGE: usize = 256;
/// So many transactions in a row that need little memory, and the set gives back what a larger one needed.
const QUIET: u32 = 1000;

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

/// How to zero the padding of a value.
#[derive(Clone, Copy)]
pub(crate) struct Padding {
    pub(crate) zero: unsafe fn(*mut u8, usize),
    /// Handed to `zero`: the length of a slice.
    pub(crate) len: usize,
}

/// A copy of a value that can have padding.
struct PaddedCopy {
    padding: Padding,
    /// The value in the buffer, and its original: perhaps a few bytes behind the beginning of the entry, which is of whole words.
    copy: *mut u8,
    original: usize,
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
pub(crate) struct WriteSet {
    entries: Entries,
    /// So many of the transaction before, unless newer ones have taken their places, are [kept](Self::keep).
    kept: usize,
    index: LineIndex,
    buffer: Buffer,
    /// Of all entries, at least.
    words: usize,
    /// Objects at most, before anyone asks whether there may be more.
    limit: usize,
    /// So many entries are looked at one by one, rather than through the index. There is always [room](ROOM) for them.
    unindexed: usize,
    padded: Vec<PaddedCopy>,
    /// Steps that look-ups of long ranges have taken in this transaction.
    steps: Cell<usize>,
    /// How many times copies were replaced by wider ones.
    pub(crate) widened: u32,
    /// Whether the set has grown, and how many transactions ago it last had to.
    grown: bool,
    quiet: u32,
}

impl WriteSet {
    /// A set for `limit` objects, until it gets [another limit](Self::set_limit).
    pub(crate) fn new(limit: usize, tuning: &Tuning) -> WriteSet {
        WriteSet {
            entries: Entries::new(),
            kept: 0,
            index: LineIndex::new(),
            buffer: Buffer::new(),
            words: 0,
            limit,
            unindexed: tuning.unindexed.min(ROOM),
            padded: Vec::new(),
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

    /// Has the set take so many copies.
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
    }

    /// Forgets all copies, but leaves them where they are: there are references to them.
    #[inline(always)]
    pub(crate) fn forget(&mut self) {
        self.kept = 0;
        self.index.clear();
        self.entries.clear();
        self.words = 0;
        self.padded.clear();
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
            self.padded.shrink_to(32);
            (self.grown, self.quiet) = (false, 0);
        }
    }

    /// Looks for the copy of `len` bytes at `addr`, at least one.
    #[inline(never)]
    pub(crate) fn find(&self, addr: usize, len: usize) -> Find {
        if self.entries.len() <= self.unindexed {
            return self.find_one_by_one(addr, len);
        }
        self.find_by_lines(addr, len)
    }

    /// Looks at each entry.
    #[inline]
    fn find_one_by_one(&self, addr: usize, len: usize) -> Find {
        // The one that was made last is often the one that is asked for.
        match self.entries.iter().rev().find(|entry| entry.overlaps(addr, len)) {
            Some(entry) if entry.covers(addr, len) => Find::Copy(entry.copy_of(addr)),
            Some(_) => Find::Part,
            None => Find::Nothing,
        }
    }

    #[inline]
    fn find_by_lines(&self, addr: usize, len: usize) -> Find {
        let (first, last) = first_and_last(addr, len);
        if last - first > LONG {
            return self.find_long(addr, len);
        }
        // Whatever overlaps it shares a line with it.
        (first..=last).find_map(|line| self.find_in_line(line, addr, len)).unwrap_or(Find::Nothing)
    }

    /// What the entries hold that cover `line`.
    #[inline]
    fn find_in_line(&self, line: usize, addr: usize, len: usize) -> Option<Find> {
        self.index.find(line, |number| {
            let entry = self.entries[number as usize];
            if entry.covers(addr, len) {
                return Some(Find::Copy(entry.copy_of(addr)));
            }
            entry.overlaps(addr, len).then_some(Find::Part)
        })
    }

    /// Looks for what overlaps a range of many lines.
    #[cold]
    fn find_long(&self, addr: usize, len: usize) -> Find {
        let (first, last) = first_and_last(addr, len);
        let steps = self.steps.get() + self.entries.len().min(last - first);
        self.steps.set(steps);
        if steps > PATIENCE {
            return Find::Part;
        }
        if self.entries.len() < last - first {
            return self.find_one_by_one(addr, len);
        }
        (first..=last).find_map(|line| self.find_in_line(line, addr, len)).unwrap_or(Find::Nothing)
    }

    /// Copies the object of `len` bytes at `addr`, of which the set holds nothing yet. `None` if it does not fit.
    ///
    /// # Safety
    /// The object is mapped, in whole words, and `addr` is a multiple of `align`.
    #[inline(always)]
    pub(crate) unsafe fn insert(
        &mut self,
        addr: usize,
        len: usize,
        align: usize,
        padding: Option<Padding>,
    ) -> Option<*mut u8> {
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
        if !self.is_kept(entry) {
            // SAFETY: the original is mapped; the copy is as long.
            unsafe {
                let original = std::ptr::with_exposed_provenance::<MaybeUninit<u64>>(start);
                copy.cast::<MaybeUninit<u64>>().copy_from_nonoverlapping(original, whole / 8);
            }
        }
        self.add(entry);
        let value = entry.copy_of(addr);
        if let Some(padding) = padding {
            self.padded.push(PaddedCopy { padding, copy: value, original: addr });
        }
        Some(value)
    }

    /// Adds an entry that overlaps no other.
    #[inline(always)]
    fn add(&mut self, Entry { addr, copy, len }: Entry) {
        self.words += len / 8;
        let number = self.entries.len();
        if number >= self.unindexed {
            return self.add_indexed(addr, copy, len);
        }
        // SAFETY: there is room for `ROOM` from the beginning, and `new` has made `unindexed` no more than that.
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
        // SAFETY: there is room now.
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

    /// Zeroes the padding of all copies.
    #[inline]
    pub(crate) fn zero_padding(&mut self) {
        for padded in &self.padded {
            // SAFETY: a copy of a valid value of the type that `padding` was made for.
            unsafe { (padded.padding.zero)(padded.copy, padded.padding.len) };
        }
    }

    /// Zeroes the padding of all originals.
    pub(crate) fn zero_padding_of_originals(&self) {
        for padded in &self.padded {
            let original = std::ptr::with_exposed_provenance_mut::<u8>(padded.original);
            // SAFETY: a valid value of the type that `padding` was made for, that the transaction may write.
            unsafe { (padded.padding.zero)(original, padded.padding.len) };
        }
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
}

/// The lines of a range as bits of a filter of 64: what is not in the filter is not in the write set.
#[inline(always)]
pub(crate) fn filter_bits(addr: usize, len: usize) -> u64 {
    let first = addr / LINE;
    let count = (addr + len.max(1) - 1) / LINE - first + 1;
    if count >= 64 { u64::MAX } else { ((1u64 << count) - 1).rotate_left(first as u32 % 64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_has_a_bit_for_each_line() {
        assert_eq!(filter_bits(0, 8), 1);
        assert_eq!(filter_bits(60, 8), 0b11);
        assert_eq!(filter_bits(64 * 63, 64), 1 << 63);
        assert_eq!(filter_bits(64 * 63, 65), 1 << 63 | 1);
        assert_eq!(filter_bits(8, 64 * 64), u64::MAX);
    }

    #[test]
    fn bytes_of_one_word_share_a_copy() {
        let words = [u64::from_le_bytes([1, 2, 3, 4, 5, 6, 7, 8]), 9];
        let addr = words.as_ptr().expose_provenance();
        let mut set = WriteSet::new(MAX_ENTRIES, &Tuning::SHIPPED);
        // SAFETY: `words` is readable, and the copies hold bytes.
        unsafe {
            *set.insert(addr, 1, 1, None).unwrap() = 10;
            let Find::Copy(second) = set.find(addr + 2, 1) else { panic!("not in the word's copy") };
            *second = 30;
            assert!(matches!(set.find(addr + 4, 8), Find::Part));
            assert!(matches!(set.find(addr + 8, 8), Find::Nothing));
            let (start, copy, len) = set.copies().next().unwrap();
            assert_eq!((start, len), (addr, 1));
            assert_eq!(copy.read().to_le_bytes(), [10, 2, 30, 4, 5, 6, 7, 8]);
        }
    }

    #[test]
    fn padding_is_zeroed_in_the_value_only() {
        unsafe fn zero(value: *mut u8, _: usize) {
            // SAFETY: 12 bytes, the last 3 of which are padding.
            unsafe { value.add(9).write_bytes(0, 3) };
        }
        let words = [u64::MAX; 3];
        let addr = words.as_ptr().expose_provenance() + 12; // the second element of a slice
        let mut set = WriteSet::new(MAX_ENTRIES, &Tuning::SHIPPED);
        // SAFETY: `words` is readable, and the copy holds bytes.
        unsafe {
            set.insert(addr, 12, 4, Some(Padding { zero, len: 0 })).unwrap();
            set.zero_padding();
            let (_, copy, len) = set.copies().next().unwrap();
            assert_eq!(len, 2);
            assert_eq!([copy.read(), copy.add(1).read()], [u64::MAX, u64::MAX >> 24]);
        }
    }

    #[test]
    fn copies_are_found_by_any_part_of_them() {
        let words = vec![0u64; 4000];
        let addr = words.as_ptr().expose_provenance();
        let mut set = WriteSet::new(MAX_ENTRIES, &Tuning::SHIPPED);
        let mut held: Vec<(usize, usize)> = Vec::new();
        let mut random = 1u64;
        for _ in 0..3000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (at, len) =
                (addr + 8 * ((random >> 20) % 3800) as usize, 8 * (1 + (random >> 45) % 40) as usize);
            let overlapping: Vec<_> =
                held.iter().filter(|held| at < held.0 + held.1 && held.0 < at + len).collect();
            let covers = overlapping.iter().any(|held| held.0 <= at && at + len <= held.0 + held.1);
            match set.find(at, len) {
                Find::Copy(_) => assert!(covers),
                Find::Part => assert!(!covers && !overlapping.is_empty()),
                Find::Nothing => {
                    assert!(overlapping.is_empty());
                    // SAFETY: `words` is readable.
                    if unsafe { set.insert(at, len, 8, None) }.is_some() {
                        held.push((at, len));
                    }
                }
            }
        }
        assert!(held.len() > 50 && matches!(set.find(addr, 32_000), Find::Part));
        set.clear();
        assert!(held.iter().all(|&(at, len)| matches!(set.find(at, len), Find::Nothing)));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let big = vec![0u64; CAPACITY / 8 + 200];
        let addr = big.as_ptr().expose_provenance();
        let mut set = WriteSet::new(MAX_ENTRIES, &Tuning::SHIPPED);
        // SAFETY: `big` is readable.
        unsafe {
            assert!(set.insert(addr, MAX_OBJECT + 8, 8, None).is_none());
            for i in 0..CAPACITY / MAX_OBJECT {
                assert!(set.insert(addr + i * MAX_OBJECT, MAX_OBJECT, 8, None).is_some());
            }
            assert!(set.insert(addr + CAPACITY, 8, 8, None).is_none());
            let mut few = WriteSet::new(2, &Tuning::SHIPPED);
            assert!(few.insert(addr, 8, 8, None).is_some() && few.insert(addr + 8, 8, 8, None).is_some());
            assert!(few.insert(addr + 16, 8, 8, None).is_none());
        }
    }

    #[test]
    fn memory_is_given_back_after_many_small_transactions() {
        let words = vec![0u64; 100_000];
        let addr = words.as_ptr().expose_provenance();
        let mut set = WriteSet::new(MAX_ENTRIES, &Tuning::SHIPPED);
        let write = |set: &mut WriteSet, n: usize| {
            for i in 0..n {
                // SAFETY: `words` is readable.
                assert!(unsafe { set.insert(addr + i * 80, 16, 8, None) }.is_some());
            }
            set.clear();
        };
        for _ in 0..2 {
            write(&mut set, 5000);
            (1..QUIET).for_each(|_| write(&mut set, 10));
            assert!(set.grown && set.entries.room() >= 5000);
            write(&mut set, 10);
            assert!(!set.grown && set.entries.room() < 5000);
        }
    }

    #[test]
    fn long_ranges_are_found_but_not_for_ever() {
        let words = vec![0u64; 40_000];
        let addr = words.as_ptr().expose_provenance();
        let (first, second) = ((addr + 160_000, 80_000), (addr + 160_008, 80_000));
        let mut set = WriteSet::new(MAX_ENTRIES, &Tuning::SHIPPED);
        let insert = |set: &mut WriteSet, i: usize| {
            // SAFETY: `words` is readable.
            assert!(unsafe { set.insert(addr + i * 16, 8, 8, None) }.is_some());
        };
        for i in 0..1000 {
            insert(&mut set, i);
            assert!(matches!(set.find(first.0, first.1), Find::Nothing));
        }
        insert(&mut set, 10_000);
        assert!(matches!(set.find(first.0, first.1), Find::Part));
        set.clear();
        (0..1000).for_each(|i| insert(&mut set, i));
        let patience = (0..10_000).take_while(|i| {
            let (addr, len) = if i % 2 == 0 { first } else { second };
            matches!(set.find(addr, len), Find::Nothing)
        });
        assert_eq!(patience.count(), PATIENCE / 1000);
        set.clear();
        // More entries than the range has lines.
        (0..5000).for_each(|i| insert(&mut set, 2 * i));
        assert!(matches!(set.find(second.0 - 80_000, second.1), Find::Part));
        assert!(matches!(set.find(first.0, first.1), Find::Nothing));
        assert!(matches!(set.find(second.0, second.1), Find::Nothing));
    }
}
