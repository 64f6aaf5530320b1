//! The entries that a long transaction logs before it writes: ranges of old content. A word that is in the
//! map of logged words is not logged again. Ranges that are logged together share one fence, if the log needs
//! fences.

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

/// The most blocks that are logged ahead at a store within one block, including that block.
const AHEAD: usize = 8;

/// The unsafe functions here have the premises of [`paths`](super::paths), with their numbers.
impl Context {
    /// Appends the old content of a range to the undo log, unless the log has it, and perhaps that of [words
    /// around the range](Self::range_to_log). The range is not in a new object of the transaction.
    #[inline]
    pub(super) unsafe fn log_range(cx: *mut Context, addr: usize, len: usize) -> Result<()> {
        // SAFETY: `cx` is valid, and no reference to it exists (premises 1 and 2). The place is in a live
        // value (premise 3).
        unsafe {
            let context = &mut *cx;
            let offset = addr - context.base();
            if context.logged.contains(offset, offset + len) {
                return Ok(());
            }
            // Mostly no word of the range was logged before. That case needs no list of ranges.
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

    /// Appends the old content of several places to the undo log, except new objects of the transaction, and
    /// words whose old content the log has. The places share one fence, if the log needs fences.
    unsafe fn log_ranges(cx: *mut Context, places: &[(usize, usize)]) -> Result<()> {
        // SAFETY: `cx` is valid, and no reference to it exists (premises 1 and 2). The places are in live
        // values (premise 3).
        unsafe {
            let wanted = (*cx).ranges_to_log(places);
            Context::log_wanted(cx, wanted)
        }
    }

    /// Appends the old content of these ranges (offsets in the heap) to the undo log, except words whose old
    /// content the log has.
    unsafe fn log_wanted(cx: *mut Context, wanted: Vec<(usize, usize)>) -> Result<()> {
        // SAFETY: `cx` is valid, and no reference to it exists (premises 1 and 2).
        let mut new = unsafe { (*cx).only_new(wanted) };
        // SAFETY: `new` has words of spans of the region, or of its header (premise 3).
        let result = if new.is_empty() { Ok(()) } else { unsafe { Context::append_new(cx, &new) } };
        new.clear();
        // SAFETY: `cx` is valid, and no reference to it exists (premises 1 and 2).
        unsafe { (*cx).scratch = new };
        result
    }

    /// Appends the old content of these ranges (addresses, bytes), of which no word is in the undo log, to
    /// that log.
    #[inline(always)]
    unsafe fn append_new(cx: *mut Context, new: &[(usize, usize)]) -> Result<()> {
        cpu::settle(std::ptr::null_mut());
        // SAFETY: `lead` returns a context of this transaction, to which no reference exists (premises 1 and
        // 2). `new` has words of spans of the region, or of its header (premise 3). All of these are mapped,
        // and `settle` has made them definite.
        unsafe { (*Context::lead(cx)).append_undo(new) }
    }

    /// Prepares for stores to these words: passes pointers in them to the collector, and announces the stores
    /// to the medium. Earlier stores of this transaction have changed none of these words, except in new
    /// objects.
    #[inline(always)]
    fn expect_stores(&mut self, (addr, len): (usize, usize)) {
        self.shade(addr, len);
        self.media.expect_stores(std::ptr::without_provenance(addr), len);
    }

    /// Returns the ranges to log for stores to these places (addresses, bytes). The ranges are offsets in the
    /// heap.
    fn ranges_to_log(&mut self, places: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let base = self.base();
        let mut wanted = std::mem::take(&mut self.scratch);
        // All places are looked up before any is logged. Otherwise two places in one block would look like a
        // second store to that block.
        for &(addr, len) in places {
            let (start, end) = (addr - base, addr - base + len);
            if len > 0 && !self.alloc.is_fresh(addr) && !self.logged.contains(start, end) {
                wanted.push(self.range_to_log(start, end));
            }
        }
        wanted
    }

    /// Marks the words of these ranges (offsets in the heap) as logged. Returns the parts that were not
    /// marked before (addresses, bytes); the caller must log them.
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

    /// Returns the range to log for a store to `start..end` (offsets in the heap), of which not all is
    /// logged. If no word of the block of `start`, nor of the block before it, is logged, the range is
    /// `start..end` itself. If a word of the block is logged, the range is the whole block, as far as it
    /// belongs to slots of the span, with the content of other objects. If blocks right before this block
    /// have logged words, and the heap has room, the range is as many blocks from this block on, at most
    /// [`AHEAD`]. So a pass through memory in order logs more and more blocks with each entry, up to
    /// [`AHEAD`].
    ///
    /// An entry, with or without a fence, costs more than the additional lines of old content, and a program
    /// that comes back to a block will probably come back again. The price is a longer log: about five times
    /// as long if the program comes back to each block once, and longer still if it goes through memory in
    /// steps of [`AHEAD`] blocks after such a pass. A rollback does not change words that were logged and not
    /// stored to; this includes free slots.
    ///
    /// During marking, only the part within the slot of the object is logged. With a write-ahead log, the
    /// logged words go to the record, so fewer are logged: from the second store to a line on, the part of
    /// the line that belongs to the object.
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
        // During marking, the objects that logged pointers lead to are marked. A neighbour of the object may
        // be garbage, and the objects that it points to would survive as long as each cycle has a store next
        // to it.
        let is_alone = is_recorded || self.gc.is_marking();
        let Some(slots) = self.slots_around(start, is_alone) else {
            return (start, end); // metadata, in no span of objects
        };
        let last = end.next_multiple_of(block) + before.saturating_sub(1) * block;
        (slots.start.max(start & !(block - 1)), slots.end.min(last))
    }

    /// Whether the heap had room for logging ahead when this transaction first asked. A transaction that has
    /// spilled for cost could have kept its copies, so without a write-ahead log the heap had room for a
    /// [block](super::spill) for each possible copy. Logging ahead takes more room. So this function wants,
    /// for each possible copy, room for [`AHEAD`] blocks and one more; or twice the bytes in use: with its
    /// header, an entry of whole blocks is less than twice as long as the words that it holds.
    #[inline]
    fn may_log_ahead(&mut self) -> bool {
        self.room_ahead.unwrap_or_else(|| {
            let all = (AHEAD + 1) * BLOCK * self.most_copies;
            let (left, used) = self.store().left_and_used();
            *self.room_ahead.insert(left >= (all as u64).min(2 * used))
        })
    }

    /// Returns the range (offsets in the heap) of the slot at `offset` if `is_alone`, or else of all slots of
    /// its span; `None` if no span of objects has a slot there.
    fn slots_around(&self, offset: usize, is_alone: bool) -> Option<Range<usize>> {
        let (number, slot) = self.alloc.spans.locate_slot(&self.store().page_map, offset as u64)?;
        let span = self.alloc.spans.get(number)?;
        let slots = if is_alone { slot..slot + 1 } else { 0..span.slots };
        Some(span.offset_of(slots.start) as usize..span.offset_of(slots.end) as usize)
    }

    /// Adds a place to `ahead`, unless the place is empty, or the undo log is known to have its old content.
    /// (Nothing is known while copies are pending.) Returns whether the place was added.
    #[inline]
    pub(crate) fn note_ahead(&mut self, addr: usize, len: usize) -> bool {
        let offset = addr - self.base();
        let is_new = len > 0 && (self.copies_pending || !self.logged.contains(offset, offset + len));
        if is_new {
            self.ahead.push((addr, len));
        }
        is_new
    }

    /// Logs the places in `ahead` together, if the transaction is long, and forgets them. If the log cannot
    /// grow, the transaction is doomed.
    #[inline]
    pub(crate) unsafe fn log_ahead(cx: *mut Context) {
        // SAFETY: `cx` is valid, and no reference to it exists (premises 1 and 2).
        unsafe {
            if !(*cx).ahead.is_empty() {
                Context::log_noted(cx);
            }
        }
    }

    /// The rare part of [`log_ahead`](Self::log_ahead).
    unsafe fn log_noted(cx: *mut Context) {
        // SAFETY: `cx` is valid, and no reference to it exists (premises 1 and 2). `ahead` has places in live
        // values (premise 3).
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
        // SAFETY: `tx.context()` is the context of this thread's open transaction, and no reference to it
        // exists.
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
                let places = [3, 400, 405, 990].map(|i| numbers.at(tx, i));
                let before = heap.stats().fences;
                if together {
                    // SAFETY: the places are elements of a live slice.
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

    /// Makes a root with `numbers` numbers, in a heap whose transactions are long.
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
            (0..NUMBERS).for_each(|i| {
                let element = numbers.at(tx, i);
                tx[element] = 8
            });
            let fences = (heap.stats().fences - before) as usize;
            let blocks = NUMBERS * 8 / BLOCK;
            assert!((blocks / AHEAD..blocks / 4).contains(&fences), "{fences}");
            Ok(())
        })
        .unwrap();
    }

