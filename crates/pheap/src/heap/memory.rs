//! Operations on the memory of an open heap: creating and removing regions, keeping the heap from changing,
//! evicting private pages (`Options::memory_limit`), and unmapping at the end. Also starts the threads that
//! work for the heap.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::HeapInner;
use super::close::BackgroundTask;
use super::directory::CreationLock;
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::layout::desc::Desc;
use crate::media::Media;
use crate::os::fork::start_thread;
use crate::os::seek_data;
use crate::region::all::SharedAll;
use crate::region::{Exclusive, Region, RegionIdentity, guard};
use crate::store::arena::{SpanEntry, SpanKind};
use crate::store::header::Header;
use crate::store::region_header::{LAST_ID, REGION_SIZE, RegionHeader};
use crate::store::spans::clear_entry;
use crate::store::{CLOSED, Store, Tables};
use crate::sync::MutexGuard;
use crate::txn::log::{RegionLog, RegionLogSegment, first_segment};
use crate::units::PAGE;
use crate::wal::Wal;

// --- regions

impl HeapInner {
    /// Creates a region without a root object.
    pub(crate) fn create_region(
        &self,
        creation: &mut CreationLock<'_>,
        name: &str,
        desc: &'static Desc,
    ) -> Result<Region> {
        let mut tables = self.tables.lock();
        let ty = tables.register(self, desc)?;
        let id = *creation.next;
        if id > LAST_ID {
            return Err(Error::OutOfSpace { reason: "there are no more numbers for roots".to_owned() });
        }
        let entry = SpanEntry { kind: SpanKind::Region, slot: 0, pages: 0, ty, region: id };
        let span = tables.take_span(self, &(REGION_SIZE..=REGION_SIZE), entry)?;
        *creation.next += 1;
        // The generation is new: no earlier log can have entries of it.
        let generation = tables.header.first_generation(id);
        // The span is recorded only when its header is complete.
        let header = RegionHeader::from_offset(tables.heap, span.offset);
        header.create(&tables.media, id, ty, name, generation, tables.header.salt);
        // Both words of the entry are durable, or in the write-ahead log, before the record that completes
        // the region. Without a write-ahead log, that record goes to the region's own log.
        tables.record_span(&span);
        let identity = RegionIdentity {
            id,
            ty,
            header,
            offset: span.offset,
            root: 0,
            generation,
            name: name.to_owned(),
        };
        // SAFETY: this thread took the span just now, so no other thread uses it. The region is dropped, or
        // gone, before this heap's store.
        Ok(unsafe {
            self.open_region(&raw const **self, &tables.header, identity, vec![first_segment(span.offset)])
        })
    }

    /// Opens a region of this heap.
    ///
    /// # Safety
    /// `store` is this heap's store. The region of `identity` is mapped in it, and its log consists of
    /// `segments`. The region is not used after this heap.
    pub(super) unsafe fn open_region(
        &self,
        store: *const Store,
        header: &Header,
        identity: RegionIdentity,
        segments: Vec<RegionLogSegment>,
    ) -> Region {
        let identity_of_log = header.log_identity(identity.id);
        // SAFETY: the log of this region consists of `segments`, and is mapped (premise). The region owns the
        // log, and is not used after the heap (premise).
        let mut log = unsafe {
            RegionLog::new(self.base(), identity.header, identity.generation, identity_of_log, segments)
        };
        if self.wal().is_some() {
            log.keep_in_memory();
        }
        let media = Media::new(self.medium.clone());
        // SAFETY: `store` is this heap's and lies in the heap's `Arc`, so it does not move. The region is
        // mapped, and is not used after the heap (premise).
        unsafe { Region::new(store, self.collections.pace.clone(), media, log, identity) }
    }

    /// Removes a region: waits until no other thread has it, marks it as removed, and frees its spans. From
    /// here on its log is never replayed, because other regions may get its memory. A thread that looks the
    /// root up waits until the caller unlocks the returned tables.
    pub(super) fn free_region(&self, region: &Region) -> Result<MutexGuard<'_, Tables>> {
        let spans = region.retire(self, |context| {
            assert!(ptr::eq(context.store, &raw const *self.store), "a region of another heap");
            region.header.set_removed(&context.media);
            if !bug(Bug::ReuseBeforeRemoval) {
                context.media.fence();
            }
            context.spans()
        })?;
        let mut tables = self.tables.lock();
        // SAFETY: the spans are of a region of this heap. It was marked as removed above, with a fence, and
        // `retire` has waited until no thread has it.
        unsafe { free_spans(&mut tables, &spans) };
        Ok(tables)
    }

    /// Frees the spans of a region that was created just now and that no other thread knows. It has no root,
    /// so it needs no mark.
    pub(crate) fn free_unfinished(&self, region: &Region) -> Result<()> {
        assert!(region.root() == 0, "a region with a root");
        let spans = region.retire(self, |context| {
            assert!(ptr::eq(context.store, &raw const *self.store), "a region of another heap");
            context.spans()
        })?;
        // SAFETY: the spans are of a region of this heap. Without a root it counts as removed, also on the
        // medium, or the log has failed and takes no further record. `retire` has waited until no thread has
        // the region.
        unsafe { free_spans(&mut self.tables.lock(), &spans) };
        Ok(())
    }
}

