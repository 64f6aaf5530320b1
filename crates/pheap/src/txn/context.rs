//! The state of a region that its lock guards, with that of its open transaction: how the transaction keeps
//! its writes, and the memory that it has touched.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::copy_granularity::CopyGranularity;
use super::dirty::DirtyLines;
use super::doomed::DoomedCopies;
use super::log::{RegionLog, RegionLogSegment};
use super::padded::Padded;
use super::recent::Recent;
use super::savepoint::Savepoints;
use super::word_map::{BLOCK, SharedBlocks, WordMap, has_all};
use super::write_set::{MAX_ENTRIES, RangeLookup, WriteSet, first_copies};
use crate::alloc::{AllocRequest, Allocator, MissingSpan};
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::gc::Collector;
use crate::layout::desc::Desc;
use crate::log::{EntryId, StagedEntry, ranges};
use crate::media::Media;
use crate::os::cpu;
use crate::store::Store;
use crate::store::arena::{ENTRY, SpanEntry, SpanKind};
use crate::store::spans::TakenSpan;
use crate::sync::RegionLock;
use crate::units::LINE;

/// The lock of a region, which threads access before they have the region, and the fields that each access of
/// a transaction looks at. They are separate from [`Context`], because threads access them through shared
/// references while the context changes.
pub(crate) struct RegionFront {
    pub(crate) hot: HotFields,
    pub(crate) lock: RegionLock,
}

/// The fields that an access to an object in a transaction looks at first. The `View` of a transaction points
/// to those of its region. Views that read all objects in place point to static ones.
///
/// Aligned to separate lines, like [`Counters`](crate::stats::Counters).
#[repr(align(128))]
pub(crate) struct HotFields {
    /// A filter, in 64 bits, of the lines that have copies in the write set: 0 if there are none. All ones
    /// if every access must be looked up, as in a doomed transaction.
    pub(crate) filter: Cell<u64>,
    /// The context of the region; null in a `HotFields` that belongs to no region.
    pub(crate) context: Cell<*mut Context>,
    /// The places, in copies or in the heap, of values that the transaction has accessed lately.
    pub(crate) recent: Recent,
    /// The table of logged words of a long transaction, shifted so that the index is the block's number
    /// counted from address 0. Each word has the bits of one block. Null if each store must ask the context.
    logged: Cell<*const AtomicU64>,
    /// Whether the transaction is long, and none of its copies are still to be stored in place.
    pub(crate) logs_in_place: Cell<bool>,
}

/// A [`HotFields`] without a context.
struct EmptyHotFields(HotFields);
// SAFETY: code that writes to a `HotFields` has a context for it, or has found that its filter is not 0. An
// `EmptyHotFields` belongs to no context, and its filter stays 0. So no thread writes to it.
unsafe impl Sync for EmptyHotFields {}

impl HotFields {
    pub(crate) const fn new() -> HotFields {
        HotFields {
            filter: Cell::new(0),
            context: Cell::new(std::ptr::null_mut()),
            recent: Recent::new(),
            logged: Cell::new(std::ptr::null()),
            logs_in_place: Cell::new(false),
        }
    }

    /// Returns the `HotFields` of reads, whose write set is always empty.
    pub(crate) fn reader() -> &'static HotFields {
        static READER: EmptyHotFields = EmptyHotFields(HotFields::new());
        &READER.0
    }

    /// Returns the `HotFields` of views that read all objects in place during a transaction, never a copy in
    /// its write set: views for [several threads](crate::View::shared), and for prefetches.
    pub(crate) fn reader_in_transaction() -> &'static HotFields {
        static READER: EmptyHotFields = EmptyHotFields(HotFields::new());
        &READER.0
    }

    /// Whether the place can be written without asking the context: the transaction is long and has logged
    /// the place, no copies are pending, and no savepoint is open. False for an empty place, and for a place
    /// in several blocks, which this does not examine.
    ///
    /// # Safety
    /// The bytes from `addr` to `addr + len` are within the heap.
    #[inline(always)]
    pub(crate) unsafe fn is_in_place(&self, addr: usize, len: usize, align: usize) -> bool {
        let logged = self.logged.get();
        if logged.is_null() || len == 0 {
            return false;
        }
        // SAFETY: `set_route` has derived `logged` from a table with a word for each block of the heap,
        // premise (5) of `Context`. The caller guarantees that the place, hence its block, is in the heap.
        let bits = unsafe { &*logged.wrapping_add(addr / BLOCK) }.load(Ordering::Relaxed);
        let first = addr / 8;
        match len <= align && align <= 8 {
            true => bits >> (first % 64) & 1 != 0,
            false => has_all(bits, first, (addr + len - 1) / 8),
        }
    }

    /// Sets the filter, and empties the cache of places, because the copies have moved or are gone. (With the
    /// bug `unless`, the cache keeps them.)
    #[inline(always)]
    pub(super) fn forget_copies(&self, filter: u64, unless: Bug) {
        self.filter.set(filter);
        if !bug(unless) {
            self.recent.forget();
        }
    }
}

