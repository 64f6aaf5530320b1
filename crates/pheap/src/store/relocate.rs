//! Relocation: a heap is mapped at another address than before.
//!
//! Pointers in the heap are addresses, so all of them change: they are *swizzled*. No log is needed for that.
//! The bases of a heap are multiples of its reservation, so the ranges at its bases do not overlap, and each
//! pointer tells which base it is relative to. The header lists every base in use:
//!
//! 1. The new base is put at the front of the list, durably. Only then the file is changed.
//! 2. The logs are replayed (their content is relative to a listed base, too) and emptied.
//! 3. Each pointer that is relative to another listed base is rewritten: whole words, in any order.
//! 4. When all that is durable, the list shrinks to the new base.
//!
//! After a crash in between, the next opening completes the work, at whatever base it maps the heap. Pointers
//! outside all listed ranges are left alone.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::arena::SpanKind;
use super::header::{Header, MAX_BASES, is_base};
use super::spans::TakenSpan;
use super::words::MetadataWords;
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::layout::{PointerMap, TypeLayout};
use crate::media::{Media, Medium};
use crate::os::cores;
use crate::os::mapping::{Backing, Mapping};
use crate::units::LINE;

/// Most bytes of a heap that a relocating thread takes at a time, and populates at once.
const PIECE: usize = 1 << 20;
/// Bytes of objects for which one more relocating thread is worth the cost of its start.
const PER_THREAD: usize = 4 << 20;
const MAX_THREADS: usize = 8;

/// Reserves addresses for a heap: at the `wanted` base, if the caller names one; otherwise at one of the
/// header's bases, or else where there is room. A new base is refused if stores to the mapping go to the file
/// and its header has no room for another base.
pub(crate) fn reserve(wanted: Option<u64>, header: &Header, mut backing: Backing) -> Result<Mapping> {
    let reserved = header.reserved;
    if let Some(base) = wanted {
        return reserve_at(base, reserved, backing);
    }
    for &base in &header.bases {
        match Mapping::reserve(base, reserved, backing) {
            Ok(mapping) => return Ok(mapping),
            Err((Error::AddressInUse { .. }, back)) => backing = back,
            Err((error, _)) => return Err(error),
        }
    }
    match (&header.bases[..], &backing) {
        (&[base, ..], Backing::Shared { .. }) if header.bases.len() == MAX_BASES => {
            Err(Error::AddressInUse { base, size: reserved })
        }
        _ => Mapping::reserve_anywhere(header.uuid, reserved, backing),
    }
}

/// Reserves addresses at a base that the program has chosen.
pub(crate) fn reserve_at(base: u64, reserved: u64, backing: Backing) -> Result<Mapping> {
    if !is_base(base, reserved) {
        return Err(Error::InvalidOption(
            "`Options::base` must be a multiple of the heap's reservation (`Options::reserve`), and in the lower 128 TiB",
        ));
    }
    Mapping::reserve(base, reserved, backing).map_err(|(error, _)| error)
}

/// Returns whether `base` cannot be added to the bases of a heap whose file is written, because too many
/// relocations were cut short. The last relocation must be completed first.
pub(crate) fn has_no_room(header: &Header, base: Option<u64>) -> bool {
    let is_new = |base| is_base(base, header.reserved) && !header.bases.contains(&base);
    header.bases.len() == MAX_BASES && base.is_some_and(is_new)
}

/// Makes `base` the current base of the heap. Returns whether pointers may be relative to other bases.
pub(crate) fn rebase(header: &mut Header, base: u64) -> bool {
    header.bases.retain(|&other| other != base);
    header.bases.insert(0, base);
    header.bases.len() > 1
}

/// Rewrites the pointers in `pieces`, and makes the current base the only one.
///
/// No other thread has the heap. The logs of its regions are empty, and `pieces` has all its pointers.
pub(crate) fn relocate(
    mapping: &Mapping,
    heap: MetadataWords<'_>,
    medium: &Medium,
    media: &Media,
    header: &mut Header,
    pieces: &[SpanPiece],
) -> Result<()> {
    let all = header.clone();
    if bug(Bug::ShrinkBeforeMoved) {
        header.bases.truncate(1);
        header.write(media, heap);
    }
    swizzle(mapping, heap, medium, &all, pieces);
    // A heap that is in use with `Process` may be torn after a power failure anyway, so its file is not
    // synced.
    if !matches!(medium, Medium::Process) {
        // SURVIVES unreached: only a real file that is mapped without `MAP_SYNC` has anything to sync here;
        // see the fence of `swizzle`.
        mapping.sync()?;
    }
    media.check_fences()?;
    header.bases.truncate(1);
    if !mapping.is_read_only() {
        // SURVIVES drop sync: a heap on a disk is moved in order to be closed, and that writes and syncs
        // headers, too.
        // SURVIVES delay sync: closing the heap writes and syncs headers, too.
        header.write(media, heap);
    }
    Ok(())
}

