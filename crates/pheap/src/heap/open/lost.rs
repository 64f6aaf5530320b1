//! Roots whose spans are still there, and whose own entry in the span table is not.
//!
//! Opening a heap clears spans that belong to no root, for a crash may have left them: a root is removed with its mark first, its own entry
//! last. One damaged byte in that entry would look the same, and cost all objects of the root. What tells the two apart is the
//! page with the root's header, which has no mark then.

use std::collections::HashSet;
use std::fs::File;
use std::io::Result;
use std::ops::Range;

use super::contents::Contents;
use crate::os::seek_data;
use crate::store::arena::SpanKind;
use crate::store::region_header::is_of_root;
use crate::units::PAGE;

/// What to say about a root that was lost, if one was.
///
/// The heap is asked, and not the file that it was read from: where a log has more, that may have the spans of a root, and its own entry not yet.
pub(super) fn lost_root(file: &File, contents: &Contents) -> Result<Option<String>> {
    let Contents { heap, header, arenas, spans, .. } = contents;
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
    // Rare, so it may take its time: any page might be the one. It is in the file: a root's header gets there before its entry, or with it.
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
