//! Collection: finding the objects that can be reached from the root, and making the others' slots free.
//!
//! A collection of a region is a cycle of three phases. It *begins* between two transactions: the root and the pointers that
//! programs hold are noted. Then objects are *marked*, in slices between transactions: those that were reachable when the cycle
//! began (a snapshot at the beginning, after Yuasa, "Real-time garbage collection on general-purpose machines", 1990). What a
//! transaction allocates meanwhile is marked from birth. What it overwrites is handed to the marker
//! ([`shade`](Context::shade)): the write set has the old content until it is committed, and the undo log asks for it. Then spans
//! are *swept*: what is not marked is free.
//!
//! **Minor cycles.** Most objects die young. An object that a cycle has marked keeps its mark, and is *old*; the next cycle may be a minor
//! one, which takes all old objects for live and traces only what is young: from the places of old objects that were
//! [written](Remembered) since. (Sticky mark bits, after Demers and others, "Combining generational and conservative garbage
//! collection", 1990.)
//!
//! A slice runs at the end of a transaction that has allocated, in proportion to that, so a program cannot outrun its collector;
//! or in another thread that holds the region's lock, shared with readers ([`Region::mark_beside_readers`]).

mod pace;
mod pauses;
mod remembered;
mod sweep;
mod tracer;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pheap_gc::{Budget, Marking, Progress};

use super::alloc::Usage;
use super::held::HeldTable;
use super::{Region, State, guard};
use crate::faults::{Bug, bug};
use crate::heap::bitmaps;
use crate::store::Store;
use crate::txn::context::Context;
use crate::units::LINE;
pub(crate) use pace::Pace;
pub use pauses::Pauses;
use remembered::Remembered;
use tracer::{Object, Tracer};

/// A transaction waits for a slice at most about this long.
const SLICE: Duration = Duration::from_micros(300);
/// Bytes to mark before a slice is worth its while.
const SLICE_WORK: u64 = 64 << 10;
/// Bytes of marking that a transaction pays for, besides those for what it allocates.
const WORK_PER_TRANSACTION: u64 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Marking,
    /// The next span to sweep, and the one behind the last.
    Sweeping {
        next: u32,
        end: u32,
    },
}

/// The state of the collection of a region.
pub(crate) struct Collector {
    pace: Arc<Pace>,
    state: Arc<State>,
    held: Arc<HeldTable>,
    phase: Phase,
    marking: Marking<Object>,
    /// Whether the cycle is the one that finds out what is live in a heap that was opened.
    opening: bool,
    /// Whether there was no space for something: a cycle is to begin after this transaction, so that there is for the next.
    pub(crate) wanted: bool,
    /// Whether there are spans of which it is not known what is live, and will not be before the next cycle.
    pub(crate) incomplete: bool,
    /// Whether the cycle is (or the next one will be) a minor one.
    minor: bool,
    pub(crate) remembered: Remembered,
    /// Whether a transaction may allocate, or have allocated, in slots that are marked and will not be traced.
    marked_untraced: bool,
    /// What was live after the last cycle that was not a minor one, and the usage when the cycle began.
    live: u64,
    before: Usage,
    /// A cycle begins when so many bytes were allocated since the last one began.
    threshold: u64,
    /// Bytes of marking that transactions still have to pay for, and for what part of their allocations they have paid.
    debt: u64,
    paid: u64,
}

impl Collector {
    pub(crate) fn new(pace: Arc<Pace>, state: Arc<State>, held: Arc<HeldTable>) -> Collector {
        Collector {
            threshold: pace.least,
            pace,
            state,
            held,
            phase: Phase::Idle,
            marking: Marking::new(),
            opening: false,
            wanted: false,
            incomplete: false,
            minor: false,
            remembered: Remembered::default(),
            marked_untraced: false,
            live: 0,
            before: Usage::default(),
            debt: 0,
            paid: 0,
        }
    }

    #[inline(always)]
    fn is_marking(&self) -> bool {
        self.phase == Phase::Marking
    }

    #[inline(always)]
    pub(crate) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// From how many allocated bytes on a cycle begins at the first good moment, and from how many at any.
    #[inline(always)]
    fn soon(&self) -> u64 {
        self.threshold - self.threshold / 4
    }

    fn overdue(&self) -> u64 {
        self.threshold.saturating_add(self.threshold / 4)
    }

    /// Whether it is still being found out what is live in a heap that was opened.
    pub(crate) fn is_opening(&self) -> bool {
        self.opening
    }
}

impl Context {
    /// Does some work for the collection of the region, if there is any. Between transactions.
    #[inline(always)]
    pub(crate) fn collect_some(&mut self) {
        if !self.gc.is_idle() || self.alloc.usage.allocated >= self.gc.soon() || self.gc.wanted {
            self.between_states(Context::pay);
        }
    }

