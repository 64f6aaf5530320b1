//! Where the measured heaps live: a fresh file for each, removed with it.

use crate::Result;
use crate::measure::{Counts, Sample};
use pheap::{Durability, Heap, Options};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// What all cases of a run have in common.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The directory of the heap files, and of the file that the floor is measured on.
    pub dir: PathBuf,
    /// How durable the measured heaps are; each makes rows of its own.
    pub durabilities: Vec<Durability>,
}

impl Default for Setup {
    /// Both durabilities that need no disk, in shared memory where there is any.
    fn default() -> Self {
        let shm = Path::new("/dev/shm");
        let dir = if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() };
        Setup { dir, durabilities: vec![Durability::Pmem, Durability::Process] }
    }
}

impl Setup {
    /// A new, empty heap.
    pub fn heap(&self, durability: Durability) -> Result<Scratch> {
        self.heap_with(Options::new().durability(durability))
    }

    /// A new, empty heap that is opened with these options.
    pub fn heap_with(&self, options: Options) -> Result<Scratch> {
        let dir = self.folder()?;
        let heap = options.open(heap_in(&dir))?;
        Ok(Scratch { heap, _dir: dir })
    }

    /// A directory for one heap.
    pub(crate) fn folder(&self) -> Result<TempDir> {
        Ok(tempfile::Builder::new().prefix("pheap-bench-").tempdir_in(&self.dir)?)
    }
}

/// Where the heap is in its directory.
pub(crate) fn heap_in(dir: &TempDir) -> PathBuf {
    dir.path().join("bench.pheap")
}

/// The name of a durability in `variant`.
pub fn name(durability: Durability) -> &'static str {
    match durability {
        Durability::Pmem => "pmem",
        Durability::Process => "process",
        _ => "auto",
    }
}

/// A heap in a directory of its own. Fields drop in order: first the heap is closed, then its files go.
pub struct Scratch {
    /// The heap.
    pub heap: Heap,
    _dir: TempDir,
}

impl Scratch {
    /// Times `work`, and counts what the heap does for it.
    pub fn time<T>(&self, work: impl FnOnce() -> pheap::Result<T>) -> pheap::Result<(Sample, T)> {
        let before = self.heap.stats();
        let (sample, out) = Sample::time(work);
        let after = self.heap.stats();
        let counts = Counts {
            fences: after.fences - before.fences,
            flushed_lines: after.flushed_lines - before.flushed_lines,
            log_bytes: after.log_bytes - before.log_bytes,
        };
        Ok((Sample { counts: Some(counts), ..sample }, out?))
    }
}
