//! The set of pages of a heap that the records of a log store to.

use crate::units::PAGE;

/// Number of pages in a group. A group covers 16 MiB of the heap.
const GROUP: u64 = 1 << 12;
/// Number of bits in a word of a group.
const BITS: u64 = u64::BITS as u64;
/// No heap has a page with this number or a larger one.
const END: u64 = (1 << 43) / PAGE;

type PageGroup = [u64; (GROUP / BITS) as usize];

/// A set of pages: one bit for each page, in groups that are allocated when they get their first page.
#[derive(Default)]
pub(crate) struct PageSet {
    /// The groups, by number. `None` for a group without pages.
    groups: Vec<Option<Box<PageGroup>>>,
    /// Number of pages in the set.
    len: u64,
}

impl std::fmt::Debug for PageSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageSet").field("len", &self.len).finish_non_exhaustive()
    }
}

impl PageSet {
    /// Adds the pages that have bytes from `start` to `end`. Pages behind the largest possible heap are
    /// ignored.
    pub(crate) fn insert(&mut self, start: u64, end: u64) {
        for page in start / PAGE..end.div_ceil(PAGE).min(END) {
            let group = (page / GROUP) as usize;
            if group >= self.groups.len() {
                self.groups.resize_with(group + 1, || None);
            }
            let group = self.groups[group].get_or_insert_with(|| Box::new([0; _]));
            let word = &mut group[(page % GROUP / BITS) as usize];
            let bit = 1 << (page % BITS);
            self.len += u64::from(*word & bit == 0);
            *word |= bit;
        }
    }

    /// Returns the bytes of all pages together.
    pub(crate) fn bytes(&self) -> u64 {
        self.len * PAGE
    }

    /// Returns the pages before the byte `end`, in order, as runs (offset, bytes) of at most `most` bytes.
    /// `most` is at least one page.
    pub(crate) fn runs(&self, end: u64, most: u64) -> impl Iterator<Item = (u64, u64)> {
        let mut pages = self.pages().take_while(move |page| page * PAGE < end).peekable();
        std::iter::from_fn(move || {
            let first = pages.next()?;
            let mut next = first + 1;
            while next - first < most / PAGE && pages.next_if_eq(&next).is_some() {
                next += 1;
            }
            Some((first * PAGE, (next - first) * PAGE))
        })
    }

    /// Returns the numbers of the pages, in order.
    fn pages(&self) -> impl Iterator<Item = u64> {
        let groups = (0..).step_by(GROUP as usize).zip(&self.groups);
        let words = groups.flat_map(|(first, group)| {
            let words = group.iter().flat_map(|group| group.iter().copied());
            (first..).step_by(BITS as usize).zip(words)
        });
        words.flat_map(|(first, word)| {
            (0..BITS).filter(move |bit| word >> bit & 1 == 1).map(move |bit| first + bit)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_once_and_come_in_runs() {
        let mut pages = PageSet::default();
        let last = 3 * GROUP * PAGE;
        for (start, end) in
            [(0, 1), (PAGE - 8, PAGE + 8), (8, 16), (last - PAGE, last + 1), (9 * PAGE, 9 * PAGE)]
        {
            pages.insert(start, end);
        }
        assert_eq!(pages.bytes(), 4 * PAGE);
        let all = vec![(0, 2 * PAGE), (last - PAGE, 2 * PAGE)];
        assert_eq!(pages.runs(u64::MAX, 1 << 20).collect::<Vec<_>>(), all);
        assert_eq!(
            pages.runs(last, PAGE).collect::<Vec<_>>(),
            [(0, PAGE), (PAGE, PAGE), (last - PAGE, PAGE)]
        );
        pages.insert(u64::MAX - 8, u64::MAX);
        assert_eq!(pages.bytes(), 4 * PAGE, "no heap has such a page");
    }
}
