//! What is done to the memory of an open heap as a whole: regions are made and removed, clean pages are evicted (`Options::memory_limit`), the mapping is given
//! up at the end.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::HeapInner;
use super::close::Work;
use super::directory::Creation;
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::layout::desc::Desc;
use crate::media::Media;
use crate::os::fork::start_thread;
use crate::os::seek_data;
use crate::region::all::SharedAll;
use crate::region::{Exclusive, Identity, Region, guard};
use crate::store::arena::{SpanEntry, SpanKind};
use crate::store::header::Header;
use crate::store::region_header::{LAST_ID, REGION_SIZE, RegionHeader};
use crate::store::spans::clear_entry;
use crate::store::{CLOSED, Store, Tables};
use crate::sync::MutexGuard;
use crate::txn::log::{Log, Segment, first_segment};
use crate::units::PAGE;
use crate::wal::Wal;

// --- regions -----------------------------------------------------------------------------------------------------------------

impl HeapInner {
    /// A region without a root object.
    pub(crate) fn create_region(
        &self,
        creation: &mut Creation<'_>,
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
        // No log before this one can have had entries of this generation.
        let generation = tables.header.first_generation(id);
        // The span is recorded only when its header is complete.
        let header = RegionHeader::at(tables.heap, span.offset);
        header.create(&tables.media, id, ty, name, generation, tables.header.salt);
        // Both words of the entry are durable before the record that completes the region, which is in its log.
        tables.record_span(&span);
        let identity =
            Identity { id, ty, header, offset: span.offset, root: 0, generation, name: name.to_owned() };
        // SAFETY: the span was taken just now, and nobody else has it; regions are dropped, or gone, before their heap.
        Ok(unsafe {
            self.open_region(&raw const **self, &tables.header, identity, vec![first_segment(span.offset)])
        })
    }

    /// # Safety
    /// `store` is this heap's. The region is mapped, and its log consists of `segments`. It is not used after this heap.
    pub(super) unsafe fn open_region(
        &self,
        store: *const Store,
        header: &Header,
        identity: Identity,
        segments: Vec<Segment>,
    ) -> Region {
        let identity_of_log = header.log_identity(identity.id);
        // SAFETY: the log of a region consists of these segments, and is mapped; it is not used after the region, nor that after the heap: the caller's premises.
        let mut log =
            unsafe { Log::new(self.base(), identity.header, identity.generation, identity_of_log, segments) };
        if self.wal().is_some() {
            log.keep_in_memory();
        }
        let media = Media::new(self.medium.clone());
        // SAFETY: the store stays where it is, in the heap's `Arc`. It is this heap's, the region is mapped, and it is not used after the heap: the caller's premises.
        unsafe { Region::new(store, self.collections.pace.clone(), media, log, identity) }
    }

    /// Takes a region from everyone, marks it as removed, and frees its spans: from here on its log is never replayed, for its memory is about to belong to others. Nobody finds out
    /// before the tables are let go.
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
        // SAFETY: spans of a region of this heap, which was marked as removed just now, and which nobody can have any more.
        unsafe { free_spans(&mut tables, &spans) };
        Ok(tables)
    }

    /// [`free_region`](Self::free_region) of one that was created just now, and of which nobody else knows: it has no root.
    pub(crate) fn free_unfinished(&self, region: &Region) -> Result<()> {
        assert!(region.root() == 0, "a region with a root");
        let spans = region.retire(self, |context| {
            assert!(ptr::eq(context.store, &raw const *self.store), "a region of another heap");
            context.spans()
        })?;
        // SAFETY: spans of a region of this heap. Without a root it counts as removed, on the medium too, and nobody can have it any more.
        unsafe { free_spans(&mut self.tables.lock(), &spans) };
        Ok(())
    }
}

/// Frees the spans (offset, bytes) of a region. In any order: what a crash leaves of them belongs to nobody, and is freed by the next opening.
///
/// # Safety
/// The region is marked as removed, durably, and nobody has it.
unsafe fn free_spans(tables: &mut Tables, spans: &[(u64, u64)]) {
    for &(offset, len) in spans {
        clear_entry(&tables.media, tables.heap, &tables.arena_of(offset), offset, len);
    }
    // Before others can record spans in these pages.
    if !bug(Bug::ReuseBeforeRemoval) {
        tables.media.fence();
    }
    spans.iter().for_each(|&(offset, len)| tables.pages.give(offset, len));
}

