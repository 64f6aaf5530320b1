//! Allocation within a region: typed spans with slots of one size, and bitmaps of the live slots in DRAM.
//!
//! No metadata is written for an object. The transaction that takes a span records the span in the span
//! table. When a heap is opened, marking finds which slots are taken, unless an orderly close has stored the
//! [bitmaps]. A class (type and slot size) fills one run of free slots at a time, so an allocation mostly
//! increments a pointer.
//!
//! Allocation is part of the transaction: [`rollback`](Allocator::rollback) takes it all back.
//!
//! **Quarantine.** A record in the region's log may name a slot that becomes free. A replay would store it
//! over the next object in that slot. So slots of committed objects are made free only when the log was
//! emptied: by a sweep, which follows the emptying, and by [`end_quarantine`](Allocator::end_quarantine) for
//! slots that were freed at a commit.
//!
//! Knows the store, spans and slots. Must not know transactions, nor locks, nor how live objects are found.

pub(crate) mod bitmaps;
mod fresh;
mod rollback;
pub(crate) mod size;
pub(crate) mod span;
mod sweep;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::layout::PointerMap;
use crate::layout::desc::Desc;
use crate::store::Store;
use crate::store::arena::{SpanEntry, SpanKind};
use crate::store::spans::TakenSpan;
use crate::units::PAGE;
use fresh::FreshObjects;
use rollback::{SavedClass, TakenSlots};
use size::{LARGE, size_class, span_size};
use span::{NO_CLASS, ObjectSpan, Spans};
pub(crate) use sweep::SweptSpan;

/// Bytes in quarantine above which the log should be emptied.
const QUARANTINE: u64 = 256 << 10;

/// A value that stands for no span. No span has this number.
const NO_SPAN: u32 = u32::MAX;

/// Number of entries of `Allocator::hot`.
const HOT: usize = 8;

/// The fields that an allocation reads: the run of free slots that a class is filling. As long as an entry of
/// `Allocator::hot` has the run, the `next` of the class is out of date.
#[derive(Clone, Copy, Default)]
struct HotClass {
    /// The address of the type's description, and the bytes of a slot; both are 0 if the entry has no class.
    desc: usize,
    slot: usize,
    next: usize,
    end: usize,
    class: u32,
}

/// The spans with objects of one type in slots of one size.
struct Class {
    /// Address of the next free slot of the run that the class is filling, and of the end of the run.
    next: usize,
    end: usize,
    /// The number of the last transaction that used the class, if that was not rolled back; and the first
    /// address in this run that may belong to an object of the open transaction that is not in
    /// `Allocator::fresh` yet.
    txn: u64,
    fresh_from: usize,
    slot: u32,
    ty: u32,
    /// The span that is being filled, or [`NO_SPAN`]; and the slot from which to look for the next run in it.
    current: u32,
    cursor: u32,
    /// The numbers of other spans with free slots, and perhaps of removed spans (see `Allocator::unlist`).
    partial: Vec<u32>,
    /// Bytes of all spans of the class whose live slots are known. The more bytes, the larger is the next
    /// span. Other spans count once they were swept: otherwise a program that is killed again and again would
    /// take larger spans each time.
    owned: u64,
    pointers: Arc<PointerMap>,
}

/// The allocator of a region.
#[derive(Default)]
pub(crate) struct Allocator {
    classes: Vec<Class>,
    /// Numbers of classes, by the address of a description, and by a type number; each with the bytes of a
    /// slot.
    by_desc: HashMap<(usize, u32), u32>,
    by_type: HashMap<(u32, u32), u32>,
    /// Runs that the open transaction is filling, with their classes, by a hash of the description and the
    /// bytes of a slot. Of two with one hash, only the one that was used last is here.
    hot: [HotClass; HOT],
    txn: u64,
    /// Number of objects that the open transaction has allocated, except the newest in runs that are being
    /// filled: those from `Class::fresh_from` on.
    objects: u64,
    saved: Vec<SavedClass>,
    runs: Vec<TakenSlots>,
    /// Spans whose entries the open transaction records. Spans that it has taken have their number here,
    /// others have [`NO_SPAN`].
    taken: Vec<(u32, TakenSpan)>,
    fresh: FreshObjects,
    pub(crate) spans: Spans,
    /// Addresses of the objects that the open transaction frees, and of those that committed transactions
    /// have freed.
    frees: Vec<usize>,
    quarantine: Vec<usize>,
    /// Bytes in `quarantine`.
    quarantined: u64,
    /// Whether a collection has begun, and its sweep has not. New spans are part of that collection.
    pub(crate) collecting: bool,
    /// Whether a class may still list a span that was removed.
    unlist: bool,
    pub(crate) usage: Usage,
}

