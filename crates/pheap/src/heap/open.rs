//! Opening a heap: in a file, in memory, or on the simulated medium.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use super::check;
use super::collections::Collections;
use super::options::{Durability, Options};
use super::survey::{Outlook, Surveyed, check_roots, free_pages, read_regions};
use super::worker::Worker;
use super::{Heap, HeapInner, logged};
use crate::alloc::bitmaps::LiveSlots;
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::media::{Media, Medium, SyncedFile};
use crate::os::cpu::FlushInstruction;
use crate::os::file_lock::OpenFile;
use crate::os::fork;
use crate::os::fork::OwnFile;
use crate::os::holes;
use crate::os::identity::{Identity, boot_id, is_same_boot};
use crate::os::mapping::{Backing, Mapping, is_tmpfs, supports_map_sync};
use crate::os::names::has_name;
use crate::os::random;
use crate::os::regular;
use crate::os::storage::Disk;
use crate::store::arena::{Arena, SpanEntry, SpanKind};
use crate::store::header;
use crate::store::header::{Found, Header, Use};
use crate::store::page_map::PageMap;
use crate::store::pages::Pages;
use crate::store::relocate;
use crate::store::spans::{Span, spans_in, write_entry};
use crate::store::stored::Stored;
use crate::store::types::TypeTable;
use crate::store::{OPEN, READ_ONLY, Store, Tables};
use crate::sync::Mutex;
use crate::txn::log::Log;
use crate::txn::recovery::{Recovered, read_logs, replay};
use crate::units::HEADER_SIZE;
use crate::units::PAGE;
use crate::wal::Leftover;
use crate::wal::files::Files;

pub(super) fn open_file(options: &Options, path: &Path) -> Result<Heap> {
    let mut how = OpenOptions::new();
    how.read(true).write(!options.read_only).create(!options.read_only).truncate(false);
    let file = OwnFile::open(|| regular::open(&mut how, path))?;
    let lock = OpenFile::lock(&file, path, options.read_only)?;
    match open_locked(options, path, file.clone()) {
        Ok(builder) => Ok(builder.finish(options, Some(lock))),
        Err(error) => {
            // A child that another thread has just made shares the lock until it runs another program.
            let _ = file.unlock();
            lock.forget();
            Err(error)
        }
    }
}

/// Opens the heap in a file that nobody else has.
fn open_locked(options: &Options, path: &Path, file: OwnFile) -> Result<Builder> {
    let found = read_header(&file, path)?;
    let again = |e| Error::io(format!("opening {}", path.display()), e);
    let disk: Arc<dyn Disk> = Arc::new(Files::new(file.clone(), path).map_err(again)?);
    match found {
        Found::Header(header) => {
            check::verify(options, path, &file, &header)?;
            open_found(options, path, file, header, &disk)
        }
        Found::Nothing if options.read_only => Err(Error::NotAHeap { path: path.to_owned() }),
        Found::Nothing => create_file(options, path, file, &disk),
    }
}

fn read_header(mut file: &File, path: &Path) -> Result<Found> {
    let mut bytes = Vec::with_capacity(HEADER_SIZE as usize);
    let io_error = |e| Error::io(format!("reading {}", path.display()), e);
    (&mut file).take(HEADER_SIZE).read_to_end(&mut bytes).map_err(io_error)?;
    let found = header::read(&bytes, path)?;
    // Files of other kinds begin with zeros, too. The first thing that a creation stores is the magic.
    if matches!(found, Found::Nothing)
        && bytes.iter().all(|&b| b == 0)
        && !rest_is_zero(file).map_err(io_error)?
    {
        return Err(Error::NotAHeap { path: path.to_owned() });
    }
    Ok(found)
}

/// Whether the file is zero from here on.
fn rest_is_zero(mut file: &File) -> io::Result<bool> {
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(true),
            n if buffer[..n].iter().any(|&b| b != 0) => return Ok(false),
            _ => {}
        }
    }
}

