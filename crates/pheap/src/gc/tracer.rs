//! A region as `pheap-gc` sees it.

use crate::alloc::span::Spans;
use crate::os::cpu;
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
pub(super) struct Tracer<'a> {
    pub(super) base: u64,
    pub(super) map: &'a PageMap,
    pub(super) spans: &'a Spans,
    /// Whether other threads mark, too.
    pub(super) shared: bool,
}

impl pheap_gc::Heap for Tracer<'_> {
    type Object = Object;

    #[inline(always)]
    fn prefetch(&self, pointer: u64) {
        cpu::prefetch(std::ptr::without_provenance(pointer as usize));
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
                // SAFETY: as below; the words are within the type.
                let pointer = unsafe { addr.add(words.trailing_zeros() as usize).read() };
                if pointer != 0 {
                    found(pointer);
                }
                words &= words - 1;
            }
            return None;
        }
        let start = u64::from(object.part) * PART;
        let end = span.slot.min(start + PART);
        // SAFETY: a slot of a span of this region, which is locked; its type is that of the span. A slot that was marked holds an object.
        unsafe {
            let addr = std::ptr::with_exposed_provenance(object.addr as usize);
            span.pointers.visit(addr, span.slot as usize, start as usize..end as usize, |word| {
                let pointer = word.read();
                if pointer != 0 {
                    found(pointer);
                }
            });
        }
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
