//! The write set of a short transaction: copies of the small objects that it writes, in volatile memory.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};

use crate::media::{LINE, copy_words, lines};

/// Objects at most, and where the explorer of crashes is to see short and long transactions alike.
pub(crate) const MAX_ENTRIES: usize = 1024;
pub(crate) const FEW_ENTRIES: usize = 32;
/// Bytes of an object at most.
const MAX_OBJECT: usize = 1024;
/// Bytes of all objects at most.
const CAPACITY: usize = 16 << 10;
/// Entries of the hash table: about as many as there can be lines.
const TABLE: usize = 2048;

/// How to zero the padding of a value that was copied.
#[derive(Clone, Copy)]
pub(crate) struct Padding {
    pub(crate) zero: unsafe fn(*mut u8, usize),
    /// Handed to `zero`: the length of a slice.
    pub(crate) len: usize,
}

/// Values that a transaction writes in their places, each noted about once.
#[derive(Default)]
pub(crate) struct Padded {
    values: Vec<(usize, Padding)>,
    /// Sort out repetitions when there are so many.
    limit: usize,
}

impl Padded {
    pub(crate) fn add(&mut self, addr: usize, padding: Padding) {
        if self.values.last().is_some_and(|last| last.0 == addr && last.1.len == padding.len) {
            return;
        }
        self.values.push((addr, padding));
        if self.values.len() > self.limit.max(1024) {
            let key = |&(addr, padding): &(usize, Padding)| (addr, padding.zero as usize, padding.len);
            self.values.sort_unstable_by_key(key);
            self.values.dedup_by_key(|value| key(value));
            self.limit = 2 * self.values.len();
        }
    }

    /// Zeroes the padding of all values.
    ///
    /// # Safety
    /// They are valid values of this transaction, and no reference to them is alive.
    pub(crate) unsafe fn zero(&mut self) {
        for (addr, padding) in self.values.drain(..) {
            // SAFETY: by the caller's promise.
            unsafe { (padding.zero)(std::ptr::with_exposed_provenance_mut(addr), padding.len) };
        }
        self.limit = 0;
    }

    pub(crate) fn clear(&mut self) {
        self.values.clear();
        self.limit = 0;
    }
}

#[derive(Clone, Copy)]
struct Entry {
    /// First address (a multiple of 8) and length (likewise) of the original.
    addr: usize,
    len: usize,
    /// Where the copy is in the buffer.
    at: usize,
    /// The value's padding, and where the value is in the buffer: perhaps a few bytes behind the copy, which is of whole words.
    padding: Option<(Padding, usize)>,
}

/// A cache line that an entry covers, at least in part.
#[derive(Clone, Copy)]
struct Covered {
    line: usize,
    entry: u16,
    /// One more than the number of the next one with the same hash; 0 for none.
    next: u16,
}

/// What the write set holds of a range.
pub(crate) enum Find {
    /// All of it, here.
    Copy(*mut u8),
    /// Some of it only.
    Part,
    Nothing,
}

/// Copies of objects. The buffer stays where it is: references into it live as long as the transaction.
pub(crate) struct WriteSet {
    entries: Vec<Entry>,
    buffer: *mut u8,
    used: usize,
    /// Objects at most.
    limit: usize,
    /// The lines that entries cover, and by a hash of the line one more than the number of the last of them.
    covered: Vec<Covered>,
    table: Box<[u16; TABLE]>,
}

#[inline(always)]
fn hash(line: usize) -> usize {
    ((line / LINE) ^ (line >> 16)) % TABLE
}

impl WriteSet {
    const LAYOUT: Layout = match Layout::from_size_align(CAPACITY, LINE) {
        Ok(layout) => layout,
        Err(_) => panic!(),
    };

    /// A set for `limit` objects.
    pub(crate) fn new(limit: usize) -> WriteSet {
        // SAFETY: the layout has a size.
        let buffer = unsafe { alloc(Self::LAYOUT) };
        if buffer.is_null() {
            handle_alloc_error(Self::LAYOUT);
        }
        let (entries, covered) = (Vec::with_capacity(32), Vec::with_capacity(64));
        WriteSet { entries, buffer, used: 0, limit, covered, table: Box::new([0; TABLE]) }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets all copies. References into them must be gone.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        for covered in &self.covered {
            self.table[hash(covered.line)] = 0;
        }
        self.covered.clear();
        self.entries.clear();
        self.used = 0;
    }

    /// Looks for the copy of `len` bytes at `addr`.
    #[inline]
    pub(crate) fn find(&self, addr: usize, len: usize) -> Find {
        let first = addr & !(LINE - 1);
        if let Some(found) = self.find_in_line(first, addr, len) {
            return found;
        }
        // Whatever overlaps it shares a line with it.
        let behind = addr + len.max(1);
        if behind <= first + LINE {
            return Find::Nothing;
        }
        if (behind - first) / LINE > self.entries.len() {
            let overlaps = |entry: &Entry| addr < entry.addr + entry.len && entry.addr < addr + len;
            return if self.entries.iter().any(overlaps) { Find::Part } else { Find::Nothing };
        }
        let mut others = (first + LINE..behind).step_by(LINE);
        others.find_map(|line| self.find_in_line(line, addr, len)).unwrap_or(Find::Nothing)
    }

