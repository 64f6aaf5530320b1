//! The state of the open transaction of a region: which path it is on, and what it has touched.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::copy_granularity::CopyGranularity;
use super::dirty::DirtyLines;
use super::doomed::Doomed;
use super::log::{Log, Segment};
use super::padded::Padded;
use super::recent::Recent;
use super::savepoint::Savepoints;
use super::word_map::{BLOCK, OfHeap, WordMap, has_all};
use super::write_set::{Find, MAX_ENTRIES, WriteSet, first_copies};
use crate::alloc::{Allocator, Needs, Request};
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::gc::Collector;
use crate::layout::desc::Desc;
use crate::log::{EntryId, Staged, ranges};
use crate::media::Media;
use crate::os::cpu;
use crate::store::Store;
use crate::store::arena::{ENTRY, SpanEntry, SpanKind};
use crate::store::spans::Span;
use crate::sync::Access;
use crate::units::LINE;

/// What threads look at before they have the region: its lock, and what every read looks at. Apart from [`Context`], because it is looked at through shared references while the context changes.
pub(crate) struct Front {
    pub(crate) hot: Hot,
    pub(crate) lock: Access,
}

/// What a read looks at first. `View` points to it.
///
/// On lines of its own, like [`Counters`](crate::stats::Counters).
#[repr(align(128))]
pub(crate) struct Hot {
    /// Lines that the write set holds, as 64 bits; 0 while it is empty, all ones when every access must be looked up.
    pub(crate) filter: Cell<u64>,
    /// The context of a transaction; null in a read.
    pub(crate) context: Cell<*mut Context>,
    /// Where values are that the transaction has come to lately: in a copy, or in their place.
    pub(crate) recent: Recent,
    /// Of a long transaction: for the block at an address, counted from address 0, the bits of the words that it has logged. Null if it must be asked for each store.
    logged: Cell<*const AtomicU64>,
    /// Whether the transaction is long, and has no copies.
    pub(crate) logs_in_place: Cell<bool>,
}

/// A [`Hot`] without a context.
struct Reader(Hot);
// SAFETY: nobody writes to it, for only contexts write to a `Hot`, and this one has none.
unsafe impl Sync for Reader {}

impl Hot {
    pub(crate) const fn new() -> Hot {
        Hot {
            filter: Cell::new(0),
            context: Cell::new(std::ptr::null_mut()),
            recent: Recent::new(),
            logged: Cell::new(std::ptr::null()),
            logs_in_place: Cell::new(false),
        }
    }

    /// For reads: nothing is ever in the write set.
    pub(crate) fn reader() -> &'static Hot {
        static READER: Reader = Reader(Hot::new());
        &READER.0
    }

    /// The same for other threads of a transaction that is [in place](crate::View::shared).
    pub(crate) fn reader_in_transaction() -> &'static Hot {
        static READER: Reader = Reader(Hot::new());
        &READER.0
    }

    /// Whether a place can be written where it is, for its transaction is long and has logged it, and no savepoint is to know of it.
    ///
    /// # Safety
    /// The place is within the heap.
    #[inline(always)]
    pub(crate) unsafe fn is_in_place(&self, addr: usize, len: usize, align: usize) -> bool {
        let logged = self.logged.get();
        if logged.is_null() || len == 0 {
            return false;
        }
        // SAFETY: `set_route` has made this of a table with a word for each block of the heap, (5), in which the place is: the caller's premise.
        let bits = unsafe { &*logged.wrapping_add(addr / BLOCK) }.load(Ordering::Relaxed);
        let first = addr / 8;
        match len <= align && align <= 8 {
            true => bits >> (first % 64) & 1 != 0,
            false => has_all(bits, first, (addr + len - 1) / 8),
        }
    }

    /// Sets the filter anew, and forgets where copies are: they are somewhere else, or there are none. (Unless there is this bug.)
    #[inline(always)]
    pub(super) fn forget_copies(&self, filter: u64, unless: Bug) {
        self.filter.set(filter);
        if !bug(unless) {
            self.recent.forget();
        }
    }
}

/// How a transaction keeps its writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// In the write set.
    Short,
    /// In place, old content in the undo log.
    Long,
    /// In memory, for the log cannot grow: it will be rolled back.
    Doomed,
}

