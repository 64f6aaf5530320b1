//! Takes pages for spans, gives them back, and makes the file grow.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::arena::{Arena, SpanEntry, SpanKind, arena_of};
use super::spans::{TakenSpan, clear_entry, clear_hidden, write_entry};
use super::words::MetadataWords;
use super::{Store, Tables};
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::layout::PointerMap;
use crate::layout::desc::Desc;
use crate::media::Media;
use crate::units::PAGE;

/// Largest number of bytes by which a heap grows, unless more are needed or the arena unit is larger. A heap
/// grows by half of its size, but not by more than this. So small heaps have short files, and large ones have
/// little unused space.
const LONGEST: u64 = 64 << 20;

/// Bytes of the file in which holes get space at a time.
const PART: u64 = 16 << 20;

impl Store {
    /// Takes a span of `bytes.end()` bytes, or less, but at least `bytes.start()`, both rounded up to pages.
    /// The file grows if need be. The number of pages in `entry` is filled in.
    pub(crate) fn take_span(&self, bytes: &RangeInclusive<u64>, entry: SpanEntry) -> Result<TakenSpan> {
        let mut tables = self.tables.lock();
        tables.take_span(self, bytes, entry)
    }

    /// Returns the bytes that are free, or would be added if the file grew (the heads and tables of new
    /// arenas included), and the bytes in use.
    pub(crate) fn left_and_used(&self) -> (u64, u64) {
        let tables = self.tables.lock();
        let (mapped, free) = (tables.header.mapped, tables.pages.total());
        let most = self.mapping.reserved().min(self.max_size);
        let unit = tables.header.arena_unit;
        (free + most.saturating_sub(mapped) / unit * unit, mapped - free)
    }

    /// [Takes a span](Self::take_span), if the file need not grow for it.
    pub(crate) fn take_free_span(&self, bytes: &RangeInclusive<u64>, entry: SpanEntry) -> Option<TakenSpan> {
        let mut tables = self.tables.lock();
        tables.take_free_span(self, bytes, entry)
    }

    /// Frees recorded spans of a region. The region's log is empty, or does not name these spans.
    pub(crate) fn free_object_spans(&self, media: &Media, spans: &[TakenSpan]) {
        let (heap, arenas): (_, Vec<Arena>) = {
            let tables = self.tables.lock();
            (tables.heap, spans.iter().map(|span| tables.arena_of(span.offset)).collect())
        };
        for (span, arena) in spans.iter().zip(&arenas).filter(|_| !bug(Bug::KeepEmptySpans)) {
            clear_entry(media, heap, arena, span.offset, span.bytes());
        }
        // The fence comes before other threads can record spans in these pages.
        media.fence();
        let mut tables = self.tables.lock();
        spans.iter().for_each(|span| tables.pages.give(span.offset, span.bytes()));
    }

    /// Frees a span that was taken and is not recorded in the span table.
    pub(crate) fn give_back(&self, span: &TakenSpan) {
        self.tables.lock().pages.give(span.offset, span.bytes());
    }

    /// Writes the entry of a span that only the caller has, and flushes it. A fence must follow.
    #[track_caller]
    pub(crate) fn write_entry(&self, media: &Media, span: &TakenSpan) {
        write_entry(media, self.mapped_words(), span.entry_at, span.entry.to_words());
    }

    /// Returns the mapped part of the heap.
    fn mapped_words(&self) -> MetadataWords<'static> {
        self.tables.lock().heap
    }

    /// Populates (faults in) the pages of a span, unless that was done before.
    pub(crate) fn populate(&self, offset: u64, len: u64) {
        if !self.page_map.set_populated(offset, len) {
            self.mapping.populate(offset, len);
            if let Some(wal) = self.wal() {
                wal.pages.mark_stored(offset, len);
            }
        }
    }

    /// Returns the map of the [followed](PointerMap::followed) pointers of the type with this number.
    pub(crate) fn pointer_map(&self, ty: u32) -> Arc<PointerMap> {
        self.tables.lock().types.pointer_map(ty)
    }

    /// Returns the number of a type in the type table, and the map of its [followed](PointerMap::followed)
    /// pointers. The type is added to the table if it is new.
    pub(crate) fn register(&self, desc: &'static Desc) -> Result<(u32, Arc<PointerMap>)> {
        let mut tables = self.tables.lock();
        let number = tables.register(self, desc)?;
        Ok((number, tables.types.pointer_map(number)))
    }
}

impl Tables {
    /// Writes the entry of a span that no transaction records, flushes it, and fences.
    #[track_caller]
    pub(crate) fn record_span(&self, span: &TakenSpan) {
        write_entry(&self.media, self.heap, span.entry_at, span.entry.to_words());
        self.media.fence();
    }

