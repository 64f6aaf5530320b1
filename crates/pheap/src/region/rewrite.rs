//! Objects that become others, span by span: each in its slot if it fits, else in a new one, to which what was there leads from then on.
//!
//! All of a span changes in one transaction, with its type, so a span is of one type at any time. That type says how far the whole has come.

#![allow(unsafe_code)]

use std::collections::HashMap;

use super::Exclusive;
use crate::alloc::Request;
use crate::alloc::size::{MAX_SPAN, spans_for};
use crate::alloc::span::ObjectSpan;
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::layout::desc::Desc;
use crate::layout::{Conversion, Occupied, PointerMap, Words};
use crate::os::cpu::settle;
use crate::store::arena::SpanEntry;
use crate::store::spans::Span;
use crate::txn::context::Context;
use crate::units::{OBJECT_BYTES, PAGE};

/// When an object moves, a pointer to the new one stays in the old slot. These are the numbers of the types that
/// such slots have.
#[derive(Clone, Copy)]
pub(crate) struct Moved {
    /// Of an object: a pointer to the new one.
    pub(crate) object: u32,
    /// Of a slice: its length, which a function of the program's may ask for, and behind it that pointer.
    pub(crate) slice: u32,
}

impl Moved {
    /// What objects in slots of so many bytes leave, and the word of it that is the pointer.
    fn left_by(self, conversion: &Conversion, slot: u64) -> (u32, usize) {
        if conversion.is_unsized() && slot > LENGTH { (self.slice, 1) } else { (self.object, 0) }
    }

    /// The word of an object of such a type that is the pointer; `None` for other types.
    fn word(self, ty: u32) -> Option<usize> {
        match ty {
            _ if ty == self.object => Some(0),
            _ if ty == self.slice => Some(1),
            _ => None,
        }
    }

    /// Whether it is one of them.
    pub(crate) fn has(self, ty: u32) -> bool {
        self.word(ty).is_some()
    }
}

/// Bytes of a slice's length. In a slot of so many there is nothing else.
const LENGTH: u64 = 8;

/// What objects of a type in the heap become.
pub(crate) struct Rewrite<'a> {
    pub(crate) desc: &'static Desc,
    pub(crate) conversion: &'a Conversion,
    /// Number of the new type.
    pub(crate) ty: u32,
    pub(crate) moved: Moved,
    /// The slots with values of all buffers whose conversion [asks](Conversion::asks_for_owner) for them.
    pub(crate) occupied: &'a HashMap<u64, Occupied>,
}

/// What a conversion takes.
#[derive(Default)]
pub(crate) struct Room {
    /// Spans whose objects become others.
    changed: Bytes,
    /// New objects, by type and bytes of a slot; and those that get spans of their own, by type.
    classes: HashMap<(u32, u64), u64>,
    large: HashMap<u32, Bytes>,
}

/// How many bytes spans have, and the largest of them.
#[derive(Default, Clone, Copy)]
struct Bytes {
    all: u64,
    most: u64,
}

impl Bytes {
    fn add(&mut self, other: Bytes) {
        self.all = self.all.saturating_add(other.all);
        self.most = self.most.max(other.most);
    }

    fn of(span: u64) -> Bytes {
        Bytes { all: span, most: span }
    }

    /// Of those that one transaction is about, if it is about so many bytes and a span more.
    fn in_batch(self, batch: u64) -> u64 {
        self.all.min(batch.saturating_add(self.most))
    }
}

impl Room {
    /// Spans of new objects, by type, at most. (Free pages that are apart may be too few for a large object.)
    fn new_spans(&self) -> impl Iterator<Item = (u32, Bytes)> {
        let small = self.classes.iter().map(|(&(ty, slot), &objects)| (ty, spans_for(slot, objects)));
        let small = small.map(|(ty, all)| (ty, Bytes { all, most: all.min(MAX_SPAN) }));
        small.chain(self.large.iter().map(|(&ty, &spans)| (ty, spans)))
    }

    /// Bytes of spans for the new objects, at most.
    pub(crate) fn new_bytes(&self) -> u64 {
        self.new_spans().map(|(_, spans)| spans.all).fold(0, u64::saturating_add)
    }

