//! Decides whether a store to a field copies the whole object, if the object is small, or the field only.
//!
//! A copy of the object costs more to make and to compare, but every later access to the object finds the
//! copy. A program that stores to one field of each object gains from copies of fields, unless it comes back
//! to them again and again: fields of neighbouring objects share slots of the [cache](super::recent) more
//! often than the objects do. Earlier transactions decide, because most programs repeat themselves.

/// If a transaction looks up copies of fields more than this many times for each copy, copies of whole
/// objects would have cost less. (A program that comes back looks up each copy at least once, because making
/// a copy of a field does not enter it into the cache.)
const LOOKS: usize = 4;

/// The extent of a copy for a store to a field, and the counts that decide it.
#[derive(Debug)]
pub(crate) struct CopyGranularity {
    fields: bool,
    /// How many times this transaction has looked up a value that had a copy and was not in the cache; and
    /// how many copies it had at the last such lookup.
    again: usize,
    copies: usize,
    /// Number of successive transactions that have looked up no copy again, while stores copy whole objects.
    quiet: u32,
    /// The value of `quiet` at which stores begin to copy fields only:
    /// [`Tuning::patience`](crate::tuning::Tuning::patience).
    patience: u32,
}

impl CopyGranularity {
    pub(crate) fn new(patience: u32) -> CopyGranularity {
        CopyGranularity { fields: false, again: 0, copies: 0, quiet: 0, patience }
    }

    /// Whether stores to fields copy the field only.
    #[inline(always)]
    pub(crate) fn is_fields(&self) -> bool {
        self.fields
    }

    /// Records a lookup that has found a copy, in a write set of `copies` copies.
    #[inline(always)]
    pub(crate) fn note_again(&mut self, copies: usize) {
        self.again += 1;
        self.copies = copies;
    }

    /// Records that a lookup has met an object of which only a part has a copy.
    #[cold]
    pub(crate) fn note_part(&mut self) {
        *self = CopyGranularity { again: 1, ..CopyGranularity::new(self.patience) };
    }

    #[inline(always)]
    pub(crate) fn end_transaction(&mut self) {
        let again = std::mem::take(&mut self.again);
        if !self.fields {
            self.quiet = if again > 0 { 0 } else { self.quiet + 1 };
            self.fields = self.quiet == self.patience;
        } else if again > LOOKS * self.copies {
            *self = CopyGranularity::new(self.patience);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::Tuning;

    const PATIENCE: u32 = Tuning::SHIPPED.patience;

    #[test]
    fn fields_are_taken_after_some_quiet_transactions_until_an_object_is_met_in_parts() {
        let mut granularity = CopyGranularity::new(PATIENCE);
        let quiet = |granularity: &mut CopyGranularity, n| (0..n).for_each(|_| granularity.end_transaction());
        quiet(&mut granularity, PATIENCE - 1);
        granularity.note_again(1);
        quiet(&mut granularity, PATIENCE);
        assert!(!granularity.is_fields());
        quiet(&mut granularity, 1);
        assert!(granularity.is_fields());
        granularity.note_again(1); // another access to the same field
        quiet(&mut granularity, 2 * PATIENCE);
        assert!(granularity.is_fields());
        granularity.note_part();
        assert!(!granularity.is_fields());
        quiet(&mut granularity, PATIENCE);
        assert!(!granularity.is_fields());
        quiet(&mut granularity, 1);
        assert!(granularity.is_fields());
    }

    #[test]
    fn objects_are_taken_again_if_fields_are_looked_for_again_and_again() {
        let mut granularity = CopyGranularity::new(1);
        granularity.end_transaction();
        let mut looks_at_two = |looks: usize| {
            (0..looks).for_each(|_| granularity.note_again(2));
            granularity.end_transaction();
            granularity.is_fields()
        };
        assert!((0..2).all(|_| looks_at_two(2 * LOOKS)), "they do not add up");
        assert!(!looks_at_two(2 * LOOKS + 1));
    }
}
