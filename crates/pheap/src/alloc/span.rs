//! A span of objects while the heap is open: its slots, and which of them are taken and marked.

use std::sync::Arc;

use pheap_gc::bitmap::Bitmap;

use crate::faults::{Bug, bug};
use crate::layout::PointerMap;
use crate::os::mapping::populate;
use crate::store::arena::{SMALL_PAGES, SpanKind};
use crate::store::page_map::PageMap;
use crate::store::spans::TakenSpan;
use crate::units::PAGE;

/// A value that stands for no class, for a span with one large object. No class has this number.
pub(super) const NO_CLASS: u32 = u32::MAX;
/// Number of binary digits after the point of [`ObjectSpan::reciprocal`], a fixed-point number. A slot has
/// less than 2^16 bytes.
const POINT: u32 = 40;
// A span of small objects has at most 2^21 bytes, so the product of an offset in it and the reciprocal fits
// into a `u64`. A byte is more than 2^-16 of a slot, and the error of the quotient is at most 2^-19, so the
// error never leads to the next slot.
const _: () = assert!(SMALL_PAGES as u64 * PAGE <= 1 << 21);

/// A span with slots for objects of one type: many small slots, or a large one.
pub(crate) struct ObjectSpan {
    pub(crate) span: TakenSpan,
    /// Bytes of the span; then bytes of a slot.
    pub(crate) bytes: u64,
    pub(crate) slot: u64,
    /// Number of slots.
    pub(crate) slots: u32,
    /// A little more than 2^[`POINT`] / `slot`; 0 for a large object.
    reciprocal: u64,
    pub(crate) pointers: Arc<PointerMap>,
    /// The bits that [`PointerMap::plain`] returns for the type; 0 if it returns `None`.
    pub(crate) plain: u64,
    /// Slots that are taken, including those that a class is about to fill. A bitmap of length 0 means that
    /// the taken slots are not known; then all slots count as taken.
    pub(crate) live: Bitmap,
    /// Marked slots. In a span that the running collection has still to sweep: slots that it has found, that
    /// it takes for live (old objects, in a minor cycle), or that were taken since it began. In other spans,
    /// the marked slots are those of old objects.
    pub(crate) marks: Bitmap,
    /// Number of slots that are taken.
    pub(super) used: u32,
    pub(super) class: u32,
    /// Whether the span is in the list of its class.
    pub(super) listed: bool,
    /// Whether the running collection still has to sweep the span. Until then, new objects in it are marked.
    pub(crate) pending: bool,
}

impl ObjectSpan {
    /// Creates a span whose slots are all free.
    pub(super) fn new(span: TakenSpan, class: u32, pointers: Arc<PointerMap>) -> ObjectSpan {
        let bytes = span.bytes();
        let (slot, slots, reciprocal) = match span.entry.kind {
            SpanKind::Small => {
                let slot = u64::from(span.entry.slot).max(8);
                (slot, (bytes / slot) as u32, (1 << POINT) / slot + 1)
            }
            _ => (bytes, 1, 0),
        };
        ObjectSpan {
            span,
            bytes,
            slot,
            slots,
            reciprocal,
            plain: pointers.plain().unwrap_or(0),
            pointers,
            live: Bitmap::new(slots as usize),
            marks: Bitmap::new(slots as usize),
            used: 0,
            class,
            listed: false,
            pending: false,
        }
    }

    /// Changes the type of the span.
    pub(super) fn retype(&mut self, ty: u32, class: u32, pointers: Arc<PointerMap>) {
        self.span.entry.ty = ty;
        self.class = class;
        self.plain = pointers.plain().unwrap_or(0);
        self.pointers = pointers;
    }

    /// Forgets which slots are taken, until the span is swept.
    pub(super) fn forget_live(&mut self) {
        self.live = Bitmap::new(0);
        self.used = self.slots;
    }

    /// Returns the bytes of the span, or 0 if its live slots are not known.
    pub(super) fn known_bytes(&self) -> u64 {
        if self.live.is_empty() { 0 } else { self.bytes }
    }