/// What a store does that asks for its place: what [`Mode`] says, unless there is more to do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    Short,
    Long,
    /// The transaction is doomed, or a savepoint is to know of the store.
    Other,
}

/// Everything about a region that its lock guards.
//
// Premises, for what is `unsafe` here:
// (1) The store and `front` are where `new` was told, as long as there is the context.
// (2) Who has a `&mut Context` is the writer of the region. It is made of the region that is locked, while there is no `Txn` of it, which `Txn::new` asks for: then no
//     reference to an object is alive. Or it is made of the pointer that a `Txn` has, for one call, in `api` and in what that calls here, which ask for none of what a commit or a rollback does.
// (3) Places that the log of the open transaction has entries for are words of the heap that belong to the transaction, and are mapped: in a redo record, originals of copies,
//     fresh objects, and entries of spans that it has taken; in undo entries what `append_undo` was given.
// (4) Where a value in `padded` is, and all of its copy if the write set has one, there is a valid value of the type that its padding was made for: `paths` notes what it lends as
//     that, whole, and only valid values are stored there.
// (5) The heap begins with a block, and `logged` in `front` is null unless the transaction is long: then the map `logged` has the table of the heap, which it keeps.
#[repr(align(128))] // like `Hot`
pub(crate) struct Context {
    pub(crate) store: *const Store,
    /// Where the heap begins.
    base: usize,
    pub(crate) region: u32,
    pub(crate) media: Media,
    pub(crate) log: Log,
    pub(crate) alloc: Allocator,
    pub(crate) gc: Collector,
    pub(crate) mode: Mode,
    /// Follows from the mode, and from whether a savepoint is open: in one look.
    pub(crate) route: Route,
    /// Whether a panic now would leave the region between two states, neither of which can be reached any more. See [`between_states`](Self::between_states).
    pub(crate) is_between: bool,
    pub(crate) set: WriteSet,
    /// Copies that the write set takes at most.
    pub(super) most_copies: usize,
    /// Bytes of fresh objects that a record takes at most.
    fresh_in_record: usize,
    pub(crate) granularity: CopyGranularity,
    pub(crate) logged: WordMap<OfHeap>,
    pub(crate) doomed: Doomed,
    /// Whether copies in the set are still to be moved: another root of the transaction has spilled, and there may be a `&mut` to one of them.
    pub(crate) copies_pending: bool,
    pub(crate) savepoints: Savepoints,
    /// Lines that records in the log cover, and that are not flushed yet.
    pub(crate) dirty: DirtyLines,
    /// How often this transaction has [looked again](Self::looks_again) at copies.
    pub(super) looks: usize,
    /// How often it may before it is asked whether that is enough.
    pub(super) enough_looks: usize,
    /// Whether there is room for what is logged ahead of stores; `None` if this transaction has not asked.
    pub(super) room_ahead: Option<bool>,
    /// Values whose padding is to be zeroed.
    pub(crate) padded: Padded,
    /// Places noted by `__ahead`.
    pub(crate) ahead: Vec<(usize, usize)>,
    /// Ranges that are being logged; here to keep its memory.
    pub(super) scratch: Vec<(usize, usize)>,
    /// Slots of held pointers that this transaction has made.
    pub(crate) held: Vec<u32>,
    front: *const Front,
    /// All contexts of a transaction over several roots; none if there is one root only. Only the thread that has them all locked touches the count.
    pub(crate) group: Option<Rc<[*mut Context]>>,
    txn: u64,
}

