//! What heaps are on: simulated memory, or a simulated disk.

use std::sync::Arc;

use pheap::sim::disk::{Call, DiskChange, DiskImage, DiskPoint, Fault, ShortWrites, SimDisk, Which};
use pheap::sim::{Point, Sim};
use pheap::{Heap, Options};

use crate::disk_image::Files;
use crate::image::Image;
use crate::subset::{Breadth, Visit, subsets};
use pheap_testkit::Rng;

/// What a medium holds when a heap is opened on it.
#[derive(Debug, Clone)]
pub enum Content {
    /// Memory, in words: what is durable, and what a process that was killed has stored besides.
    Memory(Vec<u64>, Vec<(u32, u64)>),
    /// A disk: what is durable, and what a process that was killed has written besides.
    Disk(DiskImage, Vec<DiskChange>),
}

impl Default for Content {
    fn default() -> Content {
        Content::Memory(Vec::new(), Vec::new())
    }
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl Content {
    /// The words of a memory that can be read.
    ///
    /// # Panics
    /// If it is a disk.
    pub fn words(self) -> Vec<u64> {
        match self {
            Content::Memory(mut words, pending) => {
                pending.into_iter().for_each(|(word, value)| words[word as usize] = value);
                words
            }
            Content::Disk(..) => panic!("a disk is not made of words"),
        }
    }

    /// The files of a disk that has all this, durably. Of a heap in memory, there is no log.
    pub fn image(self) -> DiskImage {
        match self {
            Content::Memory(..) => DiskImage { data: bytes(&self.words()), log: None },
            Content::Disk(mut image, pending) => {
                pending.iter().for_each(|change| image.apply(change));
                image
            }
        }
    }

    /// A disk with a heap that was in memory, durably, and no log.
    pub fn on_disk(self) -> Content {
        match self {
            Content::Memory(..) => Content::Disk(self.image(), Vec::new()),
            disk => disk,
        }
    }

    /// A memory with this content.
    pub fn of_bytes(bytes: &[u8]) -> Content {
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        Content::Memory(bytes.chunks_exact(8).map(word).collect(), Vec::new())
    }

    /// A disk with a heap that was mapped from it and changed from `self` to `now` by a process that was killed: nothing of that is durable.
    pub fn mapped(self, now: &[u64]) -> Content {
        let Content::Disk(mut image, _) = self.on_disk() else { unreachable!("it is one now") };
        let now = bytes(now);
        image.data.resize(now.len(), 0);
        let new = pheap::sim::disk::differences(Which::Data, &image.data, &now);
        Content::Disk(image, new)
    }

    /// The heap of an orderly closed disk, in memory. `removed`: its log should be gone.
    ///
    /// # Errors
    /// If it was not.
    pub fn in_memory(self, removed: bool) -> Result<Content, String> {
        let Content::Disk(DiskImage { data: durable, .. }, _) = &self else { return Ok(self) };
        let durable = durable.clone();
        let image = self.image();
        if (removed && image.log.is_some()) || image.data != durable {
            return Err("after an orderly end, there is a log, or something that is not durable".to_owned());
        }
        Ok(Content::of_bytes(&durable))
    }
}

/// A medium with a heap.
#[derive(Debug, Clone)]
pub enum Medium {
    /// Memory that keeps its content.
    Memory(Arc<Sim>),
    /// A disk.
    Disk(Arc<SimDisk>),
}

impl Medium {
    /// A medium with this content.
    pub fn new(content: Content) -> Medium {
        match content {
            Content::Memory(words, pending) => Medium::Memory(Arc::new(Sim::with_pending(words, &pending))),
            Content::Disk(image, pending) => {
                let disk = SimDisk::with_pending(image, &pending);
                disk.tear();
                Medium::Disk(Arc::new(disk))
            }
        }
    }

    /// Opens the heap.
    ///
    /// # Errors
    /// As for all heaps.
    pub fn open(&self, options: &Options) -> pheap::Result<Heap> {
        match self {
            Medium::Memory(sim) => options.simulate(sim),
            Medium::Disk(disk) => options.simulate_disk(disk),
        }
    }

    /// The same, with the error as a text that says what has failed.
    pub(crate) fn opened(&self, options: &Options) -> Result<Heap, String> {
        self.open(options).map_err(|error| format!("opening fails: {error}"))
    }

    /// Notes that `n` operations have been acknowledged, of which `safe` must survive a power failure.
    pub fn acknowledge(&self, n: usize, safe: usize) {
        match self {
            Medium::Memory(sim) => sim.acknowledge(n),
            Medium::Disk(disk) => disk.acknowledge(n, safe),
        }
    }