/// How a transaction keeps its writes to objects that it has not allocated. (New objects are written in
/// place in every mode.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Writes go to copies in the write set.
    Short,
    /// Writes go in place, after the old content is in the undo log.
    Long,
    /// Writes go to separate copies in DRAM, because the undo log cannot grow. The transaction will be rolled
    /// back.
    Doomed,
}

/// How a store gets its place: by the steps of the [`Mode`] alone, or with further steps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreRoute {
    Short,
    Long,
    /// The transaction is doomed, or a savepoint must note the store.
    Other,
}

/// The state of a region that its lock guards, with that of its open transaction.
//
// Premises of the `unsafe` code here:
// (1) `store` and `front` are valid as long as the context exists.
// (2) A `&mut Context` belongs to the writer of the region. It is made in one of two ways. It may be made
// from the locked region while there is no `Txn` of it, which `Txn::new` requires: then no reference to an
// object is alive. Or it is made from the pointer in a `Txn`, for one call from `api` into this module; such
// calls do nothing that only a commit or a rollback may do.
// (3) The places of the entries in the open transaction's log are words of the heap that belong to the
// transaction, and are mapped. Redo records have the originals of copies, fresh objects, and the span-table
// entries that the transaction records. Undo entries have the ranges that were passed to `append_undo`.
// (4) At the address of a value in `padded`, and in its whole copy if the write set has one, there is a valid
// value of the type for which the padding was made: `paths` notes whole values that it lends as that type,
// and only valid values are stored there.
// (5) The heap begins at the start of a block. `logged` in `front` is null unless the transaction is long;
// then the map `logged` has the table of the heap, and keeps it.
#[repr(align(128))] // separate lines, like `HotFields`
pub(crate) struct Context {
    pub(crate) store: *const Store,
    /// Address of the heap's first byte.
    base: usize,
    pub(crate) region: u32,
    pub(crate) media: Media,
    pub(crate) log: RegionLog,
    pub(crate) alloc: Allocator,
    pub(crate) gc: Collector,
    pub(crate) mode: Mode,
    /// Combines the mode and whether a savepoint is open, so that a store tests one field. Updated by
    /// `set_route` and `end_mode`.
    pub(crate) route: StoreRoute,
    /// Whether a panic now would leave the region between two states, so that only the next opening can
    /// repair it. See [`between_states`](Self::between_states).
    pub(crate) is_between: bool,
    pub(crate) set: WriteSet,
    /// The most copies that the write set may have.
    pub(super) most_copies: usize,
    /// The most bytes of fresh objects that a record holds. If there are more, they are flushed instead.
    fresh_in_record: usize,
    pub(crate) granularity: CopyGranularity,
    pub(crate) logged: WordMap<SharedBlocks>,
    pub(crate) doomed: DoomedCopies,
    /// Whether copies in the set are still to be stored in place, or to be moved to `doomed`: another root
    /// of the transaction has spilled, or could not be logged, and there may be a `&mut` to one of the
    /// copies.
    pub(crate) copies_pending: bool,
    pub(crate) savepoints: Savepoints,
    /// Lines that records in the log cover, and that were not flushed yet. Empty if the medium needs no
    /// flushes.
    pub(crate) dirty: DirtyLines,
    /// How many lookups in the write set this transaction has counted: those that have
    /// [found](Self::looks_again) a copy and, once there are many copies, those that have [found
    /// none](Self::looks_beside).
    pub(super) looks: usize,
    /// The value of `looks` at which to reconsider spilling.
    pub(super) enough_looks: usize,
    /// Whether the heap has room to log words ahead of stores to them; `None` if this transaction has not
    /// checked.
    pub(super) room_ahead: Option<bool>,
    /// Values whose padding is to be zeroed before the commit.
    pub(crate) padded: Padded,
    /// Places that the transaction is about to write, and that are to be logged together (address, bytes).
    pub(crate) ahead: Vec<(usize, usize)>,
    /// The list of ranges that an undo entry is made of. It is a field only to keep the memory of the list.
    pub(super) scratch: Vec<(usize, usize)>,
    /// Slots of the held pointers that this transaction has made.
    pub(crate) held: Vec<u32>,
    front: *const RegionFront,
    /// All contexts of a transaction over several roots; `None` if there is one root. Only the thread that
    /// has all their regions locked changes the count of the `Rc`.
    pub(crate) group: Option<Rc<[*mut Context]>>,
    txn: u64,
}

