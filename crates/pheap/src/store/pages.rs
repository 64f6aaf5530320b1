//! The free pages. This state is volatile: an opening rebuilds it from the span tables.
//!
//! Some free pages are [holes](FreePages::holes): the file may have no space for them. A thread that takes
//! holes gets space for them in the file first.

use std::collections::{BTreeMap, BTreeSet};

/// Runs of free pages.
#[derive(Debug, Default)]
pub(crate) struct FreePages {
    /// The lengths of the free runs by their offsets, both in bytes.
    free: BTreeMap<u64, u64>,
    /// The free runs as (length, offset), to find a run by its length.
    by_length: BTreeSet<(u64, u64)>,
    /// Free pages that may have no space in the file.
    pub(crate) holes: Ranges,
    /// `quiet` has the pages that the last [watch](FreePages::watch) has noted and that have been free since,
    /// except those that [`next_quiet`](FreePages::next_quiet) has returned or skipped. `watches` is the
    /// number of that watch.
    quiet: Ranges,
    watches: u64,
}

/// Ranges that do not overlap, as lengths by start.
#[derive(Debug, Default)]
pub(crate) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    pub(crate) fn new(ranges: impl IntoIterator<Item = (u64, u64)>) -> Ranges {
        Ranges(ranges.into_iter().collect())
    }

    /// Returns the ranges of at least `least` bytes, in order.
    pub(crate) fn of_at_least(self, least: u64) -> Vec<(u64, u64)> {
        self.0.into_iter().filter(|&(_, len)| len >= least).collect()
    }

    /// Returns whether one of the ranges overlaps the given one.
    pub(crate) fn overlaps(&self, start: u64, len: u64) -> bool {
        self.0.range(..start + len).next_back().is_some_and(|(&at, &have)| at + have > start)
    }

    /// Adds a range, and joins it with the ranges that it touches, so that there are as few as possible.
    pub(crate) fn add(&mut self, start: u64, len: u64) {
        self.remove_range(start, len);
        let (mut start, mut end) = (start, start + len);
        if let Some((&at, _)) = self.0.range(..start).next_back().filter(|&(&at, &have)| at + have == start) {
            self.0.remove(&at);
            start = at;
        }
        if let Some(len) = self.0.remove(&end) {
            end += len;
        }
        self.0.insert(start, end - start);
    }

    /// Returns the bytes of all ranges.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.values().sum()
    }

    /// Removes the parts of ranges that lie within the given range.
    pub(crate) fn remove_range(&mut self, start: u64, len: u64) {
        let end = start + len;
        while let Some((&at, &have)) =
            self.0.range(..end).next_back().filter(|&(&at, &have)| at + have > start)
        {
            self.0.remove(&at);
            if at < start {
                self.0.insert(at, start - at);
            }
            if at + have > end {
                self.0.insert(end, at + have - end);
            }
        }
    }
}

impl FreePages {
    /// Takes `len` bytes from the shortest free run that has them. Of runs of equal length, this takes the
    /// first.
    pub(crate) fn allocate(&mut self, len: u64) -> Option<u64> {
        let (have, start) = *self.by_length.range((len, 0)..).next()?;
        self.remove(start, have);
        self.quiet.remove_range(start, len);
        if have > len {
            self.insert(start + len, have - len);
        }
        Some(start)
    }

    /// Takes `most` bytes, or the longest run if none is as long, but at least `least` bytes. Returns offset
    /// and length.
    pub(crate) fn take_up_to(&mut self, most: u64, least: u64) -> Option<(u64, u64)> {
        if let Some(start) = self.allocate(most) {
            return Some((start, most));
        }
        let (have, start) = *self.by_length.last().filter(|(have, _)| *have >= least)?;
        self.remove(start, have);
        self.quiet.remove_range(start, have);
        Some((start, have))
    }

    /// Takes free pages that have space in the file: from the first run of at least `least` bytes of such
    /// pages, as many as it has, but at most `most` bytes. Returns offset and length. This looks at all holes
    /// and long runs, so it is for a full disk only.
    pub(crate) fn take_solid(&mut self, most: u64, least: u64) -> Option<(u64, u64)> {
        let solid = self.solid(least, u64::MAX);
        let (start, have) = solid.0.into_iter().find(|&(_, len)| len >= least)?;
        let len = have.min(most);
        let (&run, &free) = self.free.range(..=start).next_back().expect("solid pages are free");
        self.remove(run, free);
        self.quiet.remove_range(start, len);
        let (end, end_of_run) = (start + len, run + free);
        [(run, start), (end, end_of_run)].iter().filter(|(from, to)| to > from).for_each(|&(from, to)| {
            self.insert(from, to - from);
        });
        Some((start, len))
    }

    /// Returns the free pages before `end` that are no holes. Runs of fewer than `least` bytes, holes
    /// included, are left out.
    fn solid(&self, least: u64, end: u64) -> Ranges {
        let long = self.by_length.range((least, 0)..);
        let before = long.map(|&(len, start)| (start, len.min(end.saturating_sub(start))));
        let mut solid = Ranges::new(before.filter(|&(_, len)| len >= least));
        self.holes.0.iter().for_each(|(&start, &len)| solid.remove_range(start, len));
        solid
    }

    /// Takes exactly the given run, if all of it is free and the pages next to it are not.
    pub(crate) fn take_at(&mut self, start: u64, len: u64) -> bool {
        let is_free = self.free.get(&start) == Some(&len);
        if is_free {
            self.remove(start, len);
            self.quiet.remove_range(start, len);
            self.holes.remove_range(start, len);
        }
        is_free
    }

