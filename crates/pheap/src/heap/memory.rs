//! Operations on the memory of an open heap: creates and removes regions, keeps the heap from changing,
//! evicts private pages (`Options::memory_limit`), and unmaps the heap at the end. Also starts the background
//! threads of the heap.

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
        // The log's generation is new: no earlier log can have entries of this generation.
        let generation = tables.header.first_generation(id);
        // The span is recorded in the span table only when the region's header there is complete.
        let header = RegionHeader::from_offset(tables.heap, span.offset);
        header.create(&tables.media, id, ty, name, generation, tables.header.salt);
        // Both words of the span-table entry are durable, or in the write-ahead log, before the record of the
        // transaction that creates the root object. Without a write-ahead log, that record goes to the
        // region's own log.
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
        // marked as gone, before this heap's store is dropped.
        Ok(unsafe {
            self.open_region(&raw const **self, &tables.header, identity, vec![first_segment(span.offset)])
        })
    }

    /// Opens a region of this heap.
    ///
    /// # Safety
    /// `store` is the address of this heap's store. The region of `identity` is mapped in this heap, and the
    /// region's log consists of `segments`. The returned region is not used after this heap is dropped.
    pub(super) unsafe fn open_region(
        &self,
        store: *const Store,
        header: &Header,
        identity: RegionIdentity,
        segments: Vec<RegionLogSegment>,
    ) -> Region {
        let identity_of_log = header.log_identity(identity.id);
        // SAFETY: the log of this region consists of `segments`, and is mapped at `base()` of this heap
        // (premise). The region owns the log, and is not used after the heap is dropped (premise).
        let mut log = unsafe {
            RegionLog::new(self.base(), identity.header, identity.generation, identity_of_log, segments)
        };
        if self.wal().is_some() {
            log.keep_in_memory();
        }
        let media = Media::new(self.medium.clone());
        // SAFETY: `store` is this heap's store (premise), which lies in the heap's `Arc`, so it does not
        // move. The region is mapped, and is not used after the heap is dropped (premise).
        unsafe { Region::new(store, self.collections.pace.clone(), media, log, identity) }
    }

    /// Removes a region: waits until no other thread has it, marks it as removed, and frees its spans. The
    /// log of a region with that mark is never replayed, because other regions may get the memory. Returns
    /// the locked tables: a thread that looks the root up waits until the caller unlocks them.
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
        // SAFETY: `spans` are the spans of a region of this heap. The region was marked as removed above,
        // with a fence, and `retire` has waited until no other thread has the region.
        unsafe { free_spans(&mut tables, &spans) };
        Ok(tables)
    }

    /// Frees the spans of a region that was created just now and that no other thread knows. The region has
    /// no root object, so it need not be marked as removed.
    pub(crate) fn free_unfinished(&self, region: &Region) -> Result<()> {
        assert!(region.root() == 0, "a region with a root");
        let spans = region.retire(self, |context| {
            assert!(ptr::eq(context.store, &raw const *self.store), "a region of another heap");
            context.spans()
        })?;
        // SAFETY: `spans` are the spans of a region of this heap. A region without a root object counts as
        // removed, also on the medium; or the log has failed and takes no further record. `retire` has waited
        // until no other thread has the region.
        unsafe { free_spans(&mut self.tables.lock(), &spans) };
        Ok(())
    }
}

/// Frees the spans (offset, bytes) of a region. The order of the spans does not matter: if a crash leaves
/// some of them in the span table, they belong to no region, and the next opening frees them.
///
/// # Safety
/// `spans` are those of one region of the heap of `tables`. The region is marked as removed, durably, or has
/// no root object, and no thread uses it.
unsafe fn free_spans(tables: &mut Tables, spans: &[(u64, u64)]) {
    for &(offset, len) in spans {
        clear_entry(&tables.media, tables.heap, &tables.arena_of(offset), offset, len);
    }
    // The cleared entries must be durable before another thread can record spans in these pages.
    if !bug(Bug::ReuseBeforeRemoval) {
        tables.media.fence();
    }
    spans.iter().for_each(|&(offset, len)| tables.pages.give(offset, len));
}