    /// The points so far.
    pub fn take_points(&self) -> Vec<Moment> {
        match self {
            Medium::Memory(sim) => sim.take_points().into_iter().map(Moment::Memory).collect(),
            Medium::Disk(disk) => disk.take_points().into_iter().map(Moment::Disk).collect(),
        }
    }

    /// What it holds if the power fails now and nothing more reaches it.
    pub fn durable(&self) -> Content {
        match self {
            Medium::Memory(sim) => Content::Memory(sim.durable(), Vec::new()),
            Medium::Disk(disk) => Content::Disk(disk.durable(), Vec::new()),
        }
    }

    /// A number that tells apart what it holds, and what may reach it.
    pub fn digest(&self) -> u64 {
        match self {
            Medium::Memory(sim) => sim.digest(),
            Medium::Disk(disk) => disk.digest(),
        }
    }

    /// What it holds after an orderly end of the process.
    pub fn end(&self) -> Content {
        match self {
            Medium::Memory(sim) => Content::Memory(sim.durable(), Vec::new()),
            Medium::Disk(disk) => Content::Disk(disk.durable(), disk.pending()),
        }
    }

    /// Notes no points.
    pub fn be_silent(&self) {
        match self {
            Medium::Memory(sim) => sim.be_silent(),
            Medium::Disk(disk) => disk.be_silent(),
        }
    }

    /// Looks for stores to the open heap that were not announced.
    pub fn look(&self) {
        if let Medium::Memory(sim) = self {
            sim.look();
        }
    }

    /// Words that were changed outside of all that was logged or fresh.
    pub fn violations(&self) -> Vec<String> {
        match self {
            Medium::Memory(sim) => sim.violations(),
            Medium::Disk(_) => Vec::new(),
        }
    }

    /// The disk.
    pub fn disk(&self) -> Option<&SimDisk> {
        match self {
            Medium::Memory(_) => None,
            Medium::Disk(disk) => Some(disk),
        }
    }

    /// Makes calls fail, and writes short, on a disk.
    pub fn spoil(&self, fault: Option<Fault>, short: bool) {
        let Some(disk) = self.disk() else { return };
        if let Some(fault) = fault {
            disk.fail(fault);
        }
        if short {
            disk.short_writes(ShortWrites::Sectors(1));
        }
    }

    /// How often this was called.
    pub fn calls(&self, which: Which, call: Call) -> usize {
        self.disk().map_or(0, |disk| disk.calls(which, call))
    }

    /// How many calls have failed.
    pub fn failed(&self) -> usize {
        self.disk().map_or(0, SimDisk::failed)
    }
}

/// A point of either medium.
#[derive(Debug, Clone)]
pub enum Moment {
    /// Of a memory.
    Memory(Point),
    /// Of a disk.
    Disk(DiskPoint),
}

impl Moment {
    /// How many operations had been acknowledged, and how many of these must survive a power failure.
    pub fn acknowledged(&self) -> (usize, usize) {
        match self {
            Moment::Memory(point) => (point.acknowledged, point.acknowledged),
            Moment::Disk(point) => point.acknowledged,
        }
    }

    /// Which event this is.
    pub fn at(&self) -> &'static str {
        match self {
            Moment::Memory(point) => point.at,
            Moment::Disk(point) => point.at,
        }
    }

    /// How many changes are pending.
    pub fn pending(&self) -> usize {
        match self {
            Moment::Memory(point) => point.pending.len(),
            Moment::Disk(point) => point.pending.len(),
        }
    }

    /// A pending change, for people.
    pub fn name(&self, i: usize) -> String {
        match self {
            Moment::Memory(point) => {
                let (word, value) = point.pending[i];
                format!("{:#x}={value:#x}", word * 8)
            }
            Moment::Disk(point) => match &point.pending[i] {
                DiskChange::Sector(which, number, _) => format!("{which:?}-{number}"),
                DiskChange::Length(which, len) => format!("{which:?}-length={len:#x}"),
                other => format!("{other:?}"),
            },
        }
    }

    /// What the power can fail with: subsets of what is pending.
    pub fn subsets<B>(
        &self,
        breadth: Breadth,
        rng: &mut Rng,
        visit: impl Visit<B>,
    ) -> std::ops::ControlFlow<B> {
        match self {
            Moment::Memory(point) => subsets(&point.pending, Some(&point.order), breadth, rng, visit),
            Moment::Disk(point) => subsets(&point.pending, None, breadth, rng, visit),
        }
    }

