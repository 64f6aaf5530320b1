//! The span that each page belongs to: one number for each page that the heap can ever have, in volatile
//! memory.
//!
//! The collector looks up each pointer that it follows, so this is an array and not a tree. It has an entry
//! for each page of the reservation of addresses, but in a long one only the parts that are written take
//! memory.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::Result;
use crate::os::maps::ZeroedArray;
use crate::units::PAGE;

/// The bit of a page's entry that says that the page was populated (faulted in) since the heap was opened.
const POPULATED: u32 = 1 << 31;

/// Numbers of spans, by page. Each region numbers its spans separately, and looks up only its own pages.
pub(crate) struct PageMap {
    pages: ZeroedArray<AtomicU32>,
}

impl PageMap {
    /// Creates a map for a heap of `mapped` bytes, which may grow to `reserved`. No page belongs to a span.
    pub(crate) fn new(reserved: u64, mapped: u64) -> Result<PageMap> {
        Ok(PageMap { pages: ZeroedArray::new((reserved / PAGE) as usize, (mapped / PAGE) as usize)? })
    }

    /// Makes room for the pages of a heap that is about to have `mapped` bytes.
    pub(crate) fn extend(&self, mapped: u64) -> Result<()> {
        self.pages.open((mapped / PAGE) as usize)
    }

    #[inline(always)]
    fn entries(&self) -> &[AtomicU32] {
        self.pages.entries()
    }

    /// Returns the number of the span that has the byte at `offset`, if a span was [set](Self::set) for its
    /// page.
    #[inline(always)]
    pub(crate) fn get(&self, offset: u64) -> Option<u32> {
        let entry = self.entries().get((offset / PAGE) as usize)?.load(Ordering::Relaxed);
        (entry & !POPULATED).checked_sub(1)
    }

    /// Sets the span of the pages from `offset` on. Several threads may set the same number at once. But no
    /// thread may [populate](Self::set_populated) the pages at the same time; a thread populates only a span
    /// that it has just taken.
    pub(crate) fn set(&self, offset: u64, len: u64, span: Option<u32>) {
        let value = span.map_or(0, |number| number + 1);
        for entry in self.range(offset, len) {
            entry.store(entry.load(Ordering::Relaxed) & POPULATED | value, Ordering::Relaxed);
        }
    }

    /// Notes that the pages from `offset` on are populated. Returns whether all of them were populated
    /// before.
    pub(crate) fn set_populated(&self, offset: u64, len: u64) -> bool {
        let mut all = true;
        for entry in self.range(offset, len) {
            all &= entry.fetch_or(POPULATED, Ordering::Relaxed) & POPULATED != 0;
        }
        all
    }

    fn range(&self, offset: u64, len: u64) -> &[AtomicU32] {
        let first = (offset / PAGE) as usize;
        &self.entries()[first..first + (len / PAGE) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_belong_to_spans() {
        let map = PageMap::new(1 << 40, 1 << 40).unwrap();
        assert_eq!(map.get(0), None);
        map.set(3 * PAGE, 2 * PAGE, Some(0));
        map.set((1 << 40) - PAGE, PAGE, Some(7));
        let at = [3 * PAGE - 1, 3 * PAGE, 5 * PAGE - 1, 5 * PAGE, (1 << 40) - 1, 1 << 40, u64::MAX];
        assert_eq!(at.map(|offset| map.get(offset)), [None, Some(0), Some(0), None, Some(7), None, None]);
        map.set(3 * PAGE, PAGE, None);
        assert_eq!((map.get(3 * PAGE), map.get(4 * PAGE)), (None, Some(0)));
        assert!(!map.set_populated(4 * PAGE, PAGE) && !map.set_populated(3 * PAGE, 2 * PAGE));
        assert!(map.set_populated(3 * PAGE, 2 * PAGE));
        assert_eq!((map.get(3 * PAGE), map.get(4 * PAGE)), (None, Some(0)));
    }
}
