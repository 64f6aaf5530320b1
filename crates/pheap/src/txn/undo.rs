//! What a long transaction logs before it writes: ranges of old content, each word once, and several behind one fence.

#![allow(unsafe_code)]
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "a block is about one context, which is borrowed piece by piece"
)]

use std::ops::Range;

use super::context::{Context, Mode};
use super::word_map::BLOCK;
use crate::error::Result;
use crate::os::cpu;
use crate::units::LINE;

/// Blocks that are logged before a store to them, at most, the one of the store included.
const AHEAD: usize = 8;

/// The premises are those of [`paths`](super::paths).
impl Context {
    /// Puts the old content of a range into the undo log, unless it is there. The range is not fresh.
    #[inline]
    pub(super) unsafe fn log_range(cx: *mut Context, addr: usize, len: usize) -> Result<()> {
        // SAFETY: the context is there, and nobody else's; the place is in a live value (premises 1 to 3).
        unsafe {
            let context = &mut *cx;
            let offset = addr - context.base();
            if context.logged.contains(offset, offset + len) {
                return Ok(());
            }
            // Most stores that come here are the first to all of what they have logged: that takes no list.
            let (start, end) = context.range_to_log(offset, offset + len);
            let (first, last) = (start / 8, end.div_ceil(8));
            if !context.logged.insert_few(first, last) {
                let mut wanted = std::mem::take(&mut context.scratch);
                wanted.push((start, end));
                return Context::log_wanted(cx, wanted);
            }
            let new = (context.base() + first * 8, (last - first) * 8);
            context.expect_stores(new);
            Context::append_new(cx, &[new])
        }
    }

    /// Puts the old content of several ranges into the undo log, behind one fence.
    unsafe fn log_ranges(cx: *mut Context, places: &[(usize, usize)]) -> Result<()> {
        // SAFETY: the context is there, and nobody else's (premises 1 and 2); the places are in live values (premise 3).
        unsafe {
            let wanted = (*cx).ranges_to_log(places);
            Context::log_wanted(cx, wanted)
        }
    }

    /// Puts the old content of these ranges (offsets in the heap) into the undo log, except what is there.
    unsafe fn log_wanted(cx: *mut Context, wanted: Vec<(usize, usize)>) -> Result<()> {
        // SAFETY: the context is there, and nobody else's (premises 1 and 2).
        let mut new = unsafe { (*cx).only_new(wanted) };
        // SAFETY: words of live objects, of slots beside them in their spans, or of the header (premise 3).
        let result = if new.is_empty() { Ok(()) } else { unsafe { Context::append_new(cx, &new) } };
        new.clear();
        // SAFETY: the context is there, and nobody else's (premises 1 and 2).
        unsafe { (*cx).scratch = new };
        result
    }

    /// Puts the old content of these words, which were not in the undo log, there.
    #[inline(always)]
    unsafe fn append_new(cx: *mut Context, new: &[(usize, usize)]) -> Result<()> {
        cpu::settle(std::ptr::null_mut());
        // SAFETY: the first context of the group, to which there is no reference (premises 1 and 2); words of live objects, of slots beside them in their spans, which are mapped as well, or of the
        // header (premise 3), which `settle` has made definite.
        unsafe { (*Context::lead(cx)).append_undo(new) }
    }

    /// Words of these are about to be stored to, which no other store of this transaction has changed.
    #[inline(always)]
    fn expect_stores(&mut self, (addr, len): (usize, usize)) {
        self.shade(addr, len);
        self.media.expect_stores(std::ptr::without_provenance(addr), len);
    }

    /// What to log for stores to these places (offsets in the heap).
    fn ranges_to_log(&mut self, places: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let base = self.base();
        let mut wanted = std::mem::take(&mut self.scratch);
        // All are looked up first: a program has not come back to a block because it asks for two places of it at once.
        for &(addr, len) in places {
            let (start, end) = (addr - base, addr - base + len);
            if len > 0 && !self.alloc.is_fresh(addr) && !self.logged.contains(start, end) {
                wanted.push(self.range_to_log(start, end));
            }
        }
        wanted
    }

    /// The parts of these ranges (offsets in the heap) that are not in the undo log, and now must be (addresses, bytes).
    fn only_new(&mut self, mut ranges: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
        let (base, wanted) = (self.base(), ranges.len());
        for i in 0..wanted {
            let (start, end) = ranges[i];
            self.logged.insert(start, end, |offset, bytes| ranges.push((base + offset, bytes)));
        }
        ranges.drain(..wanted);
        ranges.iter().for_each(|&range| self.expect_stores(range));
        ranges
    }

