//! Copies that outlive their transaction, for the next one.
//!
//! Programs write the same objects again and again: counters, heads of lists, the state of a simulation. The copies that a transaction has committed are as good as new
//! ones, and what is in them was stored before the last fence. A new copy would be of what was just stored behind it; and a load that takes more than one of these
//! stores has written waits until they have left the processor's store queue, hence for the whole fence.

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