/// The known content of a region. It may include garbage.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    /// Number of objects, and their bytes: those that the last collection (or else the opening) found, and
    /// those that committed transactions have allocated since, without those whose quarantine has ended.
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
    /// Bytes that committed transactions have allocated since the last collection began, less the bytes whose
    /// quarantine has ended since.
    pub(crate) allocated: u64,
}

/// How much a transaction had allocated and freed at some moment.
#[derive(Clone, Copy, Default)]
pub(crate) struct AllocMark {
    /// Number of ranges of fresh objects; then the number of frees.
    fresh: usize,
    frees: usize,
}

/// A request for an object.
#[derive(Clone, Copy)]
pub(crate) struct AllocRequest {
    pub(crate) desc: &'static Desc,
    pub(crate) bytes: u64,
    pub(crate) align: u64,
    /// Whether objects of this type differ in size.
    pub(crate) unsized_: bool,
}

impl AllocRequest {
    /// Returns the bytes of a slot for the object.
    #[inline(always)]
    fn slot_bytes(&self) -> u64 {
        let align = self.align.max(8);
        let slot = if self.unsized_ { size_class(self.bytes) } else { self.bytes.max(8) };
        (slot + align - 1) & !(align - 1)
    }

    #[inline(always)]
    fn is_large(&self) -> bool {
        self.slot_bytes() > LARGE || self.align > PAGE
    }

    /// Returns the bytes of a slot of the object's class; or `None` and the bytes of its separate span.
    pub(crate) fn class_or_span(&self) -> (Option<u64>, u64) {
        if self.is_large() { (None, self.bytes.next_multiple_of(PAGE)) } else { (Some(self.slot_bytes()), 0) }
    }

    #[inline(always)]
    fn key(&self) -> (usize, u32) {
        (std::ptr::from_ref(self.desc).addr(), self.slot_bytes() as u32)
    }

    /// Returns the index in `Allocator::hot` at which an allocation looks for the class of the request.
    #[inline(always)]
    fn hash(&self) -> usize {
        let (desc, slot) = self.key();
        ((desc >> 5) ^ (slot as usize >> 3)) % HOT
    }
}

/// The memory that an allocation lacks.
pub(crate) enum MissingSpan {
    /// A span whose size is in this range of bytes, with this entry. The caller must take such a span from
    /// the store, and [add](Allocator::add_span) it.
    Span(RangeInclusive<u64>, SpanEntry, Arc<PointerMap>),
    /// No memory is lacking: the caller must try again.
    Nothing,
}

impl Allocator {
    /// Starts a transaction.
    #[inline]
    pub(crate) fn begin_transaction(&mut self, txn: u64) {
        self.txn = txn;
    }

    /// Returns the address of a new object, if `hot` has a run of free slots for it.
    #[inline(always)]
    pub(crate) fn try_alloc(&mut self, request: &AllocRequest) -> Option<usize> {
        let (desc, slot) = request.key();
        let hot = &mut self.hot[request.hash()];
        let addr = hot.next;
        // A sized type has one size of slots, so only unsized types need a comparison of sizes.
        let other = hot.desc != desc || (request.unsized_ && hot.slot != slot as usize);
        if other || addr == hot.end {
            return None;
        }
        hot.next = addr + slot as usize;
        Some(addr)
    }

