//! The contents of a heap that is being opened: reads them, replays the logs of regions, and turns the
//! contents into a `Heap`.

#![allow(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use super::store::store;
use super::survey::{ReplayedMetadata, SurveyedRegion, check_roots, free_pages, gaps, read_regions};
use crate::alloc::bitmaps::LiveSlots;
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::heap::check::rule::has_versions;
use crate::heap::collections::Collections;
use crate::heap::options::Options;
use crate::heap::{Heap, HeapInner};
use crate::media::{Media, Medium};
use crate::os::file_lock::OpenFileEntry;
use crate::os::identity::{FileIdentity, boot_id};
use crate::os::mapping::{Backing, Mapping};
use crate::os::names::has_name;
use crate::store::arena::{Arena, SpanEntry, SpanKind};
use crate::store::header::{self, Header, HeapUse, SLOT_SIZE, is_torn};
use crate::store::page_map::PageMap;
use crate::store::pages::{FreePages, Ranges};
use crate::store::region_header::RegionHeader;
use crate::store::relocate;
use crate::store::spans::{TakenSpan, spans_in, write_entry};
use crate::store::stored::StoredHeap;
use crate::store::types::TypeTable;
use crate::store::words::MetadataWords;
use crate::store::{OPEN, READ_ONLY, Store, Tables, UNCHANGED};
use crate::sync::{Mutex, RwLock};
use crate::txn::log::RegionLog;
use crate::txn::recovery::{self, read_logs, replay};
use crate::units::PAGE;
use crate::wal::{LogBeginning, PageSet, WalTail};

/// The metadata of a heap. They stay true when the heap is mapped in another way or at another place.
pub(super) struct HeapMetadata {
    pub(super) mapping: Mapping,
    /// The words of the whole heap, in `mapping`.
    pub(super) heap: MetadataWords<'static>,
    pub(super) header: Header,
    pub(super) arenas: Vec<Arena>,
    pub(super) spans: Vec<TakenSpan>,
    pub(super) regions: Vec<SurveyedRegion>,
    pub(super) types: TypeTable,
    pub(super) page_map: PageMap,
    /// The bitmaps of live slots, if an orderly close has stored them, or the heap is new.
    pub(super) live: Option<LiveSlots>,
    /// The complete entries in the logs of regions, if they are to be replayed. The logs are mapped, and only
    /// [`recover`](Self::recover) writes to them.
    logged: recovery::FoundEntries,
    /// The least length in bytes of runs of free pages that may be holes; `None` if there are no holes.
    pub(super) holes: Option<u64>,
    /// Whether logs of regions hold entries that must not be replayed: then the logs must be emptied before
    /// anything is committed.
    pub(super) has_stale_logs: bool,
    /// Whether a new write-ahead log begins with the opening, and not with the first record.
    pub(super) begins_log: bool,
    pub(super) counts: recovery::RecoveredCounts,
}

/// A heap that is recovered. The header in its file says that it is in use, unless the heap is read-only, or
/// its write-ahead log has not begun yet.
pub(super) struct RecoveredHeap {
    pub(super) contents: HeapMetadata,
    pub(super) medium: Medium,
    pub(super) media: Media,
    pub(super) pages: FreePages,
}

