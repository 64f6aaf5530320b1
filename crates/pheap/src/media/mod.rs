//! Stores, flushes and fences on each medium, by which bytes become durable.
//!
//! A commit protocol stores, flushes and fences through [`Media`]. The effect depends on the medium:
//!
//! | | `Pmem` | `Process` | `Wal` | simulator |
//! |---|---|---|---|---|
//! | [`append`](Media::append) | non-temporal stores | stores | stores | stores, lines in flight |
//! | [`flush`](Media::flush) | `clwb`, `clflushopt` or `clflush` | – | notes the range | lines in flight |
//! | [`fence`](Media::fence) | `sfence` | compiler fence | records these ranges | lines are durable |
//!
//! On [`Synced`](Medium::Synced), an append stores, a flush does nothing, and a fence syncs the file, unless
//! an earlier sync has failed.
//!
//! With a [write-ahead log](wal), a fence makes nothing durable. But records become durable in the order in
//! which they were appended, and the protocols rely on that order.
//!
//! This module knows addresses and lengths. It must not know the meaning of the bytes there, nor in which
//! order a protocol needs them to be durable.

#![allow(unsafe_code)]
// Each `match` names all media, so that a new medium is not taken for another one.
#![deny(clippy::wildcard_enum_match_arm)]

mod late;
mod synced;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use crate::error::{Error, Result};
use crate::faults::{Kind, Lab, is_left_out, may_panic};
use crate::log::{Range, StagedEntry};
use crate::os::cpu;
use crate::os::cpu::{FlushInstruction, copy_words};
use crate::os::reservation::MappedWords;
use crate::os::simulated::SimulatedMemory;
use crate::stats::Counters;
use crate::sync::step;
use crate::units::{LINE, LINE_WORDS, lines};
use crate::wal::Wal;
pub(crate) use synced::SyncedFile;

/// How stores become durable.
#[derive(Clone, Debug)]
pub(crate) enum Medium {
    /// Stores to a mapped file survive the end of the process at once, because the map shares the file's
    /// pages with the kernel. A heap in memory uses this medium, too.
    Process,
    /// Stores are durable when their cache line has reached the persistent memory.
    Pmem(FlushInstruction),
    /// Stores are durable when their record in the write-ahead log is durable, or, if they have no record,
    /// when they were [persisted directly](Media::persist_directly).
    Wal(Arc<Wal>),
    /// Stores are durable when the heap's file is synced. This medium is used while a heap is prepared for
    /// `Wal`.
    Synced(Arc<SyncedFile>),
    /// Stores are durable when the simulator says so.
    #[allow(dead_code)] // constructed by the simulator only
    Sim(Arc<dyn SimulatedMemory>, Lab),
}

/// The kind of a medium, real or simulated. The number of the kind is in the headers of heaps in use, and is
/// never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MediumKind {
    Process = 1,
    Pmem = 2,
    Wal = 3,
    Synced = 4,
}

impl MediumKind {
    pub(crate) fn from_number(number: u64) -> Option<MediumKind> {
        let all = [MediumKind::Process, MediumKind::Pmem, MediumKind::Wal, MediumKind::Synced];
        all.into_iter().find(|&kind| kind as u64 == number)
    }

    /// Returns whether a power failure may leave the heap torn.
    pub(crate) fn is_torn_by_power_failure(self) -> bool {
        match self {
            MediumKind::Process => true,
            MediumKind::Pmem | MediumKind::Wal | MediumKind::Synced => false,
        }
    }
}

impl Medium {
    pub(crate) fn kind(&self) -> MediumKind {
        match self {
            Medium::Process => MediumKind::Process,
            Medium::Pmem(_) => MediumKind::Pmem,
            Medium::Wal(_) => MediumKind::Wal,
            Medium::Synced(_) => MediumKind::Synced,
            Medium::Sim(..) => MediumKind::Pmem,
        }
    }

    /// Returns the write-ahead log, if the medium has one.
    #[inline(always)]
    pub(crate) fn wal(&self) -> Option<&Arc<Wal>> {
        if let Medium::Wal(wal) = self { Some(wal) } else { None }
    }

