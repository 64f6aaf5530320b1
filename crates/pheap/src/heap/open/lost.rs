//! Roots whose spans are still there, and whose own entry in the span table is not.
//!
//! Opening a heap clears spans that belong to no root, for a crash may have left them: a root is removed with its mark first, its own entry
//! last. One damaged byte in that entry would look the same, and cost all objects of the root. What tells the two apart is the
//! page with the root's header, which has no mark then.

use std::collections::HashSet;
use std::fs::File;
use std::io::Result;
use std::os::unix::fs::FileExt;

use crate::store::arena::{Arena, SpanEntry, SpanKind};
use crate::store::header::Header;
use crate::store::region_header::is_of_root;
use crate::units::PAGE;

/// What to say about a root that was lost, if one was. The logs were not replayed in the file, which has these arenas.
pub(super) fn lost_root(file: &File, header: &Header, arenas: &[Arena]) -> Result<Option<String>> {
    let (mut owners, mut others, mut tables) = (HashSet::new(), HashSet::new(), Vec::new());
    for arena in arenas {
        let mut table = vec![0; (arena.first_free() - arena.table()) as usize];
        file.read_exact_at(&mut table, arena.table())?;
        let entry = |offset: u64| {
            let at = (arena.entry(offset) - arena.table()) as usize;
            SpanEntry::from_words([word_at(&table, at), word_at(&table, at + 8)]).ok().flatten()
        };
        let (mut offset, mut candidates) = (arena.first_free(), Vec::new());
        while offset < arena.end() {
            let span = entry(offset);
            match span.map(|span| (span.kind, span.region)) {
                Some((SpanKind::Region, region)) => drop(owners.insert(region)),
                Some((SpanKind::Small | SpanKind::Large, region)) => {
                    others.insert(region);
                    candidates.push(offset);
                }
                _ => candidates.push(offset),
            }
            offset += span.map_or(1, |span| u64::from(span.pages).max(1)) * PAGE;
        }
        tables.push(candidates);
    }
    if others.is_subset(&owners) {
        return Ok(None);
    }
    // Rare, so it may take its time: any page might be the one.
    for offset in tables.into_iter().flatten() {
        let mut bytes = [0; 64];
        file.read_exact_at(&mut bytes, offset)?;
        if is_of_root(std::array::from_fn(|i| word_at(&bytes, i * 8)), header.salt) {
            return Ok(Some(format!("the root at byte {offset} is not in the span table")));
        }
    }
    Ok(None)
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("there are whole words"))
}
