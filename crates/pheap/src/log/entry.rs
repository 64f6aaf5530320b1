//! Entries of the log of a region, and the ranges of words that they and the records of the write-ahead log
//! consist of.

#![allow(unsafe_code)]
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "each block is about one entry, which is written word by word"
)]

use crate::faults;
use crate::os::cpu::{self, copy_words};
use crate::units::{LINE, LINE_WORDS};

/// The meaning of an entry. A generation of a region's log has entries of one kind only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// New words of a committed transaction.
    Redo,
    /// Old words of an open transaction.
    Undo,
}

/// A flag in word 1 of an entry that is a part of a record: its last two words are the [name](EntryId) of
/// another part.
const PART: u64 = 1 << 34;

/// The name of an entry: the region of its log, its number in the generation, and the generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EntryId {
    pub(crate) region: u32,
    pub(crate) number: u32,
    pub(crate) generation: u64,
}

/// Largest number of words of a range. The head of the range counts them in 24 bits.
const MAX_RANGE: usize = (1 << 24) - 1;

/// While a copy of a large write set is compared with its original, the original of the copy that comes this
/// many copies later is prefetched, because the originals of a large set may not be in the cache.
const AHEAD: usize = 12;

/// An entry under construction.
#[derive(Debug, Default)]
pub(crate) struct StagedEntry {
    pub(crate) words: Vec<u64>,
}

impl StagedEntry {
    /// Begins an entry.
    #[inline]
    pub(crate) fn begin_entry(&mut self, kind: EntryKind) {
        self.words.clear();
        self.words.extend_from_slice(&[0, if kind == EntryKind::Undo { 1 << 32 } else { 0 }]);
    }

    /// Returns whether the entry has no range. After [`make_part`](Self::make_part) the answer is always
    /// `false`.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.words.len() <= 2
    }

    /// Returns the length in bytes that the entry has on the medium, in whole lines.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        (self.words.len() * 8).next_multiple_of(LINE) as u64
    }

    /// Adds a range with the words for the offset `offset` of the heap; several ranges if there are more
    /// words than a range can have.
    ///
    /// # Safety
    /// `src` is valid for reads of `words` words, whose bytes are all definite.
    #[inline]
    #[track_caller]
    pub(crate) unsafe fn add(&mut self, offset: u64, src: *const u64, words: usize) {
        if faults::is_left_out(faults::Kind::LogEntry) {
            return;
        }
        let mut done = 0;
        while done < words {
            let n = (words - done).min(MAX_RANGE);
            self.words.reserve(n + 1 + LINE_WORDS);
            // SAFETY: `reserve` has made room for a head and `n` words, which is memory of this entry alone.
            // `n` words from `src + done` on lie within the `words` that the caller has promised to be
            // readable and definite.
            unsafe {
                let end = self.words.as_mut_ptr().add(self.words.len());
                end.write(head(offset + done as u64 * 8, n));
                copy_words(end.add(1), src.add(done), n);
                self.words.set_len(self.words.len() + n + 1);
            }
            done += n;
        }
    }

    /// Adds the words that differ between copies and their originals, in the heap at address `base`, and
    /// [short](GAP) runs of equal words between them. `copies` gives the address of the original, the copy,
    /// and the number of words. `room` is the number of copies plus the number of words in all of them. If
    /// the set of copies is `large`, the originals are prefetched, except those of the first [`AHEAD`]
    /// copies.
    ///
    /// # Safety
    /// Each copy and each original is valid for reads of the stated number of words, whose bytes are all
    /// definite. No thread writes to the originals during the call. `room` is not too small.
    #[inline(always)]
    #[track_caller]
    pub(crate) unsafe fn add_changes(
        &mut self,
        copies: impl Iterator<Item = (usize, *mut u64, usize)> + Clone,
        room: usize,
        large: bool,
        base: usize,
    ) {
        // The ranges of a copy, with their heads, take at most one word more than the copy has: before each
        // range except the first lie unchanged words, more of them than a head takes. The room for all copies
        // is reserved at once, so that the loop need not check it.
        self.words.reserve(room + LINE_WORDS);
        // SAFETY: `reserve` has made room for all copies, as just explained, because `room` is not too small.
        // By the caller's promise, copies and originals are readable and definite, and no thread writes to
        // the originals.
        unsafe {
            let mut end = self.words.as_mut_ptr().add(self.words.len());
            let mut ahead = copies.clone().skip(AHEAD);
            for (addr, copy, words) in copies {
                if faults::is_left_out(faults::Kind::LogEntry) {
                    continue;
                }
                let (offset, original) = ((addr - base) as u64, std::ptr::with_exposed_provenance(addr));
                if large && let Some((addr, ..)) = ahead.next() {
                    cpu::prefetch_write(std::ptr::without_provenance(addr));
                }
                end = stage_changes(end, offset, copy, original, words);
            }
            self.words.set_len(end.offset_from_unsigned(self.words.as_ptr()));
        }
    }

    /// Makes the entry a part of a record that has other parts in other logs. From here on the entry has its
    /// full length, so that the log can make room for it.
    pub(crate) fn make_part(&mut self) {
        self.words[1] |= PART;
        self.words.extend_from_slice(&[0; 2]);
    }

    /// Writes the name of another part of the record, `next`, into this part.
    pub(crate) fn name(&mut self, next: EntryId) {
        let EntryId { region, number, generation } = next;
        let at = self.words.len() - 2;
        self.words[at..].copy_from_slice(&[u64::from(number) << 32 | u64::from(region), generation]);
    }

    /// Writes the entry's length into it.
    #[inline]
    pub(crate) fn note_length(&mut self) {
        self.words[1] |= self.words.len() as u64;
    }

    /// Completes the entry, except for its checksum: adds its length, and zeros up to a whole number of
    /// lines.
    #[inline]
    pub(crate) fn seal(&mut self) -> &mut [u64] {
        self.note_length();
        self.words.reserve(LINE_WORDS);
        let len = self.words.len();
        // SAFETY: `reserve` has made room for one more line, and rounding up to whole lines adds less than
        // that.
        unsafe {
            let start = self.words.as_mut_ptr();
            start.add(len).cast::<[u64; LINE_WORDS]>().write([0; LINE_WORDS]);
            std::slice::from_raw_parts_mut(start, len.next_multiple_of(LINE_WORDS))
        }
    }

    /// Returns the number of words of all ranges, with their heads. The entry is not a part of a record.
    pub(crate) fn range_words(&self) -> usize {
        self.words.len() - 2
    }

    /// Returns the ranges of the entry.
    #[inline]
    pub(crate) fn ranges(&self) -> EntryRanges<'_> {
        ranges(&self.words)
    }
}

