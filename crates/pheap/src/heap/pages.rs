//! Which pages are free. Volatile: it comes back from the span tables when a heap is opened.

use std::collections::BTreeMap;

/// Runs of free pages: offset → length, both in bytes.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    free: BTreeMap<u64, u64>,
}

impl Pages {
    /// Takes `len` bytes from the first run that has them.
    pub(crate) fn take(&mut self, len: u64) -> Option<u64> {
        let (&start, &have) = self.free.iter().find(|&(_, &have)| have >= len)?;
        self.free.remove(&start);
        if have > len {
            self.free.insert(start + len, have - len);
        }
        Some(start)
    }

    /// Gives a run back.
    pub(crate) fn give(&mut self, start: u64, len: u64) {
        let (mut start, mut len) = (start, len);
        if let Some((&before, &have)) = self.free.range(..start).next_back() {
            debug_assert!(before + have <= start, "pages at {start} are freed twice");
            if before + have == start {
                (start, len) = (before, have + len);
            }
        }
        if let Some(have) = self.free.remove(&(start + len)) {
            len += have;
        }
        self.free.insert(start, len);
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
        assert_eq!(pages.total(), 100);
    }
}
