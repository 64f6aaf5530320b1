//! Whether a store to a field takes a copy of its object, if that is small, or of the field.
//!
//! A copy of the object costs more to make and to compare, and is found by whatever looks at the object again. A program that stores to one field of each object
//! is better off with copies of fields. Which one it is, transactions before tell: most programs do the same again and again.

/// What stores to fields take, and why.
#[derive(Debug)]
pub(crate) struct CopyGranularity {
    fields: bool,
    /// Whether this transaction has looked again at something that it had a copy of.
    again: bool,
    /// Transactions in a row that have not.
    quiet: u32,
    /// [`Tuning::patience`](crate::tuning::Tuning::patience).
    patience: u32,
}

impl CopyGranularity {
    pub(crate) fn new(patience: u32) -> CopyGranularity {
        CopyGranularity { fields: false, again: false, quiet: 0, patience }
    }

    /// Whether stores to fields take the fields alone.
    #[inline(always)]
    pub(crate) fn is_fields(&self) -> bool {
        self.fields
    }

    /// Notes that something was looked at of which there is a copy.
    #[inline(always)]
    pub(crate) fn note_again(&mut self) {
        self.again = true;
    }

    /// Notes that there is a copy of a part only of what was looked at.
    #[cold]
    pub(crate) fn note_part(&mut self) {
        *self = CopyGranularity { again: true, ..CopyGranularity::new(self.patience) };
    }

    #[inline(always)]
    pub(crate) fn end_transaction(&mut self) {
        let again = std::mem::take(&mut self.again);
        if !self.fields {
            self.quiet = if again { 0 } else { self.quiet + 1 };
            self.fields = self.quiet == self.patience;
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
        granularity.note_again();
        quiet(&mut granularity, PATIENCE);
        assert!(!granularity.is_fields());
        quiet(&mut granularity, 1);
        assert!(granularity.is_fields());
        granularity.note_again(); // the same field
        quiet(&mut granularity, 2 * PATIENCE);
        assert!(granularity.is_fields());
        granularity.note_part();
        assert!(!granularity.is_fields());
        quiet(&mut granularity, PATIENCE);
        assert!(!granularity.is_fields());
        quiet(&mut granularity, 1);
        assert!(granularity.is_fields());
    }
}