fn open_found(
    options: &Options,
    path: &Path,
    file: OwnFile,
    header: Header,
    disk: &Arc<dyn Disk>,
) -> Result<Builder> {
    let have = file.metadata().map_err(|e| Error::io(format!("looking at {}", path.display()), e))?.len();
    if have < header.mapped {
        return Err(Error::Truncated { path: path.to_owned(), have, need: header.mapped });
    }
    check_use(options, path, &file, &header)?;
    let leftover = Leftover::read(&**disk, &header.wal_identity()).map_err(|error| match error {
        // Perhaps it lies beside the heap elsewhere.
        Error::LogMissing { .. } => disk.may_have_log().err().unwrap_or(error),
        error => error,
    })?;
    if options.read_only {
        // What a killed process has left may be in the page cache only, and what is shown must not be lost.
        if leftover.transactions() > 0
            && let Ok(Some(log)) = disk.open_log()
        {
            // SURVIVES unreached: only real files are opened to be read.
            log.sync().map_err(|e| Error::io(format!("syncing {}", disk.log_path().display()), e))?;
        }
        let mapping = relocate::reserve(options.base, &header, Backing::Private { file })?;
        let mut builder = Builder::existing(mapping, Medium::Process, header, &leftover)?;
        builder.recovered.replayed += leftover.transactions();
        return Ok(builder);
    }
    let chosen = choose(options, &file)?;
    if matches!(chosen, Chosen::Wal) {
        disk.may_have_log()?;
    }
    holes::fill(&file, path, header.mapped)?;
    let place = Place { path, file: &file, base: options.base };
    let mut header = logged::settle(&place, header, disk, &leftover)?;
    let mut builder = match chosen {
        Chosen::Mapped(medium, sync) => {
            tracing::info!(path = %path.display(), ?medium, "opened a heap");
            // With `MAP_SYNC`, no sync can have failed, and recovery makes durable what it reads.
            if !sync {
                logged::make_durable_to_map(&**disk, &header, is_tmpfs(&file))?;
            }
            logged::retire_old_log(&mut header, &**disk)?;
            place.open(medium, sync, header)?
        }
        Chosen::Wal => logged::open(options, &place, header, disk)?,
    };
    builder.recovered.replayed += leftover.transactions();
    Ok(builder)
}

/// Refuses a heap in use that may be torn: a copy of one, or one that the kernel has not written to its disk.
fn check_use(options: &Options, path: &Path, file: &File, header: &Header) -> Result<()> {
    if header.in_use == Use::Closed || options.restored {
        return Ok(());
    }
    // A file that cannot be looked at is one that nothing is known of.
    let now = Identity::of(file).unwrap_or_default();
    let boot = boot_id();
    // Files in memory do not outlive their boot, and the name of a tmpfs is made when it is mounted.
    let named = header.identity.file_system;
    let same_boot =
        is_same_boot(header.boot, boot) || is_tmpfs(file) && named != 0 && named == now.file_system;
    if header.identity.is_other(&now, same_boot, header.in_use == Use::Process) {
        return Err(Error::Copied { path: path.to_owned() });
    }
    if header.in_use != Use::Process || same_boot || options.verify {
        Ok(())
    } else if header.boot == 0 || boot == 0 {
        Err(Error::BootUnknown { path: path.to_owned() })
    } else {
        Err(Error::NotClosed)
    }
}

/// A heap of its own in memory, with its logs replayed: nothing in the file is changed.
pub(super) fn open_private(options: &Options, path: &Path, file: OwnFile, header: Header) -> Result<Heap> {
    let files =
        Files::new(file.clone(), path).map_err(|e| Error::io(format!("opening {}", path.display()), e))?;
    let disk: Arc<dyn Disk> = Arc::new(files);
    Ok(open_found(options, path, file, header, &disk)?.finish(options, None))
}

/// A file, and where it is to be mapped.
pub(super) struct Place<'a> {
    pub(super) path: &'a Path,
    pub(super) file: &'a OwnFile,
    pub(super) base: Option<u64>,
}

impl Place<'_> {
    fn shared(&self, sync: bool) -> Backing {
        Backing::Shared { file: self.file.clone(), path: self.path.to_owned(), sync }
    }

    /// Opens a heap whose file stores go to.
    pub(super) fn open(&self, medium: Medium, sync: bool, header: Header) -> Result<Builder> {
        if let Some(base) = self.base
            && relocate::has_no_room(&header, self.base)
        {
            // The first opening changes how the heap is in use, so that the second one should not fail.
            drop(relocate::reserve_at(base, header.reserved, Backing::Memory)?);
        }
        open_in_place(header, self.base, |header, base| {
            let mapping = relocate::reserve(base, &header, self.shared(sync))?;
            Builder::existing(mapping, medium.clone(), header, &Leftover::default())
        })
    }
}

/// Opens a heap whose medium stores go to, at `base`, by `open`: twice, if a relocation must be completed first.
pub(super) fn open_in_place(
    mut header: Header,
    base: Option<u64>,
    open: impl Fn(Header, Option<u64>) -> Result<Builder>,
) -> Result<Builder> {
    if relocate::has_no_room(&header, base) {
        header = open(header, None)?.into_header()?;
    }
    open(header, base)
}