    #[cold]
    fn pay(&mut self) {
        let usage = self.alloc.usage;
        if self.gc.state.root.load(Ordering::Relaxed) == 0 {
            return; // the region is being created, and its root not known yet
        }
        if self.gc.is_idle() {
            // A transaction that has allocated nothing may have unlinked something: a better moment than when it was just linked. But
            // there may be no such moment.
            let wanted = std::mem::take(&mut self.gc.wanted);
            self.gc.minor &= !wanted;
            if usage.allocated != self.gc.paid && usage.allocated < self.gc.overdue() && !wanted {
                self.gc.paid = usage.allocated;
                return;
            }
            self.begin_collection();
            // At once: what is allocated before it ends is not freed by it, and often there is little to do.
            self.gc.debt = SLICE_WORK;
        }
        let usage = self.alloc.usage;
        let gc = &mut self.gc;
        // Done when a sixteenth of the threshold was allocated, so that little is added to what the cycle was to free.
        let rate = 1 + 16 * usage.bytes / gc.threshold.max(1);
        // What was freed at a commit since counts no more, and may have been paid for.
        let allocated = usage.allocated.saturating_sub(gc.paid);
        gc.debt += WORK_PER_TRANSACTION + allocated * rate;
        gc.paid = usage.allocated;
        if gc.debt >= SLICE_WORK.min(self.gc.pace.least) {
            // Who allocates much in one transaction has not been quick anyway.
            let length = SLICE + Duration::from_micros(allocated / 512);
            // Or, in tests, as little as can be done at a time.
            let least = self.gc.pace.least;
            let bytes = if least < SLICE_WORK { least } else { self.gc.debt };
            let done = self.slice(bytes, length);
            self.gc.debt = self.gc.debt.saturating_sub(done.max(SLICE_WORK));
        }
    }

    /// One slice: as much marking as `bytes`, and no longer than `length`. Returns how much it was.
    fn slice(&mut self, bytes: u64, length: Duration) -> u64 {
        let start = Instant::now();
        let deadline = (!self.store().is_simulated()).then(|| start + length);
        let mut budget = Budget::work(bytes);
        if let Some(deadline) = deadline {
            budget = budget.and_until(deadline);
        }
        self.advance(&mut budget, deadline);
        self.gc.pace.pause(start.elapsed());
        budget.marked_bytes()
    }

    /// Goes on with the cycle.
    fn advance(&mut self, budget: &mut Budget, deadline: Option<Instant>) {
        if self.gc.is_marking() {
            let base = self.store().base().addr() as u64;
            let Context { gc, alloc, store, .. } = self;
            // SAFETY: the heap outlives its regions' contexts.
            let map = unsafe { &(**store).page_map };
            let tracer = Tracer { base, map, spans: &alloc.spans, shared: false };
            match gc.marking.run(&tracer, budget) {
                Progress::Done => {
                    self.gc.marked_untraced = true;
                    self.begin_sweep();
                }
                Progress::More => return,
            }
        }
        self.sweep(deadline);
    }

    /// Begins a cycle. A minor one only if all is known that it needs.
    fn begin_collection(&mut self) {
        let store = self.store();
        self.gc.minor &= self.gc.remembered.is_active();
        let lines = self.gc.remembered.take();
        self.gc.before = self.alloc.usage;
        self.alloc.forget_quarantine();
        self.alloc.begin_collection(self.gc.minor);
        if self.gc.minor {
            lines.into_iter().for_each(|line| self.push_pointers_of_old(line));
        }
        if !bug(Bug::NewObjectsUnmarked) {
            self.alloc.mark_runs(store);
        }
        let base = store.base().addr() as u64;
        let Collector { marking, state, held, .. } = &mut self.gc;
        marking.push_mut(base + state.root.load(Ordering::Relaxed));
        held.for_each(|addr| marking.push_mut(addr as u64));
        self.gc.phase = Phase::Marking;
        (self.gc.debt, self.gc.paid) = (0, 0);
    }

    /// Hands the marker what old objects point to from a line.
    fn push_pointers_of_old(&mut self, line: usize) {
        let store = self.store();
        let base = store.base().addr();
        let Context { gc, alloc, .. } = self;
        let offset = (line - base) as u64;
        let Some((number, first)) = alloc.spans.find(&store.page_map, offset) else { return };
        let Some(span) = alloc.spans.get(number).filter(|span| span.pointers.has_pointers()) else { return };
        for slot in first..=span.slot_of(offset + LINE as u64 - 1).unwrap_or(span.slots - 1) {
            if !span.marks.test(slot as usize) {
                continue; // young, or free
            }
            let start = span.offset_of(slot);
            let window = offset.saturating_sub(start)..(offset + LINE as u64 - start).min(span.slot);
            // SAFETY: an object that the last cycle has marked; the region is locked.
            unsafe {
                let object = std::ptr::with_exposed_provenance(base + start as usize);
                let window = window.start as usize..window.end as usize;
                span.pointers.visit(object, span.slot as usize, window, |word| {
                    let pointer = word.read();
                    if pointer != 0 {
                        gc.marking.push_mut(pointer);
                    }
                });
            }
        }
    }