    /// Finds a run of free slots for an object, or returns the memory that is lacking. The caller adds that
    /// memory. For a small object, the caller calls [`try_alloc`](Self::try_alloc) next.
    ///
    /// # Errors
    /// If the alignment is larger than a page, or if the store cannot register the type.
    #[cold]
    pub(crate) fn prepare(
        &mut self,
        store: &Store,
        region: u32,
        request: &AllocRequest,
    ) -> Result<MissingSpan> {
        if request.is_large() {
            if request.align > PAGE {
                return Err(Error::TooLarge { bytes: request.bytes });
            }
            let (ty, pointers) = store.register(request.desc)?;
            let entry = SpanEntry { kind: SpanKind::Large, slot: 0, pages: 0, ty, region };
            return Ok(MissingSpan::Span(request.bytes..=request.bytes, entry, pointers));
        }
        let number = self.class(store, request)?;
        // Two descriptions may be of one type, so another entry of `hot` may have the same class.
        for at in 0..HOT {
            if at == request.hash() || self.hot[at].class == number {
                self.return_run(at);
            }
        }
        self.save(number);
        if self.next_run(store, number) {
            let (desc, slot) = request.key();
            let &Class { next, end, .. } = &self.classes[number as usize];
            self.hot[request.hash()] = HotClass { desc, slot: slot as usize, next, end, class: number };
            return Ok(MissingSpan::Nothing);
        }
        let class = &self.classes[number as usize];
        let entry = SpanEntry { kind: SpanKind::Small, slot: class.slot, pages: 0, ty: class.ty, region };
        let bytes = span_size(class.slot.into(), class.owned);
        Ok(MissingSpan::Span(bytes, entry, class.pointers.clone()))
    }

    /// Returns the number of the class for a request. Makes the class if there is none.
    fn class(&mut self, store: &Store, request: &AllocRequest) -> Result<u32> {
        let key = request.key();
        if let Some(&number) = self.by_desc.get(&key) {
            return Ok(number);
        }
        let (ty, pointers) = store.register(request.desc)?;
        let number = self.class_of(SpanKind::Small, ty, key.1, &pointers);
        self.by_desc.insert(key, number);
        Ok(number)
    }

    /// Returns the number of the class for spans of this kind, type and slot size. Makes the class if there
    /// is none. Returns [`NO_CLASS`] unless the spans have slots for small objects.
    fn class_of(&mut self, kind: SpanKind, ty: u32, slot: u32, pointers: &Arc<PointerMap>) -> u32 {
        if kind != SpanKind::Small {
            return NO_CLASS;
        }
        let Allocator { classes, by_type, .. } = self;
        *by_type.entry((ty, slot)).or_insert_with(|| {
            classes.push(Class {
                next: 0,
                end: 0,
                txn: 0,
                fresh_from: 0,
                slot,
                ty,
                current: NO_SPAN,
                cursor: 0,
                partial: Vec::new(),
                owned: 0,
                pointers: pointers.clone(),
            });
            classes.len() as u32 - 1
        })
    }

    /// Returns the run at index `at` of `hot` to its class.
    fn return_run(&mut self, at: usize) {
        let hot = std::mem::take(&mut self.hot[at]);
        if hot.desc != 0 {
            self.classes[hot.class as usize].next = hot.next;
        }
    }

    /// Returns all runs in `hot` to their classes.
    pub(crate) fn return_runs(&mut self) {
        if !self.saved.is_empty() {
            (0..HOT).for_each(|at| self.return_run(at));
        }
    }

    /// Gives the class a run of free slots, from its spans, unless it has one. Returns whether it has one.
    fn next_run(&mut self, store: &Store, number: u32) -> bool {
        let Allocator { classes, spans, fresh, runs, objects, .. } = self;
        let class = &mut classes[number as usize];
        if class.next != class.end {
            return true;
        }
        loop {
            if class.current != NO_SPAN {
                let span = spans.get_mut(class.current);
                if let Some((first, count)) = span.live.next_free_run(class.cursor as usize) {
                    let (first, count) = (first as u32, count as u32);
                    span.take_slots(first, count);
                    runs.push(TakenSlots { span: class.current, first, count });
                    *objects += fresh.add(class.fresh_from, class.next, class.slot);
                    class.cursor = first + count;
                    class.next = store.base().addr() + span.offset_of(first) as usize;
                    class.end = class.next + count as usize * class.slot as usize;
                    class.fresh_from = class.next;
                    return true;
                }
            }
            let Some(next) = class.partial.pop() else { return false };
            spans.get_mut(next).listed = false;
            (class.current, class.cursor) = (next, 0);
        }
    }