    pub(crate) fn take_span(
        &mut self,
        store: &Store,
        bytes: &RangeInclusive<u64>,
        entry: SpanEntry,
    ) -> Result<TakenSpan> {
        if let Some(span) = self.take_free_span(store, bytes, entry) {
            return Ok(span);
        }
        let least = *bytes.start();
        let pages = u32::try_from(least.div_ceil(PAGE)).map_err(|_| Error::TooLarge { bytes: least })?;
        self.grow(store, pages.max(1).into())?;
        Ok(self.take_free_span(store, bytes, entry).expect("the new arena has that many pages"))
    }

    fn take_free_span(
        &mut self,
        store: &Store,
        bytes: &RangeInclusive<u64>,
        entry: SpanEntry,
    ) -> Option<TakenSpan> {
        let whole = |bytes: &u64| bytes.max(&1).next_multiple_of(PAGE);
        let (offset, len) = self.take_pages(whole(bytes.end()), whole(bytes.start()))?;
        let pages = u32::try_from(len / PAGE).ok()?;
        Some(self.taken(store, offset, SpanEntry { pages, ..entry }))
    }

    /// Takes `most` bytes of pages, or less, but at least `least`. The file gets space for the taken pages
    /// that are holes. Returns offset and length.
    pub(crate) fn take_pages(&mut self, most: u64, least: u64) -> Option<(u64, u64)> {
        let (offset, len) = self.pages.take_up_to(most, least)?;
        if self.reserve_holes(offset, len) {
            return Some((offset, len));
        }
        self.pages.give(offset, len);
        // The file gets no space for the holes, because the disk may be full. Other free pages may have space
        // in the file already.
        self.pages.take_solid(most, least)
    }

    /// Gets space in the file for holes among pages that were taken, because a checkpoint must not fail for
    /// want of space. Returns `false` if the file gets too little. It then keeps the space that it got, and
    /// the pages with that space are holes no more. A smaller request finds them, or a later checkpoint makes
    /// them holes again.
    fn reserve_holes(&mut self, offset: u64, len: u64) -> bool {
        let end = offset + len;
        (offset..end).step_by(PART as usize).all(|at| {
            let part = PART.min(end - at);
            if !self.pages.holes.overlaps(at, part) {
                return true;
            }
            let filled = self.media.wal().is_some_and(|wal| wal.data().unpunch(at, part).is_ok());
            if filled {
                self.pages.holes.remove_range(at, part);
            }
            filled
        })
    }

    /// Returns the span of pages that were just taken. Writes and fences the arena's used word (the offset up
    /// to which pages may ever have been used), if it changes.
    fn taken(&mut self, store: &Store, offset: u64, entry: SpanEntry) -> TakenSpan {
        let number = self.arenas.partition_point(|arena| arena.end() <= offset);
        let arena = &mut self.arenas[number];
        let span = TakenSpan { offset, entry_at: arena.entry(offset), entry };
        let before = arena.used;
        if arena.use_until(span.end()) {
            if clear_hidden(&self.media, self.heap, arena, before..arena.used) {
                // SURVIVES unreached: this fence is for a damaged heap, and no program of the crash lab goes
                // on with one.
                self.media.fence();
            }
            arena.write_used(&self.media, self.heap);
            // The used word is fenced before any thread can record a span behind its old value.
            self.media.fence();
            self.look_ahead(store);
        }
        span
    }

    pub(crate) fn arena_of(&self, offset: u64) -> Arena {
        arena_of(&self.arenas, offset)
    }

    /// Returns the arena by which the heap would grow next, with room for `pages` pages.
    pub(super) fn next_arena(&self, store: &Store, pages: u64) -> Result<Arena> {
        let (start, unit) = (self.header.mapped, self.header.arena_unit);
        let room = store.mapping.reserved().min(store.max_size).saturating_sub(start);
        let half = (start / 2).min(LONGEST).min(room) / unit * unit;
        let arena = Arena::new(start, Arena::size_for(start, pages, unit).max(half));
        if arena.end() > store.mapping.reserved() {
            return Err(Error::ReservationFull { need: arena.end(), reserved: store.mapping.reserved() });
        }
        if arena.end() > store.max_size {
            return Err(Error::OutOfSpace {
                reason: format!(
                    "the heap needs {} bytes, more than its maximal size of {} (`Options::max_size`)",
                    arena.end(),
                    store.max_size
                ),
            });
        }
        Ok(arena)
    }

