//! Converts the objects of spans to other types. The objects of a span stay in their slots if all successors
//! fit there. Otherwise each successor gets a new slot, and a pointer to the successor remains in the old
//! slot.
//!
//! All objects of a span are converted in one transaction, which also changes the type of the span. So a span
//! has one type at any time, and that type says how far the conversion has come.

#![allow(unsafe_code)]

use std::collections::HashMap;

use super::Exclusive;
use crate::alloc::AllocRequest;
use crate::alloc::size::{MAX_SPAN, spans_for};
use crate::alloc::span::ObjectSpan;
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::layout::desc::Desc;
use crate::layout::{Conversion, OccupiedSlots, PointerMap, Words};
use crate::os::cpu::settle;
use crate::store::arena::SpanEntry;
use crate::store::spans::TakenSpan;
use crate::txn::context::Context;
use crate::units::{OBJECT_BYTES, PAGE};

/// How the objects of one type are converted.
pub(crate) struct Rewrite<'a> {
    pub(crate) desc: &'static Desc,
    pub(crate) conversion: &'a Conversion,
    /// Number of the new type.
    pub(crate) ty: u32,
    /// Number of the type that a slot gets when its object moves: its first word points to the new object.
    pub(crate) moved: u32,
    /// For conversions that [ask](Conversion::asks_for_owner) for it: the slots with values of each buffer,
    /// by the buffer's address.
    pub(crate) occupied: &'a HashMap<u64, OccupiedSlots>,
}

/// The memory that a conversion needs.
#[derive(Default)]
pub(crate) struct RewriteSpace {
    /// The spans whose objects are converted.
    changed: SpanBytes,
    /// Number of new small objects, by their type and the bytes of a slot; then the spans of new large
    /// objects, by type.
    classes: HashMap<(u32, u64), u64>,
    large: HashMap<u32, SpanBytes>,
}

/// Bytes of a set of spans: all of them, and the largest span.
#[derive(Default, Clone, Copy)]
struct SpanBytes {
    all: u64,
    most: u64,
}

impl SpanBytes {
    fn add(&mut self, other: SpanBytes) {
        self.all = self.all.saturating_add(other.all);
        self.most = self.most.max(other.most);
    }

    fn from_span(span: u64) -> SpanBytes {
        SpanBytes { all: span, most: span }
    }

    /// Returns the most bytes that one transaction handles if it converts up to `batch` bytes of these spans
    /// and one span more.
    fn in_batch(self, batch: u64) -> u64 {
        self.all.min(batch.saturating_add(self.most))
    }
}

impl RewriteSpace {
    /// Returns the most bytes of spans that new objects take, with their type. A type may come several times.
    /// (If the free pages are scattered, so many bytes may still have no room for a large object.)
    fn new_spans(&self) -> impl Iterator<Item = (u32, SpanBytes)> {
        let small = self.classes.iter().map(|(&(ty, slot), &objects)| (ty, spans_for(slot, objects)));
        let small = small.map(|(ty, all)| (ty, SpanBytes { all, most: all.min(MAX_SPAN) }));
        small.chain(self.large.iter().map(|(&ty, &spans)| (ty, spans)))
    }

    /// Returns the most bytes of spans that new objects take.
    pub(crate) fn new_bytes(&self) -> u64 {
        self.new_spans().map(|(_, spans)| spans.all).fold(0, u64::saturating_add)
    }

    /// Returns the most bytes of undo entries that one transaction makes, if it handles up to `batch` bytes
    /// of spans and one span more. Pointers to moved objects may be in `others`, the present spans with
    /// pointers.
    pub(crate) fn logged_bytes(
        &self,
        batch: u64,
        others: impl Iterator<Item = u64>,
        has_pointers: impl Fn(u32) -> bool,
    ) -> u64 {
        let mut pointers = SpanBytes::default();
        let mut moved = self.new_spans().peekable();
        if moved.peek().is_some() {
            others.for_each(|span| pointers.add(SpanBytes::from_span(span)));
            moved.filter(|(ty, _)| has_pointers(*ty)).for_each(|(_, spans)| pointers.add(spans));
        }
        let bytes = self.changed.in_batch(batch).max(pointers.in_batch(batch));
        // The additional bytes are for the heads of the entries, and for the unused rest of a log segment.
        bytes.saturating_add(bytes / 64 + bytes.min(1 << 16) + PAGE)
    }
}