    /// Tells the medium that `len` bytes of the heap are mapped at `base`. The simulator needs that, and so
    /// does a simulated file of which the mapping is a copy.
    ///
    /// # Safety
    /// `len` bytes are mapped at `base`, readable and writable, until the next call of this function, or as
    /// long as the medium is used. No other thread stores to them while a storing thread calls the simulator,
    /// which reads them, and no other thread accesses those of them that are new in this call.
    pub(crate) unsafe fn mapped(&self, base: *mut u8, len: u64) {
        // SAFETY: the bytes at `base` stay mapped until the next call or the last use of this medium, and no
        // thread stores to them while the simulator reads them: the caller has promised both. The simulator
        // writes only to bytes that are new in this call, and a copy that [`SyncedFile`] gets is only read.
        let place = unsafe { MappedWords::new(base, len) };
        match self {
            Medium::Sim(sim, _) => sim.mapped(place),
            Medium::Synced(synced) => synced.set_copy(place),
            Medium::Process | Medium::Pmem(_) | Medium::Wal(_) => {}
        }
    }
}

/// Number of noted ranges for which a [`Media`] keeps memory after a record.
const NOTED: usize = 4 << 10;

/// A medium, and counters of its use. Each region has its own `Media`, so that regions do not share counters.
#[derive(Debug)]
pub(crate) struct Media {
    medium: Medium,
    counters: Arc<Counters>,
    /// With a write-ahead log: addresses and lengths of the flushed ranges that are not recorded yet.
    noted: RefCell<Vec<(usize, usize)>>,
    late: late::DelayedEvents,
}