impl HeapMetadata {
    /// Reads the heap that `mapping` shows, with the records of the `tail` of its log. If there are any, the
    /// mapping is private. Examines all metadata, including those that only logs have. Writes nothing to the
    /// file.
    pub(super) fn read(mapping: Mapping, header: Header, tail: &WalTail) -> Result<HeapMetadata> {
        let heap = map(&mapping, &header)?;
        store(&mapping, heap, header.mapped, tail).map_err(|e| Error::io("reading the log", e))?;
        let page_map = PageMap::new(header.reserved, header.mapped)?;
        let stored = StoredHeap::from_mapping(&mapping, heap);
        let mut arenas = Vec::new();
        let mut start = 0;
        while start < header.mapped {
            let arena = Arena::read(stored, start, header.mapped, header.salt)?;
            start = arena.end();
            arenas.push(arena);
        }
        let spans = spans_in(stored, &arenas, &HashMap::new())?;
        let mut regions = read_regions(stored, heap, &header, &spans)?;
        let types = TypeTable::read(heap, header.salt, header.types, &spans)?;
        // SAFETY: the regions were read from this heap, and `mapping` is its mapping, which lives longer than
        // `logs`.
        let logs = unsafe { logs(mapping.base(), &header, &regions) };
        // SAFETY: `logged` goes to the returned `HeapMetadata`, which also has `mapping`, so the logs stay
        // mapped. Until `recover` replays `logged`, only the header is written. (If the heap is mapped again
        // in the same place, the content of the logs is the same.)
        let mut logged = unsafe { read_logs(&logs, header.mapped)? };
        let has_stale_logs =
            !logged.is_empty() && !header.in_use.needs_region_logs() && !bug(Bug::ReplayClosed);
        if has_stale_logs {
            logged = nothing()?;
        }
        let ReplayedMetadata { spans, roots } =
            ReplayedMetadata::from_header(stored, header.salt, &arenas, spans, &regions, &logged)?;
        for ((identity, _), root) in regions.iter_mut().zip(roots) {
            (identity.root, identity.ty) = root;
        }
        if regions.iter().any(|(identity, _)| identity.ty as usize >= types.types.len()) {
            return Err(Error::corrupt("a root is of a type that is not in the type table"));
        }
        check_roots(&regions, &spans, &types)?;
        let live = LiveSlots::read(heap, &header);
        let counts = recovery::RecoveredCounts::default();
        Ok(HeapMetadata {
            mapping,
            heap,
            header,
            arenas,
            spans,
            regions,
            types,
            page_map,
            live,
            logged,
            has_stale_logs,
            begins_log: false,
            holes: None,
            counts,
        })
    }

    /// Returns the runs of free pages (offset, length) of at least `least` bytes, without the pages that a
    /// checkpoint will write, because the `tail` of the log has records for them.
    pub(super) fn free(&self, least: u64, tail: &WalTail) -> Vec<(u64, u64)> {
        let mut free = Ranges::new(gaps(&self.arenas, self.spans.iter()).filter(|&(_, len)| len >= least));
        tail.runs(self.header.mapped, u64::MAX).for_each(|(offset, bytes)| free.remove_range(offset, bytes));
        free.of_at_least(least)
    }

    /// Returns the bytes of the pages that the logs of regions change.
    pub(super) fn logged_bytes(&self) -> u64 {
        let mut pages = PageSet::default();
        self.logged.ranges().for_each(|range| pages.insert(range.offset, range.end()));
        pages.bytes()
    }

    /// Creates a heap where there is none. `mapping` shows zeros.
    pub(super) fn create(mapping: Mapping, medium: Medium, mut header: Header) -> Result<RecoveredHeap> {
        let heap = map(&mapping, &header)?;
        let page_map = PageMap::new(header.reserved, header.mapped)?;
        let media = Media::new(medium.clone());
        // SAFETY: `map` above has mapped `header.mapped` bytes at the base of `mapping`. They stay mapped
        // until another medium is told of another mapping.
        unsafe { medium.mapped(mapping.base(), header.mapped) };
        let mut arena = Arena::new(0, header.mapped);
        let mut pages = FreePages::default();
        pages.give(arena.first_free(), arena.end() - arena.first_free());
        header.types = pages.allocate(PAGE).expect("an arena has pages");
        arena.use_until(header.types + PAGE);
        header.bases = vec![mapping.base().addr() as u64];
        let entry = SpanEntry { kind: SpanKind::Types, slot: 0, pages: 1, ty: 0, region: 0 };
        // The header, which makes the rest valid, is written last.
        header::begin_creation(&media, heap)?;
        write_entry(&media, heap, arena.entry(header.types), entry.to_words());
        arena.write(&media, heap, header.salt);
        // The arena head and the type table's entry must be durable before the header makes them valid.
        media.check_fences()?;
        // SURVIVES unreached: only a real file that is mapped without `MAP_SYNC` has anything to sync here.
        mapping.sync()?;
        mark_in_use(&mapping, heap, &medium, &media, &mut header)?;
        let contents = HeapMetadata {
            arenas: vec![arena],
            spans: vec![TakenSpan { offset: header.types, entry_at: arena.entry(header.types), entry }],
            regions: Vec::new(),
            types: TypeTable::create(header.types, PAGE),
            page_map,
            live: Some(LiveSlots::default()),
            logged: nothing()?,
            has_stale_logs: false,
            begins_log: false,
            holes: None,
            counts: recovery::RecoveredCounts::default(),
            mapping,
            heap,
            header,
        };
        Ok(RecoveredHeap { contents, medium, media, pages })
    }

