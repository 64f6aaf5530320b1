//! Heaps with a wrong bit. Crashes do not leave these; checksums are to notice them.
//!
//! Metadata that has a copy, or can be reconstructed, is replaced: the heap must open. If other metadata is
//! wrong, the heap must be refused (only a wrong type table allows both). It is a failure if a heap opens
//! with other content, or breaks when it is used.

use std::ops::Range;

use crate::Explorer;
use crate::medium::Content;
use crate::model::State;
use crate::named::named;
use crate::program::{One, Program, Setting, Which};
use crate::run::{Run, ready};
use pheap::sim::disk::DiskImage;
use pheap_testkit::{PAGE, newest_slot, word};

named! {
    /// The part of a heap that is damaged.
    pub enum Damage {
        /// The newer one of the two headers.
        Header = "header",
        /// The head of the first arena.
        Arena = "arena",
        /// The entries of a span table that are not zero.
        Entries = "entries",
        /// The fields of a region's header that have no copy.
        Region = "region",
        /// The names of the roots.
        Name = "name",
        /// The entries in the first page of the type table.
        Types = "types",
        /// The bitmaps of live slots that an orderly close has stored.
        LiveSlots = "live-slots",
        /// The head of a write-ahead log that is in use.
        LogHead = "log-head",
        /// The marks of the log, which tell up to where its content is in the heap's file.
        LogMark = "log-mark",
        /// The head of a segment of the log that is not in use.
        LogSegment = "log-segment",
    }
}

impl Damage {
    /// Returns whether the heap must open, or must not. `None`: either is allowed.
    fn opens(self) -> Option<bool> {
        match self {
            Damage::Header | Damage::LiveSlots | Damage::LogMark | Damage::LogSegment => Some(true),
            Damage::Arena | Damage::Entries | Damage::Region | Damage::Name | Damage::LogHead => Some(false),
            // The last entries of the table may belong to no root.
            Damage::Types => None,
        }
    }

    fn in_log(self) -> bool {
        matches!(self, Damage::LogHead | Damage::LogMark | Damage::LogSegment)
    }
}

/// A heap, and its content.
#[derive(Debug)]
pub struct Heap {
    image: DiskImage,
    /// Whether the heap is opened on a disk.
    disk: bool,
    state: State,
}

impl Heap {
    /// Makes a heap that was closed, or one that a crash has left with a log.
    fn new(logged: bool) -> Result<Heap, String> {
        let [_, _, (content, state), _] = ready()?;
        if !logged {
            return Ok(Heap { image: content.image(), disk: false, state });
        }
        let setting = Setting { wal: true, ..Setting::default() };
        let mut run = Run::open(setting, content.on_disk(), Some(state), 1)?;
        run.one(One::Set, Which::A)?;
        run.op("checkpoint".parse()?)?;
        run.one(One::Push, Which::A)?;
        let heap = Heap { image: run.durable().image(), disk: true, state: run.state().clone() };
        run.finish()?;
        Ok(heap)
    }

    fn word(&self, at: usize) -> u64 {
        word(&self.image.data, at)
    }

    /// Returns the offsets of the headers of regions.
    fn regions(&self) -> Vec<usize> {
        let begins = |at: &usize| self.image.data[*at..].starts_with(b"\x89PREGIO\n");
        (0..self.image.data.len()).step_by(PAGE).filter(begins).collect()
    }

    /// Returns the byte ranges that are damaged.
    #[expect(clippy::single_range_in_vec_init, reason = "one range is meant")]
    fn places(&self, what: Damage) -> Vec<Range<usize>> {
        let header = newest_slot(&self.image.data);
        let region = |places: &[Range<usize>]| -> Vec<Range<usize>> {
            let of = |at: usize| places.iter().map(move |place| at + place.start..at + place.end);
            self.regions().into_iter().flat_map(of).collect()
        };
        match what {
            Damage::Header => vec![header..header + 512],
            Damage::Arena => vec![2 * PAGE..2 * PAGE + 72],
            Damage::Entries => (3 * PAGE..4 * PAGE)
                .step_by(16)
                .map(|at| at..at + 8)
                .filter(|word| self.word(word.start) != 0)
                .collect(),
            // Magic, id, type; the root object; state, generation; checksum.
            Damage::Region => region(&[0..48, 56..64]),
            // Each root has had only one name.
            Damage::Name => region(&[512..512 + 24, 512 + 34 * 8..512 + 35 * 8])
                .into_iter()
                .chain(region(&[1024..1024 + 24, 1024 + 34 * 8..1024 + 35 * 8]))
                .filter(|place| self.image.data[place.clone()].iter().any(|&byte| byte != 0))
                .collect(),
            Damage::Types => {
                let types = self.word(header + 17 * 8) as usize;
                let len = (64..PAGE).rev().find(|&at| self.image.data[types + at] != 0).unwrap_or(64);
                vec![types + 64..(types + len).next_multiple_of(8)]
            }
            Damage::LiveSlots => {
                let (at, len) = (self.word(header + 18 * 8) as usize, self.word(header + 19 * 8) as usize);
                vec![at..at + len]
            }
            Damage::LogHead => vec![0..64],
            Damage::LogMark => vec![512..576, 1024..1088],
            Damage::LogSegment => {
                let second = PAGE + word(self.image.log.as_deref().unwrap_or_default(), 40) as usize;
                vec![second..second + 24]
            }
        }
    }

