//! What is found in a heap that is being opened: its regions, and the pages that no one owns.

use std::collections::HashMap;

use super::arena::{Arena, SpanEntry, SpanKind};
use super::header::Header;
use super::mapping::PAGE;
use super::pages::Pages;
use super::roots::first_segment;
use super::spans::Span;
use super::types::TypeTable;
use crate::error::{Error, Result};
use crate::media::Media;
use crate::region::Identity;
use crate::region::header::RegionHeader;
use crate::txn::log::{Log, Segment};

/// The regions that have a root, with the segments of their logs.
pub(super) fn read_regions(
    base: *mut u8,
    header: &Header,
    spans: &[Span],
) -> Result<Vec<(Identity, Vec<Segment>)>> {
    let logs: HashMap<u64, (u32, u64)> = spans
        .iter()
        .filter(|span| span.entry.kind == SpanKind::Log)
        .map(|span| (span.offset, (span.entry.region, u64::from(span.entry.pages) * PAGE)))
        .collect();
    let mut regions = Vec::new();
    let mut candidates: Vec<_> = spans.iter().filter(|span| span.entry.kind == SpanKind::Region).collect();
    candidates.sort_by_key(|span| span.offset);
    for span in candidates {
        if u64::from(span.entry.pages) * PAGE != crate::region::header::REGION_SIZE {
            return Err(Error::corrupt(format!("the region at byte {} has a wrong size", span.offset)));
        }
        // SAFETY: the span of a region; nobody else has the heap until it is open.
        let header_at = unsafe { RegionHeader::at(base, span.offset) };
        // SAFETY: as above.
        let (id, ty) = unsafe { header_at.read(header.salt)? };
        let of_region = |at: u64| logs.get(&at).filter(|(region, _)| *region == id).map(|&(_, len)| len);
        // SAFETY: as above. Whether the region has a root may be known to its log only, so all logs are recovered.
        unsafe {
            if header_at.is_removed()? {
                continue;
            }
            let segments = Log::chain(base, first_segment(span.offset), of_region)?;
            let identity = Identity {
                id,
                ty,
                header: header_at,
                offset: span.offset,
                root: header_at.root()?,
                generation: header_at.generation()?,
                name: header_at.name()?,
            };
            regions.push((identity, segments));
        }
    }
    Ok(regions)
}

/// Fails unless each root is an object of its type, in a span of its region, and each span is of a type that is known.
pub(super) fn check_roots(
    regions: &[(Identity, Vec<Segment>)],
    spans: &[Span],
    types: &TypeTable,
) -> Result<()> {
    let holds_objects = |span: &&Span| matches!(span.entry.kind, SpanKind::Small | SpanKind::Large);
    if let Some(span) =
        spans.iter().filter(holds_objects).find(|span| span.entry.ty as usize >= types.types.len())
    {
        return Err(Error::corrupt(format!(
            "the span at byte {} is of a type that is not in the type table",
            span.offset
        )));
    }
    for (identity, _) in regions {
        let at = spans.partition_point(|span| span.offset <= identity.root);
        let holds_root = at.checked_sub(1).map(|i| spans[i]).is_some_and(|span| {
            let SpanEntry { kind, slot, pages, ty, region } = span.entry;
            let inside = identity.root - span.offset;
            let slot_fits = match kind {
                SpanKind::Small => slot > 0 && inside.is_multiple_of(slot.into()),
                SpanKind::Large => inside == 0,
                _ => false,
            };
            slot_fits && inside < u64::from(pages) * PAGE && ty == identity.ty && region == identity.id
        });
        if !holds_root {
            return Err(Error::corrupt(format!("root {:?} is not where it should be", identity.name)));
        }
    }
    Ok(())
}

/// The pages that no one owns. Spans that a crash has left without an owner are cleared.
pub(super) fn free_pages(
    media: &Media,
    base: *mut u8,
    arenas: &[Arena],
    spans: &[Span],
    regions: &[(Identity, Vec<Segment>)],
    types: &TypeTable,
) -> Pages {
    let segments: HashMap<u64, u32> = regions
        .iter()
        .flat_map(|(identity, segments)| segments.iter().map(|segment| (segment.start, identity.id)))
        .collect();
    let live: std::collections::HashSet<u32> = regions.iter().map(|(identity, _)| identity.id).collect();
    let starts: std::collections::HashSet<u64> =
        regions.iter().map(|(identity, _)| identity.offset).collect();
    let mut pages = Pages::default();
    let mut cleared = false;
    let mut free_from: HashMap<u64, u64> =
        arenas.iter().map(|arena| (arena.start, arena.first_free())).collect();
    for span in spans {
        let entry = span.entry;
        let owned = match entry.kind {
            SpanKind::Region => starts.contains(&span.offset),
            SpanKind::Log => segments.contains_key(&span.offset),
            SpanKind::Types => types.has_extent(span.offset),
            SpanKind::Small | SpanKind::Large => live.contains(&entry.region),
        };
        if !owned {
            cleared = true;
            // SAFETY: the entry of a span that belongs to nobody.
            unsafe {
                let at = base.add(span.entry_at as usize);
                media.store(at, [0u64; 2].as_ptr().cast(), 16);
                media.flush(at, 16);
            }
            continue;
        }
        let arena = arenas[arenas.partition_point(|arena| arena.end() <= span.offset)];
        let free = free_from.get_mut(&arena.start).expect("each arena is in it");
        if span.offset > *free {
            pages.give(*free, span.offset - *free);
        }
        *free = span.offset + u64::from(entry.pages) * PAGE;
    }
    for arena in arenas {
        let free = free_from[&arena.start];
        if arena.end() > free {
            pages.give(free, arena.end() - free);
        }
    }
    if cleared {
        media.fence();
    }
    pages
}
