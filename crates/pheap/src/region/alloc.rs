//! Allocation within a region: typed spans, filled from the front.
//!
//! Nothing is written per object. A span is recorded in the span table by the transaction that commits the first object in it.
//! Allocation is part of the transaction: [`rollback`](Allocator::rollback) takes it all back.

use std::collections::{BTreeMap, HashMap};

use crate::error::{Error, Result};
use crate::heap::arena::{SpanEntry, SpanKind};
use crate::heap::mapping::PAGE;
use crate::heap::{HeapInner, Span};
use crate::layout::desc::Desc;

/// Larger objects get a span of their own.
const LARGE: u64 = 32 << 10;
/// Largest span of small objects.
const MAX_SPAN: u64 = 1 << 20;
/// Spans of at least this many bytes are populated when they are taken.
const POPULATE: u64 = 64 << 10;

/// The open span of one type and slot size.
struct Bin {
    /// Address of the next free slot, and of the end of the span.
    next: usize,
    end: usize,
    slot: u32,
    ty: u32,
    /// Bytes of all spans that the bin has had since the heap was opened: what the size of the next one follows.
    owned: u64,
    /// The transaction that used it last, and where `fresh` counts its objects.
    txn: u64,
    fresh: u32,
}

/// The allocator of a region.
#[derive(Default)]
pub(crate) struct Allocator {
    bins: Vec<Bin>,
    by_type: HashMap<(usize, u32), u32>,
    /// The last few bins, by a hash of their type.
    recent: [(usize, u32, u32); 8],
    txn: u64,
    /// Bins as they were before the open transaction.
    saved: Vec<(u32, usize, usize)>,
    /// Spans that the open transaction has taken.
    pub(crate) taken: Vec<Span>,
    /// Spans that are recorded: all that hold the region's objects.
    pub(crate) spans: Vec<Span>,
    pub(crate) fresh: Fresh,
}

/// Bytes of a slot for a slice or string of `bytes`, its length included: at most an eighth is wasted.
fn size_class(bytes: u64) -> u64 {
    if bytes <= 128 {
        bytes.next_multiple_of(8).max(8)
    } else {
        let step = 1 << ((bytes - 1).ilog2() - 3);
        bytes.next_multiple_of(step)
    }
}

/// What to allocate.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) desc: &'static Desc,
    pub(crate) bytes: u64,
    pub(crate) align: u64,
    /// Whether objects of this type differ in size.
    pub(crate) unsized_: bool,
}

impl Allocator {
    /// Starts a transaction.
    #[inline]
    pub(crate) fn begin(&mut self, txn: u64) {
        self.txn = txn;
    }

    /// Address of a new object.
    #[inline]
    pub(crate) fn alloc(&mut self, heap: &HeapInner, region: u32, request: Request) -> Result<usize> {
        let align = request.align.max(8);
        let slot = if request.unsized_ { size_class(request.bytes) } else { request.bytes.max(8) };
        let slot = (slot + align - 1) & !(align - 1);
        if slot > LARGE || align > PAGE {
            return self.alloc_large(heap, region, request);
        }
        let key = (std::ptr::from_ref(request.desc).addr(), slot as u32);
        let hash = (key.0 >> 4 ^ key.1 as usize >> 3) % self.recent.len();
        let recent = self.recent[hash];
        let number = if (recent.0, recent.1) == key {
            recent.2
        } else {
            let number = self.bin(heap, key, request)?;
            self.recent[hash] = (key.0, key.1, number);
            number
        };
        let bin = &mut self.bins[number as usize];
        if bin.txn != self.txn {
            self.saved.push((number, bin.next, bin.end));
            bin.txn = self.txn;
            bin.fresh = u32::MAX;
        }
        if bin.next == bin.end {
            let span = heap.take_span(
                bin.span_size(),
                SpanEntry { kind: SpanKind::Small, slot: bin.slot, pages: 0, ty: bin.ty, region },
            )?;
            let size = u64::from(span.entry.pages) * PAGE;
            if size >= POPULATE {
                heap.populate(span.offset, size);
            }
            bin.next = heap.base().addr() + span.offset as usize;
            bin.end = bin.next + (size / slot * slot) as usize;
            bin.owned += size;
            bin.fresh = u32::MAX;
            self.taken.push(span);
        }
        let addr = bin.next;
        bin.next += slot as usize;
        bin.fresh = self.fresh.add(bin.fresh, addr, slot as usize);
        Ok(addr)
    }

    #[cold]
    fn bin(&mut self, heap: &HeapInner, key: (usize, u32), request: Request) -> Result<u32> {
        if let Some(&number) = self.by_type.get(&key) {
            return Ok(number);
        }
        let ty = heap.register(request.desc)?;
        let number = self.bins.len() as u32;
        self.bins.push(Bin { next: 0, end: 0, slot: key.1, ty, owned: 0, txn: 0, fresh: u32::MAX });
        self.by_type.insert(key, number);
        Ok(number)
    }