    /// Returns the heap with one bit flipped.
    fn with(&self, what: Damage, bit: usize) -> Content {
        let mut image = self.image.clone();
        match &mut image.log {
            Some(log) if what.in_log() => log[bit / 8] ^= 1 << (bit % 8),
            _ => image.data[bit / 8] ^= 1 << (bit % 8),
        }
        if self.disk { Content::Disk(image, Vec::new()) } else { Content::of_bytes(&image.data) }
    }
}

/// Runs a program that ends with a restart, damages the newest header that the end has left, one bit at a
/// time, and opens the heap. The other header must have the same information.
///
/// # Errors
/// The first failure.
pub fn explore_copy(program: &Program, explorer: &Explorer) -> Result<(), String> {
    let mut trace = explorer.run(program)?;
    let (Some(phase), Some(state)) = (trace.phases.pop(), trace.states.pop()) else {
        return Err("there is nothing to damage".to_owned());
    };
    let disk = matches!(phase.start, Content::Disk(..));
    let left = match phase.start {
        // Of a memory, only the durable words.
        Content::Memory(words, _) => Content::Memory(words, Vec::new()),
        disk => disk,
    };
    let heap = Heap { image: left.image(), disk, state };
    for number in [2, 6, 63] {
        let bit = (newest_slot(&heap.image.data) + number * 8) * 8 + 3;
        Damage::Header
            .open(&heap, bit)
            .map_err(|error| format!("when the newest header is damaged after `{program}`, {error}"))?;
    }
    Ok(())
}

impl Damage {
    /// Makes the undamaged heap.
    ///
    /// # Errors
    /// If the heap cannot be made.
    pub fn heap(self) -> Result<Heap, String> {
        Heap::new(self.in_log())
    }

    /// Damages the heap, one of some bits at a time, and opens it.
    ///
    /// # Errors
    /// If the heap opens and must not, does not open and must, or opens with a mistake; or if there is
    /// nothing to damage.
    pub fn explore(self, heap: &Heap) -> Result<(), String> {
        let places = heap.places(self);
        if places.iter().all(Range::is_empty) {
            return Err(format!("there is no {} to damage", self.name()));
        }
        for word in places.into_iter().flatten().step_by(8) {
            // In a bitmap, the lowest bits belong to existing slots; in the number of a segment, they lead to
            // other segments.
            let low = if matches!(self, Damage::LiveSlots | Damage::LogSegment) { 0..4 } else { 0..0 };
            let bits = low.chain([word / 8 % 64, (word / 8 * 37 + 11) % 64]);
            for bit in bits.map(|bit| word * 8 + bit) {
                self.open(heap, bit)
                    .map_err(|error| format!("when bit {bit:#x} of the {} is wrong, {error}", self.name()))?;
            }
        }
        Ok(())
    }

    fn open(self, heap: &Heap, bit: usize) -> Result<(), String> {
        let opened = Run::open(Setting::default(), heap.with(self, bit), Some(heap.state.clone()), 2);
        let mut run = match opened {
            Err(error) if error.starts_with("opening fails: ") => {
                return if self.opens() == Some(true) { Err(error) } else { Ok(()) };
            }
            Err(error) => return Err(error),
            Ok(_) if self.opens() == Some(false) => return Err("nobody notices".to_owned()),
            Ok(run) => run,
        };
        run.check()?;
        // Allocates in slots that seem to be free, then in those that a collection frees.
        for collect in [false, true] {
            if collect {
                run.collect_all()?;
            }
            run.one_if_there(One::Push, Which::A)?;
            run.one_if_there(One::Stuff, Which::A)?;
            run.check()?;
        }
        run.finish().map(|_| ())
    }
}