impl Context {
    /// # Safety
    /// `store` and `front` outlive the context.
    pub(crate) unsafe fn new(
        store: *const Store,
        region: u32,
        media: Media,
        log: Log,
        gc: Collector,
        front: *const Front,
    ) -> Context {
        // SAFETY: the store outlives the context, which is about to be: the caller's premise.
        let store_ref = unsafe { &*store };
        let tuning = &store_ref.tuning;
        let copies = tuning.copies.min(MAX_ENTRIES);
        // Without fences the undo log is hardly more expensive.
        let limit = if media.fences_undo() { copies } else { copies / 2 };
        Context {
            store,
            base: store_ref.base().addr(),
            region,
            media,
            log,
            alloc: Allocator::default(),
            gc,
            mode: Mode::Short,
            route: Route::Short,
            is_between: false,
            set: WriteSet::new(first_copies(limit), tuning),
            most_copies: limit,
            fresh_in_record: tuning.fresh_in_record,
            granularity: CopyGranularity::new(tuning.patience),
            copies_pending: false,
            savepoints: Savepoints::default(),
            logged: WordMap::default(),
            doomed: Doomed::default(),
            dirty: DirtyLines::new(tuning),
            looks: 0,
            enough_looks: 0,
            room_ahead: None,
            padded: Padded::default(),
            ahead: Vec::new(),
            scratch: Vec::new(),
            held: Vec::new(),
            front,
            group: None,
            txn: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn store(&self) -> &'static Store {
        // SAFETY: it is there, (1). Who has the context has the region locked, which keeps the heap, and with that the store; and keeps no reference to the store for longer.
        unsafe { &*self.store }
    }

    #[inline(always)]
    pub(super) fn base(&self) -> usize {
        self.base
    }

    #[inline(always)]
    pub(super) fn front(&self) -> &'static Front {
        // SAFETY: it is there, (1). Who has the context has the region locked, which keeps it, and keeps no reference to it for longer.
        unsafe { &*self.front }
    }

    #[inline(always)]
    pub(crate) fn hot(&self) -> &Hot {
        &self.front().hot
    }

    /// Runs `work`, in which the region's own structures change: if it panics, nothing is left that a rollback could rely on.
    #[inline(always)]
    pub(crate) fn between_states<R>(&mut self, work: impl FnOnce(&mut Context) -> R) -> R {
        let before = std::mem::replace(&mut self.is_between, true);
        let unwound = Unwound(self);
        let result = work(unwound.0);
        unwound.0.is_between = before;
        std::mem::forget(unwound);
        result
    }