// --- a heap that does not change

/// A heap that no thread changes as long as this value exists: no transaction is open, and no root is
/// created, renamed or removed.
pub(super) struct QuiescentHeap<'a> {
    heap: &'a HeapInner,
    // Fields are dropped in this order: the regions are released before another thread may remove a root.
    regions: SharedAll<'a>,
    _creation: CreationLock<'a>,
}

impl HeapInner {
    /// Waits until no thread changes the heap, and prevents changes until the result is dropped. Reads go on.
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

    /// Returns the offset of the first byte, at or behind the offset `at`, that may be other than zero in the
    /// heap's file; `None` if there is none. So the caller need not read the holes of the file. Returns `at`
    /// if the heap has no file, or if the system cannot tell. With a write-ahead log, a private page may have
    /// bytes other than zero where the file has a hole.
    pub(super) fn data_from(&self, at: u64) -> Option<u64> {
        self.heap.mapping.file().map_or(Some(at), |file| seek_data(file, at).unwrap_or(Some(at)))
    }

    /// Returns a view of the heap's mapped bytes.
    pub(super) fn memory(&self) -> QuiescentMemory<'_> {
        QuiescentMemory { base: self.heap.base(), mapped: self.tables().header.mapped, still: PhantomData }
    }
}

/// A view of the mapped bytes of a heap that no thread changes.
//
// Invariant: for the lifetime `'s`, `mapped` bytes are mapped at `base`, and no thread writes to objects
// there.
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
        // SAFETY: `at..at + len` is within the `mapped` bytes (asserted above). By the invariant, these bytes
        // are mapped, and no thread writes to objects there, for `'s`.
        unsafe { std::slice::from_raw_parts(self.base.wrapping_add(at as usize), len as usize) }
    }
}

// --- eviction

/// About the number of bytes of a region that an eviction examines each time it has locked the region.
const STEP: u64 = 16 << 20;
/// Longest wait of a checkpoint for the lock of a region or of the heap's tables, to evict pages or to make
/// holes.
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

    /// Evicts private pages that are free, or whose content the heap's file has, if more than half of the
    /// memory limit is private. Runs at the end of a checkpoint.
    pub(super) fn drop_copies(&self, wal: &Wal) {
        let limit = wal.settings().memory_limit;
        if wal.pages.bytes() <= limit / 2 && !bug(Bug::DropEarly) {
            return;
        }
        let enough = || wal.pages.bytes() <= limit / 8 * 3;
        // Free pages are evicted first. No thread stores to them, or reads their content.
        {
            // The thread that has the tables locked may wait for room in the log, hence for this checkpoint.
            // So this wait for the tables has a limit.
            let Some(tables) = self.tables_within(PATIENCE) else { return };
            if self.check_open().is_err() {
                return; // another thread has closed and unmapped the heap
            }
            for (offset, len) in tables.pages.runs() {
                self.drop_range(wal, offset, len, |at| wal.pages.is_private(at));
            }
        }
        // Next, pages of objects without pointers are evicted: most of these objects are written once.
        // Objects with pointers, such as nodes, are changed again and again, and the first change to an
        // evicted page costs a page fault.
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

    /// If more pages are private than the memory limit allows, makes a checkpoint, and evicts private pages
    /// that it has written. For a thread that keeps a region locked for long, as `exclusive`: the background
    /// thread cannot evict the pages of that region.
    pub(crate) fn evict_beside(&self, exclusive: &Exclusive<'_>) {
        let is_over = |wal: &&Arc<Wal>| wal.pages.bytes() > wal.settings().memory_limit;
        let Some(wal) = self.wal().filter(is_over) else { return };
        // An error is ignored here: the log keeps the failure, and the next commit returns it.
        let _ = wal.checkpoint(|| {
            self.drop_copies(wal);
            for (_, span) in exclusive.object_spans() {
                self.drop_range(wal, span.offset, span.bytes(), |at| wal.pages.is_old(at));
            }
        });
    }

    /// Evicts the pages in the range from `offset` for which `may` returns true. The caller has the lock
    /// without which no thread stores to these pages. Threads may read the pages, also through snapshots.
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
            // SAFETY: the pages from `first` to `at` are free, or all their records are older than a
            // checkpoint whose writes are complete. In the latter case the file has the same bytes, so a
            // thread that reads the pages, perhaps through a snapshot, loads the same words. The caller has
            // the lock without which no thread stores to these pages (premise of this function).
            if unsafe { self.mapping.drop_copies(first, at - first) } {
                wal.pages.forget(first, at - first);
            }
        }
    }
}