    /// Returns the slot of the byte at heap offset `offset`; `None` outside the slots of this span.
    #[inline(always)]
    pub(crate) fn slot_of(&self, offset: u64) -> Option<u32> {
        let inside = offset.wrapping_sub(self.span.offset);
        if inside >= self.bytes {
            return None;
        }
        let slot = if self.reciprocal == 0 { 0 } else { ((inside * self.reciprocal) >> POINT) as u32 };
        (slot < self.slots).then_some(slot)
    }

    /// Returns the heap offset of a slot.
    #[inline(always)]
    pub(crate) fn offset_of(&self, slot: u32) -> u64 {
        self.span.offset + u64::from(slot) * self.slot
    }

    /// Takes `count` free slots from slot `first` on.
    pub(super) fn take_slots(&mut self, first: u32, count: u32) {
        self.live.set_range(first as usize, count as usize);
        if self.pending && !bug(Bug::NewObjectsUnmarked) {
            self.marks.set_range(first as usize, count as usize);
        }
        self.used += count;
    }

    /// Frees `count` slots from slot `first` on.
    pub(super) fn free(&mut self, first: u32, count: u32) {
        self.live.clear_range(first as usize, count as usize);
        self.marks.clear_range(first as usize, count as usize);
        // The subtraction saturates, because with a seeded bug a sweep may have freed the slots before.
        self.used = self.used.saturating_sub(count);
    }
}

/// The spans of a region, by number. The numbers of removed spans are used again.
#[derive(Default)]
pub(crate) struct Spans {
    spans: Vec<Option<ObjectSpan>>,
    /// Heap offsets, in ascending order, of the spans that the region had when its heap was opened; the index
    /// is the span's number. The page map has such a span once an offset in it was looked up; of a span with
    /// a large object, it has the pages that were looked up.
    loaded: Vec<u64>,
    free: Vec<u32>,
}

impl Spans {
    /// Makes room for `spans` spans, in memory that is populated at once, and for some more, so that the next
    /// span does not move them all.
    pub(super) fn reserve(&mut self, spans: usize) {
        self.spans.reserve_exact(spans + spans / 8);
        populate(&self.spans.spare_capacity_mut()[..spans]);
        self.loaded.reserve_exact(spans);
    }

    /// Adds a span that the region had when its heap was opened. It must lie after all spans that were added
    /// so far. Returns its number.
    pub(super) fn load(&mut self, span: ObjectSpan) -> u32 {
        debug_assert!(self.loaded.len() == self.spans.len() && self.loaded.last() < Some(&span.span.offset));
        self.loaded.push(span.span.offset);
        self.spans.push(Some(span));
        self.spans.len() as u32 - 1
    }

    /// Adds a span. Returns its number.
    pub(super) fn add(&mut self, map: &PageMap, span: ObjectSpan) -> u32 {
        let (offset, bytes) = (span.span.offset, span.bytes);
        let number = self.free.pop().unwrap_or(self.spans.len() as u32);
        if number as usize == self.spans.len() {
            self.spans.push(Some(span));
        } else {
            self.spans[number as usize] = Some(span);
        }
        map.set(offset, bytes, Some(number));
        number
    }

    pub(super) fn remove(&mut self, map: &PageMap, number: u32) -> ObjectSpan {
        let span = self.spans[number as usize].take().expect("a span is removed once");
        map.set(span.span.offset, span.bytes, None);
        self.free.push(number);
        span
    }

    #[inline(always)]
    pub(crate) fn get(&self, number: u32) -> Option<&ObjectSpan> {
        self.spans.get(number as usize)?.as_ref()
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, number: u32) -> &mut ObjectSpan {
        self.spans[number as usize].as_mut().expect("a number that is in use")
    }

