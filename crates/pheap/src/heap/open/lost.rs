//! Finds roots whose spans exist, but whose entry in the span table is lost.
//!
//! Opening a heap clears spans that belong to no root, because a crash may have left them: the removal of a
//! root writes its mark first, and clears its entry last. One damaged byte in that entry would look the same,
//! and all objects of the root would be lost. The page with the root's header tells the two cases apart: a
//! lost root has no mark there.

use std::collections::HashSet;
use std::fs::File;
use std::io::Result;
use std::ops::Range;

use super::contents::HeapMetadata;
use crate::os::seek_data;
use crate::store::arena::SpanKind;
use crate::store::region_header::is_of_root;
use crate::units::PAGE;

/// Returns a message about a lost root, if there is one.
///
/// The spans and headers are read from `contents` and not from the file: if the log has records that the file
/// lacks, the file may have the spans of a root's objects, and not yet the root's entry. `file` is only asked
/// where its holes are.
pub(super) fn lost_root(file: &File, contents: &HeapMetadata) -> Result<Option<String>> {
    let HeapMetadata { heap, header, arenas, spans, .. } = contents;
    let (mut owners, mut others) = (HashSet::new(), HashSet::new());
    let mut candidates: Vec<Range<u64>> = Vec::new();
    let mut spans = spans.iter().peekable();
    for arena in arenas {
        let mut free = arena.first_free();
        while let Some(span) = spans.next_if(|span| span.offset < arena.end()) {
            candidates.push(free..span.offset);
            free = span.end();
            match span.entry.kind {
                SpanKind::Region => drop(owners.insert(span.entry.region)),
                SpanKind::Small | SpanKind::Large => drop(others.insert(span.entry.region)),
                SpanKind::Log | SpanKind::Types => {}
            }
            if span.entry.kind != SpanKind::Region {
                candidates.push(span.offset..span.offset + PAGE);
            }
        }
        candidates.push(free..arena.used);
    }
    if others.is_subset(&owners) {
        return Ok(None);
    }
    // Objects of a region without an entry are rare, so reading all candidate pages is acceptable. The header
    // of a lost root is no hole of the file, because it gets to the file before the root's entry, or with it.
    for Range { start: mut at, end } in candidates {
        while let Some(data) = seek_data(file, at)?.filter(|&data| data < end) {
            let offset = data & !(PAGE - 1);
            if is_of_root(heap.read(offset), header.salt) {
                return Ok(Some(format!("the root at byte {offset} is not in the span table")));
            }
            at = offset + PAGE;
        }
    }
    Ok(None)
}
