//! The bitmaps of live slots that an orderly close stores. A heap with undamaged bitmaps need not be marked
//! when it is opened.
//!
//! The bitmaps are in a run of pages that belongs to no span. The header of the closed heap names this run,
//! and an opening reads the bitmaps there. Before the heap changes, a header is written that does not name
//! the run any more. From then on its pages are free.
//!
//! | word | |
//! |---|---|
//! | 0 | checksum of the others, salted |
//! | then, for each span of objects | its offset, its number of slots, whole words with a bit for each slot |

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use xxhash_rust::xxh3::Xxh3;

use crate::alloc::span::ObjectSpan;
use crate::faults::holds;
use crate::store::Tables;
use crate::store::header::Header;
use crate::store::words::MetadataWords;
use crate::units::HEADER_SIZE;
use crate::units::PAGE;

/// The bitmap of each span's live slots, by the offset of the span.
#[derive(Debug, Default)]
pub(crate) struct LiveSlots {
    spans: HashMap<u64, Vec<u64>>,
}

impl LiveSlots {
    /// Reads the bitmaps that the header of a closed heap names. Returns `None` if there are no bitmaps, or
    /// if they are damaged: marking can find the live slots again.
    pub(crate) fn read(heap: MetadataWords<'_>, header: &Header) -> Option<LiveSlots> {
        let (offset, len) = header.live_slots;
        let inside = offset >= HEADER_SIZE && offset.checked_add(len)? <= header.mapped;
        if len < 8 || !inside || !offset.is_multiple_of(8) || !len.is_multiple_of(8) {
            return None;
        }
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let (sum, mut rest) = heap.slice(offset, len as usize / 8).split_first()?;
        if !holds(word(sum), checksum(rest.iter().map(word), header)) {
            return None;
        }
        let mut spans = HashMap::new();
        while let [offset, slots, tail @ ..] = rest {
            let (bits, tail) = tail.split_at_checked(word(slots).div_ceil(64) as usize)?;
            spans.insert(word(offset), bits.iter().map(word).collect());
            rest = tail;
        }
        rest.is_empty().then_some(LiveSlots { spans })
    }

    /// Sets the live slots of a span from the stored bitmaps. Returns false if these have no bitmap of the
    /// span's length.
    pub(crate) fn load(&self, span: &ObjectSpan) -> bool {
        match self.spans.get(&span.span.offset) {
            Some(words) if words.len() == span.slots.div_ceil(64) as usize => {
                span.live.load(words);
                true
            }
            _ => false,
        }
    }
}

/// Appends the bitmap of a span to the words that will be stored.
pub(crate) fn add(words: &mut Vec<u64>, span: &ObjectSpan) {
    words.extend([span.span.offset, span.slots.into()]);
    words.extend(span.live.words());
}

fn checksum(words: impl Iterator<Item = u64>, header: &Header) -> u64 {
    let mut sum = Xxh3::with_seed(header.salt ^ header.live_slots.0);
    let mut words = words.map(u64::to_le_bytes);
    loop {
        // Words are hashed in blocks of 512, because hashing them one by one takes much longer.
        let part: Vec<[u8; 8]> = words.by_ref().take(512).collect();
        if part.is_empty() {
            return sum.digest();
        }
        sum.update(part.as_flattened());
    }
}

/// Stores the bitmaps that were [added](add) for all spans, in free pages. The next header that is written
/// names the bitmaps. Stores nothing if there is no run of free pages that is long enough, or if the disk is
/// too full.
pub(crate) fn store_live_slots(tables: &mut Tables, spans: &[u64]) {
    let bytes = (spans.len() as u64 + 1) * 8;
    let bytes_taken = bytes.next_multiple_of(PAGE);
    let Some((offset, _)) = tables.take_pages(bytes_taken, bytes_taken) else { return };
    tables.header.live_slots = (offset, bytes);
    let sum = checksum(spans.iter().copied(), &tables.header);
    let Tables { heap, media, .. } = tables;
    heap.store(media, offset, &[sum]);
    heap.store(media, offset + 8, spans);
    heap.persist_directly(media, offset, bytes as usize);
}