    /// What the entries hold that cover `line`.
    #[inline]
    fn find_in_line(&self, line: usize, addr: usize, len: usize) -> Option<Find> {
        let mut next = self.table[hash(line)];
        while let Some(covered) = (next as usize).checked_sub(1).map(|number| self.covered[number]) {
            next = covered.next;
            if covered.line != line {
                continue;
            }
            let entry = &self.entries[covered.entry as usize];
            if entry.covers(addr, len) {
                return Some(Find::Copy(self.copy_of(entry, addr)));
            }
            if addr < entry.addr + entry.len && entry.addr < addr + len {
                return Some(Find::Part);
            }
        }
        None
    }

    #[inline(always)]
    fn copy_of(&self, entry: &Entry, addr: usize) -> *mut u8 {
        // SAFETY: an entry's copy lies in the buffer, and `addr` in the entry.
        unsafe { self.buffer.add(entry.at + (addr - entry.addr)) }
    }

    /// Copies the object of `len` bytes at `addr`, of which the set holds nothing yet. `None` if it does not fit.
    ///
    /// # Safety
    /// The object is mapped, in whole words.
    #[inline]
    pub(crate) unsafe fn insert(
        &mut self,
        addr: usize,
        len: usize,
        align: usize,
        padding: Option<Padding>,
    ) -> Option<*mut u8> {
        // Whole words: two bytes of one word, written apart, must not undo each other.
        let start = addr & !7;
        let whole = (addr + len - start).next_multiple_of(8);
        let align_mask = align.max(8) - 1; // a power of two: no division
        let at = (self.used + align_mask) & !align_mask;
        if whole > MAX_OBJECT || at + whole > CAPACITY || self.entries.len() == self.limit || align > LINE {
            return None;
        }
        if start != addr || !len.is_multiple_of(8) {
            // The rest of a word may be part of another copy already.
            if !matches!(self.find(start, whole), Find::Nothing) {
                return None;
            }
        }
        let padding = padding.map(|padding| (padding, at + (addr - start)));
        let entry = Entry { addr: start, len: whole, at, padding };
        for line in lines(start, whole) {
            let slot = &mut self.table[hash(line)];
            self.covered.push(Covered { line, entry: self.entries.len() as u16, next: *slot });
            *slot = self.covered.len() as u16;
        }
        self.entries.push(entry);
        self.used = at + whole;
        // SAFETY: the original is mapped; the copy fits the buffer.
        unsafe {
            let original = std::ptr::with_exposed_provenance::<u64>(start);
            copy_words(self.buffer.add(at).cast(), original, whole / 8);
        }
        Some(self.copy_of(&entry, addr))
    }

    /// Zeroes the padding of all copies.
    #[inline]
    pub(crate) fn zero_padding(&mut self) {
        for entry in &self.entries {
            if let Some((padding, at)) = entry.padding {
                // SAFETY: a copy of a valid value of the type that `padding` was made for.
                unsafe { (padding.zero)(self.buffer.add(at), padding.len) };
            }
        }
    }

    /// Zeroes the padding of all originals.
    pub(crate) fn zero_padding_of_originals(&self) {
        for entry in &self.entries {
            if let Some((padding, at)) = entry.padding {
                let original = std::ptr::with_exposed_provenance_mut::<u8>(entry.addr + (at - entry.at));
                // SAFETY: a valid value of the type that `padding` was made for, that the transaction may write.
                unsafe { (padding.zero)(original, padding.len) };
            }
        }
    }

    /// The copies: address of the original, the copy, number of words.
    #[inline]
    pub(crate) fn copies(&self) -> impl Iterator<Item = (usize, *mut u64, usize)> + '_ {
        self.entries.iter().map(|entry| {
            // SAFETY: an entry's copy lies in the buffer.
            let copy = unsafe { self.buffer.add(entry.at) };
            (entry.addr, copy.cast(), entry.len / 8)
        })
    }
}

impl Entry {
    #[inline(always)]
    fn covers(&self, addr: usize, len: usize) -> bool {
        self.addr <= addr && addr + len <= self.addr + self.len
    }
}

impl Drop for WriteSet {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.buffer, Self::LAYOUT) };
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
        let mut set = WriteSet::new(MAX_ENTRIES);
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
        let mut set = WriteSet::new(MAX_ENTRIES);
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
        let mut set = WriteSet::new(MAX_ENTRIES);
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
        let big = vec![0u64; CAPACITY / 8 + 1];
        let addr = big.as_ptr().expose_provenance();
        let mut set = WriteSet::new(MAX_ENTRIES);
        // SAFETY: `big` is readable.
        unsafe {
            assert!(set.insert(addr, MAX_OBJECT + 8, 8, None).is_none());
            for i in 0..CAPACITY / MAX_OBJECT {
                assert!(set.insert(addr + i * MAX_OBJECT, MAX_OBJECT, 8, None).is_some());
            }
            assert!(set.insert(addr + CAPACITY, 8, 8, None).is_none());
            let mut few = WriteSet::new(2);
            assert!(few.insert(addr, 8, 8, None).is_some() && few.insert(addr + 8, 8, 8, None).is_some());
            assert!(few.insert(addr + 16, 8, 8, None).is_none());
        }
    }
}