    /// Bytes of undo entries that a transaction makes at most, if each is about `batch` bytes of spans and
    /// one span more. Pointers to what moves may be in `others`, the spans with pointers that there are.
    pub(crate) fn logged_bytes(
        &self,
        batch: u64,
        others: impl Iterator<Item = u64>,
        has_pointers: impl Fn(u32) -> bool,
    ) -> u64 {
        let mut pointers = Bytes::default();
        let mut moved = self.new_spans().peekable();
        if moved.peek().is_some() {
            others.for_each(|span| pointers.add(Bytes::of(span)));
            moved.filter(|(ty, _)| has_pointers(*ty)).for_each(|(_, spans)| pointers.add(spans));
        }
        let bytes = self.changed.in_batch(batch).max(pointers.in_batch(batch));
        // Their heads, and what is left at the end of a segment.
        bytes.saturating_add(bytes / 64 + bytes.min(1 << 16) + PAGE)
    }
}

impl Rewrite<'_> {
    /// Which slots of the object at an address have values, if its conversion asks for that.
    fn occupied_slots(&self, addr: u64) -> Result<Option<Occupied>> {
        if !self.conversion.asks_for_owner() {
            return Ok(None);
        }
        let occupied = self.occupied.get(&addr).copied();
        // SURVIVES unreached: no program has a heap that is corrupt in this way.
        occupied.map(Some).ok_or_else(|| Error::corrupt("no collection owns a buffer"))
    }

    /// Whether slots of so many bytes may have new objects. Of a span without objects, this is all that is known.
    fn may_stay(&self, slot: u64) -> bool {
        slot.is_multiple_of(self.conversion.align.max(8)) && self.conversion.least_bytes() <= slot
    }

    /// For a new object of so many bytes.
    fn request(&self, bytes: u64) -> Request {
        let Rewrite { desc, conversion, .. } = self;
        Request { desc, bytes, align: conversion.align, unsized_: conversion.is_unsized() }
    }

    /// Bytes of the new object for the one at `old`.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    ///
    /// # Safety
    /// An object of the type that the conversion is for is there.
    unsafe fn bytes(&self, old: *const u8) -> Result<u64> {
        // SAFETY: the caller's premise.
        let bytes = unsafe { self.conversion.bytes(old) };
        if bytes < OBJECT_BYTES as u64 { Ok(bytes) } else { Err(Error::TooLarge { bytes }) }
    }
}