/// Up to this many unchanged words between two changed words are recorded with them, in one range. A second
/// range would need a head, and take time in each later step.
const GAP: usize = 3;
// `stage_changes` looks at `GAP` words and one more at once.
const _: () = assert!(GAP == 3);

/// Writes the ranges of words of `new` that differ from `old`, with their heads, to `out`, and returns the
/// address behind them.
///
/// The code has branches, which a processor mostly predicts right, because programs repeat themselves. So it
/// need not wait for values that were just computed. It has no loads of more than a word, because these
/// cannot be forwarded from stores of words that are still in the store buffer.
///
/// # Safety
/// `new` and `old` are valid for reads of `words` words, whose bytes are all definite. `out` is valid for
/// writes of `words + 1` words.
#[inline(never)] // if this were inlined, it would need more registers than its caller has left
unsafe fn stage_changes(
    mut out: *mut u64,
    offset: u64,
    new: *const u64,
    old: *const u64,
    words: usize,
) -> *mut u64 {
    // SAFETY: all indices into `new` and `old` are below `words`. `out` has room for `words + 1` words, by
    // the caller's promise; that is enough, because each range except the first has more than `GAP` unwritten
    // words before it.
    unsafe {
        let differs = |i: usize| new.add(i).read() != old.add(i).read();
        let copy = |out: *mut u64, i: usize, n: usize| {
            (0..n).for_each(|j| out.add(j).write(new.add(i + j).read()));
            (out.add(n), i + n)
        };
        let mut i = 0;
        loop {
            while i + 4 <= words && !(differs(i) || differs(i + 1) || differs(i + 2) || differs(i + 3)) {
                i += 4;
            }
            while i < words && !differs(i) {
                i += 1;
            }
            if i >= words {
                return out;
            }
            let (first, at) = (i, out);
            out = out.add(1);
            // While one of the next four words has changed, copies up to the last changed one of them. The
            // cases are separate, so that each is straight-line code.
            'range: {
                while i + GAP < words {
                    (out, i) = if differs(i + 3) {
                        copy(out, i, 4)
                    } else if differs(i + 2) {
                        copy(out, i, 3)
                    } else if differs(i + 1) {
                        copy(out, i, 2)
                    } else if differs(i) {
                        copy(out, i, 1)
                    } else {
                        break 'range;
                    };
                }
                let left = words - i;
                if left > 2 && differs(i + 2) {
                    (out, i) = copy(out, i, 3);
                } else if left > 1 && differs(i + 1) {
                    (out, i) = copy(out, i, 2);
                } else if left > 0 && differs(i) {
                    (out, i) = copy(out, i, 1);
                }
            }
            at.write(head(offset + first as u64 * 8, i - first));
            i += GAP + 1;
        }
    }
}

