//! The collector: when a cycle begins (`is_due`), how much a slice does per changed byte (`assess`), what it marks.
//!
//! A collection of a region is a cycle of three phases. It *begins* between two transactions: the root and the pointers that
//! programs hold are noted. Then objects are *marked*, in slices between transactions: those that were reachable when the cycle
//! began (a snapshot at the beginning, after Yuasa, "Real-time garbage collection on general-purpose machines", 1990). What a
//! transaction allocates meanwhile is marked from birth. What it overwrites is handed to the marker
//! ([`shade`](Collector::shade)): the write set has the old content until it is committed, and the undo log asks for it. Then spans
//! are *swept*: what is not marked is free.
//!
//! **Minor cycles.** Most objects die young. An object that a cycle has marked keeps its mark, and is *old*; the next cycle may be a minor
//! one, which takes all old objects for live and traces only what is young: from the places of old objects that were
//! [written](Remembered) since. (Sticky mark bits, after Demers and others, "Combining generational and conservative garbage
//! collection", 1990.)
//!
//! A slice runs at the end of a transaction that has allocated, or stored while objects are marked, in proportion to that, so a program cannot outrun its collector;
//! or in another thread that holds the region's lock, shared with readers. Who calls this decides when; here is what a slice does, and how much is due.
//!
//! Knows objects, spans and marks. Must not know transactions, nor locks.

pub(crate) mod accesses;
pub(crate) mod held;
mod pace;
mod remembered;
mod sweep;
#[cfg(test)]
mod tests;
mod tracer;
pub(crate) mod versions;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pheap_gc::{Budget, Marking, Progress};

use crate::alloc::{Allocator, Usage, bitmaps};
use crate::faults::{Bug, bug};
use crate::stats::{Gauge, Live, Stats};
use crate::store::Store;
use crate::units::LINE;
use held::HeldTable;
pub(crate) use pace::Pace;
use remembered::Remembered;
use tracer::{Object, Tracer};
use versions::WORDS;

/// A transaction waits for a slice at most about this long.
pub(crate) const SLICE: Duration = Duration::from_micros(300);
/// Bytes to mark before a slice is worth its while.
pub(crate) const SLICE_WORK: u64 = 64 << 10;
/// Bytes of marking that a transaction pays for, besides those for what it allocates.
pub(crate) const WORK_PER_TRANSACTION: u64 = 256;

/// What is known of a region: written under its lock, read by anyone.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Offset of the root object; 0 while the region is being created.
    pub(crate) root: AtomicU64,
    /// What the region holds, for statistics.
    pub(crate) objects: Gauge,
    pub(crate) bytes: Gauge,
    /// 1 as long as it is not known what is live.
    pub(crate) unknown: Gauge,
}

impl State {
    pub(crate) fn live(&self) -> Live {
        Live { objects: self.objects.get(), bytes: self.bytes.get() }
    }

    pub(crate) fn add_to(&self, stats: &mut Stats) {
        let Live { objects, bytes } = self.live();
        stats.live_objects += objects;
        stats.live_bytes += bytes;
        stats.ready &= self.unknown.get() == 0;
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    Marking,
    /// The next span to sweep, and the one behind the last.
    Sweeping {
        next: u32,
        end: u32,
    },
}

/// The state of the collection of a region.
#[derive(Default)]
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
    /// Bytes that transactions have overwritten since they last paid, while objects were being marked.
    overwritten: u64,
}

impl Collector {
    pub(crate) fn new(pace: Arc<Pace>, state: Arc<State>, held: Arc<HeldTable>) -> Collector {
        Collector { threshold: pace.least, pace, state, held, ..Collector::default() }
    }