    /// The point, but for processes that are killed there.
    pub fn without_kills(mut self) -> Moment {
        match &mut self {
            Moment::Memory(point) => point.before = u32::MAX,
            Moment::Disk(point) => point.written = usize::MAX,
        }
        self
    }

    /// When each of the pending changes was written, and the moments after the last point at which a process can be killed: none, perhaps.
    fn moments(&self) -> (Vec<u32>, Vec<u32>) {
        let (order, from, to): (Vec<u32>, u32, u32) = match self {
            Moment::Memory(point) => {
                let last = point.order.iter().copied().max().unwrap_or(0).max(point.before);
                (point.order.clone(), point.before, last)
            }
            Moment::Disk(point) => {
                let len = point.pending.len() as u32;
                ((1..=len).collect(), point.written as u32, len)
            }
        };
        let mut moments = [&order[..], &[from, to]].concat();
        moments.retain(|moment| (from..=to).contains(moment) && *moment < u32::MAX);
        moments.sort_unstable();
        moments.dedup();
        (order, moments)
    }

    /// What processes that are killed after the last point leave, at most `few` and two more: the first so many of what is pending, in the order in which
    /// it was written. The last one is all.
    pub fn kills(&self, few: usize, rng: &mut Rng) -> Vec<Vec<bool>> {
        let (order, mut moments) = self.moments();
        while moments.len() > few + 2 {
            moments.remove(1 + rng.below(moments.len() - 2));
        }
        moments.iter().map(|last| order.iter().map(|moment| moment <= last).collect()).collect()
    }

    /// What one of them leaves. `None` if there are no such processes.
    pub fn kill(&self, choice: usize) -> Option<Vec<bool>> {
        let (order, moments) = self.moments();
        let last = moments[choice.checked_rem(moments.len())?];
        Some(order.iter().map(|moment| *moment <= last).collect())
    }
}

/// The content of a medium, which goes from point to point.
#[derive(Debug, Clone)]
pub enum Snapshot {
    /// Of a memory.
    Memory(Image),
    /// Of a disk.
    Disk(Files),
}

impl Snapshot {
    /// The medium at the beginning.
    pub fn new(content: Content) -> Snapshot {
        match content {
            // What is pending in the beginning is pending at the first point.
            Content::Memory(words, _) => Snapshot::Memory(Image::new(words)),
            Content::Disk(image, _) => Snapshot::Disk(Files::new(image)),
        }
    }

    /// Goes on to a point.
    pub fn advance(&mut self, moment: &Moment) {
        match (self, moment) {
            (Snapshot::Memory(image), Moment::Memory(point)) => image.advance(point),
            (Snapshot::Disk(files), Moment::Disk(point)) => files.advance(&point.durable),
            _ => unreachable!("a medium does not change its nature"),
        }
    }

    /// The hash of what the medium holds if this is chosen of that which is pending. `killed`: it is not durable.
    pub fn hash(&self, moment: &Moment, chosen: &[bool], killed: bool) -> u64 {
        let hash = match (self, moment) {
            (Snapshot::Memory(image), Moment::Memory(point)) => image.choose(&point.pending, chosen).1,
            (Snapshot::Disk(files), Moment::Disk(point)) => files.hash_with(&changes(point, chosen)),
            _ => unreachable!("a medium does not change its nature"),
        };
        if killed { hash ^ 1 << 63 } else { hash }
    }

    /// What is left then.
    pub fn left(&self, moment: &Moment, chosen: &[bool], killed: bool) -> Content {
        match (self, moment) {
            (Snapshot::Memory(image), Moment::Memory(point)) => {
                let (words, _) = image.choose(&point.pending, chosen);
                let (words, pending) =
                    if killed { (image.words().to_vec(), words) } else { (image.with(&words), Vec::new()) };
                Content::Memory(words, pending)
            }
            (Snapshot::Disk(files), Moment::Disk(point)) => {
                let left = Content::Disk(files.image().clone(), changes(point, chosen));
                if killed { left } else { Content::Disk(left.image(), Vec::new()) }
            }
            _ => unreachable!("a medium does not change its nature"),
        }
    }
}

fn changes(point: &DiskPoint, chosen: &[bool]) -> Vec<DiskChange> {
    let of_these = point.pending.iter().zip(chosen).filter(|(_, chosen)| **chosen);
    of_these.map(|(change, _)| change.clone()).collect()
}
