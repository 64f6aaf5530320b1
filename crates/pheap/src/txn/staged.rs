//! Entries of a log: how they are put together, and how they are read.

#[cfg(feature = "sim")]
use std::panic::Location;

use super::log::Kind;
#[cfg(feature = "sim")]
use crate::media::sim::mutant;
use crate::media::{LINE, LINE_WORDS, copy_words};

/// Ranges are counted in 24 bits.
const MAX_RANGE: usize = (1 << 24) - 1;

/// An entry under construction.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    pub(super) words: Vec<u64>,
}

impl Staged {
    /// Begins an entry.
    #[inline]
    pub(crate) fn begin(&mut self, kind: Kind) {
        self.words.clear();
        self.words.extend_from_slice(&[0, if kind == Kind::Undo { 1 << 32 } else { 0 }]);
    }

    /// Whether no range was added.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.words.len() <= 2
    }

    /// Length in bytes, on the medium.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        (self.words.len() * 8).next_multiple_of(LINE) as u64
    }

    /// Adds a range that goes to heap offset `offset`.
    ///
    /// # Safety
    /// `src` is valid for reads of `words` words, all of them with definite bytes.
    #[inline]
    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) unsafe fn add(&mut self, offset: u64, src: *const u64, words: usize) {
        #[cfg(feature = "sim")]
        if mutant::is_dropped(mutant::Kind::LogEntry, Location::caller()) {
            return;
        }
        let mut done = 0;
        while done < words {
            let n = (words - done).min(MAX_RANGE);
            self.words.reserve(n + 1 + LINE_WORDS);
            // SAFETY: there is room for the header and `n` words, which the caller has promised to be readable.
            unsafe {
                let end = self.words.as_mut_ptr().add(self.words.len());
                end.write(head(offset + done as u64 * 8, n));
                copy_words(end.add(1), src.add(done), n);
                self.words.set_len(self.words.len() + n + 1);
            }
            done += n;
        }
    }

    /// Adds the words of `new` that differ from `old`, which is at heap offset `offset`.
    ///
    /// # Safety
    /// Both are valid for reads of `words` words, all of them with definite bytes.
    #[inline]
    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) unsafe fn add_changes(
        &mut self,
        offset: u64,
        new: *const u64,
        old: *const u64,
        words: usize,
        way: Compare,
    ) {
        #[cfg(feature = "sim")]
        if mutant::is_dropped(mutant::Kind::LogEntry, Location::caller()) {
            return;
        }
        // At worst every third word begins a range. Room for all, so that the loop need not look.
        self.words.reserve(words + words / 2 + 2 + LINE_WORDS);
        // SAFETY: there is room; the caller has promised the rest.
        unsafe {
            let start = self.words.as_mut_ptr();
            let end = start.add(self.words.len());
            let end = if way == Compare::WordByWord || words < MANY {
                stage_changes_of_few(end, offset, new, old, words)
            } else {
                stage_changes(end, offset, new, old, words)
            };
            self.words.set_len(end.offset_from_unsigned(start));
        }
    }

    /// Words of all ranges, with their heads.
    pub(crate) fn range_words(&self) -> usize {
        self.words.len() - 2
    }

    /// The ranges of the entry.
    #[inline]
    pub(crate) fn ranges(&self) -> Ranges<'_> {
        ranges(&self.words)
    }
}

/// How to find the words that differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compare {
    /// With a branch for each: where a program does the same again and again they are well predicted.
    WordByWord,
    /// Without, where there are many: for copies of which any word may differ.
    InBlocks,
}

/// So many words make a difference to that.
const MANY: usize = 8;

/// Writes the ranges of words that differ, with their heads, to `out`, and says where they end.
///
/// # Safety
/// Both are valid for reads of `words` words, all of them with definite bytes. `out` has room: at worst every third word begins a range.
#[inline(always)]
unsafe fn stage_changes_of_few(
    mut out: *mut u64,
    offset: u64,
    new: *const u64,
    old: *const u64,
    words: usize,
) -> *mut u64 {
    // SAFETY: `i < words` in both; for `out` by the caller's promise.
    unsafe {
        let differs = |i: usize| new.add(i).read() != old.add(i).read();
        let mut i = 0;
        while i < words {
            if !differs(i) {
                i += 1;
                continue;
            }
            let (first, at) = (i, out);
            // A word that did not change, between two that did, is shorter than the head of another range.
            while i < words && (differs(i) || (i + 1 < words && differs(i + 1))) {
                out = out.add(1);
                out.write(new.add(i).read());
                i += 1;
            }
            at.write(head(offset + first as u64 * 8, i - first));
            out = out.add(1);
        }
    }
    out
}