    /// Starts a transaction on one root.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.begin_short();
        if self.store().pin_undo {
            Context::begin_long(&mut [self]);
        }
    }

    /// Starts a transaction over several roots.
    pub(crate) fn begin_all(contexts: &mut [&mut Context]) {
        contexts.iter_mut().for_each(|context| context.begin_short());
        if contexts[0].store().pin_undo {
            Context::begin_long(contexts);
        }
    }

    #[inline(always)]
    fn begin_short(&mut self) {
        self.txn += 1;
        debug_assert!(!self.savepoints.is_open());
        self.alloc.begin(self.txn);
        // What the last one has noted and not logged may belong to others by now.
        self.ahead.clear();
    }

    /// How the transaction keeps its writes from now on.
    pub(super) fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
        self.set_route();
    }

    /// A savepoint was opened or closed, or copies are pending, or no more.
    pub(super) fn set_route(&mut self) {
        self.route = match self.mode {
            Mode::Short if !self.savepoints.is_open() => Route::Short,
            Mode::Long if !self.savepoints.is_open() => Route::Long,
            _ => Route::Other,
        };
        let logged = match (self.route, self.logged.table()) {
            (Route::Long, Some(table)) if !self.copies_pending => table.wrapping_sub(self.base / BLOCK),
            _ => std::ptr::null(),
        };
        self.hot().logged.set(logged);
        self.hot().logs_in_place.set(self.mode == Mode::Long && !self.copies_pending);
    }

    /// The transaction has ended: the next one begins as all do.
    #[inline(always)]
    pub(crate) fn end_mode(&mut self) {
        (self.mode, self.route) = (Mode::Short, Route::Short);
        self.hot().logged.set(std::ptr::null());
        self.hot().logs_in_place.set(false);
    }

    /// Before the mode is [`Mode::Long`], and anything is logged. Without a table each store is a call.
    pub(super) fn share_logged(&mut self) {
        if self.logged.table().is_none() {
            self.logged.share(self.store().logged());
        }
    }

    /// For tests and measurements: as if each transaction were long. By itself, or what the caller has would be in memory, and not in registers.
    #[cold]
    #[inline(never)]
    fn begin_long(contexts: &mut [&mut Context]) {
        Context::upgrade_all(contexts);
        for context in contexts {
            context.share_logged();
            context.set_mode(Mode::Long);
            context.retire_records();
        }
    }

    /// Whether the transaction has done nothing.
    #[inline]
    pub(crate) fn is_untouched(&self) -> bool {
        self.set.is_empty()
            && self.alloc.is_untouched()
            && (self.mode == Mode::Short
                || (self.mode == Mode::Long && self.log.is_empty() && self.group.is_none()))
    }

    /// A new object of zero or more bytes.
    #[inline(always)] // with what is known of the type, it is a third as long; left to itself, the compiler may call it
    pub(crate) fn alloc(&mut self, request: Request) -> Result<*mut u8> {
        let addr = match self.alloc.try_alloc(&request) {
            Some(addr) => addr,
            // The parts, not a reference: that would put the request into memory for the fast path, too.
            None => self.between_states(|context| {
                context.alloc_slow(request.desc, request.bytes, request.align, request.unsized_)
            })?,
        };
        let ptr = std::ptr::with_exposed_provenance_mut::<u8>(addr);
        self.media.expect_stores(ptr, request.bytes as usize);
        Ok(ptr)
    }

    #[cold]
    #[inline(never)]
    fn alloc_slow(&mut self, desc: &'static Desc, bytes: u64, align: u64, unsized_: bool) -> Result<usize> {
        let request = &Request { desc, bytes, align, unsized_ };
        let store = self.store();
        store.check_not_forked()?; // within a transaction of the parent
        loop {
            if let Some(addr) = self.alloc.try_alloc(request) {
                return Ok(addr);
            }
            let (bytes, entry, pointers) = match self.alloc.prepare(store, self.region, request)? {
                Needs::Nothing => continue,
                Needs::Span(bytes, entry, pointers) => (bytes, entry, pointers),
            };
            let span = match store.take_free_span(&bytes, entry) {
                Some(span) => span,
                // Rather than growing the file for what a crash may have left free.
                None if self.gc.is_opening() => {
                    self.complete_collection();
                    continue;
                }
                None => {
                    if bug(Bug::CycleInTransaction) {
                        self.begin_and_complete_collection();
                    }
                    match store.take_span(&bytes, entry) {
                        Ok(span) => span,
                        // Perhaps what the cycle that is running frees is enough.
                        Err(_) if !self.gc.is_idle() => {
                            self.complete_collection();
                            continue;
                        }
                        Err(error) => {
                            self.gc.wanted = true;
                            return Err(error);
                        }
                    }
                }
            };
            if let Some(addr) = self.alloc.add_span(store, span, request.bytes, pointers) {
                return Ok(addr);
            }
        }
    }

    /// Puts the old content of these ranges (address, bytes; whole words) into the undo log.
    ///
    /// # Safety
    /// The ranges are mapped, belong to the transaction's regions, and have definite bytes.
    #[track_caller]
    pub(super) unsafe fn append_undo(&mut self, ranges: &[(usize, usize)]) -> Result<()> {
        let (store, region) = (self.store(), self.region);
        let Context { log, media, .. } = self;
        // SAFETY: the caller's premises.
        unsafe { log.append_undo(media, ranges, |log, bytes| grow_log(store, region, media, log, bytes)) }
    }

    /// Puts the old content of the entries of these spans, which the transaction has taken, into the undo log.
    pub(super) fn append_entries(&mut self, spans: &[Span]) -> Result<()> {
        let entry = |span: &Span| (self.base + span.entry_at as usize, ENTRY as usize);
        let entries: Vec<_> = spans.iter().map(entry).collect();
        // SAFETY: the store has said where the entries are, in a table that is mapped. Its words are definite, and nobody else writes to an entry whose span was taken.
        unsafe { self.append_undo(&entries) }
    }

    /// All spans of the region (offset, bytes), the one with its header last.
    pub(crate) fn spans(&self) -> Vec<(u64, u64)> {
        let objects = self.alloc.spans.iter().map(|span| (span.span.offset, span.bytes));
        objects.chain(self.log.spans()).collect()
    }

    /// What the next entry of the log will be.
    pub(super) fn next_entry(&self) -> EntryId {
        let Context { region, log, .. } = self;
        EntryId { region: *region, number: log.sequence() as u32, generation: log.generation() }
    }

    /// Makes room in the log for the staged entry.
    pub(crate) fn grow_log(&mut self) -> Result<()> {
        let bytes = self.log.staged.bytes();
        grow_log(self.store(), self.region, &self.media, &mut self.log, bytes)
    }

    /// Makes the log long enough for so many bytes of undo entries.
    ///
    /// # Errors
    /// Those of a span.
    pub(crate) fn make_log_for(&mut self, bytes: u64) -> Result<()> {
        match self.missing_log(bytes) {
            0 => Ok(()),
            missing => grow_log(self.store(), self.region, &self.media, &mut self.log, missing),
        }
    }

    /// Bytes by which the log is too short for so many bytes of undo entries. With a write-ahead log, these are kept in
    /// memory.
    pub(crate) fn missing_log(&self, bytes: u64) -> u64 {
        if self.media.wal().is_some() { 0 } else { bytes.saturating_sub(self.log.capacity()) }
    }

    /// Makes the data of all records durable and empties the log.
    pub(crate) fn retire_records(&mut self) {
        if !self.log.is_empty() {
            self.between_states(Context::retire_some_records);
        }
    }

    fn retire_some_records(&mut self) {
        let flush = |context: &mut Context| {
            let media = &context.media;
            context.dirty.drain(|line| media.flush(std::ptr::without_provenance(line), LINE));
        };
        if bug(Bug::ResetBeforeData) {
            self.log.reset(&self.media);
            flush(self);
            return;
        }
        flush(self);
        self.media.fence();
        self.log.reset(&self.media);
        self.log_is_empty();
    }

    /// Nothing that was committed can be replayed any more.
    #[inline]
    pub(crate) fn log_is_empty(&mut self) {
        if self.alloc.has_quarantine() {
            let store = self.store();
            let large = self.alloc.end_quarantine(store);
            if !large.is_empty() {
                store.free_object_spans(&self.media, &large);
            }
        }
    }
}

