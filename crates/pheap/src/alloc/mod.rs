//! Allocation within a region: typed spans with slots of one size, and a bitmap of the free ones in volatile memory.
//!
//! Nothing is written per object. A span is recorded in the span table by the transaction that commits the first object in it;
//! which of its slots are taken comes back from marking when the heap is opened. A class (type and slot size) fills one run of
//! free slots at a time, so an allocation is the increment of a pointer.
//!
//! Allocation is part of the transaction: [`rollback`](Allocator::rollback) takes it all back.
//!
//! **Quarantine.** A slot that becomes free may be named by a record in the region's log, which would be replayed over its next tenant.
//! So slots are made free only when the log has been emptied: by a sweep, which empties it first, and by
//! [`end_quarantine`](Allocator::end_quarantine) for those that were freed at a commit.
//!
//! Knows the store, spans and slots. Must not know transactions, nor locks; nor who decides what is live.

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
use crate::store::spans::Span;
use crate::units::PAGE;
use fresh::Fresh;
use rollback::{Run, Saved};
use size::{LARGE, size_class, span_size};
use span::{NO_CLASS, ObjectSpan, Spans};
pub(crate) use sweep::Swept;

/// Bytes that may wait for the log to be emptied.
const QUARANTINE: u64 = 256 << 10;

/// The number of no span.
const NO_SPAN: u32 = u32::MAX;

/// How many classes are at hand in a transaction.
const HOT: usize = 8;

/// What an allocation looks at, and nothing else: the run that a class is filling. It is the class's own only while it is not here.
#[derive(Clone, Copy, Default)]
struct HotClass {
    /// The address of the description, and the bytes of a slot. 0 if there is none here.
    desc: usize,
    slot: usize,
    next: usize,
    end: usize,
    class: u32,
}

/// Objects of one type in slots of one size.
struct Class {
    /// Address of the next free slot, and of the end of the run that it is in.
    next: usize,
    end: usize,
    /// The transaction that used it last, and the first address of this run that it has filled.
    txn: u64,
    fresh_from: usize,
    slot: u32,
    ty: u32,
    /// The span that is being filled, and the slot from which to look for the next run in it.
    current: u32,
    cursor: u32,
    /// Other spans with free slots.
    partial: Vec<u32>,
    /// Bytes of all spans of which it is known what is live: the more, the larger the next. The others count when they have been swept, or else each
    /// life of a program that is killed again and again would take larger spans than the one before.
    owned: u64,
    pointers: Arc<PointerMap>,
}

/// The allocator of a region.
#[derive(Default)]
pub(crate) struct Allocator {
    classes: Vec<Class>,
    /// Classes by the address of a description, and by a type's number; with the bytes of a slot.
    by_desc: HashMap<(usize, u32), u32>,
    by_type: HashMap<(u32, u32), u32>,
    /// The classes that the open transaction uses, by a hash of their type.
    hot: [HotClass; HOT],
    txn: u64,
    /// Objects that the open transaction has allocated, but for those in runs that are being filled.
    objects: u64,
    saved: Vec<Saved>,
    runs: Vec<Run>,
    /// Spans whose entries the open transaction records: those that it has taken, with their numbers, and others, with [`NO_SPAN`].
    taken: Vec<(u32, Span)>,
    fresh: Fresh,
    pub(crate) spans: Spans,
    /// Objects that the open transaction frees, and those that committed ones have freed.
    frees: Vec<usize>,
    quarantine: Vec<usize>,
    /// Bytes of the latter.
    quarantined: u64,
    /// Whether a collection has begun and not swept all spans: new spans are part of it.
    pub(crate) collecting: bool,
    /// Whether a span that was removed may be in the list of its class.
    unlist: bool,
    pub(crate) usage: Usage,
}

/// What a region holds, as far as is known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    /// Objects and their bytes: those that the last collection found, and all that were allocated since.
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
    /// Bytes allocated since the last collection began.
    pub(crate) allocated: u64,
}

/// How far a transaction has come, by what it has allocated and freed.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mark {
    /// Ranges of fresh objects.
    fresh: usize,
    frees: usize,
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

impl Request {
    /// Bytes of a slot for it.
    #[inline(always)]
    fn slot(&self) -> u64 {
        let align = self.align.max(8);
        let slot = if self.unsized_ { size_class(self.bytes) } else { self.bytes.max(8) };
        (slot + align - 1) & !(align - 1)
    }

