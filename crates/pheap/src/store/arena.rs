//! Arenas and their span tables: the format, and which pages belong to which span.
//!
//! An arena is a run of pages of the file. Its size is a multiple of the heap's arena unit. It begins with a
//! page for its head (in the first arena, behind the heap's header), followed by its span table: one entry of
//! two words for each page, filled in for the first page of a span and zero elsewhere. If the number of an
//! arena's pages is a multiple of [`APART`], the entries are not in the order of their pages: the entries
//! that an opening reads, of long spans one behind the other, lie together.

use xxhash_rust::xxh3::xxh3_64;

use super::stored::StoredHeap;
use super::word::{checked, with_check};
use super::words::MetadataWords;
use crate::error::{Error, Result};
use crate::faults::holds;
use crate::media::Media;
use crate::units::HEADER_SIZE;
use crate::units::PAGE;

const MAGIC: u64 = u64::from_le_bytes(*b"\x89PARENA\n");
const HEAD_WORDS: usize = 8;
/// Bytes of an entry of the span table.
pub(crate) const ENTRY: u64 = 16;
/// The bits of an entry's first word that check its other bits.
const CHECK: u64 = 0xff << 24;
/// Number of neighbouring pages whose entries in the span table always lie together, in one cache line.
const TOGETHER: u64 = 4;
/// Pages at this distance (1 MiB) have neighbouring lines of entries, unless all entries are in order.
const APART: u64 = 256;
/// A span of small objects has fewer pages than this: it is shorter than 2 MiB.
pub(crate) const SMALL_PAGES: u32 = 512;
/// Largest size of a slot that an entry of the span table has room for, in bytes.
pub(crate) const SMALL_SLOT: u32 = 0xffff;
/// Index of the *used word* in the head of an arena: the offset up to which pages may ever have been used.
/// The checksum of the head does not cover this word, because it changes.
const USED: usize = HEAD_WORDS;
/// The used word grows in steps of an arena's size divided by `STEPS`, and of at least `LEAST_STEP` bytes.
const STEPS: u64 = 16;
const LEAST_STEP: u64 = 4 * PAGE;

/// An arena of an open heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arena {
    /// Offset of the arena's first byte.
    pub(crate) start: u64,
    /// Length of the arena in bytes.
    pub(crate) size: u64,
    /// Offset behind all pages that may ever have been part of a span.
    pub(crate) used: u64,
    /// Whether the entries of the span table are in the order of their pages: the number of pages is not a
    /// multiple of [`APART`].
    in_order: bool,
}

/// The purpose of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum SpanKind {
    /// A region's header and the first segment of its log.
    Region = 1,
    /// A further segment of a region's log.
    Log = 2,
    /// An extent of the type table.
    Types = 3,
    /// Objects of one type, in slots of one size.
    Small = 4,
    /// One large object.
    Large = 5,
}

/// An entry of the span table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpanEntry {
    pub(crate) kind: SpanKind,
    /// Bytes of a slot, for a span of small objects.
    pub(crate) slot: u32,
    pub(crate) pages: u32,
    /// Number of the objects' type in the type table, for a span of objects.
    pub(crate) ty: u32,
    /// Id of the region to which the span belongs; 0 for the type table.
    pub(crate) region: u32,
}

impl SpanEntry {
    pub(crate) fn to_words(self) -> [u64; 2] {
        debug_assert!(self.slot < 1 << 16);
        let word = self.kind as u64 | u64::from(self.slot) << 8 | u64::from(self.pages) << 32;
        [word | Self::check(word), u64::from(self.ty) | u64::from(self.region) << 32]
    }

    /// Returns the check of an entry, bits 24 to 31 of its first word: the remainder of the other bits
    /// divided by 255, plus 1. A flip of any single bit changes the remainder.
    fn check(word: u64) -> u64 {
        ((word & !CHECK) % 255 + 1) << 24
    }

    /// Reads an entry of the span table. Returns `None` for a free page or a page inside a span, and an error
    /// if the first word fails its checks.
    pub(crate) fn from_words([a, b]: [u64; 2]) -> Result<Option<SpanEntry>> {
        if a == 0 {
            return Ok(None);
        }
        let kind = match a as u8 {
            1 => SpanKind::Region,
            2 => SpanKind::Log,
            3 => SpanKind::Types,
            4 => SpanKind::Small,
            5 => SpanKind::Large,
            other => {
                return Err(Error::corrupt(format!("a span table holds a span of the unknown kind {other}")));
            }
        };
        if !holds(a & CHECK, SpanEntry::check(a)) {
            return Err(Error::corrupt("an entry of a span table is damaged"));
        }
        let pages = (a >> 32) as u32;
        if kind == SpanKind::Small && pages >= SMALL_PAGES {
            return Err(Error::corrupt(format!("a span of small objects has {pages} pages")));
        }
        Ok(Some(SpanEntry {
            kind,
            slot: (a >> 8) as u32 & SMALL_SLOT,
            pages,
            ty: b as u32,
            region: (b >> 32) as u32,
        }))
    }
}