fn create_file(options: &Options, path: &Path, file: OwnFile, disk: &Arc<dyn Disk>) -> Result<Builder> {
    let header = new_header(options);
    if header.mapped > options.max_size {
        return Err(Error::OutOfSpace { reason: "the maximal size is less than one arena".to_owned() });
    }
    // A log of a heap that is gone may be all that is left of it.
    Leftover::read(&**disk, &header.wal_identity())?;
    logged::remove_old_log(&**disk)?;
    let place = Place { path, file: &file, base: options.base };
    let mut mapping = relocate::reserve(options.base, &header, place.shared(false))?;
    // Cuts off what an interrupted creation left.
    mapping.grow_file(0, header.mapped)?;
    let chosen = choose(options, &file)?;
    if matches!(chosen, Chosen::Wal) {
        disk.may_have_log().inspect_err(|_| {
            let _ = file.set_len(0); // as it was
        })?;
    }
    // SURVIVES unreached: a simulated disk has no directory; `ci/power-cut.sh` is for this.
    sync_directory(path)?;
    match chosen {
        Chosen::Mapped(medium, sync) => {
            tracing::info!(path = %path.display(), ?medium, "created a heap");
            mapping.set_sync(sync);
            Builder::new(mapping, medium, header)
        }
        Chosen::Wal => {
            let header = logged::create(mapping, SyncedFile::new(disk.data()), header)?;
            logged::open(options, &place, header, disk)
        }
    }
}

pub(super) fn open_memory(options: &Options) -> Result<Heap> {
    let header = new_header(options);
    let mapping = relocate::reserve(options.base, &header, Backing::Memory)?;
    Ok(Builder::new(mapping, Medium::Process, header)?.finish(options, None))
}

/// How a file is going to be used.
enum Chosen {
    /// The medium, and whether it is mapped with `MAP_SYNC`.
    Mapped(Medium, bool),
    Wal,
}

fn choose(options: &Options, file: &File) -> Result<Chosen> {
    let len = file.metadata().map_or(0, |metadata| metadata.len());
    let sync = supports_map_sync(file, len);
    let instruction = FlushInstruction::detect();
    match (options.durability, instruction) {
        (Durability::Process, _) => Ok(Chosen::Mapped(Medium::Process, false)),
        (Durability::Wal, _) => Ok(Chosen::Wal),
        (Durability::Pmem, Some(instruction)) => Ok(Chosen::Mapped(Medium::Pmem(instruction), sync)),
        (Durability::Pmem, None) => {
            Err(Error::Unsupported("`Durability::Pmem` needs a processor with clwb, clflushopt or clflush"))
        }
        (Durability::Auto, _) => match (offered(file), instruction) {
            (Durability::Process, _) => Ok(Chosen::Mapped(Medium::Process, false)),
            (Durability::Pmem, Some(instruction)) => Ok(Chosen::Mapped(Medium::Pmem(instruction), true)),
            _ => Ok(Chosen::Wal),
        },
    }
}

/// What [`Durability::Auto`] takes for a file.
pub(super) fn offered(file: &File) -> Durability {
    let len = file.metadata().map_or(0, |metadata| metadata.len());
    if is_tmpfs(file) {
        // Nothing in it survives a power failure whatever one does.
        Durability::Process
    } else if FlushInstruction::detect().is_some() && supports_map_sync(file, len) {
        Durability::Pmem
    } else {
        Durability::Wal
    }
}

pub(super) fn new_header(options: &Options) -> Header {
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

/// Makes the name of a new file durable.
fn sync_directory(path: &Path) -> Result<()> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // SURVIVES unreached: see the call of this.
    File::open(parent)
        .and_then(|directory| directory.sync_all())
        .map_err(|e| Error::io(format!("syncing the directory {}", parent.display()), e))
}

/// Marks the heap as in use, durably before it is changed: after a power failure, the disk may have any of the pages that were
/// stored later, and must not have the mark of a closed heap beside them.
fn mark_in_use(mapping: &Mapping, medium: &Medium, media: &Media, header: &mut Header) -> Result<()> {
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
    let is_simulated = medium.is_simulated() || mapping.is_simulated();
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
    // SAFETY: the header is mapped, and the heap is not open yet.
    unsafe { header.write_both(media, mapping.base(), sync) }
}

/// A heap that is almost open.
pub(super) struct Builder {
    pub(super) mapping: Mapping,
    medium: Medium,
    pub(super) tables: Tables,
    /// The number of the next region.
    next_region: u32,
    pub(super) recovered: Recovered,
    regions: Vec<Surveyed>,
    /// Spans of objects.
    spans: Vec<Span>,
    page_map: PageMap,
    /// What is live, if an orderly close has stored it.
    live: Option<LiveSlots>,
}

impl Builder {
    pub(super) fn new(mapping: Mapping, medium: Medium, header: Header) -> Result<Builder> {
        mapping.map(0, header.mapped)?;
        Builder::new_mapped(mapping, medium, header)
    }

