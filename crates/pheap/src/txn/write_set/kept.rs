//! Copies that outlive their transaction, for the next one.
//!
//! Programs write the same objects again and again: counters, heads of lists, the state of a simulation. The copies that a transaction has committed are as good as new
//! ones, and what is in them was stored before the last fence. A new copy would be of what was just stored behind it; and a load that takes more than one of these
//! stores has written waits until they have left the processor's store queue, hence for the whole fence.

#![allow(unsafe_code)]

use super::{Entry, WriteSet};
use crate::faults::{Bug, bug};

impl WriteSet {
    /// Forgets all copies, like [`clear`](Self::clear), but the next transaction may use them again. They have been written to their originals.
    ///
    /// From now on originals must change through this set only, as long as they are live, and each transaction that takes memory for new objects must end in a `keep` or a
    /// `clear`: what is new is written in place, perhaps where an original was that is dead by now. It is not taken into the set in that transaction.
    ///
    /// References to the copies must be gone.
    #[inline(always)]
    pub(crate) fn keep(&mut self) {
        let kept = self.entries.len();
        self.clear();
        self.kept = kept;
    }

    /// Whether this entry, which is about to be the next one, is as it was in the transaction before, and so is its copy.
    #[inline(always)]
    pub(super) fn is_kept(&mut self, entry: Entry) -> bool {
        if self.entries.len() >= self.kept {
            return false;
        }
        // What this transaction has taken from the buffer so far lies before the copy, or in other pieces; nothing is taken twice.
        let is_kept = self.entries.left_over() == Some(&entry);
        debug_assert!(!is_kept || bug(Bug::KeepStaleCopies) || entry.is_as_original());
        if !is_kept {
            // A program that writes other objects now is not to be asked again.
            self.kept = 0;
        }
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
    use super::super::{Find, MAX_ENTRIES};
    use super::*;
    use crate::tuning::Tuning;
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
        let cases: [(&[_], &[_], &[_]); 8] = [
            (&[a, b], &[a, b], &[true, true]),
            (&[a, b], &[a], &[true]),
            (&[a], &[a, b], &[true, false]),
            (&[a, b], &[b, a], &[false, false]),
            (&[a, b], &[a, (16, 8)], &[true, false]),
            (&[a, b], &[(0, 16)], &[false]),
            // The place of the second one is another now.
            (&[a, b], &[(100, 7), b], &[false, false]),
            // Here it is not, but who writes one other object is likely to write more.
            (&[a, b], &[(100, 8), b], &[false, false]),
        ];
        for (first, second, expected) in cases {
            let mut set = WriteSet::new(MAX_ENTRIES, &Tuning::SHIPPED);
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
                (0usize..3, prop::collection::vec((0usize..30, 1usize..4, any::<bool>()), 0..40), any::<bool>()),
                1..30,
            ),
        ) {
            let mut words = vec![0u64; 30 * 4 + 16];
            let mut set = WriteSet::new(MAX_ENTRIES, &Tuning::SHIPPED);
            let mut value = 0;
            for (repeated, ranges, is_committed) in transactions {
                let addr = words.as_mut_ptr().expose_provenance();
                let mut now = words.clone();
                let before: Vec<_> = (0..repeated * 10).map(|i| (i % 30, 1, i % 3 == 0)).collect();
                for (at, len, is_written) in before.into_iter().chain(ranges) {
                    let place = addr + at * 32;
                    // SAFETY: `words` and copies of so many words are there.
                    unsafe {
                        let Some(copy) = set.insert_or_widen(place, len * 32) else { continue };
                        for i in 0..len * 4 {
                            prop_assert_eq!(copy.add(i).read(), now[at * 4 + i]);
                            value += 1;
                            if is_written {
                                copy.add(i).write(value);
                                now[at * 4 + i] = value;
                            }
                        }
                    }
                }
                if is_committed {
                    for (at, copy, len) in set.copies() {
                        // SAFETY: a copy of so many words.
                        (0..len).for_each(|i| words[(at - addr) / 8 + i] = unsafe { copy.add(i).read() });
                    }
                    prop_assert_eq!(&words, &now);
                    set.keep();
                } else {
                    set.clear();
                    words.fill(value); // in place, perhaps
                }
            }
        }
    }

    impl WriteSet {
        /// A copy of a range, if the set has none.
        unsafe fn insert_or_widen(&mut self, addr: usize, len: usize) -> Option<*mut u64> {
            let found = self.find(addr, len);
            // SAFETY: by the caller's promise.
            let copy = unsafe {
                match found {
                    Find::Nothing => self.insert(addr, len, 8, None),
                    Find::Part => self.widen(addr, len, 8, None),
                    Find::Copy(_) => None,
                }
            };
            copy.map(<*mut u8>::cast)
        }
    }
}
