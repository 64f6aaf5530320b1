//! Padding: bytes of a value that mean nothing, and that are zeroed before they reach the medium.

use crate::layout::Pointee;
/// How to zero the padding of a value that was copied.
#[derive(Clone, Copy)]
pub(crate) struct Padding {
    pub(crate) zero: unsafe fn(*mut u8, usize),
    /// Handed to `zero`: the length of a slice.
    pub(crate) len: usize,
}

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

    /// Zeroes the padding of all values.
    ///
    /// # Safety
    /// They are valid values of this transaction, and no reference to them is alive.
    pub(crate) unsafe fn zero(&mut self) {
        for (addr, padding) in self.values.drain(..) {
            // SAFETY: by the caller's promise.
            unsafe { (padding.zero)(std::ptr::with_exposed_provenance_mut(addr), padding.len) };
        }
        self.limit = 0;
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