// --- a heap that is still ----------------------------------------------------------------------------------------------------

/// A heap while nobody changes it: no transaction is open, and no root comes or goes.
pub(super) struct Still<'a> {
    heap: &'a HeapInner,
    // In this order: the regions are let go before the next root may be removed.
    regions: SharedAll<'a>,
    _creation: Creation<'a>,
}

impl HeapInner {
    /// Waits until nobody changes the heap, and keeps it so.
    pub(super) fn still(&self) -> Result<Still<'_>> {
        self.check_open()?;
        let creation = Creation::lock(self)?;
        self.check_open()?;
        let regions = self.regions();
        Ok(Still { heap: self, regions: SharedAll::begin(self, regions)?, _creation: creation })
    }
}

impl Still<'_> {
    /// The names of its roots.
    pub(super) fn roots(&self) -> Vec<String> {
        self.heap.directory.lock().keys().cloned().collect()
    }

    /// What tells whether there is an object at an offset: [`SharedAll::is_live`].
    pub(super) fn is_live(&self) -> impl Fn(u64) -> Option<bool> + '_ {
        self.regions.is_live()
    }

    /// The heap's tables.
    pub(super) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.heap.tables.lock()
    }

    /// Where the first byte at or behind `at` is that may not be zero, if there is one: holes of the file are not worth a look.
    pub(super) fn data_from(&self, at: u64) -> Option<u64> {
        self.heap.mapping.file().map_or(Some(at), |file| seek_data(file, at).unwrap_or(Some(at)))
    }

    /// What its objects are in.
    pub(super) fn memory(&self) -> StillMemory<'_> {
        StillMemory { base: self.heap.base(), mapped: self.tables().header.mapped, still: PhantomData }
    }
}

/// The bytes of a heap that is still.
//
// Invariant: `mapped` bytes are mapped at `base`, and nobody writes to objects in them, for `'s`.
pub(super) struct StillMemory<'s> {
    base: *const u8,
    mapped: u64,
    still: PhantomData<&'s [u8]>,
}

impl<'s> StillMemory<'s> {
    pub(super) fn base(&self) -> *const u8 {
        self.base
    }

    /// So many bytes.
    ///
    /// # Panics
    /// If they are not all there.
    #[inline]
    pub(super) fn bytes(&self, at: u64, len: u64) -> &'s [u8] {
        assert!(at <= self.mapped && len <= self.mapped - at, "there are no {len} bytes at byte {at}");
        // SAFETY: so much is mapped, and nobody writes to it for `'s`: the invariant.
        unsafe { std::slice::from_raw_parts(self.base.wrapping_add(at as usize), len as usize) }
    }
}

// --- pages that are given back -----------------------------------------------------------------------------------------------

/// Bytes of a region that are looked at while its lock is held.
const STEP: u64 = 16 << 20;
/// How long to wait for the lock of a region.
pub(super) const PATIENCE: Duration = Duration::from_millis(10);