    /// Begins to note which free pages stay free: those before `end`, in runs of at least `least` bytes, that
    /// are no holes. Returns the number of this watch for [`next_quiet`](Self::next_quiet), which is valid
    /// until the next call of this function.
    pub(crate) fn watch(&mut self, least: u64, end: u64) -> u64 {
        self.quiet = self.solid(least, end);
        self.watches += 1;
        self.watches
    }

    /// Returns a run of at least `least` bytes, and less than twice as many, that has been free since the
    /// [watch](Self::watch) with this number, if that was the last one. Each page is returned at most once
    /// for a watch.
    pub(crate) fn next_quiet(&mut self, watch: u64, least: u64) -> Option<(u64, u64)> {
        if watch != self.watches {
            return None;
        }
        loop {
            let (start, len) = self.quiet.0.pop_first()?;
            if len >= 2 * least {
                // A long run is handed out in parts, because it would take long to make a hole of all of it
                // at once.
                self.quiet.0.insert(start + least, len - least);
                return Some((start, least));
            }
            if len >= least {
                return Some((start, len));
            }
        }
    }

    /// Counts all free runs of at least `least` bytes as holes: the file may have no space for them.
    pub(crate) fn add_holes(&mut self, least: u64) {
        self.holes = Ranges::new(self.runs().filter(|&(_, len)| len >= least));
    }

    /// Returns all free runs, as offset and length.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.free.iter().map(|(&offset, &len)| (offset, len))
    }

    /// Returns the free runs that begin in a range of offsets, as offset and length.
    pub(crate) fn runs_in(&self, range: std::ops::Range<u64>) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.free.range(range).map(|(&offset, &len)| (offset, len))
    }

    /// Gives a run of pages back, and joins it with the free runs next to it.
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

    /// Returns the free bytes.
    pub(crate) fn total(&self) -> u64 {
        self.free.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_grows_together() {
        let mut pages = FreePages::default();
        pages.give(0, 100);
        let taken: Vec<_> = (0..10).map(|_| pages.allocate(10).unwrap()).collect();
        assert_eq!(pages.allocate(1), None);
        for i in [3, 1, 2, 9, 0, 5, 4, 7, 6, 8] {
            pages.give(taken[i], 10);
        }
        assert_eq!(pages.free, BTreeMap::from([(0, 100)]));
        assert_eq!(pages.by_length, BTreeSet::from([(100, 0)]));
        assert_eq!(pages.total(), 100);
    }

    #[test]
    fn what_was_taken_in_between_is_not_quiet() {
        let mut pages = FreePages::default();
        pages.give(0, 100);
        pages.give(200, 20);
        pages.holes.add(10, 20);
        let watch = pages.watch(30, 1000);
        assert!(pages.take_at(200, 20));
        assert_eq!(pages.allocate(5), Some(0));
        pages.give(0, 5);
        let quiet: Vec<_> = std::iter::from_fn(|| pages.next_quiet(watch, 30)).collect();
        assert_eq!(quiet, [(30, 30), (60, 40)]);
        let older = pages.watch(1, 50);
        let watch = pages.watch(1, 50);
        assert_eq!(pages.next_quiet(older, 1), None);
        let quiet: Vec<_> = std::iter::from_fn(|| pages.next_quiet(watch, 10)).collect();
        assert_eq!(quiet, [(0, 10), (30, 10), (40, 10)]);
        assert!(
            pages.holes.overlaps(29, 10) && !pages.holes.overlaps(30, 70) && !pages.holes.overlaps(0, 10)
        );
        pages.holes.add(25, 20);
        assert_eq!(pages.holes.bytes(), 35);
        pages.holes.remove_range(20, 10);
        assert_eq!(pages.holes.bytes(), 25);
    }

    /// A long free run becomes a hole part by part. Work on all holes, with the tables locked, must not take
    /// time for each part.
    #[test]
    fn holes_that_touch_are_one() {
        let mut pages = FreePages::default();
        pages.give(0, 1000);
        for start in (0..1000).step_by(20).chain((10..1000).step_by(20)) {
            pages.holes.add(start, 10);
        }
        assert_eq!(pages.holes.0, BTreeMap::from([(0, 1000)]));
        pages.holes.remove_range(500, 10);
        pages.holes.add(490, 30);
        assert_eq!(pages.holes.0, BTreeMap::from([(0, 1000)]));
    }

    #[test]
    fn pages_with_space_are_found_between_holes() {
        let mut pages = FreePages::default();
        pages.give(0, 100);
        pages.give(200, 8);
        pages.holes.add(0, 40);
        pages.holes.add(60, 40);
        assert_eq!(pages.take_solid(10, 9), Some((40, 10)));
        assert_eq!(pages.take_solid(20, 9), Some((50, 10)));
        assert_eq!(pages.take_solid(20, 9), None);
        assert_eq!(pages.take_solid(20, 8), Some((200, 8)));
        let runs: Vec<_> = pages.runs().collect();
        assert_eq!(runs, [(0, 40), (60, 40)]);
    }

    #[test]
    fn the_shortest_run_that_fits_is_taken() {
        let mut pages = FreePages::default();
        pages.give(0, 100);
        pages.give(200, 20);
        pages.give(300, 20);
        assert_eq!(
            [pages.allocate(15), pages.allocate(20), pages.allocate(30)],
            [Some(200), Some(300), Some(0)]
        );
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
