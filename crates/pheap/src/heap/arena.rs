//! Arenas and their span tables: which pages belong to whom.
//!
//! An arena is a run of pages of the file, a multiple of the heap's arena unit. It begins with an [`ArenaHead`], followed by its
//! span table: one entry of two words for each page, filled in at the first page of a span and zero elsewhere.

use xxhash_rust::xxh3::xxh3_64;

use super::header::HEADER_SIZE;
use super::mapping::PAGE;
use crate::error::{Error, Result};
use crate::media::{Media, holds};

const MAGIC: u64 = u64::from_le_bytes(*b"\x89PARENA\n");
const HEAD_WORDS: usize = 8;
/// Bytes of an entry of the span table.
pub(crate) const ENTRY: u64 = 16;

/// An arena, as known while the heap is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arena {
    /// Offset of its first byte.
    pub(crate) start: u64,
    /// Length in bytes.
    pub(crate) size: u64,
}

/// What a span is for.
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
    /// One object.
    Large = 5,
}

/// An entry of the span table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpanEntry {
    pub(crate) kind: SpanKind,
    /// Bytes of a slot (small spans).
    pub(crate) slot: u32,
    pub(crate) pages: u32,
    /// Number in the type table (small and large spans).
    pub(crate) ty: u32,
    /// Id of the region; 0 for the type table.
    pub(crate) region: u32,
}

impl SpanEntry {
    pub(crate) fn to_words(self) -> [u64; 2] {
        debug_assert!(self.slot < 1 << 24);
        [
            self.kind as u64 | u64::from(self.slot) << 8 | u64::from(self.pages) << 32,
            u64::from(self.ty) | u64::from(self.region) << 32,
        ]
    }

    /// `None` for a free page (or one within a span), an error for what no pheap writes.
    pub(crate) fn from_words([a, b]: [u64; 2]) -> Result<Option<SpanEntry>> {
        let kind = match a as u8 {
            0 => return Ok(None),
            1 => SpanKind::Region,
            2 => SpanKind::Log,
            3 => SpanKind::Types,
            4 => SpanKind::Small,
            5 => SpanKind::Large,
            other => {
                return Err(Error::corrupt(format!("a span table holds a span of the unknown kind {other}")));
            }
        };
        Ok(Some(SpanEntry {
            kind,
            slot: (a >> 8) as u32 & 0xff_ffff,
            pages: (a >> 32) as u32,
            ty: b as u32,
            region: (b >> 32) as u32,
        }))
    }
}

impl Arena {
    fn head(&self) -> u64 {
        self.start + if self.start == 0 { HEADER_SIZE } else { 0 }
    }

    fn table(&self) -> u64 {
        self.head() + PAGE
    }

    /// Offset of the first page that can be given away.
    pub(crate) fn first_free(&self) -> u64 {
        (self.table() + self.size / PAGE * ENTRY).next_multiple_of(PAGE)
    }

    /// Offset of the first byte behind it.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.size
    }

    /// Offset of the entry for the page at `offset`.
    pub(crate) fn entry(&self, offset: u64) -> u64 {
        debug_assert!((self.first_free()..self.end()).contains(&offset));
        self.table() + (offset - self.start) / PAGE * ENTRY
    }

    /// Whether the byte at `offset` is part of an entry of the span table.
    pub(crate) fn has_entries_at(&self, offset: u64) -> bool {
        (self.entry(self.first_free())..self.table() + self.size / PAGE * ENTRY).contains(&offset)
    }

    /// Bytes that an arena at `start` needs for itself and `pages` pages.
    pub(crate) fn size_for(start: u64, pages: u64, unit: u64) -> u64 {
        let mut size = (pages * PAGE).next_multiple_of(unit);
        while (Arena { start, size }).first_free() + pages * PAGE > start + size {
            size += unit;
        }
        size
    }

    fn head_words(&self, salt: u64) -> [u64; HEAD_WORDS] {
        let mut words = [MAGIC, self.start, self.size, 0, 0, 0, 0, 0];
        let bytes: Vec<u8> = [&words[..], &[salt]].concat().iter().flat_map(|w| w.to_le_bytes()).collect();
        words[HEAD_WORDS - 1] = xxh3_64(&bytes);
        words
    }

    /// Writes the head of a new arena, whose pages are zero; durable on return.
    ///
    /// # Safety
    /// The arena is mapped, relative to `base`, and no one else knows it yet.
    #[cfg_attr(feature = "sim", track_caller)]
    pub(crate) unsafe fn write(&self, media: &Media, base: *mut u8, salt: u64) {
        let words = self.head_words(salt);
        // SAFETY: by the caller's promise.
        unsafe {
            let head = base.add(self.head() as usize);
            media.store(head, words.as_ptr().cast(), HEAD_WORDS * 8);
            media.persist_directly(base, head, HEAD_WORDS * 8);
        }
    }

    /// Reads the head of the arena at `start`.
    ///
    /// # Safety
    /// The heap is mapped at `base` up to `mapped`, and its metadata are not written meanwhile.
    pub(crate) unsafe fn read(base: *const u8, start: u64, mapped: u64, salt: u64) -> Result<Arena> {
        let bad = || Error::corrupt(format!("the arena at byte {start} has a wrong head"));
        let head = Arena { start, size: 0 }.head();
        if head + PAGE > mapped {
            return Err(bad());
        }
        // SAFETY: within what is mapped, as was just checked.
        let words: [u64; HEAD_WORDS] = unsafe { base.add(head as usize).cast::<[u64; HEAD_WORDS]>().read() };
        let arena = Arena { start, size: words[2] };
        let fits = words[2].is_multiple_of(PAGE) && words[2] > 0 && words[2] <= mapped - start;
        if !fits || !holds(words, arena.head_words(salt)) || arena.first_free() >= arena.end() {
            Err(bad())
        } else {
            Ok(arena)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_survive_their_encoding() {
        let entry = SpanEntry {
            kind: SpanKind::Large,
            slot: 0xfe_dcba,
            pages: 0x9abc_def0,
            ty: 77,
            region: u32::MAX,
        };
        assert_eq!(SpanEntry::from_words(entry.to_words()).unwrap(), Some(entry));
        assert_eq!(SpanEntry::from_words([0, 5]).unwrap(), None);
        assert!(SpanEntry::from_words([9, 5]).is_err());
    }

    #[test]
    fn an_arena_has_room_for_what_it_was_made_for() {
        for start in [0, 1 << 26] {
            for pages in [1, 16_000, 16_384, 100_000] {
                let arena = Arena { start, size: Arena::size_for(start, pages, 1 << 26) };
                assert!(arena.end() - arena.first_free() >= pages * PAGE);
                assert!(arena.entry(arena.end() - PAGE) + ENTRY <= arena.first_free());
            }
        }
    }
}