    #[inline(always)]
    fn is_large(&self) -> bool {
        self.slot() > LARGE || self.align > PAGE
    }

    /// The class of the object, by the bytes of a slot; or else the bytes of its own span.
    pub(crate) fn class_or_span(&self) -> (Option<u64>, u64) {
        if self.is_large() { (None, self.bytes.next_multiple_of(PAGE)) } else { (Some(self.slot()), 0) }
    }

    #[inline(always)]
    fn key(&self) -> (usize, u32) {
        (std::ptr::from_ref(self.desc).addr(), self.slot() as u32)
    }

    /// Where its class is, if it is at hand.
    #[inline(always)]
    fn hash(&self) -> usize {
        let (desc, slot) = self.key();
        ((desc >> 5) ^ (slot as usize >> 3)) % HOT
    }
}

/// What an allocation needs that is not at hand.
pub(crate) enum Needs {
    /// A span of this many bytes, to be [added](Allocator::add_span).
    Span(RangeInclusive<u64>, SpanEntry, Arc<PointerMap>),
    /// Nothing: try again.
    Nothing,
}

impl Allocator {
    /// Starts a transaction.
    #[inline]
    pub(crate) fn begin(&mut self, txn: u64) {
        self.txn = txn;
    }

    /// Address of a new object, if a run of free slots is at hand.
    #[inline(always)]
    pub(crate) fn try_alloc(&mut self, request: &Request) -> Option<usize> {
        let (desc, slot) = request.key();
        let hot = &mut self.hot[request.hash()];
        let addr = hot.next;
        // A description of a sized type has one size of slots.
        let other = hot.desc != desc || (request.unsized_ && hot.slot != slot as usize);
        if other || addr == hot.end {
            return None;
        }
        hot.next = addr + slot as usize;
        Some(addr)
    }