    /// Notes the fresh objects that are old although no cycle has traced them: those of a transaction that ends while spans are being swept,
    /// or in which a cycle has ended.
    #[inline(always)]
    pub(crate) fn remember_fresh(&mut self) {
        if self.gc.marked_untraced {
            let Context { gc, alloc, .. } = self;
            for &(start, end) in alloc.fresh_ranges() {
                gc.remembered.add(start, end - start);
            }
            gc.marked_untraced = !gc.is_idle();
        }
    }

    /// Begins to find out what is live in a heap that was just opened.
    pub(crate) fn begin_opening(&mut self) {
        self.begin_collection();
        self.gc.opening = true;
        self.gc.minor = false;
        self.publish_usage();
    }

    /// Adds the live slots of the region, which is not used any more, to those of others. `None` if they are not known.
    pub(crate) fn live_slots(&mut self, mut to: Vec<u64>) -> Option<Vec<u64>> {
        if self.gc.opening || self.alloc.spans.iter().any(|span| span.live.is_empty()) {
            return None;
        }
        let store = self.store();
        self.alloc.give_back_unfilled(store);
        self.alloc.spans.iter().for_each(|span| bitmaps::add(&mut to, span));
        Some(to)
    }

    /// Tells the statistics what the region holds.
    pub(crate) fn publish_usage(&self) {
        let State { objects, bytes, unknown, .. } = &*self.gc.state;
        unknown.set((self.gc.opening || self.gc.incomplete).into());
        objects.set(self.alloc.usage.objects);
        bytes.set(self.alloc.usage.bytes);
    }

    fn end_collection(&mut self) {
        let store = self.store();
        self.alloc.mark_runs(store);
        self.alloc.end_collection();
        let usage = self.alloc.usage;
        let gc = &mut self.gc;
        gc.phase = Phase::Idle;
        if !gc.minor {
            gc.live = usage.bytes;
        }
        let freed = (gc.before.bytes + usage.allocated).saturating_sub(usage.bytes);
        // As long as most of what is young dies, and not much that is old can have died.
        let worthwhile = freed >= gc.before.allocated / 3 * 2
            && usage.bytes <= (gc.live + gc.live / 2).saturating_add(gc.pace.least);
        gc.minor = if gc.pace.least < SLICE_WORK { !gc.minor } else { worthwhile };
        let growth = (usage.bytes / 100).saturating_mul(gc.pace.growth);
        gc.threshold = if gc.minor { growth / 4 } else { growth }.max(gc.pace.least);
        if !gc.minor {
            gc.remembered.stop();
        }
        gc.opening = false;
        gc.incomplete = false;
        self.publish_usage();
        self.gc.pace.complete();
    }

    /// Completes the cycle, if there is one, within this transaction: so that what it frees can be allocated.
    ///
    /// Sound within a transaction, because the cycle has begun before it: all that the transaction can reach was reachable then, or is its
    /// own. (A cycle that began here would miss objects that the transaction has unlinked and still has a `P` of.)
    #[cold]
    pub(crate) fn complete_collection(&mut self) {
        let start = Instant::now();
        self.alloc.cool_down_all();
        while !self.gc.is_idle() {
            self.advance(&mut Budget::unlimited(), None);
        }
        self.gc.pace.pause(start.elapsed());
    }

    /// What [`Bug::CycleInTransaction`] does.
    #[cold]
    pub(crate) fn begin_and_complete_collection(&mut self) {
        if self.gc.is_idle() {
            self.begin_collection();
        }
        self.complete_collection();
    }

    /// The open transaction is about to overwrite these bytes, which lie in one object: what they point to was reachable when the cycle
    /// began.
    #[inline(always)]
    pub(crate) fn shade(&mut self, addr: usize, len: usize) {
        if self.gc.is_marking() && !bug(Bug::NoShadeAtLogging) {
            self.shade_pointers(addr, len);
        }
    }

    /// [`shade`](Self::shade) for all that the write set is about to replace.
    #[inline(always)]
    pub(crate) fn shade_originals(&mut self) {
        if self.gc.is_marking() && !bug(Bug::NoShadeAtCommit) {
            let originals: Vec<_> = self.set.copies().map(|(addr, _, words)| (addr, words * 8)).collect();
            originals.into_iter().for_each(|(addr, len)| self.shade_pointers(addr, len));
        }
    }

