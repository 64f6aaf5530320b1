//! Padding: bytes of a value that mean nothing, and that are zeroed before they reach the medium.

use super::write_set::Padding;
use crate::layout::Pointee;

/// Values that a transaction writes in their places, each noted about once.
#[derive(Default)]
pub(crate) struct Padded {
    values: Vec<(usize, Padding)>,
    /// Sort out repetitions when there are so many.
    limit: usize,
}

impl Padded {
    pub(crate) fn add(&mut self, addr: usize, padding: Padding) {
        if self.values.last().is_some_and(|last| last.0 == addr && last.1.len == padding.len) {
            return;
        }
        self.values.push((addr, padding));
        if self.values.len() > self.limit.max(1024) {
            let key = |&(addr, padding): &(usize, Padding)| (addr, padding.zero as usize, padding.len);
            self.values.sort_unstable_by_key(key);
            self.values.dedup_by_key(|value| key(value));
            self.limit = 2 * self.values.len();
        }
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Takes all values out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (usize, Padding)> + '_ {
        self.limit = 0;
        self.values.drain(..)
    }

    pub(crate) fn clear(&mut self) {
        self.values.clear();
        self.limit = 0;
    }
}

/// How to zero the padding of the value at `value`, if it can have any.
#[inline(always)]
pub(crate) fn padding_of<T: Pointee + ?Sized>(value: *mut T) -> Option<Padding> {
    if T::PADDED { Some(Padding { zero: T::zero_padding_at, len: T::len_of(value) }) } else { None }
}
