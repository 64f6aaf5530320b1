//! Roots whose spans are still there, and whose own entry in the span table is not.
//!
//! Opening a heap clears spans that belong to no root, for a crash may have left them: a root is removed with its mark first, its own entry
//! last. One damaged byte in that entry would look the same, and cost all objects of the root. What tells the two apart is the
//! page with the root's header, which has no mark then.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Result;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::os::seek_data;
use crate::store::arena::{Arena, ENTRY, SpanEntry, SpanKind};
use crate::store::header::Header;
use crate::store::region_header::is_of_root;
use crate::units::PAGE;

/// What to say about a root that was lost, if one was. The logs were not replayed in the file, which has these arenas.
pub(super) fn lost_root(file: &File, header: &Header, arenas: &[Arena]) -> Result<Option<String>> {
    let (mut owners, mut others) = (HashSet::new(), HashSet::new());
    let mut candidates: Vec<Range<u64>> = Vec::new();
    for arena in arenas {
        let table = entries(file, arena)?;
        let entry = |offset: u64| {
            table.get(&arena.entry(offset)).and_then(|&words| SpanEntry::from_words(words).ok().flatten())
        };
        let mut offset = arena.first_free();
        while offset < arena.used {
            let span = entry(offset);
            let mut may_be_one = true;
            match span.map(|span| (span.kind, span.region)) {
                Some((SpanKind::Region, region)) => {
                    owners.insert(region);
                    may_be_one = false;
                }
                Some((SpanKind::Small | SpanKind::Large, region)) => drop(others.insert(region)),
                _ => {}
            }
            if may_be_one {
                match candidates.last_mut() {
                    Some(last) if last.end == offset => last.end += PAGE,
                    _ => candidates.push(offset..offset + PAGE),
                }
            }
            offset += span.map_or(1, |span| u64::from(span.pages).max(1)) * PAGE;
        }
    }
    if others.is_subset(&owners) {
        return Ok(None);
    }
    // Rare, so it may take its time: any page might be the one.
    for Range { start: mut at, end } in candidates {
        while let Some(data) = seek_data(file, at)?.filter(|&data| data < end) {
            let offset = data & !(PAGE - 1);
            let mut bytes = [0; 64];
            file.read_exact_at(&mut bytes, offset)?;
            if is_of_root(std::array::from_fn(|i| word_at(&bytes, i * 8)), header.salt) {
                return Ok(Some(format!("the root at byte {offset} is not in the span table")));
            }
            at = offset + PAGE;
        }
    }
    Ok(None)
}

/// The entries of a span table that are not zero, by offset. The table may be a hole that is longer than memory.
fn entries(file: &File, arena: &Arena) -> Result<HashMap<u64, [u64; 2]>> {
    let (mut entries, mut bytes) = (HashMap::new(), [0; PAGE as usize]);
    let (mut at, end) = (arena.table(), arena.first_free());
    while let Some(data) = seek_data(file, at)?.filter(|&data| data < end) {
        let page = data & !(PAGE - 1);
        file.read_exact_at(&mut bytes, page)?;
        let words = bytes.chunks_exact(ENTRY as usize).map(|entry| [word_at(entry, 0), word_at(entry, 8)]);
        entries.extend((page..).step_by(ENTRY as usize).zip(words).filter(|(_, words)| words[0] != 0));
        at = page + PAGE;
    }
    Ok(entries)
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("there are whole words"))
}
