//! Which pages are free. Volatile: it comes back from the span tables when a heap is opened.

use std::collections::{BTreeMap, BTreeSet};

/// Runs of free pages.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// Offset → length, both in bytes.
    free: BTreeMap<u64, u64>,
    /// The same as (length, offset).
    by_length: BTreeSet<(u64, u64)>,
}

impl Pages {
    /// Takes `len` bytes from the shortest run that has them; the first one of these.
    pub(crate) fn take(&mut self, len: u64) -> Option<u64> {
        let (have, start) = *self.by_length.range((len, 0)..).next()?;
        self.remove(start, have);
        if have > len {
            self.insert(start + len, have - len);
        }
        Some(start)
    }

    /// Takes `most` bytes, or the longest run if none is as long, but at least `least`. Returns offset and length.
    pub(crate) fn take_up_to(&mut self, most: u64, least: u64) -> Option<(u64, u64)> {
        if let Some(start) = self.take(most) {
            return Some((start, most));
        }
        let (have, start) = *self.by_length.last().filter(|(have, _)| *have >= least)?;
        self.remove(start, have);
        Some((start, have))
    }

    /// Takes exactly this run, if all of it is free and nothing beside it is.
    pub(crate) fn take_at(&mut self, start: u64, len: u64) -> bool {
        let is_free = self.free.get(&start) == Some(&len);
        if is_free {
            self.remove(start, len);
        }
        is_free
    }

    /// All runs: offsets and lengths.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.free.iter().map(|(&offset, &len)| (offset, len))
    }

    /// The runs that begin in a range of offsets.
    pub(crate) fn runs_in(&self, range: std::ops::Range<u64>) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.free.range(range).map(|(&offset, &len)| (offset, len))
    }

    /// Gives a run back.
    pub(crate) fn give(&mut self, start: u64, len: u64) {
        let (mut start, mut len) = (start, len);
        if let Some((&before, &have)) = self.free.range(..start).next_back() {
            debug_assert!(before + have <= start, "pages at {start} are freed twice");
            if before + have == start {
                self.remove(before, have);
                (start, len) = (before, have + len);
            }
        }
        if let Some(&have) = self.free.get(&(start + len)) {
            self.remove(start + len, have);
            len += have;
        }
        self.insert(start, len);
    }

    fn insert(&mut self, start: u64, len: u64) {
        self.free.insert(start, len);
        self.by_length.insert((len, start));
    }

    fn remove(&mut self, start: u64, len: u64) {
        self.free.remove(&start);
        self.by_length.remove(&(len, start));
    }

    /// Free bytes.
    pub(crate) fn total(&self) -> u64 {
        self.free.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_grows_together() {
        let mut pages = Pages::default();
        pages.give(0, 100);
        let taken: Vec<_> = (0..10).map(|_| pages.take(10).unwrap()).collect();
        assert_eq!(pages.take(1), None);
        for i in [3, 1, 2, 9, 0, 5, 4, 7, 6, 8] {
            pages.give(taken[i], 10);
        }
        assert_eq!(pages.free, BTreeMap::from([(0, 100)]));
        assert_eq!(pages.by_length, BTreeSet::from([(100, 0)]));
        assert_eq!(pages.total(), 100);
    }

    #[test]
    fn the_shortest_run_that_fits_is_taken() {
        let mut pages = Pages::default();
        pages.give(0, 100);
        pages.give(200, 20);
        pages.give(300, 20);
        assert_eq!([pages.take(15), pages.take(20), pages.take(30)], [Some(200), Some(300), Some(0)]);
        assert_eq!(pages.total(), 75);
        assert_eq!([pages.take_up_to(60, 71), pages.take_up_to(80, 71)], [Some((30, 60)), None]);
        assert_eq!(pages.take_up_to(80, 10), Some((90, 10)));
        pages.give(500, 50);
        assert_eq!(
            [pages.take_at(500, 40), pages.take_at(500, 50), pages.take_at(500, 50)],
            [false, true, false]
        );
    }
}