/// The same for many words. A range ends after each 64 of them.
///
/// # Safety
/// As for `stage_changes_of_few`.
#[inline(never)]
unsafe fn stage_changes(
    mut out: *mut u64,
    offset: u64,
    new: *const u64,
    old: *const u64,
    words: usize,
) -> *mut u64 {
    let mut done = 0;
    while done < words {
        let n = (words - done).min(64);
        // SAFETY: `done + n <= words`; for `out` by the caller's promise.
        unsafe {
            let (new, offset) = (new.add(done), offset + done as u64 * 8);
            let mut changed = differences(new, old.add(done), n);
            changed |= (changed << 1) & (changed >> 1);
            while changed != 0 {
                let first = changed.trailing_zeros() as usize;
                let run = (changed >> first).trailing_ones() as usize;
                out.write(head(offset + first as u64 * 8, run));
                for i in 0..run {
                    out.add(1 + i).write(new.add(first + i).read());
                }
                out = out.add(1 + run);
                // The carry clears the run.
                changed &= changed.wrapping_add(1 << first);
            }
        }
        done += n;
    }
    out
}

/// Which of up to 64 words differ, as bits.
///
/// # Safety
/// Both are valid for reads of `n` words with definite bytes.
#[inline(always)]
unsafe fn differences(new: *const u64, old: *const u64, n: usize) -> u64 {
    // SAFETY: `i < n` in both, by the callers below.
    let differs = |i: usize| unsafe { u64::from(new.add(i).read() != old.add(i).read()) };
    let (mut bits, mut done) = (0, 0);
    while done + 8 <= n {
        bits |= (0..8).fold(0, |bits, i| bits | differs(done + i) << i) << done;
        done += 8;
    }
    (done..n).fold(bits, |bits, i| bits | differs(i) << i)
}

/// A range of an entry: where it goes, and its words.
pub(crate) struct Range<'a> {
    pub(crate) offset: u64,
    pub(crate) words: &'a [u64],
}

impl Range<'_> {
    /// Offset of what is behind it.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.words.len() as u64 * 8
    }
}

/// The word before the words of a range.
#[inline(always)]
pub(crate) fn head(offset: u64, words: usize) -> u64 {
    debug_assert!(offset.is_multiple_of(8) && offset < 1 << 43 && words <= MAX_RANGE);
    (offset / 8) | ((words as u64) << 40)
}

/// The ranges of an entry.
#[inline]
pub(crate) fn ranges(entry: &[u64]) -> Ranges<'_> {
    Ranges { rest: entry.get(2..).unwrap_or(&[]) }
}

/// Iterator over the ranges of an entry.
pub(crate) struct Ranges<'a> {
    rest: &'a [u64],
}

impl<'a> Iterator for Ranges<'a> {
    type Item = Range<'a>;

    #[inline]
    fn next(&mut self) -> Option<Range<'a>> {
        let (&head, rest) = self.rest.split_first()?;
        let (words, rest) = rest.split_at(((head >> 40) as usize).min(rest.len()));
        self.rest = rest;
        Some(Range { offset: (head & ((1 << 40) - 1)) * 8, words })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn both_ways_to_compare_find_the_same(
            old in prop::collection::vec(0u64..3, 1..200),
            changes in prop::collection::vec((any::<prop::sample::Index>(), 0u64..3), 0..80),
        ) {
            let mut new = old.clone();
            changes.iter().for_each(|(at, value)| new[at.index(old.len())] = *value);
            for way in [Compare::WordByWord, Compare::InBlocks] {
                let mut staged = Staged::default();
                staged.begin(Kind::Redo);
                // SAFETY: both have so many words.
                unsafe { staged.add_changes(4096, new.as_ptr(), old.as_ptr(), old.len(), way) };
                let mut applied = old.clone();
                for range in staged.ranges() {
                    let first = (range.offset as usize - 4096) / 8;
                    let words = first..first + range.words.len();
                    prop_assert!(new[words.start] != old[words.start] && new[words.end - 1] != old[words.end - 1]
                        || words.start % 64 == 0 || words.end % 64 == 0);
                    applied[words].copy_from_slice(range.words);
                }
                prop_assert_eq!(&applied, &new);
                let changed = (0..old.len()).filter(|&i| new[i] != old[i]).count();
                prop_assert!(staged.range_words() <= 2 * changed + changed.min(1));
            }
        }
    }
}