    /// What to log for a store to `start..end` (offsets in the heap), of which not all is logged: that, or from the second store to a block on, all of the block, with what other objects of the
    /// span have there. If blocks right before it are logged, as many from this one on: who goes through memory in order needs an entry for each of twice as many blocks as before.
    ///
    /// An entry costs more than the lines of old content that go with it then, with a fence or without, and most programs that have come back to a block
    /// will again. At worst, the log is as many times as long: five times if they come back to each block once, some forty times if they go through memory in steps of eight blocks, as
    /// through a column of a matrix. Large objects whose elements are changed in any order get two entries
    /// for 64 words. What nobody stores to stays what it is, and going back does not change it; that holds for what is free, too.
    ///
    /// With a write-ahead log, what is logged here goes to its record, so less is: the part of a line that belongs to the object.
    #[inline]
    fn range_to_log(&mut self, start: usize, end: usize) -> (usize, usize) {
        let is_recorded = self.media.wal().is_some();
        let block = if is_recorded { LINE } else { BLOCK };
        let mut before = if is_recorded { 0 } else { self.logged.begun_before(start, AHEAD) };
        if before > 0 && !self.may_log_ahead() {
            before = 0;
        }
        if before == 0 && !self.logged.is_begun(start, block) {
            return (start, end);
        }
        // What is logged is marked, while objects are, and beside it there may be garbage, which would stay as long as something beside it is changed in each cycle.
        let is_alone = is_recorded || self.gc.is_marking();
        let Some(slots) = self.slots_around(start, is_alone) else {
            return (start, end); // metadata
        };
        let last = end.next_multiple_of(block) + before.saturating_sub(1) * block;
        (slots.start.max(start & !(block - 1)), slots.end.min(last))
    }

    /// Whether the heap has room for what is logged ahead. A transaction that has left its copies for their cost might have kept them, so there is room for a [block](super::spill) for each. It
    /// takes more only if there is as much more for all of them, or for everything in the heap: with their headers, entries are less than twice as long as what they are of.
    #[inline]
    fn may_log_ahead(&mut self) -> bool {
        self.room_ahead.unwrap_or_else(|| {
            let all = (AHEAD + 1) * BLOCK * self.most_copies;
            let (left, used) = self.store().left_and_used();
            *self.room_ahead.insert(left >= (all as u64).min(2 * used))
        })
    }

    /// Where the slot lies (offsets in the heap) that the byte at `offset` belongs to, if it `is_alone`, or all of its span.
    fn slots_around(&self, offset: usize, is_alone: bool) -> Option<Range<usize>> {
        let (number, slot) = self.alloc.spans.find(&self.store().page_map, offset as u64)?;
        let span = self.alloc.spans.get(number)?;
        let slots = if is_alone { slot..slot + 1 } else { 0..span.slots };
        Some(span.offset_of(slots.start) as usize..span.offset_of(slots.end) as usize)
    }

    /// Notes a place in `ahead`, unless it is in the undo log. Returns whether it did.
    #[inline]
    pub(crate) fn note_ahead(&mut self, addr: usize, len: usize) -> bool {
        let offset = addr - self.base();
        let is_new = len > 0 && (self.copies_pending || !self.logged.contains(offset, offset + len));
        if is_new {
            self.ahead.push((addr, len));
        }
        is_new
    }

    /// Logs the places that were noted in `ahead`, behind one fence.
    #[inline]
    pub(crate) unsafe fn log_ahead(cx: *mut Context) {
        // SAFETY: the context is there, and nobody else's (premises 1 and 2).
        unsafe {
            if !(*cx).ahead.is_empty() {
                Context::log_noted(cx);
            }
        }
    }

