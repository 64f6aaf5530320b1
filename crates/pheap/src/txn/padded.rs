//! Padding: bytes of a value that have no meaning. The padding of written values is zeroed before the
//! transaction commits.

use crate::layout::Padding;

/// Values with padding that a transaction writes, by the addresses of their originals. A value may be noted
/// several times.
#[derive(Default)]
pub(crate) struct Padded {
    values: Vec<(usize, Padding)>,
    /// The number of values above which duplicates are removed; at least [`FEW`] values may stay.
    limit: usize,
}

/// Number of values up to which duplicates may stay, and for which memory is kept.
const FEW: usize = 1024;

/// Returns the sort key of a value. It includes the type, because two values at one address may have two
/// types.
fn key(&(addr, padding): &(usize, Padding)) -> (usize, (usize, usize)) {
    (addr, padding.key())
}

impl Padded {
    pub(crate) fn add(&mut self, addr: usize, padding: Padding) {
        let new = (addr, padding);
        // Most programs write the same few values again and again.
        if self.values.iter().rev().take(8).any(|noted| key(noted) == key(&new)) {
            return;
        }
        self.values.push(new);
        if self.values.len() > self.limit.max(FEW) {
            self.values.sort_unstable_by_key(key);
            self.values.dedup_by_key(|value| key(value));
            self.limit = 2 * self.values.len();
        }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, Padding)> + '_ {
        self.values.iter().copied()
    }

    pub(crate) fn clear(&mut self) {
        self.values.clear();
        self.values.shrink_to(FEW);
        self.limit = 0;
    }
}
