//! The collector: when a cycle begins and how much work a slice does for each changed byte (`assess`), and
//! which objects are marked.
//!
//! A collection of a region is a cycle of three phases. It *begins* while no open transaction has done
//! anything, with the root, the [versions] of it that a thread may ask for, and the pointers that programs
//! hold. Then objects are *marked*, mostly in slices between transactions: those that were reachable when the
//! cycle began (a snapshot at the beginning, after Yuasa, "Real-time garbage collection on general-purpose
//! machines", 1990). Objects that transactions allocate during the cycle, in a span that is not swept yet,
//! are marked from the start. The old pointers in words that transactions overwrite go to the marker
//! ([`shade`](Collector::shade)): at the commit, for words with copies in the write set, and otherwise when
//! the undo log saves the words. Then spans are *swept*: slots that are not marked become free.
//!
//! **Minor cycles.** Most objects die young. An object that a cycle has marked keeps its mark, and is *old*.
//! The next cycle may be a minor one. It takes all old objects for live and traces young ones only: from the
//! root, the versions and the held pointers, and from the cache lines of old objects that transactions have
//! [written](RememberedLines) since the last marking. (Sticky mark bits, after Demers and others, "Combining
//! generational and conservative garbage collection", 1990.)
//!
//! During a cycle, each transaction is charged for a few bytes, and in proportion to the bytes that it has
//! allocated, or has overwritten during marking. A slice runs at the end of a transaction when enough bytes
//! are charged. It does the charged work, within a time that grows with the changes, so that a program does
//! not outrun its collector. Another thread that shares the region's lock with readers may mark, too. Callers
//! decide when a slice runs; this module decides how many bytes are due, and does the slice's work.
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
use remembered::RememberedLines;
use tracer::{Object, Tracer};
use versions::WORDS;

/// The longest time that a transaction with few changes should wait for a slice.
pub(crate) const SLICE: Duration = Duration::from_micros(300);
/// Bytes of marking that must be due before the end of a transaction runs a slice.
pub(crate) const SLICE_WORK: u64 = 64 << 10;
/// Bytes of marking that each transaction during a cycle is charged for, in addition to those for its
/// changes.
pub(crate) const WORK_PER_TRANSACTION: u64 = 256;

/// Facts about a region. They are written under its lock, and any thread may read them at any time.
#[derive(Debug, Default)]
pub(crate) struct RegionFacts {
    /// Offset of the root object; 0 while the region is being created.
    pub(crate) root: AtomicU64,
    /// Number of objects in the region, and their bytes, for statistics. Updated at the opening, at commits
    /// that may have allocated or freed objects, and at the end of a cycle.
    pub(crate) objects: Gauge,
    pub(crate) bytes: Gauge,
    /// 1 as long as the live slots of some of the region's spans are not known, or else 0.
    pub(crate) unknown: Gauge,
}

impl RegionFacts {
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
enum CollectionPhase {
    #[default]
    Idle,
    Marking,
    /// Spans are swept. `next` is the number of the next span to sweep, `end` the number after the last span.
    Sweeping {
        next: u32,
        end: u32,
    },
}

/// The state of the collection of a region.
#[derive(Default)]
pub(crate) struct Collector {
    pace: Arc<Pace>,
    state: Arc<RegionFacts>,
    held: Arc<HeldTable>,
    phase: CollectionPhase,
    marking: Marking<Object>,
    /// Whether the running cycle finds the live slots of a heap that was opened without bitmaps of them.
    opening: bool,
    /// Whether a full cycle must begin after the open transaction: a request for space has failed, or the
    /// conversion of a root has left garbage.
    pub(crate) wanted: bool,
    /// Whether the live slots of some spans were not known at the opening. A cycle that ends clears this.
    pub(crate) incomplete: bool,
    /// Whether the running cycle is a minor one. Between cycles: whether the next cycle is to be a minor one.
    minor: bool,
    pub(crate) remembered: RememberedLines,
    /// Whether the open transaction may have new objects whose slots are marked although no cycle traces
    /// them.
    marked_untraced: bool,
    /// Live bytes after the last full cycle; and the usage when the last cycle began.
    live: u64,
    before: Usage,
    /// A cycle begins when about this many bytes were allocated since the last cycle began: a quarter less at
    /// a good moment (the end of a transaction that has allocated nothing), a quarter more at any moment.
    threshold: u64,
    /// Bytes of marking that transactions still owe; and the value of `usage.allocated` up to which they were
    /// charged.
    debt: u64,
    paid: u64,
    /// Bytes that transactions have overwritten during marking, since they were last charged.
    overwritten: u64,
}

impl Collector {
    pub(crate) fn new(pace: Arc<Pace>, state: Arc<RegionFacts>, held: Arc<HeldTable>) -> Collector {
        Collector { threshold: pace.least, pace, state, held, ..Collector::default() }
    }