    /// As [`log_ahead`](Self::log_ahead), of which this is the rare part.
    unsafe fn log_noted(cx: *mut Context) {
        // SAFETY: the context is there, and nobody else's (premises 1 and 2).
        unsafe {
            let mut ahead = std::mem::take(&mut (*cx).ahead);
            if (*cx).mode == Mode::Long && Context::log_ranges(cx, &ahead).is_err() {
                Context::doom(cx);
            }
            ahead.clear();
            (*cx).ahead = ahead;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AHEAD, BLOCK, LINE};
    use crate::ptr::value_of;
    use crate::units::PAGE;
    use crate::{Durability, Heap, Options, P, Root};

    #[test]
    fn places_that_were_noted_and_not_logged_go_with_their_transaction() {
        let heap = Options::new().in_memory().unwrap();
        let root = heap.root::<u64>("number").unwrap();
        root.txn(|tx, p| {
            assert!(tx.__ahead(crate::ptr::part::object(p)));
            Ok(())
        })
        .unwrap();
        // SAFETY: the context of an open transaction of this thread, to which there is no reference.
        let is_empty = root.txn(|tx, _| Ok(unsafe { (*tx.context()).ahead.is_empty() })).unwrap();
        assert!(is_empty);
    }

    #[test]
    fn places_that_are_logged_together_share_a_fence() {
        let dir = tempfile::tempdir().unwrap();
        let fences = [false, true].map(|together| {
            let options = Options::new().durability(Durability::Pmem).pin_undo(true);
            let heap = options.open(dir.path().join(together.to_string())).unwrap();
            let root = heap
                .root_or::<Option<P<[u64]>>>("numbers", |tx| Ok(Some(tx.alloc_slice(1000, |_| 7)?)))
                .unwrap();
            root.txn(|tx, p| {
                let numbers = tx[p].unwrap();
                let places = [3, 400, 405, 990].map(|i| numbers.at(i));
                let before = heap.stats().fences;
                if together {
                    // SAFETY: the places of elements.
                    unsafe { tx.announce(&places.map(|p| (value_of(p).cast(), 8))) };
                    assert_eq!(heap.stats().fences, before + 1);
                }
                places.iter().for_each(|&p| tx[p] = 8);
                Ok(heap.stats().fences - before)
            })
            .unwrap()
        });
        assert_eq!(fences, [4, 1]);
    }

    /// So many numbers, in a heap whose transactions are long.
    fn sevens(
        dir: &tempfile::TempDir,
        durability: Durability,
        numbers: usize,
    ) -> (Heap, Root<P<'static, [u64]>>) {
        let options = Options::new().durability(durability).pin_undo(true);
        let heap = options.open(dir.path().join("heap")).unwrap();
        let root = heap.root_or("numbers", |tx| tx.alloc_slice(numbers, |_| 7)).unwrap();
        (heap, root)
    }

    #[test]
    fn stores_in_order_are_logged_ahead() {
        const NUMBERS: usize = 10_000;
        let dir = tempfile::tempdir().unwrap();
        let (heap, root) = sevens(&dir, Durability::Pmem, NUMBERS);
        root.txn(|tx, p| {
            let numbers = tx[p];
            let before = heap.stats().fences;
            (0..NUMBERS).for_each(|i| tx[numbers.at(i)] = 8);
            let fences = (heap.stats().fences - before) as usize;
            let blocks = NUMBERS * 8 / BLOCK;
            assert!((blocks / AHEAD..blocks / 4).contains(&fences), "{fences}");
            Ok(())
        })
        .unwrap();
    }

    /// What has not changed may be read by somebody without a lock, so nothing is stored there.
    #[test]
    fn going_back_stores_to_nothing_that_was_only_logged() {
        [Durability::Pmem, Durability::Process].into_iter().for_each(stores_to_nothing_that_was_only_logged);
    }

    fn stores_to_nothing_that_was_only_logged(durability: Durability) {
        const PAGES: usize = 4;
        let dir = tempfile::tempdir().unwrap();
        let (heap, root) = sevens(&dir, durability, PAGES * PAGE as usize / 8);
        let mut protected = std::ptr::null_mut();
        let result = root.txn(|tx, p| {
            let numbers = tx[p];
            let start = value_of(numbers.at(0)).addr();
            let page = start.next_multiple_of(PAGE as usize) + PAGE as usize;
            let first_of_page = (page - start) / 8;
            // In order up to the end of a page, from its second block on: the first block of the next page is logged as well.
            let before = heap.stats().log_bytes;
            let stored = BLOCK / 8..first_of_page;
            let bytes = (stored.len() * 8) as u64;
            stored.for_each(|i| tx[numbers.at(i)] = 8);
            assert!(heap.stats().log_bytes - before >= bytes + BLOCK as u64);
            protected = std::ptr::with_exposed_provenance_mut::<libc::c_void>(page);
            // SAFETY: a page of the heap, which nobody writes to until that is allowed again.
            assert_eq!(unsafe { libc::mprotect(protected, PAGE as usize, libc::PROT_READ) }, 0);
            Err::<(), _>(crate::Error::abort("to see it undone"))
        });
        assert!(result.is_err());
        let all = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the same page.
        assert_eq!(unsafe { libc::mprotect(protected, PAGE as usize, all) }, 0);
        root.read(|view, p| assert!(view[view[p]].iter().all(|&number| number == 7))).unwrap();
    }

    #[test]
    fn the_record_of_a_write_ahead_log_has_the_words_that_were_logged() {
        const LINES: usize = 500;
        let dir = tempfile::tempdir().unwrap();
        let heap = Options::new().durability(Durability::Wal).open(dir.path().join("heap")).unwrap();
        let root =
            heap.root_or::<P<[u64]>>("numbers", |tx| tx.alloc_slice((LINES + 1) * LINE / 8, |_| 7)).unwrap();
        let before = heap.stats().log_bytes;
        root.txn(|tx, p| {
            let numbers = tx[p];
            tx[numbers.at(0)] = 8;
            tx.shared();
            (1..=LINES).for_each(|i| tx[numbers.at(i * LINE / 8)] = 8);
            Ok(())
        })
        .unwrap();
        // A word for where it goes, and one for what it is.
        let bytes = (heap.stats().log_bytes - before) as usize;
        assert!((LINES * 16..LINES * 16 + 2 * LINE).contains(&bytes), "{bytes}");
    }
}