impl HeapInner {
    pub(super) fn tables_within(&self, patience: Duration) -> Option<MutexGuard<'_, Tables>> {
        let end = Instant::now() + patience;
        loop {
            match self.tables.try_lock() {
                None if Instant::now() < end => thread::sleep(patience / 100),
                tables => return tables,
            }
        }
    }

    /// Gives private pages back whose content is in the heap's file, if they are many. Runs within a checkpoint.
    pub(super) fn drop_copies(&self, wal: &Wal) {
        let limit = wal.settings().memory_limit;
        if wal.pages.bytes() <= limit / 2 && !bug(Bug::DropEarly) {
            return;
        }
        let enough = || wal.pages.bytes() <= limit / 8 * 3;
        // Nobody stores to free pages, nor reads what is in them.
        {
            // Who has them may wait for room in the log.
            let Some(tables) = self.tables_within(PATIENCE) else { return };
            if self.check_open().is_err() {
                return; // closed meanwhile, and not mapped any more
            }
            for (offset, len) in tables.pages.runs() {
                self.drop_range(wal, offset, len, |at| wal.pages.is_private(at));
            }
        }
        // What has no pointers first: it is written once, more often than not, where nodes are changed again and again, each time with a page fault if their pages were dropped.
        let was_locked = self.mapping.was_locked();
        for has_pointers in [false, true] {
            for region in self.regions() {
                let mut from = 0;
                while !enough()
                    && let Some(next) = region.with_spans(from, STEP, PATIENCE, |offset, len, has| {
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

    /// Gives private pages back that a checkpoint has written, if they are many. For a thread that keeps a region locked
    /// for long, `exclusive`: the thread in the background cannot give back the pages of that region.
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

    /// Gives those of these pages back that `may` go. Nobody stores to them; some may read them, or look at snapshots in them.
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
            // SAFETY: the pages are free, or recorded before the checkpoint that is complete but for this, and not since, so that who reads there, or looks at a snapshot, finds the same bytes in the
            // file; the caller has the lock that who stores to them needs.
            if unsafe { self.mapping.drop_copies(first, at - first) } {
                wal.pages.forget(first, at - first);
            }
        }
    }
}

// --- the end -----------------------------------------------------------------------------------------------------------------

impl HeapInner {
    /// Ends the use of a heap on a simulated medium as the death of its process would: nothing more reaches the medium.
    #[allow(dead_code)] // the simulator's
    pub(super) fn abandon(&self) {
        if self.state.swap(CLOSED, Ordering::Relaxed) == CLOSED {
            return;
        }
        self.stop_background();
        self.stop_checkpoints();
        // SURVIVES unreached: for the simulator, whose threads have ended.
        self.directory.lock().clear();
        // SAFETY: its threads have ended, and the one that calls this runs no transaction.
        unsafe { self.mapping.unmap() };
    }

    /// Unmaps a heap that is closed. Metadata are not looked at any more: that takes the lock on them, and a heap that is open.
    ///
    /// # Panics
    /// If it is open, or anybody can still have a region.
    pub(super) fn unmap(&self, _tables: MutexGuard<'_, Tables>) {
        let regions = std::mem::take(&mut *self.directory.lock());
        let is_closed = self.state.load(Ordering::Relaxed) == CLOSED;
        let is_left = |region: &Arc<Region>| region.is_gone() && region.held.accesses.is_ended();
        assert!(is_closed && regions.values().all(is_left), "somebody may use the heap");
        drop(regions);
        self.shown.remove_all();
        // SAFETY: every region is gone, as was just seen, and `close` has waited for those who were inside, also to look at snapshots; there are no others, for roots are created in an open heap
        // only; and the metadata are locked by this thread.
        unsafe { self.mapping.unmap() };
    }

    /// Starts a thread that works for the heap. Returns whether it could.
    pub(super) fn start(
        self: &Arc<Self>,
        what: Work,
        name: &str,
        work: impl FnOnce(&HeapInner) + Send + 'static,
    ) -> bool {
        struct Shared(*const HeapInner);
        // SAFETY: a heap can be shared, so a pointer to it can go to another thread.
        unsafe impl Send for Shared {}
        // Not an `Arc`: the file is closed when the last handle of the program is gone.
        let shared = Shared(Arc::as_ptr(self));
        let work = move || {
            let shared = shared;
            // SAFETY: a heap goes by its `drop`, which waits for its threads, or by the end of the process: nobody who takes a thread of `workers` does not wait for it.
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
        // The last handle is gone, so no transaction runs, and this waits for nobody: it may be inside of other heaps.
        let _ = guard::with_several_heaps(|| self.close(true));
        self.stop_background();
        self.stop_checkpoints();
        self.wait_for_growth();
        self.stop_syncer();
        // SAFETY: each is dropped here only, and not used after that: this is the drop of what has them.
        unsafe {
            ManuallyDrop::drop(&mut self.store);
            ManuallyDrop::drop(&mut self.workers);
            // Last: another heap may have the file from now on.
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
        heap.inner().stop_checkpoints(); // they would make others
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
            region.with_spans(0, u64::MAX, PATIENCE, |offset, len, has_pointers| {
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