    #[inline(always)]
    pub(crate) fn is_marking(&self) -> bool {
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

    /// Whether a transaction is to look after the collection when it has ended: there is one, or one is due.
    #[inline(always)]
    pub(crate) fn is_due(&self, usage: &Usage) -> bool {
        !self.is_idle() || usage.allocated >= self.soon() || self.wanted
    }

    /// Begins a cycle if it is time for one, and counts what the transaction that has just ended is to do for it. Returns how many bytes it is to mark now,
    /// and for how long at most; `None` if nothing.
    pub(crate) fn assess(&mut self, alloc: &mut Allocator, store: &Store) -> Option<(u64, Duration)> {
        let usage = alloc.usage;
        // The region is being created, and its root not known yet.
        if self.state.root.load(Ordering::Relaxed) == 0 {
            self.paid = usage.allocated; // it is not for the next transaction to mark, which may be short
            return None;
        }
        let mut overdue = 0;
        if self.is_idle() {
            // A transaction that has allocated nothing may have unlinked something: a better moment than when it was just linked. But
            // there may be no such moment.
            let wanted = std::mem::take(&mut self.wanted);
            self.minor &= !wanted;
            if usage.allocated != self.paid && usage.allocated < self.overdue() && !wanted {
                self.paid = usage.allocated;
                return None;
            }
            // What a single transaction has allocated that has led to this, but for less than it: to be marked by that one. Or those that come next would, which may be short.
            if usage.allocated >= self.overdue() {
                overdue = usage.allocated.saturating_sub(self.paid);
            }
            self.begin(alloc, store);
            // At once: what is allocated before it ends is not freed by it, and often there is little to do.
            self.debt = SLICE_WORK;
        }
        let usage = alloc.usage;
        // Done when a sixteenth of the threshold was allocated, so that little is added to what the cycle was to free.
        let rate = 1 + 16 * usage.bytes / self.threshold.max(1);
        // What was freed at a commit since counts no more, and may have been paid for.
        let allocated = usage.allocated.saturating_sub(self.paid);
        // Who allocates nothing is to get rid of the barrier as well.
        let changed = allocated + std::mem::take(&mut self.overwritten);
        self.debt += WORK_PER_TRANSACTION + changed * rate;
        self.paid = usage.allocated;
        let least = self.pace.least;
        (self.debt >= SLICE_WORK.min(least)).then(|| {
            // Who changes much in one transaction has not been quick anyway. In tests, as little as can be done at a time.
            (
                // What is overdue is no debt: what of it is not marked in that time is left to those that come next, little by little.
                if least < SLICE_WORK { least } else { self.debt.max(overdue) },
                SLICE + Duration::from_micros((changed + overdue) / 512),
            )
        })
    }

    /// Notes that so many bytes were marked for transactions.
    pub(crate) fn pay(&mut self, marked: u64) {
        self.debt = self.debt.saturating_sub(marked.max(SLICE_WORK));
    }

    /// Notes for how long transactions had to wait.
    pub(crate) fn pause(&self, duration: Duration) {
        self.pace.pause(duration);
    }

    /// Begins a cycle. A minor one only if all is known that it needs.
    pub(crate) fn begin(&mut self, alloc: &mut Allocator, store: &Store) {
        self.minor &= self.remembered.is_active();
        let lines = self.remembered.take();
        self.before = alloc.usage;
        alloc.forget_quarantine();
        alloc.begin_collection(self.minor);
        if self.minor {
            lines.into_iter().for_each(|line| self.push_pointers_of_old(alloc, store, line));
        }
        if !bug(Bug::NewObjectsUnmarked) {
            alloc.mark_runs(store);
        }
        let base = store.base().addr() as u64;
        let Collector { marking, state, held, .. } = self;
        marking.push_mut(base + state.root.load(Ordering::Relaxed));
        // The versions first: what becomes a held pointer meanwhile is found here or there.
        held.for_each_version(|| store.durable_end(), |addr| marking.push_mut(addr as u64));
        held.for_each(|addr| marking.push_mut(addr as u64));
        self.phase = Phase::Marking;
        (self.debt, self.paid, self.overwritten) = (0, 0, 0);
    }

    /// [Begins](Self::begin) a cycle that is no minor one, unless one is running. Returns whether it did.
    pub(crate) fn begin_full(&mut self, alloc: &mut Allocator, store: &Store) -> bool {
        let begins = self.is_idle();
        if begins {
            self.minor = false;
            self.begin(alloc, store);
        }
        begins
    }

    /// Begins to find out what is live in a heap that was just opened.
    pub(crate) fn begin_opening(&mut self, alloc: &mut Allocator, store: &Store) {
        self.begin(alloc, store);
        self.opening = true;
        self.minor = false;
        self.publish(alloc);
    }

    /// Marks. Returns whether all is marked, so that the [sweep](Self::begin_sweep) may begin.
    pub(crate) fn mark(&mut self, alloc: &Allocator, store: &Store, budget: &mut Budget) -> bool {
        let done = self.marking.run(&Tracer::new(alloc, store, false), budget) == Progress::Done;
        self.marked_untraced |= done;
        done
    }

    /// Marks beside other threads that do the same, and beside readers, until `deadline`.
    pub(crate) fn mark_shared(&self, alloc: &Allocator, store: &Store, deadline: Instant) -> Stage {
        if !self.is_marking() {
            return Stage::Idle;
        }
        match self.marking.run_shared(&Tracer::new(alloc, store, true), &mut Budget::until(deadline)) {
            Progress::More => Stage::Working,
            Progress::Done => Stage::Marked,
        }
    }

    /// Hands the marker what old objects point to from a line.
    fn push_pointers_of_old(&mut self, alloc: &Allocator, store: &Store, line: usize) {
        let offset = (line - store.base().addr()) as u64;
        let Some((number, first)) = alloc.spans.find(&store.page_map, offset) else { return };
        let tracer = Tracer::new(alloc, store, false);
        let Some(span) = alloc.spans.get(number).filter(|span| span.pointers.has_pointers()) else { return };
        for slot in first..=span.slot_of(offset + LINE as u64 - 1).unwrap_or(span.slots - 1) {
            if !span.marks.test(slot as usize) {
                continue; // young, or free
            }
            let start = span.offset_of(slot);
            let window = offset.saturating_sub(start)..(offset + LINE as u64 - start).min(span.slot);
            tracer.pointers(number, slot, window, &mut |pointer| self.marking.push_mut(pointer));
        }
    }

    /// The open transaction is about to overwrite these bytes, which lie in one object: what they point to was reachable when the cycle
    /// began.
    #[cold]
    pub(crate) fn shade(&mut self, alloc: &Allocator, store: &Store, addr: usize, len: usize) {
        self.overwritten += len as u64;
        let offset = (addr - store.base().addr()) as u64;
        // What is no object is a word of metadata.
        let Some((number, slot)) = alloc.spans.find(&store.page_map, offset) else { return };
        let Some(span) = alloc.spans.get(number) else { return };
        let start = offset - span.offset_of(slot);
        let window = start..(start + len as u64).min(span.slot);
        let push = &mut |pointer| self.marking.push_mut(pointer);
        Tracer::new(alloc, store, false).pointers(number, slot, window, push);
    }

    /// Notes the fresh objects that are old although no cycle has traced them: those of a transaction that ends while spans are being swept,
    /// or in which a cycle has ended.
    #[inline(always)]
    pub(crate) fn remember_fresh(&mut self, alloc: &mut Allocator) {
        if self.marked_untraced {
            for &(start, end) in alloc.fresh_ranges() {
                self.remembered.add(start, end - start);
            }
            self.marked_untraced = !self.is_idle();
        }
    }

    /// Adds the live slots of the region, which is not used any more, to those of others. `None` if they are not known.
    pub(crate) fn live_slots(
        &self,
        alloc: &mut Allocator,
        store: &Store,
        mut to: Vec<u64>,
    ) -> Option<Vec<u64>> {
        if self.opening || alloc.spans.iter().any(|span| span.live.is_empty()) {
            return None;
        }
        alloc.give_back_unfilled(store);
        alloc.spans.iter().for_each(|span| bitmaps::add(&mut to, span));
        Some(to)
    }

    /// What the root object of the region consists of.
    pub(crate) fn root_words(&self, alloc: &Allocator, store: &Store) -> Option<[u64; WORDS]> {
        Tracer::new(alloc, store, false).words(self.state.root.load(Ordering::Relaxed))
    }

    /// Tells the statistics what the region holds.
    pub(crate) fn publish(&self, alloc: &Allocator) {
        let State { objects, bytes, unknown, .. } = &*self.state;
        unknown.set((self.opening || self.incomplete).into());
        objects.set(alloc.usage.objects);
        bytes.set(alloc.usage.bytes);
    }

    fn end(&mut self, alloc: &mut Allocator, store: &Store) {
        alloc.mark_runs(store);
        alloc.end_collection();
        let usage = alloc.usage;
        self.phase = Phase::Idle;
        if !self.minor {
            self.live = usage.bytes;
        }
        let freed = (self.before.bytes + usage.allocated).saturating_sub(usage.bytes);
        let Pace { least, growth, .. } = *self.pace;
        // As long as most of what is young dies, and not much that is old can have died.
        let worthwhile = freed >= self.before.allocated / 3 * 2
            && usage.bytes <= (self.live + self.live / 2).saturating_add(least);
        self.minor = if least < SLICE_WORK { !self.minor } else { worthwhile };
        let growth = (usage.bytes / 100).saturating_mul(growth);
        self.threshold = if self.minor { growth / 4 } else { growth }.max(least);
        if !self.minor {
            self.remembered.stop();
        }
        self.opening = false;
        self.incomplete = false;
        self.publish(alloc);
        self.pace.complete();
    }
}

/// How a region stands, as seen by a thread that works on its collection beside transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// There is more to do.
    Working,
    /// All is marked that this thread could find; the next step needs the region alone.
    Marked,
    /// No cycle is running, or the region is gone.
    Idle,
}
