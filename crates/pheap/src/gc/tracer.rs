//! A region as `pheap-gc` sees it, and where objects are read.

#![allow(unsafe_code)]

use std::ops::Range;

use crate::alloc::Allocator;
use crate::alloc::span::{ObjectSpan, Spans};
use crate::layout::Words;
use crate::os::cpu;
use crate::store::Store;
use crate::store::page_map::PageMap;

/// Bytes of an object that are traced at a time.
const PART: u64 = 4096;

/// An object that was marked and is to be traced, or a part of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    addr: u64,
    span: u32,
    /// Number of the part, [`PART`] bytes each.
    part: u32,
}

/// What marking needs of a region: where its objects are and what they point to.
///
/// Who has a reference to the allocator of a region has the region's lock. On that the reading of objects relies:
///
/// 1. The spans of the allocator are mapped in the store that it allocates from.
/// 2. Nobody writes to the region's objects as long as the tracer is there. A transaction that hands one over what it is about to overwrite does so before.
pub(super) struct Tracer<'a> {
    base: u64,
    map: &'a PageMap,
    spans: &'a Spans,
    /// Whether other threads mark, too.
    shared: bool,
}

impl<'a> Tracer<'a> {
    /// For a region of this store.
    #[inline(always)]
    pub(super) fn new(alloc: &'a Allocator, store: &'a Store, shared: bool) -> Tracer<'a> {
        Tracer { base: store.base().addr() as u64, map: &store.page_map, spans: &alloc.spans, shared }
    }

    /// The first words of the object at a heap offset, if there is one that has as many.
    pub(super) fn words<const N: usize>(&self, offset: u64) -> Option<[u64; N]> {
        let (number, slot) = self.spans.find(self.map, offset)?;
        let span = self.spans.get(number).filter(|span| span.slot >= 8 * N as u64)?;
        let object =
            std::ptr::with_exposed_provenance::<[u64; N]>((self.base + span.offset_of(slot)) as usize);
        // SAFETY: a slot of so many bytes, aligned for words, which is mapped, was zero when the heap grew, and is not written meanwhile (premises 1 and 2).
        Some(unsafe { object.read() })
    }

    /// Shows `found` the pointers in a part of a slot, but for null.
    pub(super) fn pointers(&self, span: u32, slot: u32, window: Range<u64>, found: &mut impl FnMut(u64)) {
        if let Some(span) = self.spans.get(span).filter(|span| slot < span.slots) {
            // SAFETY: the address of a slot of a span of the region.
            unsafe { visit(span, self.base + span.offset_of(slot), window, found) };
        }
    }
}

/// Shows `found` the pointers in a part of the slot at `addr`, but for null.
///
/// # Safety
/// It is a slot of a span of a region that is being [traced](Tracer).
#[inline(always)]
unsafe fn visit(span: &ObjectSpan, addr: u64, window: Range<u64>, found: &mut impl FnMut(u64)) {
    let object = std::ptr::with_exposed_provenance(addr as usize);
    // SAFETY: a slot has as many bytes, which are mapped (premise 1 of `Tracer`), were zero when the heap grew, and are not written meanwhile (premise 2).
    let object = unsafe { Words::new(object, span.slot as usize / 8) };
    span.pointers.visit(object, window.start as usize..window.end as usize, |word| {
        // SAFETY: one of these words.
        let pointer = unsafe { word.read() };
        if pointer != 0 {
            found(pointer);
        }
    });
}

impl pheap_gc::Heap for Tracer<'_> {
    type Object = Object;

    #[inline(always)]
    fn prefetch(&self, pointer: u64) {
        cpu::prefetch_read(std::ptr::without_provenance(pointer as usize));
    }

    #[inline(always)]
    fn mark(&self, pointer: u64) -> Option<Object> {
        // A pointer from elsewhere (there is none in a sound heap) wraps around, and is behind the end of the map.
        let (number, slot) = self.spans.find(self.map, pointer.wrapping_sub(self.base))?;
        let span = self.spans.get(number)?;
        let new =
            if self.shared { span.marks.set_shared(slot as usize) } else { span.marks.set(slot as usize) };
        let addr = self.base + span.offset_of(slot);
        (new && span.pointers.has_pointers()).then_some(Object { addr, span: number, part: 0 })
    }

    #[inline(always)]
    fn trace(&self, object: Object, found: &mut impl FnMut(u64)) -> Option<Object> {
        let span = self.spans.get(object.span)?;
        if span.plain != 0 {
            let addr = std::ptr::with_exposed_provenance::<u64>(object.addr as usize);
            let mut words = span.plain;
            while words != 0 {
                // SAFETY: the words are within the type, and so within a slot of the region, which is mapped and not written (premises 1 and 2 of `Tracer`).
                let pointer = unsafe { addr.wrapping_add(words.trailing_zeros() as usize).read() };
                if pointer != 0 {
                    found(pointer);
                }
                words &= words - 1;
            }
            return None;
        }
        let start = u64::from(object.part) * PART;
        let end = span.slot.min(start + PART);
        // SAFETY: an `Object` is made here only, with the address of a slot.
        unsafe { visit(span, object.addr, start..end, found) };
        (end < span.slot).then_some(Object { part: object.part + 1, ..object })
    }

    fn marked(&self, visit: &mut impl FnMut(Object)) {
        for number in 0..self.spans.end() {
            let Some(span) = self.spans.get(number).filter(|span| span.pointers.has_pointers()) else {
                continue;
            };
            for slot in span.marks.ones() {
                visit(Object { addr: self.base + span.offset_of(slot as u32), span: number, part: 0 });
            }
        }
    }

    #[inline(always)]
    fn size(&self, object: Object) -> usize {
        self.spans.get(object.span).map_or(0, |span| span.slot.min(PART) as usize)
    }
}