/// Frees the spans (offset, bytes) of a region. The order does not matter: if a crash leaves some of them,
/// they belong to no region, and the next opening frees them.
///
/// # Safety
/// The region is marked as removed, durably, and no thread uses it.
unsafe fn free_spans(tables: &mut Tables, spans: &[(u64, u64)]) {
    for &(offset, len) in spans {
        clear_entry(&tables.media, tables.heap, &tables.arena_of(offset), offset, len);
    }
    // Before another thread can record spans in these pages.
    if !bug(Bug::ReuseBeforeRemoval) {
        tables.media.fence();
    }
    spans.iter().for_each(|&(offset, len)| tables.pages.give(offset, len));
}

// --- a heap that does not change

/// A heap that no thread changes: no transaction is open, and no root is created or removed.
pub(super) struct QuiescentHeap<'a> {
    heap: &'a HeapInner,
    // Field order matters: the regions are released before another thread may remove a root.
    regions: SharedAll<'a>,
    _creation: CreationLock<'a>,
}

impl HeapInner {
    /// Waits until no thread changes the heap, and prevents changes until the result is dropped.
    pub(super) fn still(&self) -> Result<QuiescentHeap<'_>> {
        self.check_open()?;
        let creation = CreationLock::lock(self)?;
        self.check_open()?;
        let regions = self.regions();
        Ok(QuiescentHeap { heap: self, regions: SharedAll::begin_reads(self, regions)?, _creation: creation })
    }
}

impl QuiescentHeap<'_> {
    /// Returns the names of the heap's roots.
    pub(super) fn roots(&self) -> Vec<String> {
        self.heap.directory.lock().keys().cloned().collect()
    }

    /// Returns the function that tells whether there is an object at an offset: [`SharedAll::is_live`].
    pub(super) fn is_live(&self) -> impl Fn(u64) -> Option<bool> + '_ {
        self.regions.is_live()
    }

    /// Locks the heap's tables.
    pub(super) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.heap.tables.lock()
    }

    /// Returns the offset of the first byte at or behind `at` that may not be zero in the heap's file, if
    /// there is one. Skips holes of the file, which need not be read. Without a file, returns `at`. With a
    /// log, a private page may have other bytes than zero where the file has a hole.
    pub(super) fn data_from(&self, at: u64) -> Option<u64> {
        self.heap.mapping.file().map_or(Some(at), |file| seek_data(file, at).unwrap_or(Some(at)))
    }

    /// Returns the memory of the heap's objects.
    pub(super) fn memory(&self) -> QuiescentMemory<'_> {
        QuiescentMemory { base: self.heap.base(), mapped: self.tables().header.mapped, still: PhantomData }
    }
}

/// The bytes of a heap that no thread changes.
//
// Invariant: `mapped` bytes are mapped at `base`, and no thread writes to objects in them, for `'s`.
pub(super) struct QuiescentMemory<'s> {
    base: *const u8,
    mapped: u64,
    still: PhantomData<&'s [u8]>,
}

impl<'s> QuiescentMemory<'s> {
    pub(super) fn base(&self) -> *const u8 {
        self.base
    }

    /// Returns `len` bytes at offset `at`.
    ///
    /// # Panics
    /// If the range is not within the heap.
    #[inline]
    pub(super) fn bytes(&self, at: u64, len: u64) -> &'s [u8] {
        assert!(at <= self.mapped && len <= self.mapped - at, "there are no {len} bytes at byte {at}");
        // SAFETY: `at..at + len` is within the `mapped` bytes (asserted above). By the invariant they are
        // mapped, and no thread writes to them, for `'s`.
        unsafe { std::slice::from_raw_parts(self.base.wrapping_add(at as usize), len as usize) }
    }
}

// --- eviction