// Who has an `Exclusive` by `&mut` has no `Txn` of it, so nobody has a reference to an object, nor to the context.
impl Exclusive<'_> {
    /// Frees all objects that neither the root nor a held pointer leads to: each slot that counts as taken has an
    /// object then, all of which was written. The open transaction has done nothing so far. That stays so as long as
    /// the region is locked, but for [runs](Self::give_back_runs) that allocations begin.
    pub(crate) fn trace(&mut self) {
        let context = self.context();
        // A cycle begins while nobody reads.
        // SURVIVES unreached: mutants are tried without conversions; `tests/changed_types.rs` of pheap-crash has them.
        context.upgrade();
        context.between_states(|context| {
            // The cycle that is running may count objects as live that were allocated since it began.
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

    /// The spans of objects: number, and entry.
    pub(crate) fn object_spans(&self) -> Vec<(u32, Span)> {
        let spans = &self.context().alloc.spans;
        (0..spans.end()).filter_map(|number| Some((number, spans.get(number)?.span))).collect()
    }

    /// Whether a slice in this span is a length, and there is no room for more: no element has bytes.
    pub(crate) fn has_only_lengths(&self, number: u32) -> bool {
        self.context().alloc.spans.get(number).is_some_and(|span| span.slot == LENGTH)
    }

    /// Converts the objects of a span, of the type that `how` is for. Returns its new entry, which the transaction records.
    ///
    /// The region was [traced](Self::trace), and no other thread has had it since: so each live slot has an object, all
    /// of which was written.
    ///
    /// # Errors
    /// Those of an allocation; [`Error::Corrupt`] if no collection owns a buffer.
    ///
    /// # Panics
    /// If a function of the program's does.
    pub(crate) fn convert(&mut self, number: u32, how: &Rewrite<'_>) -> Result<Span> {
        let (span, slot, live) = self.slots(number);
        let start = self.store.base().addr() as u64 + span.offset;
        let occupied = |i: u32| how.occupied_slots(start + u64::from(i) * slot);
        let place = self.whole(number);
        let at = |i: u32| place.wrapping_add((u64::from(i) * slot) as usize);
        // SAFETY: slot `i` is live, so an object of the type that the conversion is for is there, and was written.
        let fits = |i: &u32| unsafe { how.conversion.bytes(at(*i)) } <= slot;
        let stays = how.may_stay(slot) && live.iter().all(fits);
        let (left, word) = how.moved.left_by(how.conversion, slot);
        let mut old: Vec<u64> = Vec::new();
        for i in live {
            let (object, occupied) = (at(i), occupied(i)?);
            if stays {
                // SAFETY: slot `i` is live, so `object` is one of the type that the conversion is for, and was written.
                let bytes = unsafe { how.conversion.old_bytes(object, slot) } as usize;
                old.clear();
                old.resize(bytes.div_ceil(8), 0);
                // SAFETY: the slot of `object` has `bytes` bytes, `old` has room for them, and the two are apart.
                unsafe { old.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(object, bytes) };
                // SAFETY: `object` is a slot of `slot` bytes within `place`, which only this transaction writes.
                unsafe { object.write_bytes(0, slot as usize) };
                // SAFETY: `old` is a copy of an object of the type; `object` is a slot that has room for the new one, and
                // is zero.
                unsafe { how.conversion.run(old.as_ptr().cast(), object, occupied) };
            } else {
                let new = self.alloc_for(object, how, occupied)?;
                // SAFETY: `object` is a slot within `place`, which only this transaction writes. It has 8 bytes or
                // more; if `word` is 1, it is a slice's, with more than 8, which are a multiple of 8.
                unsafe { object.cast::<u64>().wrapping_add(word).write(new.addr() as u64) };
            }
        }
        let entry = SpanEntry { ty: if stays { how.ty } else { left }, ..span.entry };
        let span = Span { entry, ..span };
        self.context().alloc.record_again(span);
        Ok(span)
    }

    /// Fails if [`convert`](Self::convert) of this span would, for want of anything but space. Adds to `room`
    /// what that takes.
    pub(crate) fn check_convertible(&self, number: u32, how: &Rewrite<'_>, room: &mut Room) -> Result<()> {
        let (span, slot, live) = self.slots(number);
        let start = self.store.base().addr() as u64 + span.offset;
        let (mut all, mut stays) = (Vec::new(), how.may_stay(slot));
        for at in live.iter().map(|&i| start + u64::from(i) * slot) {
            how.occupied_slots(at)?;
            // SAFETY: a live slot of the span, so an object of the type that the conversion is for is there, and was
            // written.
            let bytes = unsafe { how.bytes(std::ptr::with_exposed_provenance(at as usize)) }?;
            all.push(bytes);
            stays &= bytes <= slot;
        }
        room.changed.add(Bytes::of(span.bytes()));
        if stays {
            return Ok(());
        }
        for bytes in all {
            match how.request(bytes).class_or_span() {
                (Some(slot), _) => *room.classes.entry((how.ty, slot)).or_default() += 1,
                (None, bytes) => room.large.entry(how.ty).or_default().add(Bytes::of(bytes)),
            }
        }
        Ok(())
    }

    /// A new object for the one at `old`.
    fn alloc_for(
        &mut self,
        old: *const u8,
        how: &Rewrite<'_>,
        occupied: Option<Occupied>,
    ) -> Result<*mut u8> {
        let conversion = how.conversion;
        // SAFETY: the caller passes an object of the type that the conversion is for.
        let bytes = unsafe { how.bytes(old) }?;
        let new = self.context().alloc(how.request(bytes))?;
        // SAFETY: `new` is an object of `bytes`, rounded up to words, that was allocated just now.
        unsafe { new.write_bytes(0, bytes.next_multiple_of(8) as usize) };
        // SAFETY: `old` is an object of the type; `new` has room for the new one, and is zero.
        unsafe { conversion.run(old, new, occupied) };
        Ok(new)
    }

    /// Makes the pointers of a span lead to where objects have moved. Returns whether there were any.
    pub(crate) fn redirect(&mut self, number: u32, moved: Moved) -> bool {
        let (_, slot, live) = self.slots(number);
        let Some(span) = self.context().alloc.spans.get(number) else { return false };
        let pointers = span.pointers.clone();
        let start = std::ptr::with_exposed_provenance_mut::<u8>(self.addr(span));
        let mut found = false;
        for_each_pointer(&pointers, start, slot, &live, |word| {
            // SAFETY: a word of an object of the span.
            found |= self.successor(unsafe { word.read() }, moved).is_some();
        });
        if found {
            let place = self.whole(number);
            for_each_pointer(&pointers, place, slot, &live, |word| {
                // SAFETY: a word of an object of the span, which is the transaction's to write.
                let pointer = unsafe { word.read() };
                if let Some(new) = self.successor(pointer, moved) {
                    // SAFETY: the same word, within the place that `whole` has made this transaction's own.
                    unsafe { word.write(new) };
                }
            });
        }
        found
    }

    /// Where the object at an address has moved, if it has.
    fn successor(&self, addr: u64, moved: Moved) -> Option<u64> {
        let word = moved.word(self.span_of(addr)?.span.entry.ty)?;
        let object = std::ptr::with_exposed_provenance::<u64>(addr as usize);
        // SAFETY: `addr` is the start of a slot, for no pointer leads to a part of what is converted. By the type of
        // its span, an object has moved from there, and its new address is in that word of the slot.
        Some(unsafe { object.wrapping_add(word).read() })
    }

    /// Calls `visit` with each pointer in a span that this map has, null or not. If it is not known what is live, all may be.
    pub(crate) fn pointers_in(&self, number: u32, map: &PointerMap, mut visit: impl FnMut(u64)) {
        let Some(span) = self.context().alloc.spans.get(number) else { return };
        let (slot, live) = (span.slot, span.live.ones().map(|slot| slot as u32));
        let live: Vec<u32> = if span.live.is_empty() { (0..span.slots).collect() } else { live.collect() };
        let start = std::ptr::with_exposed_provenance_mut::<u8>(self.addr(span));
        // SAFETY: a word of an object of the span.
        for_each_pointer(map, start, slot, &live, |word| visit(unsafe { word.read() }));
    }

    /// Calls `visit` with each pointer in a span that this map has, but for null, and with the words that are so many bytes
    /// behind it (before it if negative).
    ///
    /// # Panics
    /// If these words are not in the span.
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
            // SAFETY: a word of an object of the span, which is mapped and which only this thread writes.
            let pointer = unsafe { word.read() };
            if pointer == 0 {
                return;
            }
            visit(
                pointer,
                distances.map(|distance| {
                    let at = (word.addr() as i64 + distance) as usize;
                    assert!(at.is_multiple_of(8) && at >= start && at + 8 <= start + bytes as usize);
                    // SAFETY: an aligned word of the span, as was just checked, which is mapped and which only this thread
                    // writes.
                    unsafe { std::ptr::with_exposed_provenance::<u64>(at).read() }
                }),
            );
        });
    }

    /// The type of the object that begins at an address, or else of the one that this leads into.
    pub(crate) fn type_at(&self, addr: u64) -> Option<(u32, bool)> {
        let span = self.span_of(addr)?;
        let inside = (addr - self.store.base().addr() as u64).wrapping_sub(span.span.offset);
        Some((span.span.entry.ty, inside.is_multiple_of(span.slot)))
    }

    /// The first words of an object.
    pub(crate) fn words<const N: usize>(&self, offset: u64) -> Option<[u64; N]> {
        let addr = self.store.base().addr() as u64 + offset;
        self.span_of(addr).filter(|span| span.slot >= 8 * N as u64)?;
        // SAFETY: an object with as many words.
        Some(unsafe { std::ptr::with_exposed_provenance::<[u64; N]>(addr as usize).read() })
    }

    /// A new object that consists of these words.
    pub(crate) fn alloc_words<const N: usize>(
        &mut self,
        desc: &'static Desc,
        words: [u64; N],
    ) -> Result<u64> {
        assert!(desc.size == 8 * N && desc.align == 8, "an object of other words");
        let request = Request { desc, bytes: desc.size as u64, align: 8, unsized_: false };
        let new = self.context().alloc(request)?;
        // SAFETY: a new object of that many words.
        unsafe { new.cast::<[u64; N]>().write(words) };
        Ok((new.addr() - self.store.base().addr()) as u64)
    }

    fn span_of(&self, addr: u64) -> Option<&ObjectSpan> {
        let spans = &self.context().alloc.spans;
        let offset = addr.wrapping_sub(self.store.base().addr() as u64);
        spans.get(spans.find(&self.store.page_map, offset)?.0)
    }

    fn addr(&self, span: &ObjectSpan) -> usize {
        self.store.base().addr() + span.span.offset as usize
    }

    /// The entry of a span, bytes of a slot, and those that have objects.
    fn slots(&self, number: u32) -> (Span, u64, Vec<u32>) {
        let span = self.context().alloc.spans.get(number).expect("a span of the region");
        assert!(!span.live.is_empty(), "it is not known what is live");
        (span.span, span.slot, span.live.ones().map(|slot| slot as u32).collect())
    }

    /// Where to write all of a span, which has what is there now.
    fn whole(&mut self, number: u32) -> *mut u8 {
        let context = self.context();
        let span = context.alloc.spans.get(number).expect("a span of the region");
        let (addr, bytes) = (context.store().base().addr() + span.span.offset as usize, span.bytes as usize);
        // SAFETY: the open transaction's context, to which there is no reference but this one, as long as the call lasts; a span of the region, of which nobody has a reference.
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
        // SAFETY: the words of a slot of a span of a region that is locked; nobody else writes to them.
        let words = unsafe { Words::new(object.cast(), slot as usize / 8) };
        map.visit(words, 0..slot as usize, &mut visit);
    }
}
