//! Finds the copy of a range in the write set.

use super::{LONG, PATIENCE, RangeLookup, WriteSet};
use crate::txn::line_index::first_and_last;

impl WriteSet {
    /// [`find_copy`](Self::find_copy) for a value that is aligned to `align`. A copy of a part may be as long
    /// as the whole value, but is only aligned like the part. Such a copy does not count as a copy of the
    /// whole value, and must be replaced.
    #[inline(always)]
    pub(crate) fn find_aligned(&self, addr: usize, len: usize, align: usize) -> RangeLookup {
        match self.find_copy(addr, len) {
            // Each copy is aligned to a word, so smaller alignments need no check.
            RangeLookup::Copy(copy) if align > 8 && !copy.addr().is_multiple_of(align) => RangeLookup::Part,
            found => found,
        }
    }

    /// Finds the copy of `len` bytes at `addr`; `len` is not 0.
    #[inline(never)]
    pub(crate) fn find_copy(&self, addr: usize, len: usize) -> RangeLookup {
        if self.entries.len() <= self.unindexed {
            return self.find_one_by_one(addr, len);
        }
        self.find_by_lines(addr, len)
    }

    /// Whether the set can take one more entry without an index, and no entry has a word of these bytes.
    #[inline(always)]
    pub(crate) fn has_none_of_few(&self, addr: usize, len: usize) -> bool {
        let (start, end) = (addr & !7, (addr + len).next_multiple_of(8));
        self.entries.len() < self.unindexed
            && self.entries.iter().all(|entry| !entry.overlaps(start, end - start))
    }

    /// Finds the copy of `len` bytes at `addr` by a look at each entry.
    #[inline]
    fn find_one_by_one(&self, addr: usize, len: usize) -> RangeLookup {
        // Newest first: accesses are often to the newest copy.
        match self.entries.iter().rev().find(|entry| entry.overlaps(addr, len)) {
            Some(entry) if entry.covers(addr, len) => RangeLookup::Copy(entry.copy_of(addr)),
            Some(_) => RangeLookup::Part,
            None => RangeLookup::Nothing,
        }
    }

    #[inline]
    fn find_by_lines(&self, addr: usize, len: usize) -> RangeLookup {
        let (first, last) = first_and_last(addr, len);
        if last - first > LONG {
            return self.find_long(addr, len);
        }
        self.find_in_lines(first, last, addr, len)
    }

    /// Finds the copy of a range among the entries that cover one of the lines from `first` to `last`. Each
    /// entry that overlaps the range shares a line with it.
    #[inline(always)]
    fn find_in_lines(&self, first: usize, last: usize, addr: usize, len: usize) -> RangeLookup {
        // This is a loop, because `find_map` compiles to a call for each line, and `..=` to one more test for
        // each line.
        for line in first..last + 1 {
            let found = self.index.find_on_line(line, |number| {
                let entry = self.entries[number as usize];
                if entry.covers(addr, len) {
                    return Some(RangeLookup::Copy(entry.copy_of(addr)));
                }
                entry.overlaps(addr, len).then_some(RangeLookup::Part)
            });
            if let Some(found) = found {
                return found;
            }
        }
        RangeLookup::Nothing
    }

    /// Finds the copy of a range of many lines, or a part of it, unless such lookups have taken too many
    /// steps in this transaction.
    #[cold]
    fn find_long(&self, addr: usize, len: usize) -> RangeLookup {
        let (first, last) = first_and_last(addr, len);
        let steps = self.steps.get() + self.entries.len().min(last - first);
        self.steps.set(steps);
        if steps > PATIENCE {
            return RangeLookup::Part;
        }
        if self.entries.len() < last - first {
            return self.find_one_by_one(addr, len);
        }
        self.find_in_lines(first, last, addr, len)
    }
}
