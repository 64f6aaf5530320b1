//! Surveys a heap that is being opened: its regions, the changes to metadata in the regions' logs, and the
//! free pages.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use crate::error::{Error, Result};
use crate::media::Media;
use crate::region::RegionIdentity;
use crate::store::arena::{Arena, SpanEntry, SpanKind, arena_of};
use crate::store::header::Header;
use crate::store::pages::FreePages;
use crate::store::region_header::{RegionHeader, root_in};
use crate::store::spans::{TakenSpan, clear_entry, span_at, spans_in};
use crate::store::stored::StoredHeap;
use crate::store::types::TypeTable;
use crate::store::words::MetadataWords;
use crate::txn::log::first_segment;
use crate::txn::log::{RegionLog, RegionLogSegment};
use crate::txn::recovery::FoundEntries;
use crate::units::PAGE;

/// A region, with the segments of its log.
pub(super) type SurveyedRegion = (RegionIdentity, Vec<RegionLogSegment>);

/// Returns the regions that were not removed. Some of their words may be in their logs only, or half written
/// by a crash: the root, and its type. [`ReplayedMetadata::from_header`] reads these words.
pub(super) fn read_regions(
    stored: StoredHeap<'_>,
    heap: MetadataWords<'static>,
    header: &Header,
    spans: &[TakenSpan],
) -> Result<Vec<SurveyedRegion>> {
    let mut regions = Vec::new();
    for span in spans.iter().filter(|span| span.entry.kind == SpanKind::Region) {
        if span.bytes() != crate::store::region_header::REGION_SIZE {
            return Err(Error::corrupt(format!("the region at byte {} has a wrong size", span.offset)));
        }
        let header_at = RegionHeader::from_offset(heap, span.offset);
        let id = header_at.id();
        let is_of_log = |span: &&TakenSpan| (span.entry.kind, span.entry.region) == (SpanKind::Log, id);
        let of_region = |at: u64| span_at(spans, at).filter(is_of_log).map(TakenSpan::bytes);
        if header_at.is_removed()? {
            header_at.read(header.salt)?; // checks the header; the log of a removed region is ignored
            continue;
        }
        let segments = RegionLog::chain(stored, first_segment(span.offset), of_region)?;
        let identity = RegionIdentity {
            id,
            ty: 0,
            header: header_at,
            offset: span.offset,
            root: 0,
            generation: header_at.generation()?,
            name: header_at.name()?,
        };
        regions.push((identity, segments));
    }
    Ok(regions)
}

/// The heap's metadata as they will be when the logs of regions are replayed. They are known before the
/// replay, so that their defects are found while nothing has been written yet.
pub(super) struct ReplayedMetadata {
    pub(super) spans: Vec<TakenSpan>,
    /// The offset of each region's root object, and the number of its type. The offset is 0 if a crash has
    /// cut the region's creation short.
    pub(super) roots: Vec<(u64, u32)>,
}

impl ReplayedMetadata {
    pub(super) fn from_header(
        stored: StoredHeap<'_>,
        salt: u64,
        arenas: &[Arena],
        spans: Vec<TakenSpan>,
        regions: &[SurveyedRegion],
        found: &FoundEntries,
    ) -> Result<ReplayedMetadata> {
        let headers = regions.iter().map(|(identity, _)| identity.header);
        let logged = headers.clone().flat_map(RegionHeader::logged_words).collect();
        let replayed = replayed_metadata(arenas, &spans, &logged, found)?;
        let word = |at| replayed.get(&at).copied().unwrap_or_else(|| stored.heap.get(at));
        let root = |header: RegionHeader| {
            let (_, ty) = header.read_through(salt, word)?;
            let [_, root, _] = header.logged_words();
            Ok((root_in(word(root))?, ty))
        };
        let roots = headers.map(root).collect::<Result<_>>()?;
        Ok(ReplayedMetadata { spans: later(stored, arenas, spans, &replayed)?, roots })
    }
}

/// Returns the spans as they will be when the logs of regions are replayed. Only span tables that the logs
/// change are read again.
fn later(
    stored: StoredHeap<'_>,
    arenas: &[Arena],
    spans: Vec<TakenSpan>,
    replayed: &HashMap<u64, u64>,
) -> Result<Vec<TakenSpan>> {
    let mut changed = vec![false; arenas.len()];
    for &at in replayed.keys() {
        let number = arenas.partition_point(|arena| arena.end() <= at);
        changed[number] |= at < arenas[number].first_free();
    }
    if !changed.contains(&true) {
        return Ok(spans);
    }
    let mut later = Vec::with_capacity(spans.len());
    for (arena, changed) in arenas.iter().zip(changed) {
        if changed {
            later.extend(spans_in(stored, &[*arena], replayed)?);
        } else {
            let at = |offset| spans.partition_point(|span| span.offset < offset);
            later.extend_from_slice(&spans[at(arena.start)..at(arena.end())]);
        }
    }
    // The spans without objects must stay as they are, except for the type number in a region's span, which a
    // migration changes.
    let metadata = |spans: &[TakenSpan]| -> Vec<(u64, SpanEntry)> {
        let spans = spans.iter().filter(|span| !span.holds_objects());
        spans.map(|span| (span.offset, SpanEntry { ty: 0, ..span.entry })).collect()
    };
    if metadata(&spans) != metadata(&later) {
        return Err(Error::corrupt("a log changes spans that hold no objects"));
    }
    Ok(later)
}

