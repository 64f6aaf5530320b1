//! Finds the copies of parts of a range, which one copy of the range is about to replace.
//!
//! Because of this, a struct can be read after one of its fields was written alone:
//! `field!(shop.prices).push(tx, 1)`, then `tx[shop].prices.len()`.

use super::{Entry, WriteSet};
use crate::txn::line_index::first_and_last;

impl WriteSet {
    /// Returns the indices of the entries that overlap a range; `None` if there are none, or if one of them
    /// is not wholly within the range.
    pub(super) fn parts_within(&self, start: usize, len: usize) -> Option<Vec<u16>> {
        let parts = self.overlapping(start, len);
        let is_within = |entry: &Entry| start <= entry.addr && entry.addr + entry.len <= start + len;
        let all = !parts.is_empty() && parts.iter().all(|&part| is_within(&self.entries[part as usize]));
        all.then_some(parts)
    }

    /// Returns the indices of the entries that overlap a range.
    fn overlapping(&self, addr: usize, len: usize) -> Vec<u16> {
        let overlaps = |number: &u16| self.entries[*number as usize].overlaps(addr, len);
        if self.entries.len() <= self.unindexed {
            return (0..self.entries.len() as u16).filter(overlaps).collect();
        }
        let mut parts: Vec<u16> = Vec::new();
        let (first, last) = first_and_last(addr, len);
        for line in first..=last {
            self.index.find_on_line(line, |number| {
                if overlaps(&number) && !parts.contains(&number) {
                    parts.push(number);
                }
                None::<()>
            });
        }
        parts
    }
}