impl Rewrite<'_> {
    /// Returns the slots with values of the object at `addr`, if its conversion asks for them.
    fn occupied_slots(&self, addr: u64) -> Result<Option<OccupiedSlots>> {
        if !self.conversion.asks_for_owner() {
            return Ok(None);
        }
        let occupied = self.occupied.get(&addr).copied();
        // SURVIVES unreached: no program of the lab has a heap that is corrupt in this way.
        occupied.map(Some).ok_or_else(|| Error::corrupt("no collection owns a buffer"))
    }

    /// Whether new objects may be in slots of `slot` bytes. This alone decides for a span without objects.
    fn may_stay(&self, slot: u64) -> bool {
        slot.is_multiple_of(self.conversion.align.max(8)) && self.conversion.least_bytes() <= slot
    }

    /// Returns the request for a new object of `bytes` bytes.
    fn request(&self, bytes: u64) -> AllocRequest {
        let Rewrite { desc, conversion, .. } = self;
        AllocRequest { desc, bytes, align: conversion.align, unsized_: conversion.is_unsized() }
    }

    /// Returns the bytes of the new object that replaces the object at `old`.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    ///
    /// # Safety
    /// `old` points to a live object of the type that the conversion is for.
    unsafe fn bytes(&self, old: *const u8) -> Result<u64> {
        // SAFETY: the caller guarantees that `old` points to an object of the conversion's type.
        let bytes = unsafe { self.conversion.bytes(old) };
        if bytes < OBJECT_BYTES as u64 { Ok(bytes) } else { Err(Error::TooLarge { bytes }) }
    }
}