    #[inline(always)]
    pub(crate) fn is_marking(&self) -> bool {
        self.phase == CollectionPhase::Marking
    }

    #[inline(always)]
    pub(crate) fn is_idle(&self) -> bool {
        self.phase == CollectionPhase::Idle
    }

    /// Returns the allocated bytes from which on a cycle begins at the first good moment.
    #[inline(always)]
    fn soon(&self) -> u64 {
        self.threshold - self.threshold / 4
    }

    /// Returns the allocated bytes from which on a cycle begins at any moment.
    fn overdue(&self) -> u64 {
        self.threshold.saturating_add(self.threshold / 4)
    }

    /// Whether the running cycle finds the live slots of a heap that was opened.
    pub(crate) fn is_opening(&self) -> bool {
        self.opening
    }

    /// Whether a transaction must call [`assess`](Self::assess) when it has ended: a cycle is running, is due
    /// soon, or is wanted.
    #[inline(always)]
    pub(crate) fn is_due(&self, usage: &Usage) -> bool {
        !self.is_idle() || usage.allocated >= self.soon() || self.wanted
    }

    /// Begins a cycle if one is due, and charges the transaction that has just ended. Returns the bytes that
    /// this transaction must mark now, and the longest time for marking and sweeping; `None` if no slice is
    /// due.
    pub(crate) fn assess(&mut self, alloc: &mut Allocator, store: &Store) -> Option<(u64, Duration)> {
        let usage = alloc.usage;
        // As long as the region is being created, its root is not known, so no cycle can begin.
        if self.state.root.load(Ordering::Relaxed) == 0 {
            self.paid = usage.allocated; // no later transaction is charged for these bytes
            return None;
        }
        let mut overdue = 0;
        if self.is_idle() {
            // The end of a transaction that has allocated nothing is a good moment for a cycle to begin: the
            // transaction may have unlinked objects, and has not just linked new ones. But a program may have
            // no such transaction.
            let wanted = std::mem::take(&mut self.wanted);
            self.minor &= !wanted;
            if usage.allocated != self.paid && usage.allocated < self.overdue() && !wanted {
                self.paid = usage.allocated;
                return None;
            }
            // A transaction after which a cycle is overdue marks as many bytes as it has allocated. Otherwise
            // later transactions, which may be short, would mark them. (`overdue` includes the bytes of
            // earlier transactions that were too small to be assessed.)
            if usage.allocated >= self.overdue() {
                overdue = usage.allocated.saturating_sub(self.paid);
            }
            self.begin_cycle(alloc, store);
            // With this debt the first slice runs at once. The cycle should end soon, because it does not
            // free objects that are allocated before it ends, and often there is little to mark.
            self.debt = SLICE_WORK;
        }
        let usage = alloc.usage;
        // The marking should end when about a sixteenth of the threshold was allocated, so that little memory
        // is added before the cycle frees any.
        let rate = 1 + 16 * usage.bytes / self.threshold.max(1);
        // The end of a quarantine decreases `usage.allocated`, perhaps by bytes that were charged already.
        let allocated = usage.allocated.saturating_sub(self.paid);
        // Overwritten bytes are charged, too, so that the marking, and with it the write barrier, also ends
        // soon in a program that only stores.
        let changed = allocated + std::mem::take(&mut self.overwritten);
        self.debt += WORK_PER_TRANSACTION + changed * rate;
        self.paid = usage.allocated;
        let least = self.pace.least;
        (self.debt >= SLICE_WORK.min(least)).then(|| {
            // A transaction with many changes was not quick anyway. In tests with a small `least`, each slice
            // is as small as possible.
            (
                // `overdue` is not added to the debt: if some of these bytes are not marked within the time
                // limit, later transactions mark them little by little.
                if least < SLICE_WORK { least } else { self.debt.max(overdue) },
                SLICE + Duration::from_micros((changed + overdue) / 512),
            )
        })
    }