    /// Reads the heap again with another `backing`, after its file was rewritten: the content that was read
    /// first may have been in the page cache only. The heap's write-ahead log is empty.
    pub(super) fn read_again(self, backing: Backing) -> Result<HeapMetadata> {
        let HeapMetadata { mut mapping, header, holes, .. } = self;
        mapping.show(backing);
        Ok(HeapMetadata { holes, ..HeapMetadata::read(mapping, header, &WalTail::default())? })
    }

    /// Maps the heap with another backing, in the same place or at `target`.
    pub(super) fn show(mut self, target: Option<Mapping>, backing: Backing) -> Result<HeapMetadata> {
        if let Some(target) = target {
            // The entries that were found in the logs are in the mapping that is about to be dropped.
            assert!(self.logged.is_empty(), "a heap is recovered before it moves to another place");
            self.mapping = target;
        }
        self.mapping.show(backing);
        self.heap = map(&self.mapping, &self.header)?;
        for (identity, _) in &mut self.regions {
            identity.header = RegionHeader::from_offset(self.heap, identity.offset);
        }
        Ok(self)
    }

    /// Marks the heap as in use, begins its write-ahead log if `begins_log` is set, replays the logs of its
    /// regions, clears spans that belong to no root, and relocates the heap if it is mapped at another base.
    pub(super) fn recover(mut self, medium: Medium) -> Result<RecoveredHeap> {
        let HeapMetadata {
            mapping,
            heap,
            header,
            arenas,
            spans,
            regions,
            types,
            logged,
            has_stale_logs,
            begins_log,
            holes,
            counts,
            ..
        } = &mut self;
        let (media, base, heap) = (Media::new(medium.clone()), mapping.base(), *heap);
        // SAFETY: `map` has mapped `header.mapped` bytes at `base`. They stay mapped until another medium is
        // told of another mapping.
        unsafe { medium.mapped(base, header.mapped) };
        if media.needs_flush() {
            // A killed process may have left stores in caches. The decisions so far rely on them, so they
            // must become durable. If the header says closed, everything else was durable before it, so only
            // the header may be in a cache.
            if header.in_use == HeapUse::Closed {
                header.persist_again(&media, heap);
            } else {
                mapping.sync_leftovers()?;
            }
        }
        // From here on the file may change.
        let moves = relocate::rebase(header, base.addr() as u64);
        mark_in_use(mapping, heap, &medium, &media, header)?;
        if let (true, Some(wal)) = (*begins_log, medium.wal()) {
            wal.ensure_log()?; // before a record needs the log, because recording returns no error
        }
        // SAFETY: the regions were read from this heap, and `mapping`, which maps it at `base`, lives longer
        // than `logs`.
        let mut logs = unsafe { logs(base, header, regions) };
        // SAFETY: no other thread has the heap until it is open. `logged` was read from these logs, and the
        // heap has not changed since, except for its header. `ReplayedMetadata` has refused entries that lie
        // over a log.
        let done = unsafe { replay(&media, mapping, &mut logs, logged)? };
        counts.replayed += done.replayed;
        counts.rolled_back += done.rolled_back;
        *logged = nothing()?;
        *has_stale_logs = false;
        for ((identity, _), log) in regions.iter_mut().zip(&logs) {
            identity.generation = log.generation();
        }
        // If a region has no root, a crash has cut its creation short.
        regions.retain(|(identity, _)| identity.root != 0);
        // The spans of a region that was just left out are cleared, too.
        let mut pages = free_pages(&media, heap, arenas, spans, regions, types);
        if let Some(least) = *holes {
            pages.add_holes(least);
        }
        if moves {
            let owners: HashSet<u32> = regions.iter().map(|(identity, _)| identity.id).collect();
            let owned = spans.iter().filter(|span| owners.contains(&span.entry.region));
            let pieces = relocate::pieces(owned, &types.types);
            relocate::relocate(mapping, heap, &medium, &media, header, &pieces)?;
        }
        Ok(RecoveredHeap { contents: self, medium, media, pages })
    }
}

