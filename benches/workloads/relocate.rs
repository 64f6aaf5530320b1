//! `relocate`: a heap of `n` MB, filled as in [`fill`](crate::fill) and closed, is opened at another address,
//! so that each pointer in it must be rewritten. It is compared with a plain pass that reads and writes as
//! many words.

use crate::fill::{Forest, Shape, fill, options, sum_on_heap};
use crate::measure::Checksum;
use crate::pages::Plain;
use crate::scratch::{self, heap_in};
use crate::{Case, Result, Sample, Setup};
use pheap::{Durability, Heap, Options, Root};
use std::rc::Rc;
use tempfile::TempDir;

/// The addresses between which the heap moves.
const BASES: [u64; 2] = [0x0800_0000_0000, 0x0c00_0000_0000];

/// Returns all variants of `n` MB.
pub fn cases(setup: &Setup, n: u64) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    let mut most = 0;
    for &durability in &setup.durabilities {
        let mut closed = Closed::new(setup, durability, n)?;
        most = most.max(closed.used);
        cases.push(Case::new("pheap", "relocate", scratch::name(durability), n, move || closed.pass()));
    }
    let plain = Rc::new(Plain::new(setup, most)?);
    for (variant, populated) in [("read-write", false), ("read-write:mapped", true)] {
        let plain = plain.clone();
        let pass = move || Ok(plain.pass(populated)?.noting("bytes", most as f64));
        cases.push(Case::new("floor", "relocate", variant, n, pass));
    }
    Ok(cases)
}

/// A closed heap, which each pass opens at another address.
struct Closed {
    dir: TempDir,
    durability: Durability,
    /// Bytes of the pages in use.
    used: u64,
    passes: usize,
}

impl Closed {
    fn new(setup: &Setup, durability: Durability, n: u64) -> Result<Closed> {
        let dir = setup.folder()?;
        let heap = options(durability).open(heap_in(&dir))?;
        let forest: Root<Forest> = heap.root("forest")?;
        fill(&forest, Shape::new(n))?;
        let stats = heap.stats();
        heap.close()?;
        Ok(Closed { dir, durability, used: stats.file_bytes - stats.free_bytes, passes: 0 })
    }

    fn pass(&mut self) -> Result<Sample> {
        let options = Options::new().durability(self.durability).base(BASES[self.passes % BASES.len()]);
        self.passes += 1;
        let (sample, heap) = Sample::time(|| options.open(heap_in(&self.dir)));
        let heap: Heap = heap?;
        let forest: Root<Forest> = heap.existing_root("forest")?;
        let sum: Checksum = forest.read(sum_on_heap)?;
        heap.close()?;
        Ok(sample.with(sum).noting("bytes", self.used as f64))
    }
}