    /// Adds a span that the open transaction has taken. The transaction records it when it commits. If the
    /// span is for one large object, of `object` bytes, returns the address of the object.
    pub(crate) fn add_span(
        &mut self,
        store: &Store,
        span: TakenSpan,
        object: u64,
        pointers: Arc<PointerMap>,
    ) -> Option<usize> {
        store.populate(span.offset, span.bytes());
        let SpanEntry { kind, ty, slot, .. } = span.entry;
        let class = self.class_of(kind, ty, slot, &pointers);
        let mut new = ObjectSpan::new(span, class, pointers);
        new.pending = self.collecting;
        if kind == SpanKind::Large {
            new.take_slots(0, 1);
        }
        let bytes = new.bytes;
        let number = self.spans.add(&store.page_map, new);
        self.taken.push((number, span));
        if let Some(class) = self.classes.get_mut(class as usize) {
            class.owned += bytes;
            (class.current, class.cursor) = (number, 0);
            return None;
        }
        let addr = store.base().addr() + span.offset as usize;
        self.objects += 1;
        self.fresh.add(addr, addr + object.next_multiple_of(8) as usize, 0);
        Some(addr)
    }

    /// Lets the open transaction record an entry of a span that the region has already: that of its header,
    /// or that of a span of objects whose type changes.
    pub(crate) fn record_again(&mut self, span: TakenSpan) {
        self.taken.push((NO_SPAN, span));
    }

    /// Changes the types of the region's spans that are in `retyped` to the types of the entries there. No
    /// transaction is open.
    pub(crate) fn retype(&mut self, store: &Store, retyped: &[TakenSpan]) {
        self.give_back_unfilled(store);
        for class in &mut self.classes {
            (class.current, class.cursor) = (NO_SPAN, 0);
            class.partial.clear();
            class.owned = 0;
        }
        let types: HashMap<u64, u32> = retyped.iter().map(|span| (span.offset, span.entry.ty)).collect();
        for number in 0..self.spans.end_number() {
            let Some(span) = self.spans.get(number) else { continue };
            let TakenSpan { offset, entry, .. } = span.span;
            let ty = types.get(&offset).copied().unwrap_or(entry.ty);
            let pointers = if ty == entry.ty { span.pointers.clone() } else { store.pointer_map(ty) };
            let class = self.class_of(entry.kind, ty, entry.slot, &pointers);
            self.spans.get_mut(number).retype(ty, class, pointers);
            self.add_to_class(number);
        }
        self.unlist = false;
    }

    /// Adds the spans that a region had when its heap was opened. `live` sets the live slots of a span, and
    /// returns whether they are known. If they are not, all slots count as taken until they were marked and
    /// [swept](crate::gc).
    pub(crate) fn load(
        &mut self,
        loaded: &[TakenSpan],
        mut pointers: impl FnMut(u32) -> Arc<PointerMap>,
        mut live: impl FnMut(&ObjectSpan) -> bool,
    ) {
        self.spans.reserve(loaded.len());
        let of = |span: &TakenSpan| (span.entry.kind, span.entry.ty, span.entry.slot);
        for alike in loaded.chunk_by(|a, b| of(a) == of(b)) {
            let (kind, ty, slot) = of(&alike[0]);
            let pointers = pointers(ty);
            let class = self.class_of(kind, ty, slot, &pointers);
            for &span in alike {
                self.load_span(ObjectSpan::new(span, class, pointers.clone()), &mut live);
            }
        }
        self.classes.iter_mut().for_each(|class| class.partial.reverse());
    }

    fn load_span(&mut self, mut span: ObjectSpan, live: &mut impl FnMut(&ObjectSpan) -> bool) {
        if live(&span) {
            span.used = span.live.count_ones() as u32;
            self.usage.objects += u64::from(span.used);
            self.usage.bytes += u64::from(span.used) * span.slot;
        } else {
            span.forget_live();
        }
        let number = self.spans.load(span);
        self.add_to_class(number);
    }