impl Media {
    pub(crate) fn new(medium: Medium) -> Media {
        Media {
            medium,
            counters: Arc::default(),
            noted: RefCell::default(),
            late: late::DelayedEvents::new(),
        }
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Returns whether a flush writes back cache lines: on persistent memory, real or simulated.
    #[inline(always)]
    pub(crate) fn needs_flush(&self) -> bool {
        !matches!(self.medium, Medium::Process | Medium::Wal(_) | Medium::Synced(_))
    }

    /// Returns whether an undo entry must be durable before the store that it covers, because on this medium
    /// the store may become durable at once.
    pub(crate) fn fences_undo(&self) -> bool {
        !matches!(self.medium, Medium::Process | Medium::Wal(_))
    }

    /// Returns the write-ahead log, if the medium has one.
    #[inline(always)]
    pub(crate) fn wal(&self) -> Option<&Arc<Wal>> {
        self.medium.wal()
    }

    /// Writes a log entry: whole lines that will not be read soon. The next fence makes them durable (except
    /// with a write-ahead log, and on `Process`).
    ///
    /// # Safety
    /// `dst` is aligned to a line, and valid for writes of `words`, which are whole lines, one or more, and
    /// do not overlap it. No other thread accesses the memory at `dst` during the call, or before the next
    /// fence.
    #[inline(always)]
    pub(crate) unsafe fn append(&self, dst: *mut u64, words: &[u64]) {
        may_panic();
        step("append");
        debug_assert!(dst.addr().is_multiple_of(LINE) && words.len().is_multiple_of(LINE_WORDS));
        self.counters.log_bytes.add(words.len() as u64 * 8);
        match &self.medium {
            Medium::Process | Medium::Wal(_) | Medium::Synced(_) => {
                // SAFETY: the caller has promised that `dst` is aligned, valid for writes of `words`, and
                // does not overlap them.
                unsafe { dst.copy_from_nonoverlapping(words.as_ptr(), words.len()) };
            }
            // SAFETY: the caller has promised that `dst` is aligned to a line and valid for writes of
            // `words`, which are one line or more, and that a fence comes before another thread reads them.
            Medium::Pmem(instruction) => unsafe { instruction.stream(dst, words) },
            Medium::Sim(sim, _) => {
                // SAFETY: the caller has promised that `dst` is aligned, valid for writes of `words`, and
                // does not overlap them.
                let copy = &mut || unsafe { dst.copy_from_nonoverlapping(words.as_ptr(), words.len()) };
                sim.store(dst.cast(), words.len() * 8, copy);
                if !self.appends_late(dst.cast(), words.len() * 8) {
                    sim.flush(dst.cast(), words.len() * 8);
                }
                self.has_flushed();
            }
        }
    }

    /// Copies bytes to their place in the heap. A flush and a fence must follow.
    ///
    /// # Safety
    /// `src` is valid for reads and `dst` for writes of `len` bytes, and they do not overlap. No other thread
    /// accesses `dst` during the call.
    #[inline]
    pub(crate) unsafe fn store(&self, dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: the caller has promised that `src` and `dst` are valid for `len` bytes and do not overlap.
        self.store_by(dst, len, || unsafe { dst.copy_from_nonoverlapping(src, len) });
    }

    /// Calls `copy`, which stores `len` bytes at `dst`. The simulator makes the call itself, so that it knows
    /// of each store.
    #[inline(always)]
    fn store_by(&self, dst: *const u8, len: usize, mut copy: impl FnMut()) {
        may_panic();
        step("store");
        if let Medium::Sim(sim, _) = &self.medium {
            sim.store(dst, len, &mut copy);
        } else {
            copy();
        }
    }

    /// [Stores](Self::store) whole words. If there are at most 16 words, each word is stored by one store.
    ///
    /// # Safety
    /// As for [`store`](Self::store), with `words` for the source; `dst` is aligned to 8.
    #[inline(always)]
    pub(crate) unsafe fn store_words(&self, dst: *mut u64, words: &[u64]) {
        // SAFETY: the caller has promised that `dst` is aligned, valid for writes of `words`, and does not
        // overlap them.
        let copy = || unsafe { copy_words(dst, words.as_ptr(), words.len()) };
        self.store_by(dst.cast(), words.len() * 8, copy);
    }

    /// [Stores](Self::store) whole words to a place that other threads may read at the same time. Each word
    /// is stored by one atomic store.
    #[inline]
    pub(crate) fn store_shared(&self, dst: &[AtomicU64], words: &[u64]) {
        assert!(dst.len() == words.len());
        let copy = || dst.iter().zip(words).for_each(|(dst, &word)| dst.store(word, Ordering::Relaxed));
        self.store_by(dst.as_ptr().cast(), size_of_val(words), copy);
    }

    /// Stores and flushes many words that no thread will read soon, like [`store_words`](Self::store_words)
    /// and [`flush`](Self::flush). On real persistent memory, whole lines are written past the cache.
    ///
    /// # Safety
    /// As for [`store_words`](Self::store_words).
    #[track_caller]
    pub(crate) unsafe fn store_through(&self, dst: *mut u64, words: &[u64]) {
        let streams = if let Medium::Pmem(instruction) = self.medium { Some(instruction) } else { None };
        let before = if streams.is_some() { dst.align_offset(LINE).min(words.len()) } else { words.len() };
        let (first, rest) = words.split_at(before);
        let (lines, last) = rest.split_at(rest.len() / LINE_WORDS * LINE_WORDS);
        let (middle, end) = (dst.wrapping_add(before), dst.wrapping_add(before + lines.len()));
        for (dst, words) in [(dst, first), (end, last)] {
            // SAFETY: the caller has promised that `dst` is aligned, valid for writes of `words`, and does
            // not overlap them. `dst` and `words` of the loop are parts of these two.
            unsafe { self.store_words(dst, words) };
            self.flush(dst.cast(), words.len() * 8);
        }
        if let (Some(instruction), false) = (streams, lines.is_empty()) {
            self.counters.flushed_lines.add((lines.len() / LINE_WORDS) as u64);
            // SAFETY: the caller has promised that `dst` is valid for writes of `words`. `middle` and `lines`
            // are a part of both; `before` has aligned `middle` to a line, and `lines` are whole lines, one
            // or more.
            unsafe { instruction.stream(middle, lines) };
            // The fence comes before any later access to these lines.
            instruction.fence();
        }
    }

    /// Stores a commit word: by one store, after all stores before it in program order.
    ///
    /// # Safety
    /// `dst` is aligned to 8 and valid for writes of 8 bytes. All threads access it as an atomic, or under
    /// the same lock.
    #[inline]
    pub(crate) unsafe fn store_word(&self, dst: *mut u64, value: u64) {
        may_panic();
        step("store");
        compiler_fence(Ordering::SeqCst);
        if let Medium::Sim(sim, _) = &self.medium {
            // SAFETY: the caller has promised that `dst` is aligned and valid for writes of 8 bytes.
            return sim.store(dst.cast(), 8, &mut || unsafe { dst.write(value) });
        }
        // SAFETY: the caller has promised that `dst` is aligned and valid, and that all threads access it as
        // an atomic or under one lock.
        unsafe { AtomicU64::from_ptr(dst) }.store(value, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
    }

    /// Starts to write back the lines that have the `len` bytes at `addr`, or notes these bytes for the next
    /// record, or does nothing, as the [medium](self) requires. The next fence completes the flush.
    #[inline]
    #[track_caller]
    pub(crate) fn flush(&self, addr: *const u8, len: usize) {
        if len == 0 {
            return;
        }
        if self.keeps_from_flushing(addr, len) {
            return;
        }
        self.flush_now(addr, len);
        self.has_flushed();
    }

    #[inline(always)]
    fn flush_now(&self, addr: *const u8, len: usize) {
        step("flush");
        match &self.medium {
            Medium::Process | Medium::Synced(_) => {}
            Medium::Wal(_) => self.noted.borrow_mut().push((addr.addr(), len)),
            Medium::Pmem(instruction) => {
                self.counters.flushed_lines.add(lines(addr.addr(), len).count() as u64);
                instruction.flush(addr, len);
            }
            Medium::Sim(sim, _) => {
                self.counters.flushed_lines.add(lines(addr.addr(), len).count() as u64);
                sim.flush(addr, len);
            }
        }
    }

    /// Waits until all bytes that this thread has appended or flushed are durable. With a write-ahead log,
    /// appends the noted ranges to the log instead, all of them or none. On `Process`, only keeps the
    /// compiler from reordering stores. This reports no failure: the log keeps it, or
    /// [`check_fences`](Self::check_fences) returns it.
    #[inline]
    #[track_caller]
    pub(crate) fn fence(&self) {
        may_panic();
        if self.keeps_from_fencing() {
            return;
        }
        self.fence_now();
        self.has_fenced();
    }

    #[inline(always)]
    fn fence_now(&self) {
        step("fence");
        match &self.medium {
            Medium::Process => compiler_fence(Ordering::SeqCst),
            // The result is ignored, because the log keeps a failure, and a thread that waits for a record
            // gets it.
            Medium::Wal(wal) => {
                let _ = self.record_noted(wal, true);
            }
            Medium::Synced(synced) => synced.sync(),
            Medium::Pmem(instruction) => {
                self.counters.fences.add(1);
                instruction.fence();
            }
            Medium::Sim(sim, _) => {
                self.counters.fences.add(1);
                sim.fence();
            }
        }
    }

    /// [Flushes](Self::flush) the `len` bytes at `addr`, and [fences](Self::fence).
    #[track_caller]
    pub(crate) fn persist(&self, addr: *const u8, len: usize) {
        self.flush(addr, len);
        self.fence();
    }

    /// On `Synced`: fails if a fence has failed. (A write-ahead log keeps a failure itself.)
    pub(crate) fn check_fences(&self) -> Result<()> {
        let Medium::Synced(synced) = &self.medium else { return Ok(()) };
        synced.check().map_err(|e| Error::writing("preparing the heap's file", e))
    }

    /// [Persists](Self::persist) bytes that no record of a write-ahead log covers: the header, the heads of
    /// new arenas, and bytes that only a header will name. With a write-ahead log, these bytes are written to
    /// the heap's file and synced, unless the log has failed.
    #[track_caller]
    pub(crate) fn persist_directly(&self, base: *const u8, addr: *const u8, len: usize) {
        let Medium::Wal(wal) = &self.medium else { return self.persist(addr, len) };
        // SAFETY: the callers pass `len` bytes of metadata in the mapped heap, which they have just stored,
        // and which no other thread stores to now.
        let bytes = unsafe { std::slice::from_raw_parts(addr, len) };
        // The result is ignored, because the log keeps a failure.
        let _ = wal.write_through(bytes, (addr.addr() - base.addr()) as u64);
    }

    /// With a write-ahead log: appends the content of the noted ranges, all of them or none, to the log.
    ///
    /// # Errors
    /// See [`Wal::append`]. The noted ranges are forgotten also after an error.
    #[track_caller]
    pub(crate) fn record(&self, wal: &Wal) -> Result<()> {
        if self.keeps_from_recording() {
            return Ok(());
        }
        self.record_noted(wal, false)
    }

    #[inline(never)]
    fn record_noted(&self, wal: &Wal, is_metadata: bool) -> Result<()> {
        may_panic();
        let mut noted = self.noted.borrow_mut();
        if noted.is_empty() {
            return Ok(());
        }
        noted.iter_mut().for_each(|(addr, len)| {
            let start = *addr & !7;
            *len = (*addr + *len - start).next_multiple_of(8);
            *addr = start;
        });
        noted.sort_unstable();
        noted.dedup_by(|next, last| {
            let touches = next.0 <= last.0 + last.1;
            if touches {
                last.1 = last.1.max(next.0 + next.1 - last.0);
            }
            touches
        });
        cpu::settle(std::ptr::null_mut());
        let words = noted.iter().map(|(_, len)| len / 8 + 1).sum();
        let base = wal.base();
        let ranges = noted.iter().map(|&(addr, len)| Range {
            offset: (addr - base) as u64,
            // SAFETY: the range has whole words of the mapped heap, which the thread with this `Media` has
            // stored to, and which no other thread stores to now: exact ranges are noted, not lines, so a
            // word that another thread stores to is in none. `settle` has made their bytes definite.
            words: unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(addr), len / 8) },
        });
        let result = wal.append(words, ranges, is_metadata);
        noted.clear();
        noted.shrink_to(NOTED);
        self.recorded(result)
    }

