//! Padding: bytes of a value that mean nothing, and that are zeroed before they reach the medium.

use crate::layout::Padding;

/// Values that a transaction writes, by the addresses of their originals, each noted about once.
#[derive(Default)]
pub(crate) struct Padded {
    values: Vec<(usize, Padding)>,
    /// Sort out repetitions when there are so many.
    limit: usize,
}

/// Memory for so many is kept.
const FEW: usize = 1024;

/// Two values at one address may be of two types.
fn key(&(addr, padding): &(usize, Padding)) -> (usize, (usize, usize)) {
    (addr, padding.key())
}

impl Padded {
    pub(crate) fn add(&mut self, addr: usize, padding: Padding) {
        let new = (addr, padding);
        // Most values are written again and again, and a few in turn.
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