    #[cold]
    fn alloc_large(&mut self, heap: &HeapInner, region: u32, request: Request) -> Result<usize> {
        if request.align > PAGE {
            return Err(Error::TooLarge { bytes: request.bytes });
        }
        let ty = heap.register(request.desc)?;
        let entry = SpanEntry { kind: SpanKind::Large, slot: 0, pages: 0, ty, region };
        let span = heap.take_span(request.bytes, entry)?;
        heap.populate(span.offset, u64::from(span.entry.pages) * PAGE);
        let addr = heap.base().addr() + span.offset as usize;
        self.fresh.add(u32::MAX, addr, request.bytes.next_multiple_of(8) as usize);
        self.taken.push(span);
        Ok(addr)
    }

    /// Whether the open transaction has not even tried to allocate.
    #[inline]
    pub(crate) fn is_untouched(&self) -> bool {
        self.saved.is_empty() && self.fresh.is_empty()
    }

    /// Keeps what the transaction has allocated.
    #[inline]
    pub(crate) fn commit(&mut self) {
        self.saved.clear();
        self.spans.append(&mut self.taken);
        self.fresh.clear();
    }

    /// Takes back what the transaction has allocated.
    pub(crate) fn rollback(&mut self, heap: &HeapInner) {
        for (number, next, end) in self.saved.drain(..) {
            let bin = &mut self.bins[number as usize];
            (bin.next, bin.end) = (next, end);
        }
        for span in self.taken.drain(..) {
            heap.give_back(&span);
        }
        self.fresh.clear();
    }
}

impl Bin {
    /// Bytes for the next span: a quarter of what there is, so that small heaps stay small and large ones have few spans.
    fn span_size(&self) -> u64 {
        let slot = u64::from(self.slot);
        let least = if slot > 512 { 4 * slot } else { slot };
        (self.owned / 4).clamp(least, MAX_SPAN.max(least)).next_multiple_of(PAGE)
    }
}

/// Ranges of objects that the open transaction has allocated: they need no log.
#[derive(Default)]
pub(crate) struct Fresh {
    ranges: Vec<(usize, usize)>,
    /// Start of each range → its number.
    by_start: BTreeMap<usize, u32>,
    /// Bytes of all ranges.
    pub(crate) bytes: usize,
}

impl Fresh {
    /// Adds an object; extends range `hint` if it follows that one. Returns the range's number.
    #[inline]
    fn add(&mut self, hint: u32, addr: usize, len: usize) -> u32 {
        self.bytes += len;
        if let Some(range) = self.ranges.get_mut(hint as usize)
            && range.1 == addr
        {
            range.1 += len;
            return hint;
        }
        let number = self.ranges.len() as u32;
        self.ranges.push((addr, addr + len));
        self.by_start.insert(addr, number);
        number
    }

    /// Whether `addr` lies in an object of this transaction.
    #[inline]
    pub(crate) fn contains(&self, addr: usize) -> bool {
        match self.ranges.last() {
            None => false,
            Some(&(start, end)) if (start..end).contains(&addr) => true,
            _ => self.find(addr),
        }
    }

    fn find(&self, addr: usize) -> bool {
        let before = self.by_start.range(..=addr).next_back();
        before.is_some_and(|(_, &number)| addr < self.ranges[number as usize].1)
    }

    /// The ranges: first address, and the one behind the last.
    pub(crate) fn ranges(&self) -> &[(usize, usize)] {
        &self.ranges
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    #[inline]
    fn clear(&mut self) {
        if !self.ranges.is_empty() {
            self.ranges.clear();
            self.by_start.clear();
            self.bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_waste_an_eighth_at_most() {
        for bytes in 1..200_000u64 {
            let class = size_class(bytes);
            assert!(class >= bytes && class.is_multiple_of(8));
            assert!(class - bytes <= (bytes / 8).max(8), "{bytes} in {class}");
            assert_eq!(size_class(class), class);
        }
    }

    #[test]
    fn fresh_ranges_are_found() {
        let mut fresh = Fresh::default();
        let a = fresh.add(u32::MAX, 1000, 16);
        let b = fresh.add(u32::MAX, 5000, 16);
        assert_eq!(fresh.add(a, 1016, 16), a);
        assert_eq!(fresh.add(b, 5016, 8), b);
        assert_eq!(fresh.ranges(), [(1000, 1032), (5000, 5024)]);
        for (addr, is) in
            [(999, false), (1000, true), (1031, true), (1032, false), (5023, true), (5024, false)]
        {
            assert_eq!(fresh.contains(addr), is, "{addr}");
        }
        assert_eq!(fresh.bytes, 56);
    }
}
