//! Counts the private (dirty) pages of a mapping, and notes in which epoch each was last recorded. Eviction
//! is done elsewhere.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::error::Result;
use crate::os::maps::ZeroedArray;
use crate::units::PAGE;

const PRIVATE: u8 = 1;
/// The bits of a page's entry that have the epoch, modulo 4, in which the page was last recorded.
const EPOCH: u8 = 0b110;

/// The private pages of a heap. An epoch ends where a checkpoint begins.
pub(crate) struct PrivatePages {
    pages: ZeroedArray<AtomicU8>,
    epoch: AtomicU64,
    count: AtomicU64,
}

impl std::fmt::Debug for PrivatePages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PrivatePages").field("count", &self.count).finish_non_exhaustive()
    }
}

impl PrivatePages {
    /// Creates the table of a heap of `mapped` bytes, which may grow to `reserved`. No page is private.
    pub(crate) fn new(reserved: u64, mapped: u64) -> Result<PrivatePages> {
        let pages = ZeroedArray::new((reserved / PAGE) as usize, (mapped / PAGE) as usize)?;
        Ok(PrivatePages { pages, epoch: AtomicU64::new(0), count: AtomicU64::new(0) })
    }

    /// Makes room for the pages of a heap that is about to have `mapped` bytes.
    pub(crate) fn extend(&self, mapped: u64) -> Result<()> {
        self.pages.open((mapped / PAGE) as usize)
    }

    /// Returns the entry that a page gets when it is stored to now: private, in the present epoch.
    fn mark(&self) -> u8 {
        PRIVATE | (self.epoch.load(Ordering::Relaxed) << 1) as u8 & EPOCH
    }

    /// Notes that `len` bytes at `offset` were stored to in the present epoch, so their pages are private. No
    /// other thread [drops](Self::forget) these pages meanwhile.
    #[inline]
    pub(crate) fn mark_stored(&self, offset: u64, len: u64) {
        let mark = self.mark();
        let pages = offset / PAGE..(offset + len).div_ceil(PAGE);
        for page in &self.pages.entries()[pages.start as usize..pages.end as usize] {
            if page.load(Ordering::Relaxed) != mark && page.swap(mark, Ordering::Relaxed) & PRIVATE == 0 {
                self.count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Ends the present epoch. Pages that are stored to from now on belong to the next one.
    pub(crate) fn next_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the bytes of private pages.
    pub(crate) fn bytes(&self) -> u64 {
        self.count.load(Ordering::Relaxed) * PAGE
    }

    /// Returns whether the page at `offset` is private, and was last recorded in an epoch before this one. A
    /// page whose epoch is a multiple of four epochs ago looks as if it were of the present one, and can be
    /// evicted in the next epoch.
    pub(crate) fn is_old(&self, offset: u64) -> bool {
        let page = self.pages.entries()[(offset / PAGE) as usize].load(Ordering::Relaxed);
        page & PRIVATE != 0 && page != self.mark()
    }

    /// Returns whether the page at `offset` is private.
    pub(crate) fn is_private(&self, offset: u64) -> bool {
        self.pages.entries()[(offset / PAGE) as usize].load(Ordering::Relaxed) & PRIVATE != 0
    }

    /// Notes that these whole pages are private no more, because they were dropped. No other thread stores to
    /// them meanwhile.
    pub(crate) fn forget(&self, offset: u64, len: u64) {
        let pages = offset / PAGE..(offset + len) / PAGE;
        for page in &self.pages.entries()[pages.start as usize..pages.end as usize] {
            if page.swap(0, Ordering::Relaxed) & PRIVATE != 0 {
                self.count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_old_once_its_epoch_is_over() {
        let pages = PrivatePages::new(1 << 30, 1 << 30).unwrap();
        pages.mark_stored(PAGE - 8, 16);
        assert_eq!(pages.bytes(), 2 * PAGE);
        assert!(!pages.is_old(0) && pages.is_private(PAGE) && !pages.is_private(2 * PAGE));
        pages.next_epoch();
        assert!(pages.is_old(0) && pages.is_old(PAGE) && !pages.is_old(2 * PAGE));
        pages.mark_stored(0, 8);
        assert!(!pages.is_old(0) && pages.is_old(PAGE));
        pages.forget(PAGE, PAGE);
        assert_eq!((pages.bytes(), pages.is_old(PAGE)), (PAGE, false));
    }
}