    /// Finds a run of free slots for an object, or says what is missing. [`try_alloc`](Self::try_alloc) comes next.
    #[cold]
    pub(crate) fn prepare(&mut self, store: &Store, region: u32, request: &Request) -> Result<Needs> {
        if request.is_large() {
            if request.align > PAGE {
                return Err(Error::TooLarge { bytes: request.bytes });
            }
            let (ty, pointers) = store.register(request.desc)?;
            let entry = SpanEntry { kind: SpanKind::Large, slot: 0, pages: 0, ty, region };
            return Ok(Needs::Span(request.bytes..=request.bytes, entry, pointers));
        }
        let number = self.class(store, request)?;
        // Two descriptions may be of one type.
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
            return Ok(Needs::Nothing);
        }
        let class = &self.classes[number as usize];
        let entry = SpanEntry { kind: SpanKind::Small, slot: class.slot, pages: 0, ty: class.ty, region };
        let bytes = span_size(class.slot.into(), class.owned);
        Ok(Needs::Span(bytes, entry, class.pointers.clone()))
    }

    /// The number of the class for a request.
    fn class(&mut self, store: &Store, request: &Request) -> Result<u32> {
        let key = request.key();
        if let Some(&number) = self.by_desc.get(&key) {
            return Ok(number);
        }
        let (ty, pointers) = store.register(request.desc)?;
        let number = self.class_of(SpanKind::Small, ty, key.1, &pointers);
        self.by_desc.insert(key, number);
        Ok(number)
    }

    /// The number of the class for such spans: [`NO_CLASS`], unless they have slots for small objects.
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

    /// Lets a class have its run back.
    fn return_run(&mut self, at: usize) {
        let hot = std::mem::take(&mut self.hot[at]);
        if hot.desc != 0 {
            self.classes[hot.class as usize].next = hot.next;
        }
    }

    /// Lets all classes have their runs back.
    pub(crate) fn return_runs(&mut self) {
        if !self.saved.is_empty() {
            (0..HOT).for_each(|at| self.return_run(at));
        }
    }

    /// Makes sure that the class has a run of free slots, from the spans that it has. Returns whether it does.
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
                    span.take(first, count);
                    runs.push(Run { span: class.current, first, count });
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

    /// Adds a span that the open transaction has taken: to be recorded when it commits. If it is for one large object, of `object` bytes,
    /// returns the address of that.
    pub(crate) fn add_span(
        &mut self,
        store: &Store,
        span: Span,
        object: u64,
        pointers: Arc<PointerMap>,
    ) -> Option<usize> {
        store.populate(span.offset, span.bytes());
        let SpanEntry { kind, ty, slot, .. } = span.entry;
        let class = self.class_of(kind, ty, slot, &pointers);
        let mut new = ObjectSpan::new(span, class, pointers);
        new.pending = self.collecting;
        if kind == SpanKind::Large {
            new.take(0, 1);
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

    /// Has the open transaction record another entry of a span of the region that is not for objects.
    pub(crate) fn record_again(&mut self, span: Span) {
        self.taken.push((NO_SPAN, span));
    }

    /// Spans of the region are of other types from now on, as these entries say. No transaction is open.
    pub(crate) fn retype(&mut self, store: &Store, retyped: &[Span]) {
        self.give_back_unfilled(store);
        for class in &mut self.classes {
            (class.current, class.cursor) = (NO_SPAN, 0);
            class.partial.clear();
            class.owned = 0;
        }
        let types: HashMap<u64, u32> = retyped.iter().map(|span| (span.offset, span.entry.ty)).collect();
        for number in 0..self.spans.end() {
            let Some(span) = self.spans.get(number) else { continue };
            let Span { offset, entry, .. } = span.span;
            let ty = types.get(&offset).copied().unwrap_or(entry.ty);
            let pointers = if ty == entry.ty { span.pointers.clone() } else { store.pointer_map(ty) };
            let class = self.class_of(entry.kind, ty, entry.slot, &pointers);
            self.spans.get_mut(number).retype(ty, class, pointers);
            self.add_to_class(number);
        }
        self.unlist = false;
    }

    /// Adds the spans that a region had when its heap was opened. `live` tells which slots of one are taken, if that is known; if it is
    /// not, all are, until they have been marked and [swept](crate::gc).
    pub(crate) fn load(
        &mut self,
        loaded: &[Span],
        mut pointers: impl FnMut(u32) -> Arc<PointerMap>,
        mut live: impl FnMut(&ObjectSpan) -> bool,
    ) {
        self.spans.reserve(loaded.len());
        let of = |span: &Span| (span.entry.kind, span.entry.ty, span.entry.slot);
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

    /// Gives a span to its class, if it has one. The class fills it, if it has free slots.
    fn add_to_class(&mut self, number: u32) {
        let span = self.spans.get_mut(number);
        let Some(class) = self.classes.get_mut(span.class as usize) else { return };
        class.owned += span.known_bytes();
        span.listed = span.used < span.slots;
        if span.listed {
            class.partial.push(number);
        }
    }

    /// Whether the open transaction has not even tried to allocate, nor freed anything.
    #[inline]
    pub(crate) fn is_untouched(&self) -> bool {
        self.saved.is_empty() && self.taken.is_empty() && self.frees.is_empty()
    }

    /// Spans whose entries the open transaction records.
    pub(crate) fn taken(&self) -> impl Iterator<Item = &Span> {
        self.taken.iter().map(|(_, span)| span)
    }

    /// Whether the open transaction has made any object.
    #[inline(always)]
    pub(crate) fn has_fresh(&self) -> bool {
        !self.saved.is_empty() || !self.fresh.is_empty()
    }

    /// Whether `addr` lies in an object of the open transaction.
    #[inline]
    pub(crate) fn is_fresh(&mut self, addr: usize) -> bool {
        if !self.has_fresh() {
            return false;
        }
        self.is_in_run(addr) || self.fresh.contains(addr)
    }

    /// Whether `addr` lies in an object in one of the runs that are being filled.
    #[inline]
    fn is_in_run(&self, addr: usize) -> bool {
        let Allocator { hot, saved, classes, .. } = self;
        // Those at hand go on behind where their class thinks that they are.
        let in_hot = |hot: &HotClass| {
            hot.desc != 0 && (classes[hot.class as usize].fresh_from..hot.next).contains(&addr)
        };
        let in_class = |saved: &Saved| {
            let class = &classes[saved.class as usize];
            (class.fresh_from..class.next).contains(&addr)
        };
        hot.iter().any(in_hot) || saved.iter().any(in_class)
    }

    /// What the open transaction has allocated and freed so far.
    pub(crate) fn mark(&mut self) -> Mark {
        Mark { fresh: self.fresh_ranges().len(), frees: self.frees.len() }
    }

    /// Whether `addr` lies in an object that the open transaction has allocated after the mark.
    pub(crate) fn is_fresh_since(&mut self, addr: usize, mark: Mark) -> bool {
        // Of runs, what came before a mark is in the ranges.
        self.has_fresh() && (self.is_in_run(addr) || self.fresh.contains_since(addr, mark.fresh))
    }

    /// Nothing that was freed after the mark is freed at the commit. What was allocated since stays, as garbage.
    pub(crate) fn take_back_frees(&mut self, mark: Mark) {
        self.frees.truncate(mark.frees);
    }

    /// The ranges of fresh objects, with all that were allocated so far.
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

    /// Frees an object when the transaction commits.
    pub(crate) fn free_at_commit(&mut self, addr: usize) {
        self.frees.push(addr);
    }

    /// Keeps what the transaction has allocated.
    #[inline]
    pub(crate) fn commit(&mut self, store: &Store) {
        let bytes: usize = self.fresh_ranges().iter().map(|(start, end)| end - start).sum();
        self.usage.allocated += bytes as u64;
        self.usage.bytes += bytes as u64;
        self.usage.objects += self.objects;
        self.end();
        for addr in self.frees.drain(..) {
            let offset = (addr - store.base().addr()) as u64;
            if let Some((number, _)) = self.spans.find(&store.page_map, offset) {
                self.quarantined += self.spans.get(number).map_or(0, |span| span.slot);
                self.quarantine.push(addr);
            }
        }
    }

    /// Forgets the transaction.
    fn end(&mut self) {
        self.objects = 0;
        self.saved.clear();
        self.runs.clear();
        self.taken.clear();
        self.fresh.clear();
    }

    /// Makes the slots that were freed at a commit free for others, and returns the spans of large objects, to be given back. The log must
    /// be empty.
    #[must_use]
    pub(crate) fn end_quarantine(&mut self, store: &Store) -> Vec<Span> {
        let mut large = Vec::new();
        self.quarantined = 0;
        for addr in std::mem::take(&mut self.quarantine) {
            let offset = (addr - store.base().addr()) as u64;
            let Some((number, slot)) = self.spans.find(&store.page_map, offset) else { continue };
            let span = self.spans.get_mut(number);
            // While it is being marked, what is free is up to the sweep.
            if span.pending || span.live.is_empty() || !span.live.test(slot as usize) {
                continue;
            }
            self.usage.objects = self.usage.objects.saturating_sub(1);
            self.usage.bytes = self.usage.bytes.saturating_sub(span.slot);
            // It is no garbage for a collection to find.
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

    /// Whether so much waits for an empty log that it is worth emptying.
    #[inline]
    pub(crate) fn is_quarantine_full(&self) -> bool {
        self.quarantined > QUARANTINE
    }

    /// A collection begins: it will find what is in quarantine by itself.
    pub(crate) fn forget_quarantine(&mut self) {
        self.quarantine.clear();
        self.quarantined = 0;
    }

    /// Notes that a span has free slots, the first of them perhaps `slot`.
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

    /// Marks the slots that classes are about to fill as long as their span is to be swept, for what is allocated meanwhile is live; else takes
    /// their marks back, for what is allocated then is young.
    pub(crate) fn mark_runs(&mut self, store: &Store) {
        for class in self.classes.iter().filter(|class| class.next != class.end) {
            let offset = (class.next - store.base().addr()) as u64;
            let (number, first) = self.spans.find(&store.page_map, offset).expect("a run lies in a span");
            let count = (class.end - class.next) / class.slot as usize;
            let span = self.spans.get_mut(number);
            match span.pending {
                true => span.marks.set_range(first as usize, count),
                false => span.marks.clear_range(first as usize, count),
            }
        }
    }

    /// Gives back the slots that classes were about to fill.
    pub(crate) fn give_back_unfilled(&mut self, store: &Store) {
        let Allocator { classes, spans, .. } = self;
        for class in classes.iter_mut().filter(|class| class.next != class.end) {
            let offset = (class.next - store.base().addr()) as u64;
            let (number, first) = spans.find(&store.page_map, offset).expect("a run lies in a span");
            spans.get_mut(number).free(first, ((class.end - class.next) / class.slot as usize) as u32);
            class.next = class.end;
            class.cursor = 0;
        }
    }
}