    /// Adds a span to its class, if it has one. If the span has free slots, the class will fill them.
    fn add_to_class(&mut self, number: u32) {
        let span = self.spans.get_mut(number);
        let Some(class) = self.classes.get_mut(span.class as usize) else { return };
        class.owned += span.known_bytes();
        span.listed = span.used < span.slots;
        if span.listed {
            class.partial.push(number);
        }
    }

    /// Whether the open transaction has asked for no small object, records no entry of a span, and frees no
    /// object.
    #[inline]
    pub(crate) fn is_untouched(&self) -> bool {
        self.saved.is_empty() && self.taken.is_empty() && self.frees.is_empty()
    }

    /// Returns the spans whose entries the open transaction records.
    pub(crate) fn taken(&self) -> impl Iterator<Item = &TakenSpan> {
        self.taken.iter().map(|(_, span)| span)
    }

    /// Whether the open transaction may have new objects.
    #[inline(always)]
    pub(crate) fn has_fresh(&self) -> bool {
        !self.saved.is_empty() || !self.fresh.is_empty()
    }

    /// Whether `addr` lies in an object that the open transaction has allocated.
    #[inline]
    pub(crate) fn is_fresh(&mut self, addr: usize) -> bool {
        if !self.has_fresh() {
            return false;
        }
        self.is_in_run(addr) || self.fresh.contains(addr)
    }

    /// Whether `addr` lies in a new object in one of the runs that are being filled.
    #[inline]
    fn is_in_run(&self, addr: usize) -> bool {
        let Allocator { hot, saved, classes, .. } = self;
        // The new objects of a run in `hot` reach beyond the `next` of its class.
        let in_hot = |hot: &HotClass| {
            hot.desc != 0 && (classes[hot.class as usize].fresh_from..hot.next).contains(&addr)
        };
        let in_class = |saved: &SavedClass| {
            let class = &classes[saved.class as usize];
            (class.fresh_from..class.next).contains(&addr)
        };
        hot.iter().any(in_hot) || saved.iter().any(in_class)
    }

    /// Returns how much the open transaction has allocated and freed so far.
    pub(crate) fn mark(&mut self) -> AllocMark {
        AllocMark { fresh: self.fresh_ranges().len(), frees: self.frees.len() }
    }

    /// Whether `addr` lies in an object that the open transaction has allocated after the mark.
    pub(crate) fn is_fresh_since(&mut self, addr: usize, mark: AllocMark) -> bool {
        // `mark` has put earlier objects of the present runs into the ranges.
        self.has_fresh() && (self.is_in_run(addr) || self.fresh.contains_since(addr, mark.fresh))
    }

    /// Drops the frees that the open transaction has requested after the mark. Objects that it has allocated
    /// since then stay, as garbage.
    pub(crate) fn take_back_frees(&mut self, mark: AllocMark) {
        self.frees.truncate(mark.frees);
    }

    /// Returns the ranges of fresh objects, with all objects that were allocated so far.
    pub(crate) fn fresh_ranges(&mut self) -> &[(usize, usize)] {
        self.return_runs();
        let Allocator { saved, classes, fresh, objects, .. } = self;
        for saved in saved {
            let class = &mut classes[saved.class as usize];
            *objects += fresh.add(class.fresh_from, class.next, class.slot);
            class.fresh_from = class.next;
        }
        fresh.ranges()
    }

    /// Lets the commit of the transaction put an object into quarantine.
    pub(crate) fn free_at_commit(&mut self, addr: usize) {
        self.frees.push(addr);
    }

    /// Keeps the objects that the transaction has allocated, and puts those that it has freed into
    /// quarantine.
    #[inline]
    pub(crate) fn commit(&mut self, store: &Store) {
        let bytes: usize = self.fresh_ranges().iter().map(|(start, end)| end - start).sum();
        self.usage.allocated += bytes as u64;
        self.usage.bytes += bytes as u64;
        self.usage.objects += self.objects;
        self.end_transaction();
        for addr in self.frees.drain(..) {
            let offset = (addr - store.base().addr()) as u64;
            if let Some((number, _)) = self.spans.locate_slot(&store.page_map, offset) {
                self.quarantined += self.spans.get(number).map_or(0, |span| span.slot);
                self.quarantine.push(addr);
            }
        }
    }