    /// Records that slices of transactions have marked `marked` bytes. At least `SLICE_WORK` bytes of the
    /// debt are paid, even if fewer were marked.
    pub(crate) fn pay(&mut self, marked: u64) {
        self.debt = self.debt.saturating_sub(marked.max(SLICE_WORK));
    }

    /// Records how long a slice, or a cycle that was completed at once, took.
    pub(crate) fn pause(&self, duration: Duration) {
        self.pace.pause(duration);
    }

    /// Begins a cycle: a minor one if `minor` says so and the list of written lines is complete, or else a
    /// full one.
    pub(crate) fn begin_cycle(&mut self, alloc: &mut Allocator, store: &Store) {
        self.minor &= self.remembered.is_active();
        let lines = self.remembered.take_lines();
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
        // Versions are pushed before held pointers. A thread that takes a snapshot of a version at the same
        // time holds the version's object before it unlocks the versions. So the object is found in one of
        // the two lists.
        held.for_each_version(|| store.durable_end(), |addr| marking.push_mut(addr as u64));
        held.for_each(|addr| marking.push_mut(addr as u64));
        self.phase = CollectionPhase::Marking;
        (self.debt, self.paid, self.overwritten) = (0, 0, 0);
    }

    /// [Begins](Self::begin_cycle) a full cycle, unless a cycle is running. Returns whether this call has
    /// begun one.
    pub(crate) fn begin_full(&mut self, alloc: &mut Allocator, store: &Store) -> bool {
        let begins = self.is_idle();
        if begins {
            self.minor = false;
            self.begin_cycle(alloc, store);
        }
        begins
    }

    /// Begins the cycle that finds the live slots of a heap that was just opened.
    pub(crate) fn begin_opening(&mut self, alloc: &mut Allocator, store: &Store) {
        self.begin_cycle(alloc, store);
        self.opening = true;
        self.minor = false;
        self.publish(alloc);
    }

    /// Marks objects within the budget. Returns whether all reachable objects are marked, so that the
    /// [sweep](Self::begin_sweep) may begin.
    pub(crate) fn mark(&mut self, alloc: &Allocator, store: &Store, budget: &mut Budget) -> bool {
        let done = self.marking.run(&Tracer::new(alloc, store, false), budget) == Progress::Done;
        self.marked_untraced |= done;
        done
    }

    /// Marks objects until `deadline`, or until nothing is left to mark. Readers, and other threads that
    /// mark, may run at the same time.
    pub(crate) fn mark_shared(&self, alloc: &Allocator, store: &Store, deadline: Instant) -> CollectionStage {
        if !self.is_marking() {
            return CollectionStage::Idle;
        }
        match self.marking.run_shared(&Tracer::new(alloc, store, true), &mut Budget::until(deadline)) {
            Progress::More => CollectionStage::Working,
            Progress::Done => CollectionStage::Marked,
        }
    }