    /// Makes a heap of zeros.
    pub(super) fn new_mapped(mapping: Mapping, medium: Medium, mut header: Header) -> Result<Builder> {
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
        // SAFETY: the first arena is mapped, and zero. The header, which makes all of it valid, is written last.
        unsafe {
            medium.mapped(base, header.mapped);
            header::begin_creation(&media, base)?;
            write_entry(&media, base, arena.entry(header.types), entry.to_words());
            arena.write(&media, base, header.salt);
        }
        // Before the header says that it is all there.
        media.check_fences()?;
        // SURVIVES unreached: only a real file that is mapped without `MAP_SYNC` has anything to sync here.
        mapping.sync()?;
        mark_in_use(&mapping, &medium, &media, &mut header)?;
        let types = TypeTable::create(header.types, PAGE);
        let tables = Tables { header, media, arenas: vec![arena], pages, types };
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
    pub(super) fn existing(
        mapping: Mapping,
        medium: Medium,
        header: Header,
        leftover: &Leftover,
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
    pub(super) fn existing_mapped(mapping: Mapping, medium: Medium, mut header: Header) -> Result<Builder> {
        let page_map = PageMap::new(header.reserved)?;
        let media = Media::new(medium.clone());
        let base = mapping.base();
        let mut arenas = Vec::new();
        let mut start = 0;
        // SAFETY: mapped up to `mapped`; nobody else has the heap until it is open, and until it is recovered only its header is written.
        let stored = unsafe { Stored::of(&mapping, header.mapped) };
        while start < header.mapped {
            let arena = Arena::read(stored, start, header.mapped, header.salt)?;
            start = arena.end();
            arenas.push(arena);
        }
        // SAFETY: as above.
        unsafe { medium.mapped(base, header.mapped) };

        let spans = spans_in(stored, &arenas, &HashMap::new())?;
        let mut regions = read_regions(stored, &header, &spans)?;
        let extents: HashMap<u64, u64> = spans
            .iter()
            .filter(|span| span.entry.kind == SpanKind::Types)
            .map(|span| (span.offset, span.bytes()))
            .collect();
        // SAFETY: as above.
        let mut types =
            unsafe { TypeTable::read(base, header.salt, header.types, |at| extents.get(&at).copied())? };
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
        // SAFETY: as above.
        let live = unsafe { LiveSlots::read(base, &header) };

        let was_closed = header.in_use == Use::Closed;
        if media.needs_flush() && !bug(Bug::TrustLeftovers) {
            // A process that was killed may have left stores in caches. What is decided now relies on them, so they must not be lost any more. If it was
            // killed when it had closed the heap, that is the header at most.
            if was_closed {
                // SAFETY: as above.
                unsafe { header.persist_again(&media, base) };
            } else {
                mapping.sync_leftovers()?;
            }
        }
        // From here on the file changes.
        let moves = relocate::rebase(&mut header, base.addr() as u64);
        if !(moves && bug(Bug::MoveUnlisted)) {
            mark_in_use(&mapping, &medium, &media, &mut header)?;
        }
        // SAFETY: as above; `Outlook` has refused entries that lie over a log.
        let recovered = unsafe { replay(&media, &mapping, &mut logs, &found)? };
        for ((identity, _), log) in regions.iter_mut().zip(&logs) {
            identity.generation = log.generation();
        }
        // A region without a root is one whose creation a crash has cut short.
        regions.retain(|(identity, _)| identity.root != 0);
        // Whatever spans other regions have left is cleared, too.
        let next_region = regions.iter().map(|(identity, _)| identity.id).max().unwrap_or(0) + 1;
        let pages = free_pages(&media, base, &arenas, &spans, &regions, &types);
        if moves {
            let owners: HashSet<u32> = regions.iter().map(|(identity, _)| identity.id).collect();
            let owned = spans.iter().filter(|span| owners.contains(&span.entry.region));
            let pieces = relocate::pieces(owned, &mut types);
            // SAFETY: as above.
            unsafe { relocate::relocate(&mapping, &medium, &media, &mut header, &pieces)? };
        }
        let tables = Tables { header, media, arenas, pages, types };
        Ok(Builder { mapping, medium, tables, next_region, recovered, regions, spans, page_map, live })
    }

    /// Gives the heap up, for another opening. Its header is durable: the next one goes over the other slot, and a disk may tear what it writes.
    pub(super) fn into_header(self) -> Result<Header> {
        self.tables.media.check_fences()?;
        // SURVIVES unreached: in no program of the lab are so many relocations cut short; in `tests/relocate.rs` of pheap-crash they are.
        self.mapping.sync()?;
        Ok(self.tables.header)
    }

    /// Opens the heap.
    pub(super) fn finish(self, options: &Options, file: Option<OpenFile>) -> Heap {
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
            let mut region = unsafe { inner.open_region(&tables.header, identity, segments) };
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