    /// Fails if there would be less than `bytes` bytes of free pages even if the file grew to the end of the
    /// reservation. This ignores the maximal size of the heap.
    pub(crate) fn check_room(&self, store: &Store, bytes: u64) -> Result<()> {
        let (unit, reserved) = (self.header.arena_unit, store.mapping.reserved());
        let (mut end, mut free) = (self.header.mapped, self.pages.total());
        while free < bytes {
            let most = (reserved.saturating_sub(end)).min((end / 2).clamp(unit, LONGEST.max(unit)));
            let arena = Arena::new(end, most / unit * unit);
            if arena.size == 0 {
                let need = reserved.saturating_add(bytes - free);
                return Err(Error::ReservationFull { need, reserved });
            }
            free += arena.end().saturating_sub(arena.first_free());
            end = arena.end();
        }
        Ok(())
    }

    /// Makes the heap grow by an arena with room for `pages` pages.
    fn grow(&mut self, store: &Store, pages: u64) -> Result<()> {
        let arena = self.next_arena(store, pages);
        let is_ready = |arena: &Arena| store.ready().is_some_and(|ready| ready >= arena.end());
        self.growth_waits += u64::from(!arena.as_ref().is_ok_and(is_ready));
        store.check_named()?;
        store.check_log()?;
        let arena = arena?;
        store.make_ready(arena.start, arena.end())?;
        let Tables { heap, header, media, arenas, .. } = self;
        heap.extend(store, arena.end())?;
        // Before a crash the file may have been longer, with an arena that no header named. Nothing in that
        // arena was ever used.
        arena.write(media, *heap, header.salt);
        header.mapped = arena.end();
        // Both slots are written: if one is damaged later, the other must name the arena, too.
        header.write_both(media, *heap, || Ok(()))?;
        // A failed log ignores these writes without an error. Bytes that are not in the file must be in no
        // header, because a header may be written when the heap is closed.
        if let Err(error) = store.check_log() {
            header.mapped = arena.start;
            return Err(error);
        }
        arenas.push(arena);
        self.pages.give(arena.first_free(), arena.end() - arena.first_free());
        Ok(())
    }

    /// Drops arenas at the end of the heap that are entirely free, except the first arena.
    pub(crate) fn drop_free_arenas(&mut self) {
        while let [_, .., last] = self.arenas[..]
            && self.pages.take_at(last.first_free(), last.end() - last.first_free())
        {
            self.arenas.pop();
            self.header.mapped = last.start;
        }
    }

    pub(crate) fn register(&mut self, store: &Store, desc: &'static Desc) -> Result<u32> {
        if let Some(number) = self.types.cached_number(desc) {
            return Ok(number);
        }
        let new = self.types.prepare(desc)?;
        let extent = match self.types.extent_needed(&new) {
            Some(len) => Some(self.new_extent(store, len)?),
            None => None,
        };
        Ok(self.types.add(new, &self.media, self.heap, self.header.salt, extent))
    }