    /// Passes the pointers that old objects have in a cache line to the marker.
    fn push_pointers_of_old(&mut self, alloc: &Allocator, store: &Store, line: usize) {
        let offset = (line - store.base().addr()) as u64;
        let Some((number, first)) = alloc.spans.locate_slot(&store.page_map, offset) else { return };
        let tracer = Tracer::new(alloc, store, false);
        let Some(span) = alloc.spans.get(number).filter(|span| span.pointers.has_pointers()) else { return };
        for slot in first..=span.slot_of(offset + LINE as u64 - 1).unwrap_or(span.slots - 1) {
            if !span.marks.test(slot as usize) {
                continue; // an object without a mark is young, a slot without one may be free
            }
            let start = span.offset_of(slot);
            let window = offset.saturating_sub(start)..(offset + LINE as u64 - start).min(span.slot);
            tracer.pointers(number, slot, window, &mut |pointer| self.marking.push_mut(pointer));
        }
    }

    /// Passes the pointers in the `len` bytes at `addr` to the marker. The bytes lie in one object or in
    /// metadata, and the open transaction may overwrite them. So objects that were reachable only through
    /// these pointers when the cycle began are marked.
    #[cold]
    pub(crate) fn shade(&mut self, alloc: &Allocator, store: &Store, addr: usize, len: usize) {
        self.overwritten += len as u64;
        let offset = (addr - store.base().addr()) as u64;
        // Bytes outside of all spans of objects are metadata. The marker gets no pointers from them.
        let Some((number, slot)) = alloc.spans.locate_slot(&store.page_map, offset) else { return };
        let Some(span) = alloc.spans.get(number) else { return };
        let start = offset - span.offset_of(slot);
        let window = start..(start + len as u64).min(span.slot);
        let push = &mut |pointer| self.marking.push_mut(pointer);
        Tracer::new(alloc, store, false).pointers(number, slot, window, push);
    }

    /// Remembers the lines of new objects that may be marked although no cycle has traced them: the objects
    /// of a transaction that commits during a sweep, or in which a cycle has ended.
    #[inline(always)]
    pub(crate) fn remember_fresh(&mut self, alloc: &mut Allocator) {
        if self.marked_untraced {
            for &(start, end) in alloc.fresh_ranges() {
                self.remembered.add(start, end - start);
            }
            self.marked_untraced = !self.is_idle();
        }
    }

    /// Appends the bitmaps of the region's live slots to `to`, while the heap is being closed. Returns `None`
    /// if the live slots are not known.
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

    /// Returns the first [`WORDS`] words of the region's root object; `None` if the root object is smaller.
    pub(crate) fn root_words(&self, alloc: &Allocator, store: &Store) -> Option<[u64; WORDS]> {
        Tracer::new(alloc, store, false).object_words(self.state.root.load(Ordering::Relaxed))
    }

    /// Publishes the region's objects and bytes for statistics.
    pub(crate) fn publish(&self, alloc: &Allocator) {
        let RegionFacts { objects, bytes, unknown, .. } = &*self.state;
        unknown.set((self.opening || self.incomplete).into());
        objects.set(alloc.usage.objects);
        bytes.set(alloc.usage.bytes);
    }

    fn end_cycle(&mut self, alloc: &mut Allocator, store: &Store) {
        alloc.mark_runs(store);
        alloc.end_collection();
        let usage = alloc.usage;
        self.phase = CollectionPhase::Idle;
        if !self.minor {
            self.live = usage.bytes;
        }
        let freed = (self.before.bytes + usage.allocated).saturating_sub(usage.bytes);
        let Pace { least, growth, .. } = *self.pace;
        // The next cycle is to be a minor one as long as most young objects die, and few old ones can have
        // died.
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

/// The state of a region's collection, for a thread that collects while transactions run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CollectionStage {
    /// There is more to mark.
    Working,
    /// This thread finds nothing more to mark. The next step needs the region's lock alone, without other
    /// threads that mark.
    Marked,
    /// There is nothing to mark: no cycle is marking, or the region is gone or cannot be had.
    Idle,
}
