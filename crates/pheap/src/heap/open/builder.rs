//! A heap on its way to be open: made anew, or read and recovered.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use super::survey::{Outlook, Surveyed, check_roots, free_pages, read_regions};
use crate::alloc::bitmaps::LiveSlots;
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::heap::collections::Collections;
use crate::heap::options::Options;
use crate::heap::worker::Worker;
use crate::heap::{Heap, HeapInner};
use crate::media::{Media, Medium};
use crate::os::file_lock::OpenFile;
use crate::os::fork;
use crate::os::identity::{Identity, boot_id};
use crate::os::mapping::Mapping;
use crate::os::names::has_name;
use crate::os::random;
use crate::store::arena::{Arena, SpanEntry, SpanKind};
use crate::store::header;
use crate::store::header::{Header, Use};
use crate::store::page_map::PageMap;
use crate::store::pages::Pages;
use crate::store::relocate;
use crate::store::spans::{Span, spans_in, write_entry};
use crate::store::stored::Stored;
use crate::store::types::TypeTable;
use crate::store::words::Words;
use crate::store::{OPEN, READ_ONLY, Store, Tables};
use crate::sync::Mutex;
use crate::txn::log::Log;
use crate::txn::recovery::{Recovered, read_logs, replay};
use crate::units::PAGE;
use crate::wal::WalTail;

pub(in crate::heap) fn new_header(options: &Options) -> Header {
    let [a, b, salt] = random();
    let unit = options.arena_size;
    Header {
        sequence: 0,
        uuid: u128::from(a) | u128::from(b) << 64,
        arena_unit: unit,
        mapped: Arena::size_for(0, 1, unit),
        reserved: options.reserve,
        salt,
        bases: Vec::new(),
        boot: 0,
        in_use: Use::Closed,
        types: 0,
        live_slots: (0, 0),
        log: 0,
        identity: Identity::default(),
        log_nonce: 0,
    }
}

/// Marks the heap as in use, durably before it is changed: after a power failure, the disk may have any of the pages that were
/// stored later, and must not have the mark of a closed heap beside them.
fn mark_in_use(
    mapping: &Mapping,
    heap: Words<'_>,
    medium: &Medium,
    media: &Media,
    header: &mut Header,
) -> Result<()> {
    if mapping.is_read_only() {
        return Ok(());
    }
    header.in_use = match medium {
        Medium::Process => Use::Process,
        Medium::Wal(wal) => {
            (header.log, header.log_nonce) = (wal.id(), wal.nonce());
            Use::Wal
        }
        Medium::Synced(_) => Use::Prepared,
        _ => Use::Pmem,
    };
    let is_simulated = mapping.is_simulated();
    header.boot = if is_simulated { 0 } else { boot_id() };
    // A file that cannot be looked at is one that nothing is known of.
    let file = mapping.file().filter(|_| !is_simulated);
    header.identity = file.and_then(|file| Identity::of(file).ok()).unwrap_or_default();
    // What it names will not be true any more.
    if !bug(Bug::KeepLiveSlots) {
        header.live_slots = (0, 0);
    }
    let sync = || mapping.sync();
    // Both slots: when one is damaged later, the other must not say that the heap is closed, with bitmaps that are true no more; and it must know of a new base.
    // As long as one is empty, a damaged other one looks like a creation that was cut short.
    header.write_both(media, heap, sync)
}

/// A heap that is almost open.
pub(in crate::heap) struct Builder {
    pub(in crate::heap) mapping: Mapping,
    medium: Medium,
    pub(in crate::heap) tables: Tables,
    /// The number of the next region.
    next_region: u32,
    pub(in crate::heap) recovered: Recovered,
    regions: Vec<Surveyed>,
    /// Spans of objects.
    spans: Vec<Span>,
    page_map: PageMap,
    /// What is live, if an orderly close has stored it.
    live: Option<LiveSlots>,
}

impl Builder {
    pub(in crate::heap) fn new(mapping: Mapping, medium: Medium, header: Header) -> Result<Builder> {
        mapping.map(0, header.mapped)?;
        Builder::new_mapped(mapping, medium, header)
    }