// A caller with `&mut Exclusive` has no `Txn` of it. So no reference to an object, or to the context, exists.
impl Exclusive<'_> {
    /// Frees all objects that neither the root, nor a version of it that is kept, nor a held pointer reaches.
    /// Afterwards each slot that counts as taken has an object, all of which was written. The open
    /// transaction has done nothing so far. The result stays true as long as the region is locked, except for
    /// the [runs](Self::give_back_runs) that allocations begin.
    pub(crate) fn trace(&mut self) {
        let context = self.context();
        // A cycle must begin while no thread reads.
        // SURVIVES unreached: mutants are tried without conversions; `tests/changed_types.rs` of pheap-crash
        // has conversions.
        context.upgrade();
        context.between_states(|context| {
            // The running cycle counts objects as live that were allocated since it began, so a new cycle
            // follows.
            context.complete_collection();
            if !bug(Bug::ConvertDead) {
                context.begin_and_complete_collection();
            }
        });
        self.give_back_runs();
    }

    /// Frees the slots that the allocator has set aside for the next objects, and that count as taken.
    pub(crate) fn give_back_runs(&mut self) {
        let context = self.context();
        let store = context.store();
        context.alloc.give_back_unfilled(store);
    }

    /// Returns the region's spans of objects, with their numbers.
    pub(crate) fn object_spans(&self) -> Vec<(u32, TakenSpan)> {
        let spans = &self.context().alloc.spans;
        (0..spans.end_number()).filter_map(|number| Some((number, spans.get(number)?.span))).collect()
    }

    /// Converts the objects of span `number`, which have the type that `how` is for. Returns the new span
    /// entry, which the transaction records.
    ///
    /// The region was [traced](Self::trace), and no other thread has had it since then. So each live slot has
    /// an object, all of which was written.
    ///
    /// # Errors
    /// Those of an allocation; [`Error::TooLarge`] if a new object would be too large; [`Error::Corrupt`] if
    /// no collection owns a buffer.
    ///
    /// # Panics
    /// If a function of the program panics, if there is no such span, or if its live slots are not known.
    pub(crate) fn convert(&mut self, number: u32, how: &Rewrite<'_>) -> Result<TakenSpan> {
        let (span, slot, live) = self.slots(number);
        let start = self.store.base().addr() as u64 + span.offset;
        let occupied = |i: u32| how.occupied_slots(start + u64::from(i) * slot);
        let place = self.whole(number);
        let at = |i: u32| place.wrapping_add((u64::from(i) * slot) as usize);
        // SAFETY: slot `i` is live, so `at(i)` points to an object of the conversion's type, all of which was
        // written.
        let fits = |i: &u32| unsafe { how.conversion.bytes(at(*i)) } <= slot;
        let stays = how.may_stay(slot) && live.iter().all(fits);
        let mut old: Vec<u64> = Vec::new();
        for i in live {
            let (object, occupied) = (at(i), occupied(i)?);
            if stays {
                // SAFETY: slot `i` is live, so `object` points to an object of the conversion's type, all of
                // which was written.
                let bytes = unsafe { how.conversion.old_bytes(object, slot) } as usize;
                old.clear();
                old.resize(bytes.div_ceil(8), 0);
                // SAFETY: the slot of `object` has at least `bytes` bytes, `old` was resized to hold them,
                // and a vector does not overlap the heap.
                unsafe { old.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(object, bytes) };
                // SAFETY: `object` is a slot of `slot` bytes within `place`, which only this transaction
                // writes.
                unsafe { object.write_bytes(0, slot as usize) };
                // SAFETY: `old` is an aligned copy of an object of the conversion's type. `object` is a slot
                // of `slot` bytes, all zero, and `stays` says that the new object fits.
                unsafe { how.conversion.run(old.as_ptr().cast(), object, occupied) };
            } else {
                let new = self.alloc_for(object, how, occupied)?;
                // SAFETY: `object` is a slot, of at least 8 bytes, within `place`, which only this
                // transaction writes.
                unsafe { object.cast::<u64>().write(new.addr() as u64) };
            }
        }
        let entry = SpanEntry { ty: if stays { how.ty } else { how.moved }, ..span.entry };
        let span = TakenSpan { entry, ..span };
        self.context().alloc.record_again(span);
        Ok(span)
    }

    /// Fails if [`convert`](Self::convert) of this span would fail for another reason than missing space.
    /// Adds to `room` the memory that the conversion of this span needs.
    pub(crate) fn check_convertible(
        &self,
        number: u32,
        how: &Rewrite<'_>,
        room: &mut RewriteSpace,
    ) -> Result<()> {
        let (span, slot, live) = self.slots(number);
        let start = self.store.base().addr() as u64 + span.offset;
        let (mut all, mut stays) = (Vec::new(), how.may_stay(slot));
        for at in live.iter().map(|&i| start + u64::from(i) * slot) {
            how.occupied_slots(at)?;
            // SAFETY: `at` is the address of a live slot of this span, so it has an object of the
            // conversion's type, all of which was written.
            let bytes = unsafe { how.bytes(std::ptr::with_exposed_provenance(at as usize)) }?;
            all.push(bytes);
            stays &= bytes <= slot;
        }
        room.changed.add(SpanBytes::from_span(span.bytes()));
        if stays {
            return Ok(());
        }
        for bytes in all {
            match how.request(bytes).class_or_span() {
                (Some(slot), _) => *room.classes.entry((how.ty, slot)).or_default() += 1,
                (None, bytes) => room.large.entry(how.ty).or_default().add(SpanBytes::from_span(bytes)),
            }
        }
        Ok(())
    }

    /// Allocates and writes the new object that replaces the object at `old`, which must be of the
    /// conversion's type.
    fn alloc_for(
        &mut self,
        old: *const u8,
        how: &Rewrite<'_>,
        occupied: Option<OccupiedSlots>,
    ) -> Result<*mut u8> {
        let conversion = how.conversion;
        // SAFETY: `convert`, the only caller, passes a live object of the conversion's type.
        let bytes = unsafe { how.bytes(old) }?;
        let new = self.context().alloc(how.request(bytes))?;
        // SAFETY: `new` was allocated just now, with `bytes` bytes rounded up to whole words.
        unsafe { new.write_bytes(0, bytes.next_multiple_of(8) as usize) };
        // SAFETY: `old` is an object of the conversion's type. `new` has room for the new object, and is
        // zero.
        unsafe { conversion.run(old, new, occupied) };
        Ok(new)
    }

    /// Changes the pointers in span `number` that lead to a moved object, so that they lead to its successor.
    /// Returns whether there were such pointers.
    pub(crate) fn redirect(&mut self, number: u32, moved: u32) -> bool {
        let (_, slot, live) = self.slots(number);
        let Some(span) = self.context().alloc.spans.get(number) else { return false };
        let pointers = span.pointers.clone();
        let start = std::ptr::with_exposed_provenance_mut::<u8>(self.addr(span));
        let mut found = false;
        for_each_pointer(&pointers, start, slot, &live, |word| {
            // SAFETY: `word` is an aligned word in a live slot of this span, which is mapped and which only
            // this thread writes.
            found |= self.successor(unsafe { word.read() }, moved).is_some();
        });
        if found {
            let place = self.whole(number);
            for_each_pointer(&pointers, place, slot, &live, |word| {
                // SAFETY: `word` is an aligned word in a live slot of this span, at `place`, which only this
                // transaction writes.
                let pointer = unsafe { word.read() };
                if let Some(new) = self.successor(pointer, moved) {
                    // SAFETY: `word` is within `place`, which `whole` has made writable for this transaction.
                    unsafe { word.write(new) };
                }
            });
        }
        found
    }

    /// Returns the address to which the object at `addr` has moved, if it has.
    fn successor(&self, addr: u64, moved: u32) -> Option<u64> {
        if self.span_of(addr)?.span.entry.ty != moved {
            return None;
        }
        let object = std::ptr::with_exposed_provenance::<u64>(addr as usize);
        // SAFETY: `addr` is the start of a slot, because no pointer leads into the middle of a converted
        // object. The type of its span says that an object has moved from there, so the first word is its new
        // address.
        Some(unsafe { object.read() })
    }

    /// Calls `visit` with each pointer, null or not, that `map` finds in live slots of span `number`. If the
    /// live slots are not known, all slots count as live.
    pub(crate) fn pointers_in(&self, number: u32, map: &PointerMap, mut visit: impl FnMut(u64)) {
        let Some(span) = self.context().alloc.spans.get(number) else { return };
        let (slot, live) = (span.slot, span.live.ones().map(|slot| slot as u32));
        let live: Vec<u32> = if span.live.is_empty() { (0..span.slots).collect() } else { live.collect() };
        let start = std::ptr::with_exposed_provenance_mut::<u8>(self.addr(span));
        // SAFETY: `word` is an aligned word in a slot of this span, which is mapped and which only this
        // thread writes.
        for_each_pointer(map, start, slot, &live, |word| visit(unsafe { word.read() }));
    }

    /// Calls `visit` with each pointer that is not null and that `map` finds in live slots of span `number`,
    /// and with the words at these `distances` in bytes from the pointer (before it if negative).
    ///
    /// # Panics
    /// If one of these words is not aligned, or not in the span.
    pub(crate) fn pointers_with<const N: usize>(
        &self,
        number: u32,
        map: &PointerMap,
        distances: [i64; N],
        mut visit: impl FnMut(u64, [u64; N]),
    ) {
        let Some(span) = self.context().alloc.spans.get(number) else { return };
        let (start, bytes) = (self.addr(span), span.bytes);
        let live: Vec<u32> = span.live.ones().map(|slot| slot as u32).collect();
        for_each_pointer(map, std::ptr::with_exposed_provenance_mut(start), span.slot, &live, |word| {
            // SAFETY: `word` is an aligned word in a live slot of this span, which is mapped and which only
            // this thread writes.
            let pointer = unsafe { word.read() };
            if pointer == 0 {
                return;
            }
            visit(
                pointer,
                distances.map(|distance| {
                    let at = (word.addr() as i64 + distance) as usize;
                    assert!(at.is_multiple_of(8) && at >= start && at + 8 <= start + bytes as usize);
                    // SAFETY: `at` is aligned and within the span, as was just checked. The span is mapped,
                    // and only this thread writes it.
                    unsafe { std::ptr::with_exposed_provenance::<u64>(at).read() }
                }),
            );
        });
    }

    /// Returns the type of the region's span that `addr` leads into, and whether a slot, with or without an
    /// object, begins at `addr`; `None` if there is no such span of objects.
    pub(crate) fn type_at(&self, addr: u64) -> Option<(u32, bool)> {
        let span = self.span_of(addr)?;
        let inside = (addr - self.store.base().addr() as u64).wrapping_sub(span.span.offset);
        Some((span.span.entry.ty, inside.is_multiple_of(span.slot)))
    }

    /// Returns the first `N` words of the object at `offset`; `None` if no slot there has so many words.
    pub(crate) fn object_words<const N: usize>(&self, offset: u64) -> Option<[u64; N]> {
        let addr = self.store.base().addr() as u64 + offset;
        self.span_of(addr).filter(|span| span.slot >= 8 * N as u64)?;
        // SAFETY: `addr` is in a span with slots of at least `N` words. The callers pass the offset of an
        // object in it.
        Some(unsafe { std::ptr::with_exposed_provenance::<[u64; N]>(addr as usize).read() })
    }

    /// Allocates an object that consists of these words. Returns its heap offset.
    pub(crate) fn alloc_words<const N: usize>(
        &mut self,
        desc: &'static Desc,
        words: [u64; N],
    ) -> Result<u64> {
        assert!(desc.size == 8 * N && desc.align == 8, "an object of other words");
        let request = AllocRequest { desc, bytes: desc.size as u64, align: 8, unsized_: false };
        let new = self.context().alloc(request)?;
        // SAFETY: `new` was allocated just now, with `N` words.
        unsafe { new.cast::<[u64; N]>().write(words) };
        Ok((new.addr() - self.store.base().addr()) as u64)
    }

    fn span_of(&self, addr: u64) -> Option<&ObjectSpan> {
        let spans = &self.context().alloc.spans;
        let offset = addr.wrapping_sub(self.store.base().addr() as u64);
        spans.get(spans.locate_slot(&self.store.page_map, offset)?.0)
    }

    fn addr(&self, span: &ObjectSpan) -> usize {
        self.store.base().addr() + span.span.offset as usize
    }

    /// Returns span `number`, the bytes of its slots, and the slots that have objects.
    fn slots(&self, number: u32) -> (TakenSpan, u64, Vec<u32>) {
        let span = self.context().alloc.spans.get(number).expect("a span of the region");
        assert!(!span.live.is_empty(), "it is not known what is live");
        (span.span, span.slot, span.live.ones().map(|slot| slot as u32).collect())
    }

    /// Makes all of span `number` writable for the open transaction, with its present content. Returns its
    /// address.
    fn whole(&mut self, number: u32) -> *mut u8 {
        let context = self.context();
        let span = context.alloc.spans.get(number).expect("a span of the region");
        let (addr, bytes) = (context.store().base().addr() + span.span.offset as usize, span.bytes as usize);
        // SAFETY: `context` is that of the open transaction, and the only reference to it during this call.
        // `addr` and `bytes` are a span of its region, and no reference into that span exists.
        let place = unsafe { Context::writable(context, addr, bytes, 8, None) };
        settle(place);
        place
    }
}

/// Calls `visit` with the address of each pointer, null or not, in these slots.
fn for_each_pointer(
    map: &PointerMap,
    start: *mut u8,
    slot: u64,
    live: &[u32],
    mut visit: impl FnMut(*mut u64),
) {
    if !map.has_pointers() {
        return;
    }
    for &i in live {
        let object = start.wrapping_add((u64::from(i) * slot) as usize);
        // SAFETY: `object` is a slot of `slot` bytes in a mapped span. The region is locked, so no other
        // thread writes to it.
        let words = unsafe { Words::new(object.cast(), slot as usize / 8) };
        map.visit(words, 0..slot as usize, &mut visit);
    }
}