    /// Clears the lists of what the open transaction has allocated.
    fn end_transaction(&mut self) {
        self.objects = 0;
        self.saved.clear();
        self.runs.clear();
        self.taken.clear();
        self.fresh.clear();
    }

    /// Frees the slots in quarantine, except those that the running collection still has to sweep, and those
    /// in spans whose live slots are not known. Returns the spans of large objects that became free. The
    /// caller must give them back. The log must be empty.
    #[must_use]
    pub(crate) fn end_quarantine(&mut self, store: &Store) -> Vec<TakenSpan> {
        let mut large = Vec::new();
        self.quarantined = 0;
        for addr in std::mem::take(&mut self.quarantine) {
            let offset = (addr - store.base().addr()) as u64;
            let Some((number, slot)) = self.spans.locate_slot(&store.page_map, offset) else { continue };
            let span = self.spans.get_mut(number);
            // If the running collection has still to sweep the span, the sweep decides which slots are free.
            // If the live slots of the span are not known, the next sweep decides. Or a sweep may have freed
            // this slot already.
            if span.pending || span.live.is_empty() || !span.live.test(slot as usize) {
                continue;
            }
            self.usage.objects = self.usage.objects.saturating_sub(1);
            self.usage.bytes = self.usage.bytes.saturating_sub(span.slot);
            // The object does not count as allocated any more, because no collection needs to find it as
            // garbage.
            self.usage.allocated = self.usage.allocated.saturating_sub(span.slot);
            if span.class == NO_CLASS {
                large.push(self.spans.remove(&store.page_map, number).span);
            } else {
                span.free(slot, 1);
                self.list(number, slot);
            }
        }
        large
    }

    #[inline]
    pub(crate) fn has_quarantine(&self) -> bool {
        !self.quarantine.is_empty()
    }

    /// Whether so many bytes are in quarantine that emptying the log is worthwhile.
    #[inline]
    pub(crate) fn is_quarantine_full(&self) -> bool {
        self.quarantined > QUARANTINE
    }

    /// Empties the quarantine when a collection begins: this collection, or a later full one, finds that the
    /// freed objects are garbage.
    pub(crate) fn forget_quarantine(&mut self) {
        self.quarantine.clear();
        self.quarantined = 0;
    }

    /// Records that a span has free slots. The first of them may be `slot`.
    fn list(&mut self, number: u32, slot: u32) {
        let span = self.spans.get_mut(number);
        let class = &mut self.classes[span.class as usize];
        if class.current == number {
            class.cursor = class.cursor.min(slot);
        } else if !span.listed {
            span.listed = true;
            class.partial.push(number);
        }
    }

    /// Updates the marks of the slots that classes are about to fill. If a slot's span is still to be swept,
    /// marks the slot: objects that are allocated before the sweep are live. Otherwise clears its mark:
    /// objects that are allocated later are young.
    pub(crate) fn mark_runs(&mut self, store: &Store) {
        for class in self.classes.iter().filter(|class| class.next != class.end) {
            let offset = (class.next - store.base().addr()) as u64;
            let (number, first) =
                self.spans.locate_slot(&store.page_map, offset).expect("a run lies in a span");
            let count = (class.end - class.next) / class.slot as usize;
            let span = self.spans.get_mut(number);
            match span.pending {
                true => span.marks.set_range(first as usize, count),
                false => span.marks.clear_range(first as usize, count),
            }
        }
    }

    /// Frees the slots that classes were about to fill.
    pub(crate) fn give_back_unfilled(&mut self, store: &Store) {
        let Allocator { classes, spans, .. } = self;
        for class in classes.iter_mut().filter(|class| class.next != class.end) {
            let offset = (class.next - store.base().addr()) as u64;
            let (number, first) = spans.locate_slot(&store.page_map, offset).expect("a run lies in a span");
            spans.get_mut(number).free(first, ((class.end - class.next) / class.slot as usize) as u32);
            class.next = class.end;
            class.cursor = 0;
        }
    }
}