    /// With a write-ahead log: appends the record of a transaction to the log.
    ///
    /// # Errors
    /// See [`Wal::append_staged`].
    #[inline]
    #[track_caller]
    pub(crate) fn record_staged(&self, wal: &Wal, staged: &mut StagedEntry) -> Result<()> {
        may_panic();
        if is_left_out(Kind::LogEntry) {
            return Ok(());
        }
        self.recorded(wal.append_staged(staged))
    }

    fn recorded(&self, result: Result<std::ops::Range<u64>>) -> Result<()> {
        let place = result?;
        self.counters.position.set(place.end);
        self.counters.log_bytes.add(place.end - place.start);
        Ok(())
    }

    /// With a write-ahead log: takes over the ranges that another `Media` has noted.
    #[track_caller]
    pub(crate) fn take_noted(&self, other: &Media) {
        if !other.noted.borrow().is_empty() && is_left_out(Kind::LogEntry) {
            return;
        }
        self.noted.borrow_mut().append(&mut other.noted.borrow_mut());
    }

    /// With a write-ahead log: forgets the noted ranges, because they were rolled back. The pages of the
    /// noted ranges are marked as private all the same, because they were stored to, and so are those of the
    /// `fresh` ranges (start, end), whose objects are gone.
    pub(crate) fn forget_noted(&self, fresh: &[(usize, usize)]) {
        let Medium::Wal(wal) = &self.medium else { return };
        let note = |addr: usize, len: usize| wal.pages.mark_stored((addr - wal.base()) as u64, len as u64);
        fresh.iter().for_each(|&(start, end)| note(start, end - start));
        self.noted.borrow_mut().drain(..).for_each(|(addr, len)| note(addr, len));
    }

