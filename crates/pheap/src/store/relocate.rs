//! Relocation: a heap that is mapped elsewhere than before.
//!
//! Pointers in the heap are addresses, so all of them change: they are *swizzled*. No log is needed for that. The bases of a heap
//! are multiples of its reservation, so the ranges behind them are apart, and each pointer tells by itself which base it is
//! relative to. The header lists every base in play:
//!
//! 1. The new base is put in front of the list, durably. Only then the file is changed.
//! 2. The logs are replayed (what they hold is relative to a listed base, too) and emptied.
//! 3. Each pointer that is relative to another listed base is rewritten, a whole word at a time, in any order.
//! 4. When all that is durable, the list shrinks to the new base.
//!
//! After a crash on the way the next opening does what is left, at whatever base it is mapped. Pointers outside of all listed ranges are
//! left alone.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::arena::SpanKind;
use super::header::{Header, MAX_BASES, is_base};
use super::spans::Span;
use super::words::Words;
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::layout::{PointerMap, TypeLayout};
use crate::media::{Media, Medium};
use crate::os::cores;
use crate::os::mapping::{Backing, Mapping};
use crate::units::LINE;

/// What a thread takes at a time, and populates at once.
const PIECE: usize = 1 << 20;
/// Threads are worth their start from this many bytes on, each.
const PER_THREAD: usize = 4 << 20;
const MAX_THREADS: usize = 8;

/// Reserves addresses for a heap: at the base that is `wanted`, else at the one it had, else where there is room.
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

/// Whether a base cannot be put on the list of a heap whose file is written, because too many relocations were cut short: the last of them must
/// be completed first.
pub(crate) fn has_no_room(header: &Header, base: Option<u64>) -> bool {
    let is_new = |base| is_base(base, header.reserved) && !header.bases.contains(&base);
    header.bases.len() == MAX_BASES && base.is_some_and(is_new)
}

/// Makes `base` the current one of the heap. Returns whether there are others in play.
pub(crate) fn rebase(header: &mut Header, base: u64) -> bool {
    header.bases.retain(|&other| other != base);
    header.bases.insert(0, base);
    header.bases.len() > 1
}

/// Rewrites the pointers in `pieces`, and makes the current base the only one.
///
/// Nobody else has the heap. Its logs are empty, and it has no other pointers.
pub(crate) fn relocate(
    mapping: &Mapping,
    heap: Words<'_>,
    medium: &Medium,
    media: &Media,
    header: &mut Header,
    pieces: &[Piece],
) -> Result<()> {
    let all = header.clone();
    if bug(Bug::ShrinkBeforeMoved) {
        header.bases.truncate(1);
        header.write(media, heap);
    }
    swizzle(mapping, heap, medium, &all, pieces);
    // In `Process` durability, a heap that was open when the power failed is not opened again, so what the disk has then is of no interest.
    if !matches!(medium, Medium::Process) {
        // SURVIVES unreached: only a real file that is mapped without `MAP_SYNC` has anything to sync here; see the fence of `swizzle`.
        mapping.sync()?;
    }
    media.check_fences()?;
    header.bases.truncate(1);
    if !mapping.is_read_only() {
        // SURVIVES drop sync: a heap on a disk is moved to be closed, with headers and syncs of their own. SURVIVES delay sync: as above.
        header.write(media, heap);
    }
    Ok(())
}

/// What is to be rewritten of these spans: all pointers, also those that nothing follows.
pub(crate) fn pieces<'a>(spans: impl Iterator<Item = &'a Span>, types: &[TypeLayout]) -> Vec<Piece> {
    let mut maps: HashMap<u32, Arc<PointerMap>> = HashMap::new();
    let mut pieces_of = |span: &Span| {
        let ty = span.entry.ty;
        let map = maps.entry(ty).or_insert_with(|| Arc::new(PointerMap::of(&types[ty as usize])));
        Piece::of(span, map.clone())
    };
    spans.filter(|span| span.holds_objects()).flat_map(&mut pieces_of).collect()
}

/// Rewrites all pointers in `pieces` that are relative to another base than the current one. Durable on return, but for a file that is
/// not mapped with `MAP_SYNC`.
fn swizzle(mapping: &Mapping, heap: Words<'_>, medium: &Medium, header: &Header, pieces: &[Piece]) {
    let bytes: usize = pieces.iter().map(Piece::bytes).sum();
    // What the simulator sees must be the same in each run.
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
        // Each thread for itself: a fence waits for the flushes of its own processor only.
        swizzler.flush();
        media.fence();
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Without a thread, this one does its work.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
}

/// A part of a span: some of its objects, or a window of a large one.
pub(crate) struct Piece {
    pointers: Arc<PointerMap>,
    /// Offset of the first object in the heap.
    first: u64,
    /// Bytes of a slot.
    slot: usize,
    slots: usize,
    /// The bytes of each slot that belong to the piece.
    window: Range<usize>,
}

impl Piece {
    fn of(span: &Span, pointers: Arc<PointerMap>) -> Vec<Piece> {
        let bytes = span.bytes() as usize;
        let slot = if span.entry.kind == SpanKind::Small { span.entry.slot as usize } else { bytes };
        // Slots of other sizes are those of a damaged table.
        if !pointers.has_pointers() || slot == 0 || !slot.is_multiple_of(8) {
            return Vec::new();
        }
        let piece = |slots: Range<usize>, window| Piece {
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

/// Rewrites pointers.
struct Swizzler<'a> {
    media: &'a Media,
    heap: Words<'a>,
    /// The bits of an address that say which base it is relative to.
    mask: u64,
    current: u64,
    others: &'a [u64],
    /// The line that is to be flushed next; 0 if there is none.
    line: usize,
}

impl Swizzler<'_> {
    fn new<'a>(media: &'a Media, heap: Words<'a>, header: &'a Header) -> Swizzler<'a> {
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

    /// Flushes the line that was written last.
    #[track_caller]
    fn flush(&mut self) {
        if self.line != 0 {
            self.media.flush(std::ptr::without_provenance(self.line), LINE);
            self.line = 0;
        }
    }
}
