//! Looking for what the write set holds of a range.

use super::{Find, LONG, PATIENCE, WriteSet};
use crate::txn::line_index::first_and_last;

impl WriteSet {
    /// [`find`](Self::find) for a value that is aligned to `align`. A copy of a part of a value may be as long as the whole, and is aligned like the part: that is none of the whole, but one that is to
    /// be replaced.
    #[inline(always)]
    pub(crate) fn find_aligned(&self, addr: usize, len: usize, align: usize) -> Find {
        match self.find(addr, len) {
            // Copies begin with a word.
            Find::Copy(copy) if align > 8 && !copy.addr().is_multiple_of(align) => Find::Part,
            found => found,
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

    /// Whether there are so few entries that they are looked at one by one, and none has any of the words of these bytes.
    #[inline(always)]
    pub(crate) fn has_none_of_few(&self, addr: usize, len: usize) -> bool {
        let (start, end) = (addr & !7, (addr + len).next_multiple_of(8));
        self.entries.len() < self.unindexed
            && self.entries.iter().all(|entry| !entry.overlaps(start, end - start))
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
        self.find_in_lines(first, last, addr, len)
    }

    /// What the entries hold that cover one of these lines: whatever overlaps the range shares one with it.
    #[inline(always)]
    fn find_in_lines(&self, first: usize, last: usize, addr: usize, len: usize) -> Find {
        // Neither by `find_map`, which comes out as a call for each line, nor with `..=`, which is one more thing to ask at each.
        for line in first..last + 1 {
            let found = self.index.find(line, |number| {
                let entry = self.entries[number as usize];
                if entry.covers(addr, len) {
                    return Some(Find::Copy(entry.copy_of(addr)));
                }
                entry.overlaps(addr, len).then_some(Find::Part)
            });
            if let Some(found) = found {
                return found;
            }
        }
        Find::Nothing
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
        self.find_in_lines(first, last, addr, len)
    }
}