impl Context {
    /// Creates the context of a region without spans.
    ///
    /// # Safety
    /// `store` and `front` outlive the context.
    pub(crate) unsafe fn new(
        store: *const Store,
        region: u32,
        media: Media,
        log: RegionLog,
        gc: Collector,
        front: *const RegionFront,
    ) -> Context {
        // SAFETY: the caller guarantees that `store` outlives the context, which is made below.
        let store_ref = unsafe { &*store };
        let tuning = &store_ref.tuning;
        let copies = tuning.copies.min(MAX_ENTRIES);
        // Without fences the undo log costs hardly more than copies, so fewer copies are useful.
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
            route: StoreRoute::Short,
            is_between: false,
            set: WriteSet::new(first_copies(limit), tuning),
            most_copies: limit,
            fresh_in_record: tuning.fresh_in_record,
            granularity: CopyGranularity::new(tuning.patience),
            copies_pending: false,
            savepoints: Savepoints::default(),
            logged: WordMap::default(),
            doomed: DoomedCopies::default(),
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
        // SAFETY: `store` is valid, premise (1). The caller has the region locked, which keeps the heap and
        // its store, and keeps no reference to the store for longer.
        unsafe { &*self.store }
    }

    #[inline(always)]
    pub(super) fn base(&self) -> usize {
        self.base
    }