    /// With a write-ahead log: returns the log position behind the last record that was appended through this
    /// `Media`, or the position that [was set](Self::set_position) since; 0 at first.
    #[inline(always)]
    pub(crate) fn position(&self) -> u64 {
        self.counters.position.get()
    }

    /// Sets [`position`](Self::position), because a record that another `Media` has appended has data of this
    /// one, too, or because the data of this one may depend on that record.
    pub(crate) fn set_position(&self, position: u64) {
        self.counters.position.set(position);
    }

    /// Tells the simulator that the open transaction may change these bytes by plain stores.
    #[inline(always)]
    pub(crate) fn expect_stores(&self, addr: *const u8, len: usize) {
        if let Medium::Sim(sim, _) = &self.medium {
            sim.expect_stores(addr, len);
        }
    }

    /// Tells the simulator that the open transaction makes no more plain stores.
    #[inline(always)]
    pub(crate) fn no_more_stores(&self) {
        if let Medium::Sim(sim, _) = &self.medium {
            sim.no_more_stores();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_through_arrives_wherever_it_begins() {
        let mediums = FlushInstruction::detect().map(Medium::Pmem).into_iter().chain([Medium::Process]);
        for media in mediums.map(Media::new) {
            for (first, len) in (0..10).flat_map(|first| [0, 1, 7, 8, 9, 64, 100].map(|len| (first, len))) {
                let mut place = vec![0u64; 128];
                let words: Vec<u64> = (1..=len).collect();
                // SAFETY: `place` has 128 words, and `first + words.len()` is at most 109.
                unsafe { media.store_through(place.as_mut_ptr().wrapping_add(first), &words) };
                media.fence();
                assert_eq!(place[first..][..words.len()], words);
                assert!(place[..first].iter().chain(&place[first + words.len()..]).all(|&word| word == 0));
            }
        }
    }
}