impl Arena {
    /// Creates an arena whose pages were never used.
    pub(crate) fn new(start: u64, size: u64) -> Arena {
        let arena = Arena { start, size, used: 0, in_order: !(size / PAGE).is_multiple_of(APART) };
        Arena { used: arena.first_free(), ..arena }
    }

    /// Returns the offset of the arena's head.
    fn head(&self) -> u64 {
        self.start + if self.start == 0 { HEADER_SIZE } else { 0 }
    }

    /// Returns the offset of the arena's span table.
    pub(crate) fn table(&self) -> u64 {
        self.head() + PAGE
    }

    /// Returns the offset of the first page that spans can have.
    pub(crate) fn first_free(&self) -> u64 {
        (self.table() + self.size / PAGE * ENTRY).next_multiple_of(PAGE)
    }

    /// Returns the offset behind the arena.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.size
    }

    /// Returns the offset of the span-table entry of the page at `offset`.
    pub(crate) fn entry(&self, offset: u64) -> u64 {
        debug_assert!((self.first_free()..self.end()).contains(&offset));
        let number = if self.in_order {
            (offset - self.start) / PAGE
        } else {
            let page = (offset - self.first_free()) / PAGE;
            let (row, column) = (page % APART / TOGETHER, page / APART);
            (row * self.columns() + column) * TOGETHER + page % TOGETHER
        };
        self.table() + number * ENTRY
    }

    /// Returns whether the byte at `offset` is part of the span-table entry of a page that may ever have been
    /// used.
    pub(crate) fn has_entries_at(&self, offset: u64) -> bool {
        self.page_of(offset).is_some_and(|page| page < self.used)
    }

    /// Returns the offset of the page whose span-table entry the byte at `offset` is part of, if there is
    /// one.
    pub(crate) fn page_of(&self, offset: u64) -> Option<u64> {
        let number = offset.wrapping_sub(self.table()) / ENTRY;
        if number >= self.size / PAGE {
            return None;
        }
        let page = if self.in_order {
            self.start + number * PAGE
        } else {
            let (row, column) = (number / TOGETHER / self.columns(), number / TOGETHER % self.columns());
            self.first_free() + (column * APART + row * TOGETHER + number % TOGETHER) * PAGE
        };
        (self.first_free()..self.end()).contains(&page).then_some(page)
    }

    /// Returns the number of cache lines of entries in a row: the lines of page groups that are [`APART`]
    /// pages from each other.
    fn columns(&self) -> u64 {
        self.size / PAGE / APART
    }

    /// Returns the bytes that an arena at `start` needs for `pages` pages, its head and its span table, as a
    /// multiple of `unit`.
    pub(crate) fn size_for(start: u64, pages: u64, unit: u64) -> u64 {
        let mut size = (pages * PAGE).next_multiple_of(unit);
        while Arena::new(start, size).first_free() + pages * PAGE > start + size {
            size += unit;
        }
        size
    }

    /// Returns the words of the arena's head that never change, with their checksum.
    fn head_words(&self, salt: u64) -> [u64; HEAD_WORDS] {
        let mut words = [MAGIC, self.start, self.size, if self.in_order { 0 } else { APART }, 0, 0, 0, 0];
        let bytes: Vec<u8> = [&words[..], &[salt]].concat().iter().flat_map(|w| w.to_le_bytes()).collect();
        words[HEAD_WORDS - 1] = xxh3_64(&bytes);
        words
    }

    /// Returns the offset and the words of the head of a new arena, whose pages are zero.
    pub(crate) fn first_words(&self, salt: u64) -> (u64, [u64; USED + 1]) {
        let mut words = [0; USED + 1];
        words[..HEAD_WORDS].copy_from_slice(&self.head_words(salt));
        words[USED] = with_check(self.used);
        (self.head(), words)
    }

    /// Writes the [head](Self::first_words) of a new arena that no other thread knows yet, and
    /// [persists](MetadataWords::persist_directly) it.
    #[track_caller]
    pub(crate) fn write(&self, media: &Media, heap: MetadataWords<'_>, salt: u64) {
        let (at, words) = self.first_words(salt);
        heap.store(media, at, &words);
        heap.persist_directly(media, at, size_of_val(&words));
    }

    /// Notes that the pages before the byte at `end` are going to be used. Returns whether the [used
    /// word](USED) has changed, so that the caller must [write](Self::write_used) it.
    pub(crate) fn use_until(&mut self, end: u64) -> bool {
        let new = end > self.used;
        if new {
            let step = (self.size / STEPS).next_multiple_of(PAGE).max(LEAST_STEP);
            self.used = (self.start + (end - self.start).next_multiple_of(step)).min(self.end());
        }
        new
    }

    /// Writes the [used word](USED), and flushes it. A fence must follow before a span of newly used pages is
    /// recorded.
    #[track_caller]
    pub(crate) fn write_used(&self, media: &Media, heap: MetadataWords<'_>) {
        let at = self.head() + USED as u64 * 8;
        heap.set(media, at, with_check(self.used));
        media.flush(heap.addr(at), 8);
    }

    /// Reads the head of the arena at `start`, in a heap of `mapped` bytes.
    pub(crate) fn read(stored: StoredHeap<'_>, start: u64, mapped: u64, salt: u64) -> Result<Arena> {
        let bad = || Error::corrupt(format!("the arena at byte {start} has a wrong head"));
        let head = Arena::new(start, 0).head();
        if head + PAGE > mapped {
            return Err(bad());
        }
        let words: [u64; USED + 1] = stored.read_words(head)?;
        let size = words[2];
        if !size.is_multiple_of(PAGE) || size == 0 || size > mapped - start {
            return Err(bad());
        }
        let arena = Arena::new(start, size);
        if !holds(&words[..HEAD_WORDS], &arena.head_words(salt)[..]) || arena.first_free() >= arena.end() {
            return Err(bad());
        }
        let used = checked(words[USED], "the use of an arena")?;
        if !(arena.first_free()..=arena.end()).contains(&used) || !used.is_multiple_of(PAGE) {
            return Err(bad());
        }
        Ok(Arena { used, ..arena })
    }
}