    /// Makes a heap of zeros.
    pub(in crate::heap) fn new_mapped(
        mapping: Mapping,
        medium: Medium,
        mut header: Header,
    ) -> Result<Builder> {
        let page_map = PageMap::new(header.reserved)?;
        let media = Media::new(medium.clone());
        let base = mapping.base();
        let mut arena = Arena::new(0, header.mapped);
        let mut pages = Pages::default();
        pages.give(arena.first_free(), arena.end() - arena.first_free());
        header.types = pages.take(PAGE).expect("an arena has pages");
        arena.use_until(header.types + PAGE);
        header.bases = vec![base.addr() as u64];
        let entry = SpanEntry { kind: SpanKind::Types, slot: 0, pages: 1, ty: 0, region: 0 };
        // SAFETY: the first arena is mapped, and zero, and nobody else has the heap. It is mapped as long as the store that it becomes part of is open.
        let heap = unsafe {
            medium.mapped(base, header.mapped);
            Words::new(base, 0..header.mapped)
        };
        // The header, which makes all of it valid, is written last.
        header::begin_creation(&media, heap)?;
        write_entry(&media, heap, arena.entry(header.types), entry.to_words());
        arena.write(&media, heap, header.salt);
        // Before the header says that it is all there.
        media.check_fences()?;
        // SURVIVES unreached: only a real file that is mapped without `MAP_SYNC` has anything to sync here.
        mapping.sync()?;
        mark_in_use(&mapping, heap, &medium, &media, &mut header)?;
        let types = TypeTable::create(header.types, PAGE);
        let tables = Tables { heap, header, media, arenas: vec![arena], pages, types };
        Ok(Builder {
            mapping,
            medium,
            tables,
            next_region: 1,
            recovered: Recovered::default(),
            regions: Vec::new(),
            spans: Vec::new(),
            page_map,
            live: Some(LiveSlots::default()),
        })
    }

    /// `leftover` is in the log, and not in the file: only for a mapping that is private.
    pub(in crate::heap) fn existing(
        mapping: Mapping,
        medium: Medium,
        header: Header,
        leftover: &WalTail,
    ) -> Result<Builder> {
        mapping.map(0, header.mapped)?;
        for range in leftover.ranges() {
            // SAFETY: mapped, as was checked when the log was read; nobody else has the heap until it is open.
            unsafe {
                let place = mapping.base().add(range.offset as usize).cast::<u64>();
                place.copy_from_nonoverlapping(range.words.as_ptr(), range.words.len());
            }
        }
        Builder::existing_mapped(mapping, medium, header)
    }

    /// Reads the metadata of a heap, recovers its logs, and relocates it if it is not mapped where it was. After an error about what is in
    /// the file, that is as it was: everything is looked at before anything is written.
    pub(in crate::heap) fn existing_mapped(
        mapping: Mapping,
        medium: Medium,
        mut header: Header,
    ) -> Result<Builder> {
        let page_map = PageMap::new(header.reserved)?;
        let media = Media::new(medium.clone());
        let base = mapping.base();
        let mut arenas = Vec::new();
        let mut start = 0;
        // SAFETY: mapped up to `mapped`; nobody else has the heap until it is open. It is mapped as long as the store that it becomes part of is open.
        let heap = unsafe { Words::new(base, 0..header.mapped) };
        // Until it is recovered only its header is written.
        let stored = Stored::of(&mapping, heap);
        while start < header.mapped {
            let arena = Arena::read(stored, start, header.mapped, header.salt)?;
            start = arena.end();
            arenas.push(arena);
        }
        // SAFETY: as many bytes are mapped, and nobody else has the heap.
        unsafe { medium.mapped(base, header.mapped) };

        let spans = spans_in(stored, &arenas, &HashMap::new())?;
        let mut regions = read_regions(stored, heap, &header, &spans)?;
        let extents: HashMap<u64, u64> = spans
            .iter()
            .filter(|span| span.entry.kind == SpanKind::Types)
            .map(|span| (span.offset, span.bytes()))
            .collect();
        let mut types = TypeTable::read(heap, header.salt, header.types, |at| extents.get(&at).copied())?;
        let mut logs: Vec<Log> = regions
            .iter()
            .map(|(identity, segments)| {
                let identity_of_log = header.log_identity(identity.id);
                Log::new(base, identity.header, identity.generation, identity_of_log, segments.clone())
            })
            .collect();
        // SAFETY: the mapping outlives this function, and nothing is written before the logs are replayed but the header.
        let found = unsafe { read_logs(&logs, header.mapped)? };
        let Outlook { spans, roots } = Outlook::of(stored, header.salt, &arenas, spans, &regions, &found)?;
        for ((identity, _), root) in regions.iter_mut().zip(roots) {
            (identity.root, identity.ty) = root;
        }
        if regions.iter().any(|(identity, _)| identity.ty as usize >= types.types.len()) {
            return Err(Error::corrupt("a root is of a type that is not in the type table"));
        }
        check_roots(&regions, &spans, &types)?;
        let live = LiveSlots::read(heap, &header);

        let was_closed = header.in_use == Use::Closed;
        if media.needs_flush() {
            // A process that was killed may have left stores in caches. What is decided now relies on them, so they must not be lost any more. If it was
            // killed when it had closed the heap, that is the header at most.
            if was_closed {
                header.persist_again(&media, heap);
            } else {
                mapping.sync_leftovers()?;
            }
        }
        // From here on the file changes.
        let moves = relocate::rebase(&mut header, base.addr() as u64);
        if !(moves && bug(Bug::MoveUnlisted)) {
            mark_in_use(&mapping, heap, &medium, &media, &mut header)?;
        }
        // SAFETY: nobody else has the heap, and the mapping outlives this function; `Outlook` has refused entries that lie over a log.
        let recovered = unsafe { replay(&media, &mapping, &mut logs, &found)? };
        for ((identity, _), log) in regions.iter_mut().zip(&logs) {
            identity.generation = log.generation();
        }
        // A region without a root is one whose creation a crash has cut short.
        regions.retain(|(identity, _)| identity.root != 0);
        // Whatever spans other regions have left is cleared, too.
        let next_region = regions.iter().map(|(identity, _)| identity.id).max().unwrap_or(0) + 1;
        let pages = free_pages(&media, heap, &arenas, &spans, &regions, &types);
        if moves {
            let owners: HashSet<u32> = regions.iter().map(|(identity, _)| identity.id).collect();
            let owned = spans.iter().filter(|span| owners.contains(&span.entry.region));
            let pieces = relocate::pieces(owned, &mut types);
            // SAFETY: nobody else has the heap, and its logs were emptied just now.
            unsafe { relocate::relocate(&mapping, heap, &medium, &media, &mut header, &pieces)? };
        }
        let tables = Tables { heap, header, media, arenas, pages, types };
        Ok(Builder { mapping, medium, tables, next_region, recovered, regions, spans, page_map, live })
    }