/// Returns the pieces of these spans whose pointers are to be rewritten: all pointers, including those that
/// the collector does not follow.
pub(crate) fn pieces<'a>(spans: impl Iterator<Item = &'a TakenSpan>, types: &[TypeLayout]) -> Vec<SpanPiece> {
    let mut maps: HashMap<u32, Arc<PointerMap>> = HashMap::new();
    let mut pieces_of = |span: &TakenSpan| {
        let ty = span.entry.ty;
        let map = maps.entry(ty).or_insert_with(|| Arc::new(PointerMap::from_layout(&types[ty as usize])));
        SpanPiece::split_span(span, map.clone())
    };
    spans.filter(|span| span.holds_objects()).flat_map(&mut pieces_of).collect()
}

/// Rewrites all pointers in `pieces` that are relative to a listed base other than the current one. Each
/// thread flushes and fences what it has written. A file that is mapped without `MAP_SYNC` must still be
/// synced.
fn swizzle(
    mapping: &Mapping,
    heap: MetadataWords<'_>,
    medium: &Medium,
    header: &Header,
    pieces: &[SpanPiece],
) {
    let bytes: usize = pieces.iter().map(SpanPiece::bytes).sum();
    // In the simulator, one thread does all the work, because each run must make the same stores in the same
    // order.
    let most = if mapping.is_simulated() { 1 } else { cores().min(MAX_THREADS) };
    let threads = most.min(bytes / PER_THREAD + 1);
    let next = AtomicUsize::new(0);
    let work = || {
        let media = Media::new(medium.clone());
        let mut swizzler = Swizzler::new(&media, heap, header);
        while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            mapping.populate_again(piece.first + piece.window.start as u64, piece.bytes() as u64);
            piece.swizzle(&mut swizzler);
        }
        // Each thread flushes and fences its own stores, because a fence waits for the flushes of its own
        // processor only.
        swizzler.flush();
        media.fence();
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // If the thread cannot be started, the other threads do its work.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
}

/// A part of a span that one thread rewrites: some of its slots, or a part of a large slot.
pub(crate) struct SpanPiece {
    pointers: Arc<PointerMap>,
    /// Offset in the heap of the piece's first slot.
    first: u64,
    /// Bytes of a slot.
    slot: usize,
    slots: usize,
    /// The bytes of each slot that belong to the piece.
    window: Range<usize>,
}

impl SpanPiece {
    fn split_span(span: &TakenSpan, pointers: Arc<PointerMap>) -> Vec<SpanPiece> {
        let bytes = span.bytes() as usize;
        let slot = if span.entry.kind == SpanKind::Small { span.entry.slot as usize } else { bytes };
        // Only a damaged span table has slots of no bytes, or slots that are not whole words.
        if !pointers.has_pointers() || slot == 0 || !slot.is_multiple_of(8) {
            return Vec::new();
        }
        let piece = |slots: Range<usize>, window| SpanPiece {
            pointers: pointers.clone(),
            first: span.offset + (slots.start * slot) as u64,
            slot,
            slots: slots.len(),
            window,
        };
        if slot < PIECE {
            let (slots, each) = (bytes / slot, PIECE / slot);
            (0..slots).step_by(each).map(|first| piece(first..slots.min(first + each), 0..slot)).collect()
        } else {
            (0..bytes).step_by(PIECE).map(|start| piece(0..1, start..bytes.min(start + PIECE))).collect()
        }
    }

    fn bytes(&self) -> usize {
        self.slots * self.window.len()
    }

    fn swizzle(&self, swizzler: &mut Swizzler<'_>) {
        let len = self.slots * (self.slot / 8);
        let (words, objects) = (swizzler.heap.slice(self.first, len), swizzler.heap.objects(self.first, len));
        let start = words.as_ptr().addr();
        let rewrite = |word: *mut u64| swizzler.rewrite(&words[(word.addr() - start) / 8]);
        self.pointers.visit_slots(objects, self.slot, self.window.clone(), rewrite);
    }
}

/// Rewrites pointers, and flushes the lines that it has written.
struct Swizzler<'a> {
    media: &'a Media,
    heap: MetadataWords<'a>,
    /// The bits of an address that tell to which base the address is relative.
    mask: u64,
    current: u64,
    others: &'a [u64],
    /// Address of the line that was written last and is still to be flushed; 0 if there is none.
    line: usize,
}

impl Swizzler<'_> {
    fn new<'a>(media: &'a Media, heap: MetadataWords<'a>, header: &'a Header) -> Swizzler<'a> {
        let (&current, others) = header.bases.split_first().expect("a heap has a base");
        Swizzler { media, heap, mask: !(header.reserved - 1), current, others, line: 0 }
    }

    #[inline(always)]
    fn rewrite(&mut self, word: &AtomicU64) {
        let value = word.load(Ordering::Relaxed);
        if !self.others.contains(&(value & self.mask)) {
            return;
        }
        self.media.store_shared(std::slice::from_ref(word), &[value & !self.mask | self.current]);
        let line = word.as_ptr().addr() & !(LINE - 1);
        if self.media.needs_flush() && self.line != line {
            self.flush();
            self.line = line;
        }
    }

    /// Flushes the line that was written last, unless it was flushed already.
    #[track_caller]
    fn flush(&mut self) {
        if self.line != 0 {
            self.media.flush(std::ptr::without_provenance(self.line), LINE);
            self.line = 0;
        }
    }
}
