//! The media that heaps are on: simulated memory, or a simulated disk.

use std::sync::Arc;

use pheap::sim::disk::{Call, DiskChange, DiskImage, DiskPoint, Fault, ShortWrites, SimDisk, Which};
use pheap::sim::{Point, Sim};
use pheap::{Heap, Options};

use crate::disk_image::Files;
use crate::image::Image;
use crate::subset::{Breadth, Visit, subsets};
use pheap_testkit::Rng;

/// Content of a medium when a heap is opened on it.
#[derive(Debug, Clone)]
pub enum Content {
    /// Memory: the durable words, and the words that a killed process has stored since.
    Memory(Vec<u64>, Vec<(u32, u64)>),
    /// A disk: the durable files, and the changes that a killed process has written since.
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
    /// Returns the words of a memory that can be read, with the stores that are not durable.
    ///
    /// # Panics
    /// If the content is a disk.
    pub fn words(self) -> Vec<u64> {
        match self {
            Content::Memory(mut words, pending) => {
                pending.into_iter().for_each(|(word, value)| words[word as usize] = value);
                words
            }
            Content::Disk(..) => panic!("a disk is not made of words"),
        }
    }

    /// Returns the files of a disk on which all of the content is durable. A heap in memory has no log.
    pub fn image(self) -> DiskImage {
        match self {
            Content::Memory(..) => DiskImage { data: bytes(&self.words()), log: None },
            Content::Disk(mut image, pending) => {
                pending.iter().for_each(|change| image.apply(change));
                image
            }
        }
    }

    /// Converts a heap in memory to a disk on which it is durable, without a log. Returns a disk unchanged.
    pub fn on_disk(self) -> Content {
        match self {
            Content::Memory(..) => Content::Disk(self.image(), Vec::new()),
            disk => disk,
        }
    }

    /// Makes a memory with these bytes, of which whole words count.
    pub fn of_bytes(bytes: &[u8]) -> Content {
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        Content::Memory(bytes.chunks_exact(8).map(word).collect(), Vec::new())
    }

    /// Returns a disk whose file a process had mapped. The process changed the content of a memory, `self`,
    /// to `now` and was killed, so the changes are not durable.
    pub fn mapped(self, now: &[u64]) -> Content {
        let Content::Disk(mut image, _) = self.on_disk() else { unreachable!("it is one now") };
        let now = bytes(now);
        image.data.resize(now.len(), 0);
        let new = pheap::sim::disk::differences(Which::Data, &image.data, &now);
        Content::Disk(image, new)
    }

    /// Converts the disk of an orderly closed heap to memory. Returns a memory unchanged.
    ///
    /// # Errors
    /// If the heap's file has changes that are not durable, or if `removed` is set and there is a log.
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

/// A simulated medium.
#[derive(Debug, Clone)]
pub enum Medium {
    /// Persistent memory.
    Memory(Arc<Sim>),
    /// A disk.
    Disk(Arc<SimDisk>),
}

impl Medium {
    /// Makes a medium with this content. A disk tears sectors.
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

    /// Opens the heap of the medium.
    ///
    /// # Errors
    /// The error of the opening.
    pub fn open(&self, options: &Options) -> pheap::Result<Heap> {
        match self {
            Medium::Memory(sim) => options.simulate(sim),
            Medium::Disk(disk) => options.simulate_disk(disk),
        }
    }

    /// Opens the heap, and returns an error as a text.
    pub(crate) fn opened(&self, options: &Options) -> Result<Heap, String> {
        self.open(options).map_err(|error| format!("opening fails: {error}"))
    }

    /// Notes that `n` operations have been acknowledged, of which `safe` must survive a power failure; in
    /// memory, all must. This is a point.
    pub fn acknowledge(&self, n: usize, safe: usize) {
        match self {
            Medium::Memory(sim) => sim.acknowledge(n),
            Medium::Disk(disk) => disk.acknowledge(n, safe),
        }
    }

    /// Takes the points noted so far.
    pub fn take_points(&self) -> Vec<Moment> {
        match self {
            Medium::Memory(sim) => sim.take_points().into_iter().map(Moment::Memory).collect(),
            Medium::Disk(disk) => disk.take_points().into_iter().map(Moment::Disk).collect(),
        }
    }

    /// Returns the content if the power fails now and no pending change reaches the medium.
    pub fn durable(&self) -> Content {
        match self {
            Medium::Memory(sim) => Content::Memory(sim.durable(), Vec::new()),
            Medium::Disk(disk) => Content::Disk(disk.durable(), Vec::new()),
        }
    }

    /// Returns a hash of the durable content and the pending changes.
    pub fn digest(&self) -> u64 {
        match self {
            Medium::Memory(sim) => sim.digest(),
            Medium::Disk(disk) => disk.digest(),
        }
    }

    /// Returns the content after an orderly end of the process.
    pub fn end(&self) -> Content {
        match self {
            Medium::Memory(sim) => Content::Memory(sim.durable(), Vec::new()),
            Medium::Disk(disk) => Content::Disk(disk.durable(), disk.pending()),
        }
    }

    /// Stops noting points.
    pub fn be_silent(&self) {
        match self {
            Medium::Memory(sim) => sim.be_silent(),
            Medium::Disk(disk) => disk.be_silent(),
        }
    }