/// What the end of a transaction does to the heap.
impl Context {
    /// Adds what the transaction has changed to the record of its own log: what differs in copies, spans that it has taken, and fresh objects; or it starts to flush these, if
    /// they are many. Returns whether it has done the latter.
    #[inline(always)]
    pub(super) fn stage(&mut self) -> bool {
        let Context { set, log, alloc, media, base, fresh_in_record, .. } = self;
        stage(set, alloc, media, *base, *fresh_in_record, &mut log.staged)
    }

    /// [`stage`](Self::stage), to the record of another log of the transaction.
    pub(super) fn stage_into(&mut self, record: &mut Staged) -> bool {
        stage(&self.set, &mut self.alloc, &self.media, self.base, self.fresh_in_record, record)
    }

    /// Zeroes the padding of what was written: not before the end, for a spill may come while there are references to a value, and these cover its padding.
    #[inline(always)]
    pub(super) fn zero_padding(&mut self) {
        if !self.padded.is_empty() {
            self.zero_noted();
        }
    }

    #[inline(never)] // most values have no padding
    fn zero_noted(&mut self) {
        let Context { padded, set, .. } = self;
        for (addr, padding) in padded.iter() {
            let place = match set.find(addr, 1) {
                Find::Copy(copy) => copy,
                Find::Part | Find::Nothing => std::ptr::with_exposed_provenance_mut(addr),
            };
            // SAFETY: a valid value of the type that the padding was made for, (4), and no reference to it is alive, (2).
            unsafe { padding.zero_at(place) };
        }
        padded.clear();
    }

    /// Copies the record that was appended last to its places.
    #[inline(always)]
    pub(super) fn apply(&mut self) {
        let base = self.store().base();
        let Context { log, media, dirty, .. } = self;
        // Their records are durable. The next fence waits for them, so that little is left when the log is emptied; also if it is that of another processor: see
        // `Exclusive::let_go`.
        dirty.drain_some(|line| media.flush(std::ptr::without_provenance(line), LINE));
        let needs_flush = media.needs_flush();
        for range in log.staged.ranges() {
            let place = base.wrapping_add(range.offset as usize);
            // SAFETY: words of the heap that belong to the transaction, (3), and no reference to them is alive, (2).
            unsafe { media.store_words(place.cast(), range.words) };
            if needs_flush {
                dirty.add(place.addr(), range.words.len() * 8);
            }
        }
    }

