//! A range of which the set has copies of parts only gets one copy.
//!
//! So a struct can be read after one of its fields was written by itself: `field!(shop.prices).push(tx, 1)`, then `tx[shop].prices.len()`.

#![allow(unsafe_code)]

use super::{Entry, MAX_OBJECT, PaddedCopy, Padding, WriteSet};
use crate::txn::line_index::first_and_last;
use crate::units::{LINE, copy_words};

impl WriteSet {
    /// Copies `len` bytes at `addr` together with what the set holds of them; the old copies stay where they are, for references to them, and mean
    /// nothing any more. `None` if one of them is not wholly within the range, or if it does not fit.
    ///
    /// # Safety
    /// A live value, mapped in whole words, of whose padding `padding` knows; nothing is written through references to the old copies from now on.
    #[cold]
    pub(crate) unsafe fn widen(
        &mut self,
        addr: usize,
        len: usize,
        align: usize,
        padding: Option<Padding>,
    ) -> Option<*mut u8> {
        let start = addr & !7;
        let whole = (addr + len - start).next_multiple_of(8);
        if whole > MAX_OBJECT || self.entries.len() == self.limit || align > LINE {
            return None;
        }
        let parts = self.overlapping(start, whole);
        let is_within = |entry: &Entry| start <= entry.addr && entry.addr + entry.len <= start + whole;
        if parts.is_empty() || !parts.iter().all(|&part| is_within(&self.entries[part as usize])) {
            return None;
        }
        let copy = self.buffer.take(whole, align.max(8))?;
        let entry = Entry { addr: start, copy, len: whole };
        // SAFETY: the original is mapped, and the copies of its parts are within it.
        unsafe {
            copy_words(copy.cast(), std::ptr::with_exposed_provenance(start), whole / 8);
            for &part in &parts {
                let part = &mut self.entries[part as usize];
                copy_words(entry.copy_of(part.addr).cast(), part.copy.cast(), part.len / 8);
                *part = Entry::NOTHING;
            }
        }
        self.widened += 1;
        self.add(entry);
        let value = entry.copy_of(addr);
        if let Some(padding) = padding {
            self.padded.push(PaddedCopy { padding, copy: value, original: addr });
        }
        Some(value)
    }

    /// The numbers of the entries that have to do with a range.
    fn overlapping(&self, addr: usize, len: usize) -> Vec<u16> {
        let overlaps = |number: &u16| self.entries[*number as usize].overlaps(addr, len);
        if self.entries.len() <= self.unindexed {
            return (0..self.entries.len() as u16).filter(overlaps).collect();
        }
        let mut parts: Vec<u16> = Vec::new();
        let (first, last) = first_and_last(addr, len);
        for line in first..=last {
            self.index.find(line, |number| {
                if overlaps(&number) && !parts.contains(&number) {
                    parts.push(number);
                }
                None::<()>
            });
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Find, MAX_ENTRIES};
    use super::*;
    use crate::tuning::Tuning;

    #[test]
    fn parts_become_one_copy() {
        let words: Vec<u64> = (0..64).collect();
        let addr = words.as_ptr().expose_provenance();
        let mut set = WriteSet::new(MAX_ENTRIES, &Tuning::SHIPPED);
        // SAFETY: `words` is readable, and the copies hold words.
        unsafe {
            *set.insert(addr + 8, 8, 8, None).unwrap().cast::<u64>() = 100;
            *set.insert(addr + 40, 16, 8, None).unwrap().cast::<u64>() = 500;
            *set.insert(addr + 160, 16, 8, None).unwrap().cast::<u64>() = 2000;
            assert!(set.widen(addr + 80, 8, 8, None).is_none(), "nothing of it is there");
            assert!(set.widen(addr + 44, 4, 4, None).is_none(), "a part of a copy");
            assert!(set.widen(addr + 32, 16, 8, None).is_none(), "half of a copy");
            assert!(matches!(set.find(addr, 80), Find::Part));
            let whole = set.widen(addr, 80, 8, None).unwrap().cast::<u64>();
            let read: Vec<u64> = (0..10).map(|i| *whole.add(i)).collect();
            assert_eq!(read, [0, 100, 2, 3, 4, 500, 6, 7, 8, 9]);
            let Find::Copy(part) = set.find(addr + 40, 8) else { panic!("it is in the new copy") };
            assert_eq!(part.cast::<u64>(), whole.add(5));
            let wider = set.widen(addr, 512, 8, None).unwrap().cast::<u64>();
            assert_eq!([*wider.add(1), *wider.add(5), *wider.add(20), *wider.add(63)], [100, 500, 2000, 63]);
        }
        let copies: Vec<_> = set.copies().map(|(at, _, words)| (at, words)).collect();
        assert_eq!(copies, [(addr, 64)]);
        set.clear();
        assert!(matches!(set.find(addr, 80), Find::Nothing));
    }
}