// --- the end

impl HeapInner {
    /// Ends the use of a heap as the death of its process does: nothing more reaches the medium. The caller
    /// sees to it that no transaction runs.
    #[allow(dead_code)] // for the simulator and tests
    pub(super) fn abandon(&self) {
        if self.state.swap(CLOSED, Ordering::Relaxed) == CLOSED {
            return;
        }
        self.stop_background();
        self.stop_checkpoints();
        // SURVIVES unreached: this function is for the simulator, which calls it when its threads have ended.
        self.directory.lock().clear();
        // SAFETY: the threads that access the heap's memory have ended, no transaction runs, and the
        // directory, which has been cleared, leads to no region.
        unsafe { self.mapping.unmap() };
    }

    /// Unmaps a heap that is closed. No thread accesses the metadata afterwards, because a thread does that
    /// only with the tables locked, and if the heap is open.
    ///
    /// # Panics
    /// If the heap is open, or if a thread can still be inside a region.
    pub(super) fn unmap(&self, _tables: MutexGuard<'_, Tables>) {
        let regions = std::mem::take(&mut *self.directory.lock());
        let is_closed = self.state.load(Ordering::Relaxed) == CLOSED;
        let is_left = |region: &Arc<Region>| region.is_gone() && region.held.accesses.is_ended();
        assert!(is_closed && regions.values().all(is_left), "somebody may use the heap");
        drop(regions);
        self.shown.remove_all();
        // SAFETY: the assertion above has checked that every region is gone. `close` has waited for the
        // threads that were inside the regions, and for accesses to snapshots. No region can be added,
        // because roots are created in an open heap only. This thread has the tables locked (`_tables`).
        unsafe { self.mapping.unmap() };
    }

    /// Starts a background thread of the heap, which runs `work`, and puts it into the table of threads.
    /// Returns whether the thread has started.
    pub(super) fn start(
        self: &Arc<Self>,
        what: BackgroundTask,
        name: &str,
        work: impl FnOnce(&HeapInner) + Send + 'static,
    ) -> bool {
        struct Shared(*const HeapInner);
        // SAFETY: `HeapInner` is `Sync`, so another thread may use a pointer to it while the heap exists.
        unsafe impl Send for Shared {}
        // The thread gets no `Arc`, which would keep the heap open: the heap is closed when the program's
        // last handle is dropped.
        let shared = Shared(Arc::as_ptr(self));
        let work = move || {
            let shared = shared;
            // SAFETY: `shared.0` points to the `HeapInner`, whose drop joins the threads that this function
            // has put into `workers` before it frees any field. A thread that was taken from `workers`
            // earlier was joined then. If the process ends instead, this thread ends, too.
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
            return; // the threads, the file and the addresses belong to the parent process
        }
        // The last handle is gone, so no transaction runs, and `close` waits for no other threads than
        // background threads. So it may wait even if this thread is inside other heaps.
        let _ = guard::with_several_heaps(|| self.close(true));
        self.stop_background();
        self.stop_checkpoints();
        self.wait_for_growth();
        self.stop_syncer();
        // SAFETY: each field is dropped once, here. This is the heap's `drop`, so no code uses the fields
        // afterwards.
        unsafe {
            ManuallyDrop::drop(&mut self.store);
            ManuallyDrop::drop(&mut self.workers);
            // The lock on the file is released last: from now on another heap may open the file.
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
        heap.inner().stop_checkpoints(); // the background thread makes no checkpoint during the test
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