impl RecoveredHeap {
    /// Gives up a recovered heap, so that it can be recovered again, at another base or for another medium.
    /// Makes its header durable: the next header goes to the other slot, and a disk may tear that write.
    pub(super) fn again(self) -> Result<HeapMetadata> {
        self.media.check_fences()?;
        // SURVIVES unreached: in no program of the crash lab are so many relocations cut short; in
        // `tests/moved_heaps.rs` of pheap-crash they are.
        self.contents.mapping.sync()?;
        Ok(self.contents)
    }

    /// Opens the heap.
    pub(super) fn into_heap(self, options: &Options, file: Option<OpenFileEntry>) -> Heap {
        let RecoveredHeap { contents, medium, media, pages } = self;
        let HeapMetadata {
            mapping,
            heap,
            header,
            arenas,
            mut spans,
            regions,
            types,
            page_map,
            live,
            counts,
            ..
        } = contents;
        let next_region = regions.iter().map(|(identity, _)| identity.id).max().unwrap_or(0) + 1;
        spans.retain(TakenSpan::holds_objects);
        // Often all spans are of one region and in order already, so this sort takes little time.
        spans.sort_unstable_by_key(|span| (span.entry.region, span.offset));
        let state = match medium.wal() {
            _ if mapping.is_read_only() => READ_ONLY,
            Some(wal) if !wal.has_begun() => UNCHANGED,
            _ => OPEN,
        };
        // While the heap is open, the file's name is checked only if the file has a name at the opening: a
        // file without a name, or in a file system that does not count names, is never `Removed`.
        let named = mapping.file().is_some_and(|file| has_name(file).unwrap_or(false));
        let store = Store {
            has_name: named && !mapping.is_read_only(),
            mapping,
            state: AtomicU8::new(state),
            pin_undo: options.pin_undo,
            max_size: options.max_size,
            tuning: options.tuning,
            page_map,
            logged: OnceLock::new(),
            medium,
            evict: OnceLock::new(),
            ahead: Default::default(),
            hash_secret: [header.uuid as u64, (header.uuid >> 64) as u64],
            process: Default::default(),
            tables: Mutex::new(Tables { heap, header, media, arenas, pages, types, growth_waits: 0 }),
        };
        let inner = Arc::new(HeapInner {
            store: ManuallyDrop::new(store),
            collections: Collections::new(options),
            workers: Default::default(),
            recovered: counts,
            directory: Mutex::new(BTreeMap::new()),
            shown: Default::default(),
            creation: Mutex::new(next_region),
            copies: RwLock::new(()),
            file: ManuallyDrop::new(file),
        });
        // SURVIVES drop: this lock keeps no thread out, because no other thread has the heap yet.
        let mut tables = inner.tables.lock();
        for (identity, segments) in regions {
            let (name, id, ty) = (identity.name.clone(), identity.id, identity.ty);
            // SAFETY: `Arc::as_ptr` points to the `HeapInner` in `inner`, which is alive, and `store` is a
            // field of it.
            let store = unsafe { &raw const (*Arc::as_ptr(&inner)).store }.cast();
            // SAFETY: `store` is the address of this heap's store, in the heap's `Arc`. `identity` and
            // `segments` were read from this heap, which is mapped. Regions are used through handles that
            // keep the heap alive.
            let mut region = unsafe { inner.open_region(store, &tables.header, identity, segments) };
            let first = spans.partition_point(|span| span.entry.region < id);
            let spans = spans[first..].chunk_by(|a, b| a.entry.region == b.entry.region).next();
            let spans = spans.filter(|spans| spans[0].entry.region == id).unwrap_or(&[]);
            region.load(spans, |ty| tables.types.pointer_map(ty), live.as_ref());
            if has_versions(&tables.types.types[ty as usize]) {
                region.keep_versions();
            }
            let region = Arc::new(region);
            inner.shown.add(&name, &region);
            // SURVIVES drop: this lock keeps no thread out, because no other thread has the heap yet.
            inner.directory.lock().insert(name, region);
        }
        drop(tables);
        if live.is_none() && !inner.is_read_only() && !inner.is_simulated() {
            inner.mark_in_background();
        }
        if let Some(file) = &*inner.file {
            file.is_held(Arc::new(inner.held_by()));
        }
        inner.make_checkpoints();
        inner.grow_ahead();
        inner.sync_at_intervals();
        Heap { inner }
    }
}

