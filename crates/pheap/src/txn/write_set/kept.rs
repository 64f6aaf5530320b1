//! Copies that outlive their transaction, so that the next transaction need not make them again.
//!
//! Programs write the same objects again and again: counters, heads of lists, the state of a simulation. A
//! copy that a transaction has committed equals a new copy, and its content was stored before the last fence.
//! A new copy would load words that the commit has just stored, after the fence. A load that is wider than
//! one of these stores waits until they have left the processor's store queue, and so for the whole fence.

use super::{Entry, WriteSet};
use crate::faults::{Bug, bug};

impl WriteSet {
    /// Forgets all copies, like [`clear`](Self::clear), but the next transaction may use the copies again.
    /// The caller has stored their content in the originals.
    ///
    /// From now on originals must change through this set only, as long as they are live. Each transaction
    /// that allocates objects must end in a `retain_copies` or a `clear`: new objects are written in place,
    /// perhaps at the address of a dead original, and do not enter the set in that transaction.
    ///
    /// References to the copies must be gone.
    #[inline(always)]
    pub(crate) fn retain_copies(&mut self) {
        let kept = self.entries.len();
        self.clear();
        self.kept = kept;
    }

    /// Whether the last transaction had an equal entry at the next index, and equal ones at all indices
    /// before it, so that its copy can be used again. `entry` is about to be added.
    #[inline(always)]
    pub(super) fn is_kept(&mut self, entry: Entry) -> bool {
        if self.entries.len() >= self.kept {
            return false;
        }
        // Nothing has overwritten that copy: this transaction has taken only memory before it in the buffer,
        // or in other pieces of the buffer, and no memory twice.
        let is_kept = self.entries.left_over() == Some(&entry);
        debug_assert!(!is_kept || bug(Bug::KeepStaleCopies) || entry.is_as_original());
        if !is_kept {
            // The program writes other objects now, so later entries need not be compared.
            self.kept = 0;
        }
        is_kept
    }
}
