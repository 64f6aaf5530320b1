//! Entries of the log of a region, and ranges of words, of which those of the write-ahead log consist, too: how they are put together, and read.

#![allow(unsafe_code)]
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "each block is about one entry, which is written word by word"
)]

use crate::faults;
use crate::os::cpu::{self, copy_words};
use crate::units::{LINE, LINE_WORDS};

/// What the entries of a log mean. A generation holds one kind only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// New bytes of a committed transaction.
    Redo,
    /// Old bytes of an open one.
    Undo,
}

/// In word 1 of a part of a record: its last two words are the [name](name) of another part.
const PART: u64 = 1 << 34;

/// Which entry it is: of which region's log, in which generation, and its number in that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EntryId {
    pub(crate) region: u32,
    pub(crate) number: u32,
    pub(crate) generation: u64,
}

/// Ranges are counted in 24 bits.
const MAX_RANGE: usize = (1 << 24) - 1;

/// The originals of so many copies are on their way while one is compared: of a large set not all are still at hand.
const AHEAD: usize = 12;

/// An entry under construction.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    pub(crate) words: Vec<u64>,
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
    #[track_caller]
    pub(crate) unsafe fn add(&mut self, offset: u64, src: *const u64, words: usize) {
        if faults::is_left_out(faults::Kind::LogEntry) {
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

    /// Adds the words that differ between `copies` (address of the original, copy, number of words) and their originals, in the heap that begins at address
    /// `base`. `room` is the number of copies and of words in all of them; if they are `large`, not all of the originals are in the cache.
    ///
    /// # Safety
    /// Copies and originals are valid for reads of so many words, with definite bytes; nobody writes the originals meanwhile; `room` is not too small.
    #[inline(always)]
    #[track_caller]
    pub(crate) unsafe fn add_changes(
        &mut self,
        copies: impl Iterator<Item = (usize, *mut u64, usize)> + Clone,
        room: usize,
        large: bool,
        base: usize,
    ) {
        // A copy takes a word more than it has, at most: each range but the first has more words before it that are in none than a head takes. Room for
        // all, so that the loop need not look.
        self.words.reserve(room + LINE_WORDS);
        // SAFETY: there is room; copies and originals are valid for reads of so many words, and nobody writes the originals: the caller's premises.
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

    /// Makes the entry a part of a record, which has others in other logs. It has its full length from here on, so that room can be made for it.
    pub(crate) fn make_part(&mut self) {
        self.words[1] |= PART;
        self.words.extend_from_slice(&[0; 2]);
    }

    /// Names the next part of the record in this one.
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

    /// The entry with its length, and zeros up to a whole number of lines: all but its checksum.
    #[inline]
    pub(crate) fn seal(&mut self) -> &mut [u64] {
        self.note_length();
        self.words.reserve(LINE_WORDS);
        let len = self.words.len();
        // SAFETY: there is room for a line more, which is as much as is missing at most.
        unsafe {
            let start = self.words.as_mut_ptr();
            start.add(len).cast::<[u64; LINE_WORDS]>().write([0; LINE_WORDS]);
            std::slice::from_raw_parts_mut(start, len.next_multiple_of(LINE_WORDS))
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

/// So many words that did not change, between two that did, are written with them: another range would take a head, and time at every step after this.
const GAP: usize = 3;
// So many are looked at together below.
const _: () = assert!(GAP == 3);

/// Writes the ranges of words that differ, with their heads, to `out`, and says where they end.
///
/// With branches, so that a processor that guesses them right (most programs do the same again and again) need not wait for values that have just
/// been computed. Without loads of more than a word, which cannot be served from stores of words that are still on their way.
///
/// # Safety
/// Both are valid for reads of `words` words, all of them with definite bytes. `out` has room for a word more.
#[inline(never)] // its caller has too many values to keep as it is
unsafe fn stage_changes(
    mut out: *mut u64,
    offset: u64,
    new: *const u64,
    old: *const u64,
    words: usize,
) -> *mut u64 {
    // SAFETY: what is looked at is before `words` in both; `out` has room for a word more than they are: the caller's premises.
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
            // Up to the last of the next four that differs, as long as there is one. Each case on its own, so that it is straight code.
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
    let name = if is_part(entry) { 2 } else { 0 };
    Ranges { rest: entry.get(2..entry.len() - name).unwrap_or(&[]) }
}

#[inline]
fn is_part(entry: &[u64]) -> bool {
    entry.get(1).is_some_and(|word| word & PART != 0)
}

/// The part of the same record that an entry names, if it is a part.
pub(crate) fn next_part(entry: &[u64]) -> Option<EntryId> {
    let &[.., place, generation] = entry else { return None };
    is_part(entry).then_some(EntryId { region: place as u32, number: (place >> 32) as u32, generation })
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
        fn what_is_staged_turns_the_old_words_into_the_new_ones(
            old in prop::collection::vec(0u64..3, 1..200),
            changes in prop::collection::vec((any::<prop::sample::Index>(), 0u64..3), 0..80),
        ) {
            let mut new = old.clone();
            changes.iter().for_each(|(at, value)| new[at.index(old.len())] = *value);
            let mut staged = Staged::default();
            staged.begin(Kind::Redo);
            staged.words.reserve_exact(old.len() + 1);
            // SAFETY: both have so many words, and there is room.
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
                prop_assert!(new[words.start] != old[words.start] && new[words.end - 1] != old[words.end - 1]);
                prop_assert!(last.is_none_or(|last| last + GAP < words.start));
                let same = |i: &usize| new[*i] == old[*i];
                prop_assert!(words.clone().collect::<Vec<_>>().split(|i| !same(i)).all(|gap| gap.len() <= GAP));
                last = Some(words.end);
                applied[words].copy_from_slice(range.words);
            }
            prop_assert_eq!(&applied, &new);
        }
    }
}
