//! Spans: runs of pages that belong to a region or to the type table, and the tables that list them.

use std::collections::HashMap;
use std::ops::Range;

use super::arena::{Arena, SpanEntry, SpanKind};
use super::stored::StoredHeap;
use super::words::MetadataWords;
use crate::error::{Error, Result};
use crate::media::Media;
use crate::units::PAGE;

/// A span that was taken, or was found in a span table. If it was just taken, the span table has no entry of
/// it yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TakenSpan {
    /// Offset of the span's first page.
    pub(crate) offset: u64,
    /// Offset of the span's entry in the span table.
    pub(crate) entry_at: u64,
    pub(crate) entry: SpanEntry,
}

impl TakenSpan {
    /// Returns the offset behind the span.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.bytes()
    }

    /// Returns the length of the span in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.entry.pages) * PAGE
    }

    /// Returns whether the span is for objects and not for metadata.
    pub(crate) fn holds_objects(&self) -> bool {
        matches!(self.entry.kind, SpanKind::Small | SpanKind::Large)
    }
}

/// Returns the span that begins at `offset`, if there is one. `spans` are sorted by offset.
pub(crate) fn span_at(spans: &[TakenSpan], offset: u64) -> Option<&TakenSpan> {
    spans.binary_search_by_key(&offset, |span| span.offset).ok().map(|number| &spans[number])
}

/// Writes an entry of a span table, and flushes it. The pages of the entry are free, or only the caller has
/// them. A fence must follow.
#[track_caller]
pub(crate) fn write_entry(media: &Media, heap: MetadataWords<'_>, entry_at: u64, words: [u64; 2]) {
    heap.store(media, entry_at, &words);
    media.flush(heap.addr(entry_at), 16);
}

/// Clears the entry of a span of `bytes` bytes in `arena`, and flushes it. A fence must follow.
#[track_caller]
pub(crate) fn clear_entry(media: &Media, heap: MetadataWords<'_>, arena: &Arena, offset: u64, bytes: u64) {
    if clear_hidden(media, heap, arena, offset + PAGE..offset + bytes) {
        media.fence();
    }
    write_entry(media, heap, arena.entry(offset), [0, 0]);
}

/// Clears the span-table entries of `pages` that an opening does not read, because the pages lie inside a
/// span or were never used, before one of them can begin a span. Returns whether the first word of any entry
/// was not zero; only damage can cause that.
pub(crate) fn clear_hidden(media: &Media, heap: MetadataWords<'_>, arena: &Arena, pages: Range<u64>) -> bool {
    let entries = pages.step_by(PAGE as usize).map(|page| arena.entry(page));
    let hidden = entries.filter(|&at| heap.get(at) != 0);
    // SURVIVES unreached: no program of the crash lab goes on with a damaged heap; `tests/errors/order.rs`
    // does.
    hidden.inspect(|&at| write_entry(media, heap, at, [0, 0])).count() > 0
}

/// Reads the span tables of a heap.
pub(crate) fn all_spans(heap: MetadataWords<'_>, arenas: &[Arena]) -> Result<Vec<TakenSpan>> {
    spans_in(StoredHeap::mapped(heap), arenas, &HashMap::new())
}

/// Reads the spans from the tables of `arenas`, with the words at some offsets `replaced` (offset to word).
/// Entries of pages behind the first one of a span are not read: they mean nothing, and are many.
pub(crate) fn spans_in(
    stored: StoredHeap<'_>,
    arenas: &[Arena],
    replaced: &HashMap<u64, u64>,
) -> Result<Vec<TakenSpan>> {
    let mut spans = Vec::new();
    for arena in arenas {
        // Mostly, the first page of an arena's span table has all entries that are needed.
        let first: [u64; PAGE as usize / 8] = stored.read_words(arena.table())?;
        let words_at = |at: u64| match (at - arena.table()) as usize / 8 {
            word if word + 1 < first.len() => [first[word], first[word + 1]],
            _ => stored.heap.read(at),
        };
        let mut offset = arena.first_free();
        while offset < arena.used {
            let entry_at = arena.entry(offset);
            let mut words = words_at(entry_at);
            for (at, word) in [entry_at, entry_at + 8].iter().zip(&mut words) {
                *word = replaced.get(at).copied().unwrap_or(*word);
            }
            let mut len = PAGE;
            if let Some(entry) = SpanEntry::from_words(words)? {
                let span = TakenSpan { offset, entry_at, entry };
                len = span.bytes();
                if len == 0 || len > arena.used - offset {
                    return Err(Error::corrupt(format!(
                        "the span at byte {offset} has {} pages",
                        entry.pages
                    )));
                }
                spans.push(span);
            }
            offset += len;
        }
    }
    Ok(spans)
}