    #[inline(always)]
    pub(super) fn front(&self) -> &'static RegionFront {
        // SAFETY: `front` is valid, premise (1). The caller has the region locked, which keeps `front`, and
        // keeps no reference to it for longer.
        unsafe { &*self.front }
    }

    #[inline(always)]
    pub(crate) fn hot(&self) -> &HotFields {
        &self.front().hot
    }

    /// Runs `work`, which changes the region's internal structures. If `work` panics, a rollback cannot rely
    /// on them.
    #[inline(always)]
    pub(crate) fn between_states<R>(&mut self, work: impl FnOnce(&mut Context) -> R) -> R {
        let before = std::mem::replace(&mut self.is_between, true);
        let unwound = PanickedChange(self);
        let result = work(unwound.0);
        unwound.0.is_between = before;
        std::mem::forget(unwound);
        result
    }

    /// Starts a transaction on one root.
    #[inline]
    pub(crate) fn begin_transaction(&mut self) {
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
        self.alloc.begin_transaction(self.txn);
        // Places that the last transaction has noted and not logged may have other owners by now.
        self.ahead.clear();
    }

    /// Sets how the transaction keeps its writes from now on.
    pub(super) fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
        self.set_route();
    }

    /// Updates `route`, and the fields of `hot` that depend on the mode, the open savepoints and the pending
    /// copies.
    pub(super) fn set_route(&mut self) {
        self.route = match self.mode {
            Mode::Short if !self.savepoints.is_open() => StoreRoute::Short,
            Mode::Long if !self.savepoints.is_open() => StoreRoute::Long,
            _ => StoreRoute::Other,
        };
        let logged = match (self.route, self.logged.table()) {
            (StoreRoute::Long, Some(table)) if !self.copies_pending => table.wrapping_sub(self.base / BLOCK),
            _ => std::ptr::null(),
        };
        self.hot().logged.set(logged);
        self.hot().logs_in_place.set(self.mode == Mode::Long && !self.copies_pending);
    }

    /// Resets mode and route at the end of a transaction.
    #[inline(always)]
    pub(crate) fn end_mode(&mut self) {
        (self.mode, self.route) = (Mode::Short, StoreRoute::Short);
        self.hot().logged.set(std::ptr::null());
        self.hot().logs_in_place.set(false);
    }

    /// Gives the map of logged words the table that all regions of the heap share, if the heap has one.
    /// Called before the mode becomes [`Mode::Long`], and before anything is logged. Without a table, each
    /// store would need a call.
    pub(super) fn share_logged(&mut self) {
        if self.logged.table().is_none() {
            self.logged.share(self.store().logged());
        }
    }

    /// Makes a new transaction long, for tests and measurements. A separate function, because inlined it
    /// would force values of the caller from registers into memory.
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

    /// Whether the transaction has done nothing. False for every long transaction over several roots,
    /// because only the first root has its log.
    #[inline]
    pub(crate) fn is_untouched(&self) -> bool {
        self.set.is_empty()
            && self.alloc.is_untouched()
            && (self.mode == Mode::Short
                || (self.mode == Mode::Long && self.log.is_empty() && self.group.is_none()))
    }

    /// Allocates a new object of zero or more bytes.
    #[inline(always)] // a third of the code if the type is known; the compiler would not always inline it
    pub(crate) fn alloc(&mut self, request: AllocRequest) -> Result<*mut u8> {
        let addr = match self.alloc.try_alloc(&request) {
            Some(addr) => addr,
            // The request is passed in parts: a reference would force the request into memory, on the fast
            // path, too.
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
        let request = &AllocRequest { desc, bytes, align, unsized_ };
        let store = self.store();
        store.check_not_forked()?; // the transaction may be the parent's
        loop {
            if let Some(addr) = self.alloc.try_alloc(request) {
                return Ok(addr);
            }
            let (bytes, entry, pointers) = match self.alloc.prepare(store, self.region, request)? {
                MissingSpan::Nothing => continue,
                MissingSpan::Span(bytes, entry, pointers) => (bytes, entry, pointers),
            };
            let span = match store.take_free_span(&bytes, entry) {
                Some(span) => span,
                // After a crash, the marking is completed before the file grows: it may find free memory.
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
                        // The running cycle of the collector may free enough space.
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

    /// Appends the old content of these ranges (address, bytes; whole words) to the undo log.
    ///
    /// # Safety
    /// The ranges are mapped, belong to the transaction's regions, and have definite bytes.
    #[track_caller]
    pub(super) unsafe fn append_undo(&mut self, ranges: &[(usize, usize)]) -> Result<()> {
        let (store, region) = (self.store(), self.region);
        let Context { log, media, .. } = self;
        // SAFETY: the caller guarantees that the ranges are mapped, belong to the transaction's regions, and
        // have definite bytes.
        unsafe { log.append_undo(media, ranges, |log, bytes| grow_log(store, region, media, log, bytes)) }
    }

    /// Appends the old content of the entries of these spans to the undo log. The transaction records these
    /// entries.
    pub(super) fn append_entries(&mut self, spans: &[TakenSpan]) -> Result<()> {
        let entry = |span: &TakenSpan| (self.base + span.entry_at as usize, ENTRY as usize);
        let entries: Vec<_> = spans.iter().map(entry).collect();
        // SAFETY: `entry_at` comes from the store, and leads into a mapped span table, whose words are
        // definite. The spans are those of the transaction's regions, which this thread has locked. So no
        // other thread writes to their entries.
        unsafe { self.append_undo(&entries) }
    }

    /// Returns all spans of the region (offset, bytes). The last one is that of its header.
    pub(crate) fn spans(&self) -> Vec<(u64, u64)> {
        let objects = self.alloc.spans.iter().map(|span| (span.span.offset, span.bytes));
        objects.chain(self.log.spans()).collect()
    }

    /// Returns the name of the next entry of the log.
    pub(super) fn next_entry(&self) -> EntryId {
        let Context { region, log, .. } = self;
        EntryId { region: *region, number: log.sequence() as u32, generation: log.generation() }
    }

    /// Links a segment with room for the staged entry to the log.
    pub(crate) fn grow_log(&mut self) -> Result<()> {
        let bytes = self.log.staged.bytes();
        grow_log(self.store(), self.region, &self.media, &mut self.log, bytes)
    }

    /// Makes the log long enough for about `bytes` bytes of undo entries: its segments have so many in all.
    ///
    /// # Errors
    /// Those of taking a span.
    pub(crate) fn make_log_for(&mut self, bytes: u64) -> Result<()> {
        match self.missing_log(bytes) {
            0 => Ok(()),
            missing => grow_log(self.store(), self.region, &self.media, &mut self.log, missing),
        }
    }

    /// Returns the bytes that the log lacks for `bytes` bytes of undo entries. With a write-ahead log it
    /// lacks none, because it keeps undo entries in memory.
    pub(crate) fn missing_log(&self, bytes: u64) -> u64 {
        if self.media.wal().is_some() { 0 } else { bytes.saturating_sub(self.log.capacity()) }
    }

    /// Makes the data of all records in the log durable, empties the log, and ends the quarantine of freed
    /// memory. Does nothing if the log is empty.
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

    /// Ends the quarantine of freed memory: no committed record can be replayed any more.
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

/// Steps at the end of a transaction.
impl Context {
    /// Adds the transaction's changes to the record of its own log: the words that differ in copies, the
    /// span-table entries that it records, and fresh objects. If there are too many fresh objects for a
    /// record, this starts to flush them instead, and returns whether it did.
    #[inline(always)]
    pub(super) fn stage(&mut self) -> bool {
        let Context { set, log, alloc, media, base, fresh_in_record, .. } = self;
        stage(set, alloc, media, *base, *fresh_in_record, &mut log.staged)
    }

    /// [`stage`](Self::stage), but adds to `record`.
    pub(super) fn stage_into(&mut self, record: &mut StagedEntry) -> bool {
        stage(&self.set, &mut self.alloc, &self.media, self.base, self.fresh_in_record, record)
    }

    /// Zeroes the padding of values that were written. Called only before the commit, or when a savepoint is
    /// taken back. A spill must not zero padding: it may come while there are references to a value, and
    /// these cover its padding.
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
            let place = match set.find_copy(addr, 1) {
                RangeLookup::Copy(copy) => copy,
                RangeLookup::Part | RangeLookup::Nothing => std::ptr::with_exposed_provenance_mut(addr),
            };
            // SAFETY: at `place` is a valid value of the type that `padding` was made for, premise (4), and
            // no reference to it is alive, premise (2).
            unsafe { padding.zero_at(place) };
        }
        padded.clear();
    }

    /// Stores the words of the staged record in place.
    #[inline(always)]
    pub(super) fn apply(&mut self) {
        let base = self.store().base();
        let Context { log, media, dirty, .. } = self;
        // The records of these lines are durable. The next fence waits for their flushes, so that few dirty
        // lines are left when the log is emptied. The next fence may be one of another processor; see
        // `Exclusive::let_go`.
        dirty.drain_some(|line| media.flush(std::ptr::without_provenance(line), LINE));
        let needs_flush = media.needs_flush();
        for range in log.staged.ranges() {
            let place = base.wrapping_add(range.offset as usize);
            // SAFETY: `place` has words of the heap that belong to the transaction, premise (3), and no
            // reference to them is alive, premise (2).
            unsafe { media.store_words(place.cast(), range.words) };
            if needs_flush {
                dirty.add(place.addr(), range.words.len() * 8);
            }
        }
    }

    /// Stores the old content from the undo entries in place, newest entry first, and starts to flush it.
    /// Returns whether there was any entry.
    ///
    /// Entries may hold words that were not stored to, and a thread may read these without a lock, through a
    /// snapshot. So this stores only words that differ.
    pub(super) fn restore(&mut self) -> bool {
        let base = self.store().base();
        let Context { log, media, .. } = self;
        let mut restored = false;
        cpu::settle(std::ptr::null_mut());
        for range in log.undo_entries().flat_map(ranges) {
            let place = base.wrapping_add(range.offset as usize);
            for (i, word) in range.words.iter().enumerate() {
                let place = place.cast::<u64>().wrapping_add(i);
                // SAFETY: `place` is a word of the heap that belongs to the transaction, premise (3). No
                // other thread writes there, premise (2), and `settle` has made it definite.
                if unsafe { place.read() } != *word {
                    // SAFETY: `place` is the word that was just read. No reference to words that the
                    // transaction has changed is alive, premise (2).
                    unsafe { media.store_words(place, std::slice::from_ref(word)) };
                }
            }
            media.flush(place, range.words.len() * 8);
            restored = true;
        }
        restored
    }
}

/// Adds the changes of a transaction to `record`; see [`Context::stage`].
#[inline(always)]
fn stage(
    set: &WriteSet,
    alloc: &mut Allocator,
    media: &Media,
    base: usize,
    most: usize,
    record: &mut StagedEntry,
) -> bool {
    cpu::settle(std::ptr::null_mut());
    // SAFETY: copies and originals are mapped, premise (1) of `WriteSet`. No other thread writes to the
    // region, premise (2) of `Context`. `settle` has made their bytes definite.
    unsafe { record.add_changes(set.copies(), set.copied_words() + set.len(), set.is_large(), base) };
    !alloc.is_untouched() && stage_allocated(alloc, media, base, most, record)
}

#[inline(never)]
fn stage_allocated(
    alloc: &mut Allocator,
    media: &Media,
    base: usize,
    most: usize,
    record: &mut StagedEntry,
) -> bool {
    for span in alloc.taken() {
        // SAFETY: the source is the array of the encoded entry, which has `ENTRY / 8` words.
        unsafe { record.add(span.entry_at, span.entry.to_words().as_ptr(), ENTRY as usize / 8) };
    }
    let fresh = alloc.fresh_ranges();
    let inline = fresh.iter().map(|(start, end)| end - start).sum::<usize>() <= most;
    for &(start, end) in fresh {
        let ptr = std::ptr::with_exposed_provenance::<u64>(start);
        if inline {
            // SAFETY: `start` to `end` is a range of fresh objects: mapped, whole words. `stage` has made
            // them definite.
            unsafe { record.add((start - base) as u64, ptr, (end - start) / 8) };
        } else {
            media.flush(ptr.cast(), end - start);
        }
    }
    !inline
}

/// Links a segment with room for an entry of `bytes` bytes to the log. The segment is about as long as all
/// segments before it together, but at most `MAX` bytes; or longer, if the entry needs that. If there is no
/// space for so long a segment, it is shorter.
fn grow_log(store: &Store, region: u32, media: &Media, log: &mut RegionLog, bytes: u64) -> Result<()> {
    const MAX: u64 = 64 << 20;
    let least = bytes + LINE as u64;
    let size = least.max(log.capacity().min(MAX));
    let entry = SpanEntry { kind: SpanKind::Log, slot: 0, pages: 0, ty: 0, region };
    // If there is no space for so long a segment, a shorter one is enough.
    let span = store.take_span(&(size..=size), entry).or_else(|_| store.take_span(&(least..=size), entry))?;
    let len = span.bytes();
    // SAFETY: the span was taken for this log just now, so it is mapped and belongs to this log alone. `link`
    // makes its entry durable before the chain leads there.
    unsafe {
        store.write_entry(media, &span);
        log.link(media, RegionLogSegment { start: span.offset, len });
    }
    Ok(())
}

/// Marks a transaction in which a change of the region's internal structures has panicked. The program may
/// catch the panic. A transaction that has done nothing commits without a check, and a marked transaction
/// must not count as such. So `drop` adds a free to the transaction. The free never happens, because the
/// transaction never commits.
struct PanickedChange<'a>(&'a mut Context);

impl Drop for PanickedChange<'_> {
    fn drop(&mut self) {
        self.0.alloc.free_at_commit(0);
    }
}

/// Returns the error of a transaction that could not log all its writes.
pub(crate) fn doomed_error() -> Error {
    Error::OutOfSpace { reason: "the undo log could not grow, so the transaction was rolled back".to_owned() }
}
