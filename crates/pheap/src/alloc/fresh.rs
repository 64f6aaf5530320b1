//! Objects that the open transaction has allocated. They need no undo entries, and no copies in a write set.

use std::collections::BTreeMap;

/// Ranges of addresses of fresh objects. The newest objects in runs that classes are filling are not here yet
/// (see [`Allocator`](super::Allocator)).
#[derive(Default)]
pub(crate) struct FreshObjects {
    ranges: Vec<(usize, usize)>,
    /// For the start of each range: its end, and its index. [`range_index`](Self::range_index) adds the
    /// ranges that the map lacks, so in a transaction without lookups the map is empty.
    by_start: BTreeMap<usize, (usize, usize)>,
}

impl FreshObjects {
    /// Adds a range. Returns its number of slots of `slot` bytes; 0 if `slot` is 0.
    #[inline]
    pub(super) fn add(&mut self, start: usize, end: usize, slot: u32) -> u64 {
        if start < end {
            self.ranges.push((start, end));
        }
        ((end - start) as u64).checked_div(slot.into()).unwrap_or(0)
    }

    /// Whether `addr` lies in one of the ranges.
    #[inline]
    pub(super) fn contains(&mut self, addr: usize) -> bool {
        match self.ranges.last() {
            None => false,
            Some(&(start, end)) if (start..end).contains(&addr) => true,
            _ => self.range_index(addr).is_some(),
        }
    }

    /// Whether `addr` lies in one of the ranges from index `first` on.
    pub(super) fn contains_since(&mut self, addr: usize, first: usize) -> bool {
        self.range_index(addr).is_some_and(|number| number >= first)
    }

    /// Returns the index of the range that `addr` lies in.
    fn range_index(&mut self, addr: usize) -> Option<usize> {
        let new = self.ranges.iter().enumerate().skip(self.by_start.len());
        self.by_start.extend(new.map(|(number, &(start, end))| (start, (end, number))));
        let (_, &(end, number)) = self.by_start.range(..=addr).next_back()?;
        (addr < end).then_some(number)
    }

    /// Returns the ranges: first address, and the address after the last byte.
    pub(super) fn ranges(&self) -> &[(usize, usize)] {
        &self.ranges
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        if !self.ranges.is_empty() {
            self.ranges.clear();
            self.by_start.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_ranges_are_found() {
        let mut fresh = FreshObjects::default();
        assert_eq!(fresh.add(5000, 5024, 8), 3);
        assert!(fresh.contains(5023) && !fresh.contains(1000));
        assert_eq!(fresh.add(7000, 7000, 8), 0);
        assert_eq!(fresh.add(1000, 1032, 16), 2);
        assert_eq!(fresh.ranges(), [(5000, 5024), (1000, 1032)]);
        for (addr, is) in [
            (999, false),
            (1000, true),
            (1031, true),
            (1032, false),
            (5000, true),
            (5023, true),
            (5024, false),
        ] {
            assert_eq!(fresh.contains(addr), is, "{addr}");
            assert_eq!(fresh.contains_since(addr, 0), is, "{addr}");
        }
        assert!(fresh.contains_since(1000, 1) && !fresh.contains_since(5000, 1));
        fresh.clear();
        assert!(fresh.is_empty() && !fresh.contains(1000));
    }
}