/// A range of an entry: its offset in the heap, and its words.
pub(crate) struct Range<'a> {
    pub(crate) offset: u64,
    pub(crate) words: &'a [u64],
}

impl Range<'_> {
    /// Returns the offset behind the range.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.words.len() as u64 * 8
    }
}

/// Returns the head of a range: the word before the range's words, which has its offset and length.
#[inline(always)]
pub(crate) fn head(offset: u64, words: usize) -> u64 {
    debug_assert!(offset.is_multiple_of(8) && offset < 1 << 43 && words <= MAX_RANGE);
    (offset / 8) | ((words as u64) << 40)
}

/// Returns the ranges of an entry.
#[inline]
pub(crate) fn ranges(entry: &[u64]) -> EntryRanges<'_> {
    let name = if is_part(entry) { 2 } else { 0 };
    EntryRanges { rest: entry.get(2..entry.len() - name).unwrap_or(&[]) }
}

#[inline]
fn is_part(entry: &[u64]) -> bool {
    entry.get(1).is_some_and(|word| word & PART != 0)
}

/// If an entry is a part of a record, returns the name of the other part that the entry names.
pub(crate) fn next_part(entry: &[u64]) -> Option<EntryId> {
    let &[.., place, generation] = entry else { return None };
    is_part(entry).then_some(EntryId { region: place as u32, number: (place >> 32) as u32, generation })
}

/// Iterator over the ranges of an entry.
pub(crate) struct EntryRanges<'a> {
    rest: &'a [u64],
}

impl<'a> Iterator for EntryRanges<'a> {
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
        fn what_is_staged_turns_the_old_words_into_the_new_ones(
            old in prop::collection::vec(0u64..3, 1..200),
            changes in prop::collection::vec((any::<prop::sample::Index>(), 0u64..3), 0..80),
        ) {
            let mut new = old.clone();
            changes.iter().for_each(|(at, value)| new[at.index(old.len())] = *value);
            let mut staged = StagedEntry::default();
            staged.begin_entry(EntryKind::Redo);
            staged.words.reserve_exact(old.len() + 1);
            // SAFETY: `new` and `old` have `old.len()` words, and there is room for one more than that behind
            // word 2.
            unsafe {
                let start = staged.words.as_mut_ptr();
                let end = stage_changes(start.add(2), 4096, new.as_ptr(), old.as_ptr(), old.len());
                staged.words.set_len(end.offset_from_unsigned(start));
            }
            prop_assert!(staged.words.len() <= staged.words.capacity());
            let mut applied = old.clone();
            let mut last = None;
            for range in staged.ranges() {
                let first = (range.offset as usize - 4096) / 8;
                let words = first..first + range.words.len();
                prop_assert!(
                    new[words.start] != old[words.start] && new[words.end - 1] != old[words.end - 1]
                );
                prop_assert!(last.is_none_or(|last| last + GAP < words.start));
                let same = |i: &usize| new[*i] == old[*i];
                prop_assert!(
                    words.clone().collect::<Vec<_>>().split(|i| !same(i)).all(|gap| gap.len() <= GAP)
                );
                last = Some(words.end);
                applied[words].copy_from_slice(range.words);
            }
            prop_assert_eq!(&applied, &new);
        }
    }
}