    /// Looks for stores to the open heap in memory. A store that was not announced to the simulator is a
    /// violation.
    pub fn look(&self) {
        if let Medium::Memory(sim) = self {
            sim.look();
        }
    }

    /// Describes the changes of words of a memory that were found and had not been announced. A disk has
    /// none: nothing is looked for there.
    pub fn violations(&self) -> Vec<String> {
        match self {
            Medium::Memory(sim) => sim.violations(),
            Medium::Disk(_) => Vec::new(),
        }
    }

    /// Returns the disk, if the medium is one.
    pub fn disk(&self) -> Option<&SimDisk> {
        match self {
            Medium::Memory(_) => None,
            Medium::Disk(disk) => Some(disk),
        }
    }

    /// Makes a call of the disk fail if `fault` is given, and its writes short if `short` is set. Has no
    /// effect on memory.
    pub fn spoil(&self, fault: Option<Fault>, short: bool) {
        let Some(disk) = self.disk() else { return };
        if let Some(fault) = fault {
            disk.fail(fault);
        }
        if short {
            disk.short_writes(ShortWrites::Sectors(1));
        }
    }

    /// Returns the number of calls of this kind on this file; 0 for a memory.
    pub fn calls(&self, which: Which, call: Call) -> usize {
        self.disk().map_or(0, |disk| disk.calls(which, call))
    }

    /// Returns the number of calls that have failed; 0 for a memory.
    pub fn failed(&self) -> usize {
        self.disk().map_or(0, SimDisk::failed)
    }
}

/// A point of either kind of medium.
#[derive(Debug, Clone)]
pub enum Moment {
    /// A point of a memory.
    Memory(Point),
    /// A point of a disk.
    Disk(DiskPoint),
}

impl Moment {
    /// Returns the number of acknowledged operations, and how many of these must survive a power failure.
    pub fn acknowledged(&self) -> (usize, usize) {
        match self {
            Moment::Memory(point) => (point.acknowledged, point.acknowledged),
            Moment::Disk(point) => point.acknowledged,
        }
    }

    /// Returns the name of the event.
    pub fn at(&self) -> &'static str {
        match self {
            Moment::Memory(point) => point.at,
            Moment::Disk(point) => point.at,
        }
    }

    /// Returns the number of pending changes.
    pub fn pending(&self) -> usize {
        match self {
            Moment::Memory(point) => point.pending.len(),
            Moment::Disk(point) => point.pending.len(),
        }
    }

    /// Describes a pending change for people.
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

    /// Visits subsets of the pending changes that a power failure can leave, as many as `breadth` allows.
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

    /// Returns the point without the images that a killed process leaves there.
    pub fn without_kills(mut self) -> Moment {
        match &mut self {
            Moment::Memory(point) => point.before = u32::MAX,
            Moment::Disk(point) => point.written = usize::MAX,
        }
        self
    }

    /// Returns the moment at which each pending change was written, and the moments since the last point
    /// after which a process can be killed. The second list may be empty.
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

    /// Returns sets of pending changes that a process leaves that is killed since the last point: at most
    /// `few` and two more. Each is a prefix in the order of the writes. The last set has all changes. There
    /// may be no sets.
    pub fn kills(&self, few: usize, rng: &mut Rng) -> Vec<Vec<bool>> {
        let (order, mut moments) = self.moments();
        while moments.len() > few + 2 {
            moments.remove(1 + rng.below(moments.len() - 2));
        }
        moments.iter().map(|last| order.iter().map(|moment| moment <= last).collect()).collect()
    }

    /// Returns the set with this number, modulo their number, of all that a killed process can leave. `None`
    /// if there are none.
    pub fn kill(&self, choice: usize) -> Option<Vec<bool>> {
        let (order, moments) = self.moments();
        let last = moments[choice.checked_rem(moments.len())?];
        Some(order.iter().map(|moment| *moment <= last).collect())
    }
}

/// Content of a medium that advances from point to point.
#[derive(Debug, Clone)]
pub enum Snapshot {
    /// Content of a memory.
    Memory(Image),
    /// Content of a disk.
    Disk(Files),
}

impl Snapshot {
    /// Makes a snapshot of the durable content.
    pub fn new(content: Content) -> Snapshot {
        match content {
            // Changes that are pending at the beginning are also pending at the first point.
            Content::Memory(words, _) => Snapshot::Memory(Image::new(words)),
            Content::Disk(image, _) => Snapshot::Disk(Files::new(image)),
        }
    }

    /// Advances to a point.
    pub fn advance(&mut self, moment: &Moment) {
        match (self, moment) {
            (Snapshot::Memory(image), Moment::Memory(point)) => image.advance(point),
            (Snapshot::Disk(files), Moment::Disk(point)) => files.advance(&point.durable),
            _ => unreachable!("a medium does not change its nature"),
        }
    }

    /// Returns a hash of the medium if the `chosen` pending changes are left. `killed` means that they can
    /// be read and are not durable.
    pub fn hash(&self, moment: &Moment, chosen: &[bool], killed: bool) -> u64 {
        let hash = match (self, moment) {
            (Snapshot::Memory(image), Moment::Memory(point)) => image.choose(&point.pending, chosen).1,
            (Snapshot::Disk(files), Moment::Disk(point)) => files.hash_with(&changes(point, chosen)),
            _ => unreachable!("a medium does not change its nature"),
        };
        if killed { hash ^ 1 << 63 } else { hash }
    }

    /// Returns the content of the medium then.
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