/// Returns the logs of the regions.
///
/// # Safety
/// The regions were read from the heap that is mapped at `base`. The heap stays mapped while the logs are
/// used.
unsafe fn logs(base: *mut u8, header: &Header, regions: &[SurveyedRegion]) -> Vec<RegionLog> {
    let log = |(identity, segments): &SurveyedRegion| {
        let identity_of_log = header.log_identity(identity.id);
        // SAFETY: the log is mapped while it is used (premise). `read_regions` has checked that its segments
        // are spans of this region's log.
        unsafe {
            RegionLog::new(base, identity.header, identity.generation, identity_of_log, segments.clone())
        }
    };
    regions.iter().map(log).collect()
}

/// Returns an empty set of log entries.
fn nothing() -> Result<recovery::FoundEntries> {
    // SAFETY: the slice of logs is empty, so no memory is read.
    unsafe { read_logs(&[], 0) }
}

/// Maps the first `header.mapped` bytes of a heap, and returns a view of their words.
fn map(mapping: &Mapping, header: &Header) -> Result<MetadataWords<'static>> {
    mapping.map(0, header.mapped)?;
    // SAFETY: 1. The first `header.mapped` bytes were mapped just now. They stay mapped as long as `mapping`
    // exists, which is kept next to this view, in `HeapMetadata` and in the store of an open heap. 2. Until
    // the heap is open, no other thread has it; from then on the view is used for the heap's metadata only.
    Ok(unsafe { MetadataWords::new(mapping.base(), 0..header.mapped) })
}

/// Marks the heap as in use in its header, durably before the heap is changed. A read-only heap is not
/// marked. If the heap's write-ahead log has not begun, the headers with the mark are written when it begins.
/// After a power failure, the disk may have any of the pages that were stored later, but must not have them
/// together with a header that says closed.
fn mark_in_use(
    mapping: &Mapping,
    heap: MetadataWords<'_>,
    medium: &Medium,
    media: &Media,
    header: &mut Header,
) -> Result<()> {
    if mapping.is_read_only() {
        return Ok(());
    }
    let found = (header.to_bytes(), header.slot_number() as u64 * PAGE);
    header.in_use = HeapUse::In(medium.kind());
    header.has_parts = header.in_use.needs_region_logs();
    if let Some(wal) = medium.wal() {
        (header.log, header.log_nonce) = (wal.id(), wal.nonce());
    }
    let is_simulated = mapping.is_simulated();
    header.boot = if is_simulated { 0 } else { boot_id() };
    // If the file's identity cannot be read, the header says that it is unknown.
    let file = mapping.file().filter(|_| !is_simulated);
    header.identity = file.and_then(|file| FileIdentity::from_file(file).ok()).unwrap_or_default();
    // The bitmaps that the header names are about to become stale.
    if !bug(Bug::KeepLiveSlots) {
        header.live_slots = (0, 0);
    }
    if let Some(wal) = medium.wal()
        && !wal.has_begun()
    {
        // The heap's file stays as it is until the log begins.
        let other = PAGE - found.1;
        let slot = heap.slice(other, SLOT_SIZE / 8).iter();
        let slot: Vec<u8> = slot.flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        // A torn slot is erased: with the rest of a second torn write it could be a valid header that no
        // process has written.
        let torn = is_torn(&slot).then_some((SLOT_SIZE, other));
        let headers = [(); 2].map(|()| {
            header.sequence += 1;
            (header.to_bytes(), header.slot_number() as u64 * PAGE)
        });
        wal.will_begin(LogBeginning { found: Some(found), torn, headers });
        return Ok(());
    }
    let sync = || mapping.sync();
    // Both slots are written. If one is damaged later, the other must not say that the heap is closed, with
    // bitmaps that are stale, and must have the new base. If one slot were empty and the other damaged, the
    // file would look like a creation that was cut short.
    header.write_both(media, heap, sync)
}