    /// Takes a new extent for the type table.
    fn new_extent(&mut self, store: &Store, len: u64) -> Result<(u64, u64)> {
        let entry = SpanEntry { kind: SpanKind::Types, slot: 0, pages: 0, ty: 0, region: 0 };
        let span = self.take_span(store, &(len..=len), entry)?;
        let len = span.bytes();
        // The zeros and the entry become durable with the first record in the extent. Only then the type
        // table leads to the extent.
        self.heap.store(&self.media, span.offset, &vec![0; len as usize / 8]);
        // SURVIVES delay log-entry: a delayed entry is in one record with the word that leads to the extent.
        // Until that word is there, the pages are free, and their content is not read.
        write_entry(&self.media, self.heap, span.entry_at, span.entry.to_words());
        Ok((span.offset, len))
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

    use super::*;
    use crate::media::Medium;
    use crate::os::mapping::{Backing, Mapping};
    use crate::os::storage::{FileId, Storage};
    use crate::store::OPEN;
    use crate::store::header::{Header, tests::header};
    use crate::store::page_map::PageMap;
    use crate::store::pages::FreePages;
    use crate::store::types::TypeTable;
    use crate::sync::Mutex;
    use crate::tuning::Tuning;
    use crate::wal::tests::{InMemory, TestDisk};
    use crate::wal::{SyncPolicy, Wal, WalIdentity, WalSettings};

    impl Store {
        /// Creates a store with one arena in memory, which is all that an allocator needs.
        pub(crate) fn in_memory(size: u64) -> Store {
            Store::that_grows(size, size)
        }

        /// Creates a store with one arena in memory that may grow to `max_size` bytes.
        fn that_grows(size: u64, max_size: u64) -> Store {
            let reserved = max_size.next_power_of_two();
            let mapping = Mapping::reserve_anywhere(0, reserved, Backing::Memory).unwrap();
            let heap = MetadataWords::none(&mapping);
            let (media, arena, mut pages) =
                (Media::new(Medium::Process), Arena::new(0, size), FreePages::default());
            pages.give(arena.first_free(), arena.end() - arena.first_free());
            let types = TypeTable::create(pages.allocate(PAGE).unwrap(), PAGE);
            let header = Header { arena_unit: size, mapped: size, reserved, ..header(1) };
            let store = Store {
                mapping,
                state: AtomicU8::new(OPEN),
                has_name: false,
                pin_undo: false,
                max_size,
                tuning: Tuning::SHIPPED,
                page_map: PageMap::new(reserved, 0).unwrap(),
                logged: OnceLock::new(),
                medium: Medium::Process,
                evict: OnceLock::new(),
                ahead: Default::default(),
                hash_secret: [0; 2],
                process: Default::default(),
                tables: Mutex::new(Tables {
                    heap,
                    header,
                    media,
                    arenas: vec![arena],
                    pages,
                    types,
                    growth_waits: 0,
                }),
            };
            store.tables.lock().heap.extend(&store, size).unwrap();
            store
        }
    }

    /// No hole gets space, as on a full disk. Pages that are no holes, and a new arena, can still be taken.
    #[test]
    fn holes_that_get_no_space_keep_nobody_from_what_has_some() {
        const SIZE: u64 = 1 << 20;
        let store = Store::that_grows(SIZE, 2 * SIZE);
        let mut tables = store.tables.lock();
        let entry = SpanEntry { kind: SpanKind::Large, slot: 0, pages: 0, ty: 0, region: 1 };
        let mut taken = Vec::new();
        while let Some((offset, _)) = tables.pages.take_up_to(PAGE, PAGE) {
            taken.push(offset);
        }
        let last = taken.pop().unwrap();
        for offset in taken.into_iter().step_by(2) {
            tables.pages.give(offset, PAGE);
            tables.pages.holes.add(offset, PAGE);
        }
        tables.pages.give(last, PAGE);
        // One free page is no hole, so it needs no space on the disk. When it is taken, the heap grows by an
        // arena.
        assert_eq!(tables.take_span(&store, &(PAGE..=PAGE), entry).unwrap().offset, last);
        assert!(tables.take_span(&store, &(PAGE..=PAGE), entry).unwrap().offset > SIZE);
    }

    /// The heap's file on a disk with little space left.
    #[derive(Debug)]
    struct AlmostFull(InMemory, AtomicU64);

    impl Storage for AlmostFull {
        fn read_some(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
            self.0.read_some(buf, at)
        }

        fn write_some(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
            self.0.write_some(bytes, at)
        }

        fn sync_now(&self) -> io::Result<()> {
            Ok(())
        }

        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }

        fn extend_now(&self, from: u64, to: u64) -> io::Result<()> {
            self.0.extend_now(from, to)
        }

        fn unpunch(&self, _: u64, len: u64) -> io::Result<()> {
            let take = |left: u64| Some(left.saturating_sub(len));
            let left = self.1.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).unwrap();
            if left < len { Err(io::Error::from_raw_os_error(libc::ENOSPC)) } else { Ok(()) }
        }

        fn id(&self) -> FileId {
            self.0.id()
        }
    }

    /// A large request for pages has taken the rest of the disk before it failed. That space must not be lost
    /// until the heap is opened again.
    #[test]
    fn what_a_request_gets_before_it_fails_is_no_hole() {
        const SIZE: u64 = 128 << 20;
        let data = AlmostFull(InMemory::default(), AtomicU64::new(3 * PART));
        let of =
            WalIdentity { uuid: 1, salt: 2, id: 3, nonce: 4, in_use: false, mapped: SIZE, reserved: SIZE };
        let settings = WalSettings {
            policy: SyncPolicy::EveryCommit,
            log_limit: 1 << 20,
            memory_limit: 1 << 30,
            unsynced_limit: 0,
        };
        let disk = TestDisk::new(Arc::new(data), Arc::<InMemory>::default());
        let wal = Wal::begun(disk, of, settings).unwrap();
        let store = Store::in_memory(SIZE);
        let mut tables = store.tables.lock();
        tables.media = Media::new(Medium::Wal(wal));
        let [(start, len)] = tables.pages.runs().collect::<Vec<_>>()[..] else { panic!("one run") };
        tables.pages.holes.add(start, len);
        assert_eq!(tables.take_pages(5 * PART, 5 * PART), None);
        assert_eq!((tables.pages.holes.bytes(), tables.pages.total()), (len - 3 * PART, len));
        assert_eq!(tables.take_pages(5 * PART, 2 * PART), Some((start, 3 * PART)));
        assert_eq!(tables.take_pages(PAGE, PAGE), None);
    }

    #[test]
    #[should_panic(expected = "a view does not shrink")]
    fn a_view_does_not_shrink() {
        let store = Store::in_memory(1 << 20);
        let _ = store.tables.lock().heap.extend(&store, PAGE);
    }
}