    /// Returns one more than the largest number.
    pub(crate) fn end_number(&self) -> u32 {
        self.spans.len() as u32
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ObjectSpan> {
        self.spans.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut ObjectSpan> {
        self.spans.iter_mut().flatten()
    }

    /// Returns the number of the span and the slot that the byte at heap offset `offset` lies in.
    #[inline(always)]
    pub(crate) fn locate_slot(&self, map: &PageMap, offset: u64) -> Option<(u32, u32)> {
        let Some(number) = map.get(offset) else { return self.find_loaded(map, offset) };
        let slot = self.get(number)?.slot_of(offset)?;
        Some((number, slot))
    }

    /// Does the work of [`locate_slot`](Self::locate_slot) for an offset that the map does not have yet. If a
    /// span has the offset, this adds the span to the map, or the page of the offset if the span has a large
    /// object.
    #[cold]
    #[inline(never)]
    fn find_loaded(&self, map: &PageMap, offset: u64) -> Option<(u32, u32)> {
        let number = self.loaded.partition_point(|&start| start <= offset).checked_sub(1)? as u32;
        // Another span may have got this number, if the span that was loaded has been removed.
        let span = self.get(number).filter(|span| offset.wrapping_sub(span.span.offset) < span.bytes)?;
        match span.span.entry.kind {
            SpanKind::Small => map.set(span.span.offset, span.bytes, Some(number)),
            // A large object may have millions of pages, few of which are looked up.
            _ => map.set(offset & !(PAGE - 1), PAGE, Some(number)),
        }
        Some((number, span.slot_of(offset)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::arena::SpanEntry;

    use crate::layout::desc::Desc;
    use crate::layout::{Graph, Persist};

    fn span(kind: SpanKind, offset: u64, pages: u32, slot: u32) -> ObjectSpan {
        let desc: &'static Desc = <u64 as Persist>::desc();
        let pointers = Arc::new(PointerMap::from_layout(&Graph::from_root(desc).unwrap().types[0]));
        let entry = SpanEntry { kind, slot, pages, ty: 0, region: 1 };
        ObjectSpan::new(TakenSpan { offset, entry_at: 0, entry }, NO_CLASS, pointers)
    }

    #[test]
    fn spans_that_were_loaded_are_found_as_long_as_they_are_there() {
        let map = PageMap::new(1 << 30, 1 << 30).unwrap();
        let mut spans = Spans::default();
        spans.reserve(3);
        spans.load(span(SpanKind::Small, 2 * PAGE, 3, 64));
        spans.load(span(SpanKind::Large, 8 * PAGE, 4, 0));
        spans.load(span(SpanKind::Small, 12 * PAGE, 1, 4096));
        let found = |spans: &Spans, page: u64| spans.locate_slot(&map, page * PAGE);
        for _ in 0..2 {
            let pages = [1, 2, 4, 5, 7, 8, 11, 12, 13].map(|page| found(&spans, page));
            let expected = [None, Some((0, 0)), Some((0, 128)), None, None];
            assert_eq!(pages[..5], expected);
            assert_eq!(pages[5..], [Some((1, 0)), Some((1, 0)), Some((2, 0)), None]);
        }
        // For a large object, the map has only pages that were looked up.
        assert_eq!([8, 9, 10, 11].map(|page| map.get(page * PAGE)), [Some(1), None, None, Some(1)]);
        spans.remove(&map, 1);
        assert_eq!([8, 9, 11].map(|page| found(&spans, page)), [None; 3]);
        // Another span gets the number of the removed span, and another region gets its pages.
        assert_eq!(spans.add(&map, span(SpanKind::Small, 20 * PAGE, 1, 64)), 1);
        map.set(9 * PAGE, PAGE, Some(0));
        assert_eq!([8, 9, 20].map(|page| found(&spans, page)), [None, None, Some((1, 0))]);
    }

    #[test]
    fn each_byte_has_its_slot() {
        for slot in [8u32, 16, 24, 40, 48, 104, 512, 520, 3000, 4096, 20000, 32768] {
            let pages = if slot > 512 { (4 * slot).div_ceil(4096) } else { 256 };
            let span = span(SpanKind::Small, 1 << 33, pages, slot);
            for i in 0..u64::from(span.slots) {
                for inside in [0, 1, u64::from(slot) / 2, u64::from(slot) - 1] {
                    let offset = span.offset_of(i as u32) + inside;
                    assert_eq!(span.slot_of(offset), Some(i as u32), "{slot} {i} {inside}");
                }
            }
            assert_eq!(span.slot_of((1 << 33) + span.bytes), None);
            assert_eq!(span.slot_of((1 << 33) - 1), None);
        }
        let large = span(SpanKind::Large, 4096, 1 << 20, 0);
        assert_eq!([large.slot_of(4096), large.slot_of((1 << 32) + 4095)], [Some(0), Some(0)]);
        assert_eq!(large.slot_of((1 << 32) + 4096), None);
    }
}