    /// Gives the heap up, for another opening. Its header is durable: the next one goes over the other slot, and a disk may tear what it writes.
    pub(in crate::heap) fn into_header(self) -> Result<Header> {
        self.tables.media.check_fences()?;
        // SURVIVES unreached: in no program of the lab are so many relocations cut short; in `tests/relocate.rs` of pheap-crash they are.
        self.mapping.sync()?;
        Ok(self.tables.header)
    }

    /// Opens the heap.
    pub(in crate::heap) fn finish(self, options: &Options, file: Option<OpenFile>) -> Heap {
        let Builder { mapping, medium, tables, next_region, recovered, regions, mut spans, page_map, live } =
            self;
        spans.retain(Span::holds_objects);
        spans.sort_by_key(|span| span.entry.region); // often one region has them all, and this takes no time
        let state = if mapping.is_read_only() { READ_ONLY } else { OPEN };
        // One that had none to begin with, or whose file system does not count them, is nobody's loss.
        let named = mapping.file().is_some_and(|file| has_name(file).unwrap_or(false));
        let store = Store {
            has_name: named && !mapping.is_read_only(),
            mapping,
            state: AtomicU8::new(state),
            pin_undo: options.pin_undo,
            max_size: options.max_size,
            arena_unit: tables.header.arena_unit,
            tuning: options.tuning,
            page_map,
            medium,
            hash_secret: [tables.header.uuid as u64, (tables.header.uuid >> 64) as u64],
            forks: fork::forks(),
            tables: Mutex::new(tables),
        };
        let inner = Arc::new(HeapInner {
            store,
            collections: Collections::new(options),
            checkpoints: Worker::default(),
            recovered,
            directory: Mutex::new(BTreeMap::new()),
            creation: Mutex::new(next_region),
            file,
        });
        // SURVIVES drop: nobody else has the heap yet.
        let mut tables = inner.tables.lock();
        for (identity, segments) in regions {
            let (name, id) = (identity.name.clone(), identity.id);
            // SAFETY: the regions were read from this heap, and are used through handles that keep it.
            let mut region = unsafe {
                let store = &raw const (*Arc::as_ptr(&inner)).store;
                inner.open_region(store, &tables.header, identity, segments)
            };
            let first = spans.partition_point(|span| span.entry.region < id);
            let spans = spans[first..].chunk_by(|a, b| a.entry.region == b.entry.region).next();
            let spans = spans.filter(|spans| spans[0].entry.region == id).unwrap_or(&[]);
            region.load(spans, |ty| tables.types.pointer_map(ty), live.as_ref());
            // SURVIVES drop: nobody else has the heap yet.
            inner.directory.lock().insert(name, Arc::new(region));
        }
        drop(tables);
        if live.is_none() && !inner.is_read_only() && !inner.is_simulated() {
            inner.mark_in_background();
        }
        inner.make_checkpoints();
        Heap { inner }
    }
}
