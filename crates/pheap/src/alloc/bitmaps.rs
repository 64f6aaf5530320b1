//! Which slots are live, as an orderly close stores it: what is opened after that need not be marked.
//!
//! A run of pages that belongs to no span, named by the header of a closed heap. Opening the heap reads it, and writes a header that no
//! longer names it: then its pages are free.
//!
//! | word | |
//! |---|---|
//! | 0 | checksum of the others, salted |
//! | then, for each span of objects | its offset, its number of slots, a bit for each slot |

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::alloc::span::ObjectSpan;
use crate::faults::holds;
use crate::store::header::Header;
use crate::store::{Store, Tables};
use crate::units::HEADER_SIZE;
use crate::units::PAGE;

/// The bits of each span, by its offset.
#[derive(Debug, Default)]
pub(crate) struct LiveSlots {
    spans: HashMap<u64, Vec<u64>>,
}

impl LiveSlots {
    /// What the header of a closed heap names. `None` if there is nothing, or if it is damaged: it can be found out again.
    ///
    /// # Safety
    /// The heap is mapped at `base`, and nobody writes to it.
    pub(crate) unsafe fn read(base: *const u8, header: &Header) -> Option<LiveSlots> {
        let (offset, len) = header.live_slots;
        let inside = offset >= HEADER_SIZE && offset.checked_add(len)? <= header.mapped;
        if len < 8 || !inside || !offset.is_multiple_of(8) || !len.is_multiple_of(8) {
            return None;
        }
        // SAFETY: within what is mapped.
        let words =
            unsafe { std::slice::from_raw_parts(base.add(offset as usize).cast::<u64>(), len as usize / 8) };
        let (&sum, mut rest) = words.split_first()?;
        if !holds(sum, checksum(rest, header)) {
            return None;
        }
        let mut spans = HashMap::new();
        while let [offset, slots, tail @ ..] = rest {
            let (bits, tail) = tail.split_at_checked(slots.div_ceil(64) as usize)?;
            spans.insert(*offset, bits.to_vec());
            rest = tail;
        }
        rest.is_empty().then_some(LiveSlots { spans })
    }

    /// Sets the bits of a span. Returns whether they are known.
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

/// Adds a span to what is going to be stored.
pub(crate) fn add(words: &mut Vec<u64>, span: &ObjectSpan) {
    words.extend([span.span.offset, span.slots.into()]);
    words.extend(span.live.words());
}

fn checksum(words: &[u64], header: &Header) -> u64 {
    // SAFETY: words are bytes, too.
    let bytes = unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), words.len() * 8) };
    xxh3_64_with_seed(bytes, header.salt ^ header.live_slots.0)
}

/// Stores what was [added](add) for all spans, in free pages. Named by the header that is written next; nothing is stored if there is
/// no room without growing the file.
pub(crate) fn store_live_slots(store: &Store, tables: &mut Tables, spans: &[u64]) {
    let bytes = (spans.len() as u64 + 1) * 8;
    let Some(offset) = tables.pages.take(bytes.next_multiple_of(PAGE)) else { return };
    tables.header.live_slots = (offset, bytes);
    let sum = checksum(spans, &tables.header);
    // SAFETY: free pages, taken just now; the heap is being closed, so nobody else takes some.
    unsafe {
        let start = store.base().add(offset as usize);
        tables.media.store(start, (&raw const sum).cast(), 8);
        tables.media.store(start.add(8), spans.as_ptr().cast(), spans.len() * 8);
        tables.media.persist_directly(store.base(), start, bytes as usize);
    }
}