/// About the number of bytes of a region that are examined while its lock is held.
const STEP: u64 = 16 << 20;
/// Longest wait of a checkpoint for the lock of a region, or for the tables.
pub(super) const PATIENCE: Duration = Duration::from_millis(10);

impl HeapInner {
    /// Locks the tables, unless another thread keeps them locked for longer than `patience`.
    pub(super) fn tables_within(&self, patience: Duration) -> Option<MutexGuard<'_, Tables>> {
        let end = Instant::now() + patience;
        loop {
            match self.tables.try_lock() {
                None if Instant::now() < end => thread::sleep(patience / 100),
                tables => return tables,
            }
        }
    }

    /// Evicts private pages that are free, or whose content the heap's file has, if there are many private
    /// pages. Runs within a checkpoint.
    pub(super) fn drop_copies(&self, wal: &Wal) {
        let limit = wal.settings().memory_limit;
        if wal.pages.bytes() <= limit / 2 && !bug(Bug::DropEarly) {
            return;
        }
        let enough = || wal.pages.bytes() <= limit / 8 * 3;
        // No thread stores to free pages, or reads their content.
        {
            // The thread that has the tables locked may wait for room in the log, hence for this checkpoint,
            // so do not wait without limit.
            let Some(tables) = self.tables_within(PATIENCE) else { return };
            if self.check_open().is_err() {
                return; // closed in between, and unmapped
            }
            for (offset, len) in tables.pages.runs() {
                self.drop_range(wal, offset, len, |at| wal.pages.is_private(at));
            }
        }
        // Evict pages of objects without pointers first: most of these are written once. Nodes are changed
        // again and again, and after an eviction each first change costs a page fault.
        let was_locked = self.mapping.was_locked();
        for has_pointers in [false, true] {
            for region in self.regions() {
                let mut from = 0;
                while !enough()
                    && let Some(next) = region.with_spans(self, from, STEP, PATIENCE, |offset, len, has| {
                        if has == has_pointers {
                            let may = |at| wal.pages.is_old(at) || was_locked && !wal.pages.is_private(at);
                            self.drop_range(wal, offset, len, |at| may(at) || bug(Bug::DropEarly));
                        }
                    })
                {
                    from = next;
                }
            }
        }
    }

    /// Makes a checkpoint, and evicts the private pages that it has written, if more pages are private than
    /// the limit allows. For a thread that keeps a region locked for long, as `exclusive`: the background
    /// thread cannot evict the pages of that region.
    pub(crate) fn evict_beside(&self, exclusive: &Exclusive<'_>) {
        let is_over = |wal: &&Arc<Wal>| wal.pages.bytes() > wal.settings().memory_limit;
        let Some(wal) = self.wal().filter(is_over) else { return };
        // The log keeps a failure, and the next commit returns it.
        let _ = wal.checkpoint(|| {
            self.drop_copies(wal);
            for (_, span) in exclusive.object_spans() {
                self.drop_range(wal, span.offset, span.bytes(), |at| wal.pages.is_old(at));
            }
        });
    }

    /// Evicts the pages of this range for which `may` returns true. No thread stores to these pages; threads
    /// may read them, also through snapshots.
    pub(super) fn drop_range(&self, wal: &Wal, offset: u64, len: u64, may: impl Fn(u64) -> bool) {
        let (mut at, end) = (offset, offset + len);
        while at < end {
            if !may(at) {
                at += PAGE;
                continue;
            }
            let first = at;
            while at < end && may(at) {
                at += PAGE;
            }
            // SAFETY: the pages from `first` to `at` are free, or have no record that is newer than the
            // checkpoint whose writes are complete. In the latter case the file has the same bytes, so a
            // thread that reads them, or a snapshot in them, loads the same. The caller has the lock without
            // which no thread stores to these pages.
            if unsafe { self.mapping.drop_copies(first, at - first) } {
                wal.pages.forget(first, at - first);
            }
        }
    }
}

// --- the end

impl HeapInner {
    /// Ends the use of a heap like the death of its process: nothing more reaches the medium. No transaction
    /// runs.
    #[allow(dead_code)] // for the simulator and tests
    pub(super) fn abandon(&self) {
        if self.state.swap(CLOSED, Ordering::Relaxed) == CLOSED {
            return;
        }
        self.stop_background();
        self.stop_checkpoints();
        // SURVIVES unreached: for the simulator, whose threads have ended.
        self.directory.lock().clear();
        // SAFETY: the threads that access the heap's memory have ended, no transaction runs, and the
        // directory, which has been cleared, leads to no region.
        unsafe { self.mapping.unmap() };
    }