/// Returns the words that the logs of regions are going to change in span tables, and in the `logged` words
/// of region headers. A log that changes other metadata is corrupt.
fn replayed_metadata(
    arenas: &[Arena],
    spans: &[TakenSpan],
    logged: &HashSet<u64>,
    found: &FoundEntries,
) -> Result<HashMap<u64, u64>> {
    let mut metadata: Vec<(u64, u64)> =
        arenas.iter().map(|arena| (arena.start, arena.first_free())).collect();
    metadata.extend(spans.iter().filter(|span| !span.holds_objects()).map(|span| (span.offset, span.end())));
    metadata.sort_unstable();
    let in_table = |at: u64| arena_of(arenas, at).has_entries_at(at);
    let mut replayed = HashMap::new();
    for range in found.ranges() {
        let first = metadata.partition_point(|&(_, end)| end <= range.offset);
        for &(start, end) in metadata[first..].iter().take_while(|&&(start, _)| start < range.end()) {
            for at in (start.max(range.offset)..end.min(range.end())).step_by(8) {
                if !in_table(at) && !logged.contains(&at) {
                    return Err(Error::corrupt(format!("a log entry lies over the metadata at byte {at}")));
                }
                replayed.insert(at, range.words[(at - range.offset) as usize / 8]);
            }
        }
    }
    Ok(replayed)
}

/// Fails unless each root is an object of its type in a span of its region, with an id and a name that no
/// other root has, and each span of objects is of a type in the type table.
pub(super) fn check_roots(regions: &[SurveyedRegion], spans: &[TakenSpan], types: &TypeTable) -> Result<()> {
    let unknown = |span: &&TakenSpan| span.holds_objects() && span.entry.ty as usize >= types.types.len();
    if let Some(span) = spans.iter().find(unknown) {
        return Err(Error::corrupt(format!(
            "the span at byte {} is of a type that is not in the type table",
            span.offset
        )));
    }
    let (mut ids, mut names) = (HashSet::new(), HashSet::new());
    for (identity, _) in regions.iter().filter(|(identity, _)| identity.root != 0) {
        if !ids.insert(identity.id) || !names.insert(&identity.name) {
            return Err(Error::corrupt(format!("there are two roots {:?}", identity.name)));
        }
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

/// Returns the runs of pages (offset, length) in `arenas` that are in none of `spans`.
pub(super) fn gaps<'a>(
    arenas: &'a [Arena],
    spans: impl Iterator<Item = &'a TakenSpan> + 'a,
) -> impl Iterator<Item = (u64, u64)> + 'a {
    let mut spans = spans.peekable();
    let of_arena = move |arena: &Arena| {
        let (mut gaps, mut from) = (Vec::new(), arena.first_free());
        while let Some(span) = spans.next_if(|span| span.offset < arena.end()) {
            gaps.push((from, span.offset.saturating_sub(from)));
            from = span.end();
        }
        gaps.push((from, arena.end().saturating_sub(from)));
        gaps
    };
    arenas.iter().flat_map(of_arena).filter(|&(_, len)| len > 0)
}

/// Returns the free pages. Clears the entries of spans that a crash has left without an owner.
pub(super) fn free_pages(
    media: &Media,
    heap: MetadataWords<'_>,
    arenas: &[Arena],
    spans: &[TakenSpan],
    regions: &[SurveyedRegion],
    types: &TypeTable,
) -> FreePages {
    let live: HashSet<u32> = regions.iter().map(|(identity, _)| identity.id).collect();
    // Each segment of a region's log but the first is a span of that log: `read_regions` has checked that.
    let starts = regions.iter().flat_map(|(_, segments)| segments.iter().map(|segment| segment.start));
    let starts: HashSet<u64> = regions.iter().map(|(identity, _)| identity.offset).chain(starts).collect();
    // `known` is a cache of the last live region: most spans are of the same region as the span before.
    let known = Cell::new(None);
    let is_live = |region| {
        let is_live = known.get() == Some(region) || live.contains(&region);
        known.set(is_live.then_some(region));
        is_live
    };
    let mut pages = FreePages::default();
    let mut cleared = false;
    let owned = spans.iter().filter(|span| {
        let owned = match span.entry.kind {
            SpanKind::Region | SpanKind::Log => starts.contains(&span.offset),
            SpanKind::Types => types.has_extent(span.offset),
            SpanKind::Small | SpanKind::Large => is_live(span.entry.region),
        };
        if !owned {
            cleared = true;
            let arena = arena_of(arenas, span.offset);
            clear_entry(media, heap, &arena, span.offset, span.bytes());
        }
        owned
    });
    gaps(arenas, owned).for_each(|(offset, len)| pages.give(offset, len));
    if cleared {
        // SURVIVES drop sync: a fence is a sync only while a heap is being prepared for a log. The
        // preparation ends with a header, and the sync of that header covers the cleared entries, too. If a
        // crash comes before that header, the next opening, which is the first that takes spans, clears spans
        // without an owner again. SURVIVES delay sync: for the same reason as a dropped sync.
        media.fence();
    }
    pages
}