    /// A thread may read words that the transaction has not changed without a lock, through a snapshot. So a
    /// rollback must not store to words that were only logged.
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
            let start = value_of(numbers.at(tx, 0)).addr();
            let page = start.next_multiple_of(PAGE as usize) + PAGE as usize;
            let first_of_page = (page - start) / 8;
            // Stores in order, from the second block of a page to the end of the next page, also log the
            // first block of the page after that.
            let before = heap.stats().log_bytes;
            let stored = BLOCK / 8..first_of_page;
            let bytes = (stored.len() * 8) as u64;
            stored.for_each(|i| {
                let element = numbers.at(tx, i);
                tx[element] = 8
            });
            assert!(heap.stats().log_bytes - before >= bytes + BLOCK as u64);
            protected = std::ptr::with_exposed_provenance_mut::<libc::c_void>(page);
            // SAFETY: `protected` is a page of the heap. No thread writes to it until the next call makes it
            // writable.
            assert_eq!(unsafe { libc::mprotect(protected, PAGE as usize, libc::PROT_READ) }, 0);
            Err::<(), _>(crate::Error::abort("to see it undone"))
        });
        assert!(result.is_err());
        let all = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: `protected` is the page that was protected above.
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
            let element = numbers.at(tx, 0);
            tx[element] = 8;
            tx.shared();
            (1..=LINES).for_each(|i| {
                let element = numbers.at(tx, i * LINE / 8);
                tx[element] = 8
            });
            Ok(())
        })
        .unwrap();
        // For each store, the record has one word for the place, and one for the content.
        let bytes = (heap.stats().log_bytes - before) as usize;
        assert!((LINES * 16..LINES * 16 + 2 * LINE).contains(&bytes), "{bytes}");
    }
}
