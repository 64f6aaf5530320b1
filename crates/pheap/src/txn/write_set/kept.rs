//! Copies that outlive their transaction, for the next one.
//!
//! Programs write the same few objects again and again: counters, heads of lists, the state of a simulation. Their copies are as good as new ones, and what is in them
//! was stored before the last fence. A new copy would be of what was stored behind it just now: loads of a copy that was made in other pieces than it is read in wait
//! until these stores have left the processor's store queue, hence for the whole fence.

use super::{Entry, UNINDEXED, WriteSet};
use crate::media::{Bug, bug};

impl WriteSet {
    /// Forgets all copies, like [`clear`](Self::clear), but the next transaction may use them again. They have been written to their originals, which must not change
    /// without the set until it is cleared, or the end of the next transaction.
    ///
    /// References to the copies must be gone.
    #[inline(always)]
    pub(crate) fn keep(&mut self) {
        // A set that has grown may give back the memory in which the entries are.
        let kept = if self.grown { 0 } else { self.entries.len().min(UNINDEXED) };
        self.clear();
        self.kept = kept;
    }

    /// Whether this entry, which is about to be the next one, is as it was in the transaction before, and so is its copy.
    #[inline(always)]
    pub(super) fn is_kept(&self, entry: Entry) -> bool {
        let number = self.entries.len();
        if number >= self.kept {
            return false;
        }
        // SAFETY: the transaction before had an entry there, and the memory has not been given back.
        let last = unsafe { *self.entries.as_ptr().add(number) };
        // What this transaction has taken from the buffer so far lies before the copy, or in other pieces; nothing is taken twice.
        let is_kept = (last.addr, last.copy, last.len) == (entry.addr, entry.copy, entry.len);
        debug_assert!(!is_kept || bug(Bug::KeepStaleCopies) || entry.is_as_original());
        is_kept
    }
}

impl Entry {
    /// Whether the copy holds the same words as its original.
    fn is_as_original(&self) -> bool {
        let original = std::ptr::with_exposed_provenance::<u64>(self.addr);
        let copy = self.copy.cast::<u64>();
        // SAFETY: both are of so many words, with definite bytes since they were compared at the commit.
        (0..self.len / 8).all(|i| unsafe { copy.add(i).read() == original.add(i).read() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::MAX_ENTRIES;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_what_is_in_its_place_is_kept() {
        let words = vec![0u64; 200];
        let addr = words.as_ptr().expose_provenance();
        // Takes ranges (first word, words) into the set, and says which of them were kept.
        let take = |set: &mut WriteSet, ranges: &[(usize, usize)]| -> Vec<bool> {
            let entries = ranges.iter().map(|&(at, len)| {
                let copy = set.buffer.take(len * 8, 8).unwrap();
                let entry = Entry { addr: addr + at * 8, copy, len: len * 8 };
                let is_kept = set.is_kept(entry);
                // SAFETY: just taken.
                unsafe { copy.write_bytes(0, len * 8) };
                set.add(entry);
                is_kept
            });
            entries.collect()
        };
        let (a, b) = ((0, 8), (8, 8));
        // A transaction, the next one, and what is kept from one to the other.
        let cases: [(&[_], &[_], &[_]); 7] = [
            (&[a, b], &[a, b], &[true, true]),
            (&[a, b], &[a], &[true]),
            (&[a], &[a, b], &[true, false]),
            (&[a, b], &[b, a], &[false, false]),
            (&[a, b], &[a, (16, 8)], &[true, false]),
            (&[a, b], &[(0, 16)], &[false]),
            // The second one would be in its place if the first were as long as it was.
            (&[a, b], &[(100, 7), b], &[false, false]),
        ];
        for (first, second, expected) in cases {
            let mut set = WriteSet::new(MAX_ENTRIES);
            take(&mut set, first);
            set.keep();
            assert_eq!(take(&mut set, second), expected, "{first:?}, then {second:?}");
            set.clear();
            assert!(take(&mut set, second).iter().all(|is_kept| !is_kept), "after a rollback");
        }
    }

    proptest! {
        #[test]
        fn copies_are_as_their_originals(
            transactions in prop::collection::vec(
                (prop::collection::vec((0usize..6, 1usize..4, any::<bool>()), 0..6), any::<bool>()),
                1..40,
            ),
        ) {
            let mut words = vec![0u64; 64];
            let mut set = WriteSet::new(MAX_ENTRIES);
            let mut value = 0;
            for (ranges, is_committed) in transactions {
                let addr = words.as_mut_ptr().expose_provenance();
                for (at, len, is_written) in ranges {
                    let place = addr + at * 32;
                    // SAFETY: `words` and copies of so many words are there.
                    unsafe {
                        let Some(copy) = set.insert_new(place, len * 32) else { continue };
                        for i in 0..len * 4 {
                            prop_assert_eq!(copy.add(i).read(), words[at * 4 + i]);
                            value += 1;
                            if is_written {
                                copy.add(i).write(value);
                            }
                        }
                    }
                }
                if is_committed {
                    for (at, copy, len) in set.copies() {
                        // SAFETY: a copy of so many words.
                        (0..len).for_each(|i| words[(at - addr) / 8 + i] = unsafe { copy.add(i).read() });
                    }
                    set.keep();
                } else {
                    set.clear();
                    words.fill(value); // in place, perhaps
                }
            }
        }
    }

    impl WriteSet {
        /// Inserts a range of which the set has nothing yet.
        unsafe fn insert_new(&mut self, addr: usize, len: usize) -> Option<*mut u64> {
            let is_new = matches!(self.find(addr, len), super::super::Find::Nothing);
            // SAFETY: by the caller's promise.
            if is_new { unsafe { self.insert(addr, len, 8, None) }.map(<*mut u8>::cast) } else { None }
        }
    }
}