/// Returns the arena that has the byte at `offset`. `arenas` are all arenas of a heap, sorted by offset.
pub(crate) fn arena_of(arenas: &[Arena], offset: u64) -> Arena {
    arenas[arenas.partition_point(|arena| arena.end() <= offset)]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn entries_survive_their_encoding() {
        for (slot, pages) in
            [(0, 1), (8, 256), (32, 144), (0x8000, 9), (0xffff, u32::MAX), (0xfedc, 0x9abc_def0)]
        {
            survives_its_encoding(SpanEntry { kind: SpanKind::Large, slot, pages, ty: 77, region: u32::MAX });
        }
        assert_eq!(SpanEntry::from_words([0, 5]).unwrap(), None);
        assert!(SpanEntry::from_words([9, 5]).is_err());
    }

    fn survives_its_encoding(entry: SpanEntry) {
        assert_eq!(SpanEntry::from_words(entry.to_words()).unwrap(), Some(entry));
        let [word, other] = entry.to_words();
        for flipped in (0..64).map(|bit| word ^ 1 << bit) {
            assert!(SpanEntry::from_words([flipped, other]).is_err(), "{word:#x}, {flipped:#x}");
        }
    }

    #[test]
    fn an_arena_has_room_for_what_it_was_made_for() {
        for start in [0, 1 << 26] {
            for pages in [1, 16_000, 16_384, 100_000] {
                let arena = Arena::new(start, Arena::size_for(start, pages, 1 << 26));
                assert!(arena.end() - arena.first_free() >= pages * PAGE);
            }
        }
    }

    #[test]
    fn each_page_has_its_entry() {
        for (start, size) in
            [(0, 1 << 26), (1 << 26, 3 << 26), (1 << 26, 100 * PAGE), (0, 8 * PAGE), (0, 257 << 12)]
        {
            for in_order in [false, true] {
                let arena = Arena::new(start, size);
                let arena = Arena { in_order: in_order || arena.in_order, used: arena.end(), ..arena };
                let pages = (arena.first_free()..arena.end()).step_by(PAGE as usize);
                let entries: HashSet<u64> = pages.clone().map(|page| arena.entry(page)).collect();
                assert_eq!(entries.len(), pages.count());
                let at: HashSet<u64> =
                    (start..arena.end()).step_by(16).filter(|&at| arena.has_entries_at(at)).collect();
                assert!(
                    at == entries && entries.iter().all(|at| at + ENTRY <= arena.first_free()),
                    "{arena:?}"
                );
            }
        }
        let arena = Arena::new(1 << 26, 1 << 26);
        let heads: Vec<u64> =
            (0..63).map(|i| arena.entry(arena.first_free() + (i << 20)) - arena.table()).collect();
        assert_eq!(
            heads,
            (0..63).map(|i| i * 64).collect::<Vec<_>>(),
            "one page of entries for spans of a megabyte"
        );
    }
}