    /// Copies what the undo entries hold to its places, and starts to flush that. Returns whether there was any.
    ///
    /// Entries hold more than what was stored to, and somebody may read the rest without a lock: a snapshot. So only words that have changed are stored.
    pub(super) fn restore(&mut self) -> bool {
        let base = self.store().base();
        let Context { log, media, .. } = self;
        let mut restored = false;
        cpu::settle(std::ptr::null_mut());
        for range in log.undo_entries().flat_map(ranges) {
            let place = base.wrapping_add(range.offset as usize);
            for (i, word) in range.words.iter().enumerate() {
                let place = place.cast::<u64>().wrapping_add(i);
                // SAFETY: a word of the heap that belongs to the transaction, (3), and nobody writes there, (2), which `settle` has made definite.
                if unsafe { place.read() } != *word {
                    // SAFETY: the same word. No reference to what the transaction has changed is alive, (2).
                    unsafe { media.store_words(place, std::slice::from_ref(word)) };
                }
            }
            media.flush(place, range.words.len() * 8);
            restored = true;
        }
        restored
    }
}

/// See [`Context::stage`].
#[inline(always)]
fn stage(
    set: &WriteSet,
    alloc: &mut Allocator,
    media: &Media,
    base: usize,
    most: usize,
    record: &mut Staged,
) -> bool {
    cpu::settle(std::ptr::null_mut());
    // SAFETY: copies and originals are mapped (premise 1 of `WriteSet`), and nobody else writes to the region, premise 2 of `Context`; `settle` has made their bytes definite.
    unsafe { record.add_changes(set.copies(), set.words() + set.len(), set.is_large(), base) };
    !alloc.is_untouched() && stage_allocated(alloc, media, base, most, record)
}

#[inline(never)]
fn stage_allocated(
    alloc: &mut Allocator,
    media: &Media,
    base: usize,
    most: usize,
    record: &mut Staged,
) -> bool {
    for span in alloc.taken() {
        // SAFETY: the two words of the encoded entry.
        unsafe { record.add(span.entry_at, span.entry.to_words().as_ptr(), ENTRY as usize / 8) };
    }
    let fresh = alloc.fresh_ranges();
    let inline = fresh.iter().map(|(start, end)| end - start).sum::<usize>() <= most;
    for &(start, end) in fresh {
        let ptr = std::ptr::with_exposed_provenance::<u64>(start);
        if inline {
            // SAFETY: a range of fresh objects, mapped, whole words, which `stage` has made definite.
            unsafe { record.add((start - base) as u64, ptr, (end - start) / 8) };
        } else {
            media.flush(ptr.cast(), end - start);
        }
    }
    !inline
}

/// Links a segment with room for an entry of `bytes` to the log: as large as all before it, if there is room for that.
fn grow_log(store: &Store, region: u32, media: &Media, log: &mut Log, bytes: u64) -> Result<()> {
    const MAX: u64 = 64 << 20;
    let least = bytes + LINE as u64;
    let size = least.max(log.capacity().min(MAX));
    let entry = SpanEntry { kind: SpanKind::Log, slot: 0, pages: 0, ty: 0, region };
    // Where there is no room for as much, a shorter segment is better than none.
    let span = store.take_span(&(size..=size), entry).or_else(|_| store.take_span(&(least..=size), entry))?;
    let len = span.bytes();
    // SAFETY: the span was taken for this log just now. `link` makes its entry durable before anything leads there.
    unsafe {
        store.write_entry(media, &span);
        log.link(media, Segment { start: span.offset, len });
    }
    Ok(())
}

/// A transaction in which something of the region's own has panicked. If the program catches that, the transaction is not to be taken for one that has done nothing, which commits
/// without being asked: it frees something then, which nobody looks at, for it never commits.
struct Unwound<'a>(&'a mut Context);

impl Drop for Unwound<'_> {
    fn drop(&mut self) {
        self.0.alloc.free_at_commit(0);
    }
}

/// The error of a transaction that could not log all of its writes.
pub(crate) fn doomed_error() -> Error {
    Error::OutOfSpace { reason: "the undo log could not grow, so the transaction was rolled back".to_owned() }
}
