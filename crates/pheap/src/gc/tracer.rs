//! The interface through which `pheap-gc` marks a region. The tracer here reads the region's objects.

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

/// An object, or a part of one, that was marked and must be traced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    addr: u64,
    span: u32,
    /// Index of the part. A part has [`PART`] bytes; the last one may have fewer.
    part: u32,
}

/// The data of a region that marking needs: where its objects are, and what they point to.
///
/// A caller with a reference to the allocator of a region has the region's lock. The reads of objects rely on
/// that:
///
/// 1. The spans of the allocator are mapped in the store that it allocates from.
/// 2. No thread writes to the region's objects as long as the tracer exists. A transaction passes words to
///    the marker before it overwrites them.
pub(super) struct Tracer<'a> {
    base: u64,
    map: &'a PageMap,
    spans: &'a Spans,
    /// Whether other threads mark at the same time.
    shared: bool,
}

impl<'a> Tracer<'a> {
    /// Makes a tracer for a region of this store.
    #[inline(always)]
    pub(super) fn new(alloc: &'a Allocator, store: &'a Store, shared: bool) -> Tracer<'a> {
        Tracer { base: store.base().addr() as u64, map: &store.page_map, spans: &alloc.spans, shared }
    }

    /// Returns the first `N` words of the object at a heap offset; `None` if no slot there has so many words.
    pub(super) fn object_words<const N: usize>(&self, offset: u64) -> Option<[u64; N]> {
        let (number, slot) = self.spans.locate_slot(self.map, offset)?;
        let span = self.spans.get(number).filter(|span| span.slot >= 8 * N as u64)?;
        let object =
            std::ptr::with_exposed_provenance::<[u64; N]>((self.base + span.offset_of(slot)) as usize);
        // SAFETY: the slot has at least `8 * N` bytes, is aligned for words, and is mapped (premise 1). No
        // thread writes to it now (premise 2). Its bytes are definite, because the heap's pages were zero at
        // first.
        Some(unsafe { object.read() })
    }

    /// Calls `found` with each pointer that is not null, in the `window` (in bytes) of a slot. Does nothing
    /// if there is no such slot.
    pub(super) fn pointers(&self, span: u32, slot: u32, window: Range<u64>, found: &mut impl FnMut(u64)) {
        if let Some(span) = self.spans.get(span).filter(|span| slot < span.slots) {
            // SAFETY: `slot` is less than `span.slots`, so the address is that of a slot of the region.
            unsafe { visit(span, self.base + span.offset_of(slot), window, found) };
        }
    }
}

/// Calls `found` with each pointer that is not null, in the `window` (in bytes) of the slot at `addr`.
///
/// # Safety
/// `addr` is the address of a slot of `span`, which is a span of a region that is being [traced](Tracer).
#[inline(always)]
unsafe fn visit(span: &ObjectSpan, addr: u64, window: Range<u64>, found: &mut impl FnMut(u64)) {
    let object = std::ptr::with_exposed_provenance(addr as usize);
    // SAFETY: the slot has `span.slot` bytes, which are mapped (premise 1 of `Tracer`). No thread writes to
    // them now (premise 2). They are definite, because the heap's pages were zero at first.
    let object = unsafe { Words::new(object, span.slot as usize / 8) };
    span.pointers.visit(object, window.start as usize..window.end as usize, |word| {
        // SAFETY: `word` is one of the words of the slot.
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
        // For a pointer to memory outside the heap (a sound heap has none), the difference is an offset
        // beyond the map, perhaps because the subtraction wraps around.
        let (number, slot) = self.spans.locate_slot(self.map, pointer.wrapping_sub(self.base))?;
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
                // SAFETY: the words of `plain` are within the type, and so within the slot at `object.addr`,
                // which is mapped, and which no thread writes to (premises 1 and 2 of `Tracer`).
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
        // SAFETY: `object.addr` is the address of a slot of its span: `mark` and `marked` set it so, and here
        // it stays the same.
        unsafe { visit(span, object.addr, start..end, found) };
        (end < span.slot).then_some(Object { part: object.part + 1, ..object })
    }

    fn marked(&self, visit: &mut impl FnMut(Object)) {
        for number in 0..self.spans.end_number() {
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