    /// Unmaps a heap that is closed. No thread accesses the metadata afterwards: that takes the lock on them,
    /// and an open heap.
    ///
    /// # Panics
    /// If the heap is open, or a thread can still have a region.
    pub(super) fn unmap(&self, _tables: MutexGuard<'_, Tables>) {
        let regions = std::mem::take(&mut *self.directory.lock());
        let is_closed = self.state.load(Ordering::Relaxed) == CLOSED;
        let is_left = |region: &Arc<Region>| region.is_gone() && region.held.accesses.is_ended();
        assert!(is_closed && regions.values().all(is_left), "somebody may use the heap");
        drop(regions);
        self.shown.remove_all();
        // SAFETY: the assertion above has checked that every region is gone. `close` has waited for the
        // threads that were inside, and for accesses to snapshots. No region can be added, because roots are
        // created in an open heap only. This thread has the metadata locked.
        unsafe { self.mapping.unmap() };
    }

    /// Starts a thread that works for the heap. Returns whether it has started.
    pub(super) fn start(
        self: &Arc<Self>,
        what: BackgroundTask,
        name: &str,
        work: impl FnOnce(&HeapInner) + Send + 'static,
    ) -> bool {
        struct Shared(*const HeapInner);
        // SAFETY: `HeapInner` is `Sync`, so another thread may use a pointer to it while the heap exists.
        unsafe impl Send for Shared {}
        // Not an `Arc`: the file is closed when the program's last handle is dropped.
        let shared = Shared(Arc::as_ptr(self));
        let work = move || {
            let shared = shared;
            // SAFETY: `shared.0` points to the heap. It is dropped only by `HeapInner::drop`, which joins the
            // threads that this function has put into `workers`, and each of them that is taken from there is
            // joined. If the process ends instead, this thread ends, too.
            work(unsafe { &*shared.0 });
        };
        let thread = start_thread(name, work);
        let started = thread.is_some();
        self.workers.swap(what, thread);
        started
    }
}

impl Drop for HeapInner {
    #[expect(clippy::multiple_unsafe_ops_per_block, reason = "one reason for all of them")]
    fn drop(&mut self) {
        if self.is_forked() {
            return; // the threads, the file and the addresses are the parent's
        }
        // The last handle is gone, so no transaction runs, and the only other threads that this waits for are
        // background threads, even if this thread is inside other heaps.
        let _ = guard::with_several_heaps(|| self.close(true));
        self.stop_background();
        self.stop_checkpoints();
        self.wait_for_growth();
        self.stop_syncer();
        // SAFETY: each field is dropped once, here, and this is `drop`, so it is not used afterwards.
        unsafe {
            ManuallyDrop::drop(&mut self.store);
            ManuallyDrop::drop(&mut self.workers);
            // Last: from now on another heap may open the file.
            ManuallyDrop::drop(&mut self.file);
        }
    }
}

#[cfg(all(test, not(pheap_loom)))]
mod tests {
    use super::PATIENCE;
    use crate::{Durability, Options, P, Result, Root};

    #[test]
    fn what_has_pointers_stays_in_memory_while_there_is_something_else() -> Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().durability(Durability::Wal).memory_limit(1 << 20);
        let heap = options.open(folder.path().join("heap"))?;
        heap.inner().stop_checkpoints(); // no other checkpoints
        type Nodes = Option<P<'static, [Option<P<'static, [u64]>>]>>;
        let root: Root<Nodes> = heap.root("nodes")?;
        root.txn(|tx, p| {
            let plain = (0..128).map(|i| tx.alloc_slice(1024, |word| word as u64 + i));
            let plain = plain.collect::<Result<Vec<_>>>()?;
            tx[p] = Some(tx.alloc_slice(10_000, |i| Some(plain[i % plain.len()]))?);
            Ok(())
        })?;
        heap.checkpoint()?;
        let (inner, mut private) = (heap.inner(), [0, 0]);
        let wal = inner.wal().unwrap();
        for region in inner.regions() {
            region.with_spans(inner, 0, u64::MAX, PATIENCE, |offset, len, has_pointers| {
                let pages = (offset..offset + len).step_by(4096);
                private[usize::from(has_pointers)] += pages.filter(|at| wal.pages.is_private(*at)).count();
            });
        }
        assert!(private[1] >= 10_000 * 8 / 4096 && private[0] < 64, "{private:?}");
        root.read(|view, p| {
            let nodes = &view[view[p].unwrap()];
            assert!(nodes.iter().enumerate().all(|(i, node)| view[node.unwrap()][7] == 7 + i as u64 % 128));
        })?;
        heap.close()
    }
}