    #[cold]
    fn shade_pointers(&mut self, addr: usize, len: usize) {
        let store = self.store();
        let base = store.base().addr();
        let Context { gc, alloc, .. } = self;
        let offset = (addr - base) as u64;
        // What is no object is a word of metadata.
        let Some((number, slot)) = alloc.spans.find(&store.page_map, offset) else { return };
        let Some(span) = alloc.spans.get(number) else { return };
        let object = base + span.offset_of(slot) as usize;
        let window = addr - object..(addr - object + len).min(span.slot as usize);
        // SAFETY: a live object of the type of its span, in a region that this thread has for itself.
        unsafe {
            let object = std::ptr::with_exposed_provenance(object);
            span.pointers.visit(object, span.slot as usize, window, |word| {
                let pointer = word.read();
                if pointer != 0 {
                    gc.marking.push_mut(pointer);
                }
            });
        }
    }
}

/// How a region stands, as seen by a thread that works on its collection beside transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// There is more to do.
    Working,
    /// All is marked that this thread could find; see [`Region::collect_alone`].
    Marked,
    /// No cycle is running, or the region is gone.
    Idle,
}

/// A region that a collection has locked beside readers. Dropping it lets go of the lock, also in a panic.
struct Locked<'a> {
    region: &'a Region,
    is_finished: bool,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.region.fail();
        }
        // SAFETY: locked by whoever made this, on this thread.
        unsafe { self.region.lock.unlock_shared() };
    }
}

impl Region {
    /// A slice of marking, beside readers and other threads that do the same.
    pub(crate) fn mark_beside_readers(&self, store: &Store) -> Stage {
        self.lock.lock_shared(guard::is_inside_any());
        let mut locked = Locked { region: self, is_finished: false };
        let start = Instant::now();
        let stage = if self.is_gone() {
            Stage::Idle
        } else {
            // SAFETY: the lock is held for reading, so the context is not written, apart from its atomics.
            let context = unsafe { &*self.context.get() };
            if context.gc.is_marking() {
                let base = store.base().addr() as u64;
                let tracer = Tracer { base, map: &store.page_map, spans: &context.alloc.spans, shared: true };
                let progress = context.gc.marking.run_shared(&tracer, &mut Budget::until(start + SLICE));
                context.gc.pace.pause(start.elapsed());
                match progress {
                    Progress::More => Stage::Working,
                    Progress::Done => Stage::Marked,
                }
            } else {
                Stage::Idle
            }
        };
        locked.is_finished = true;
        stage
    }

    /// Runs `work` with the region locked, unless it is gone. The thread is not inside of the heap.
    fn alone<R>(&self, work: impl FnOnce(&mut Context) -> R) -> Option<R> {
        /// Lets go of the region, of which nothing is certain any more if `work` has not come to its end.
        struct Unlock<'a>(&'a Region, bool);
        impl Drop for Unlock<'_> {
            fn drop(&mut self) {
                if !self.1 {
                    self.0.fail();
                }
                // SAFETY: locked below, by this thread.
                unsafe { self.0.lock.unlock_exclusive() };
            }
        }
        self.lock.gate.pass(guard::is_inside_any);
        self.lock.lock_aside();
        let mut unlock = Unlock(self, false);
        // SAFETY: the lock is held.
        let result = (!self.is_gone()).then(|| work(unsafe { &mut *self.context.get() }));
        unlock.1 = true;
        result
    }

    /// A slice of whatever is next, with the region locked. Returns whether a cycle is still running.
    pub(crate) fn collect_alone(&self) -> bool {
        let slice = |context: &mut Context| {
            if context.gc.is_idle() {
                return false;
            }
            context.slice(u64::MAX, SLICE);
            !context.gc.is_idle()
        };
        self.alone(slice).unwrap_or(false)
    }

    /// Begins a cycle. Returns whether it did: there may be one already. `None` if the region is gone.
    pub(crate) fn begin_cycle(&self) -> Option<bool> {
        self.alone(|context| {
            let begins = context.gc.is_idle();
            if begins {
                context.gc.minor = false;
                context.begin_collection();
            }
            begins
        })
    }

    /// Whether it is still being found out what is live in a heap that was opened.
    pub(crate) fn is_opening(&self) -> bool {
        self.alone(|context| context.gc.opening).unwrap_or(false)
    }

    /// Bytes of the spans of the region's objects.
    pub(crate) fn span_bytes(&self) -> u64 {
        self.alone(|context| context.alloc.spans.iter().map(|span| span.bytes).sum()).unwrap_or(0)
    }
}
