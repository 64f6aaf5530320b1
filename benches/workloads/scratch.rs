//! Where the measured heaps live: a fresh file for each, removed with it.

use crate::Result;
use crate::measure::{Counts, Sample};
use crate::pmdk::Pmdk;
use pheap::{Durability, Heap, Options};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The systems that can be chosen.
pub const SYSTEMS: [&str; 4] = ["pheap", "volatile", "pmdk", "floor"];

/// What all cases of a run have in common.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The directory of the heap files, and of the file that the floor is measured on.
    pub dir: PathBuf,
    /// How durable the measured heaps are; each makes rows of its own.
    pub durabilities: Vec<Durability>,
    /// What is measured.
    pub systems: Vec<String>,
    /// The programs on libpmemobj, if they are measured.
    pub pmdk: Option<Pmdk>,
}

impl Default for Setup {
    /// Both durabilities that need no disk, in shared memory where there is any; without PMDK.
    fn default() -> Self {
        let shm = Path::new("/dev/shm");
        let dir = if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() };
        let systems = SYSTEMS.map(String::from).to_vec();
        Setup { dir, durabilities: vec![Durability::Pmem, Durability::Process], systems, pmdk: None }
    }
}

impl Setup {
    /// A new, empty heap.
    pub fn heap(&self, durability: Durability) -> Result<Scratch> {
        self.heap_with(&Options::new().durability(durability))
    }

    /// A new, empty heap that is opened with these options.
    pub fn heap_with(&self, options: &Options) -> Result<Scratch> {
        let dir = self.folder()?;
        let heap = options.open(heap_in(&dir))?;
        Ok(Scratch { heap, _dir: dir })
    }

    /// A directory for one heap.
    pub(crate) fn folder(&self) -> Result<TempDir> {
        Ok(tempfile::Builder::new().prefix("pheap-bench-").tempdir_in(&self.dir)?)
    }

    /// How heaps are opened, with names for `variant`: each durability.
    pub(crate) fn modes(&self) -> impl Iterator<Item = (Options, &'static str)> {
        self.durabilities.iter().map(|&durability| (Options::new().durability(durability), name(durability)))
    }

    /// The same with all transactions on the path of long ones, by undo log; for durabilities that write to the file in place.
    pub(crate) fn undo_modes(&self) -> impl Iterator<Item = (Options, &'static str)> {
        let mapped = |durability: &&Durability| **durability != Durability::Wal;
        let pinned = |&durability: &Durability| {
            (Options::new().durability(durability).pin_undo(true), name(durability))
        };
        self.durabilities.iter().filter(mapped).map(pinned)
    }

    /// Whether this system is measured.
    pub fn measures(&self, system: &str) -> bool {
        self.systems.iter().any(|measured| measured == system)
    }

    /// Whether the heaps are in memory that has no medium behind it, so that syncing a file does nothing.
    pub fn is_tmpfs(&self) -> bool {
        const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;
        rustix::fs::statfs(&self.dir).is_ok_and(|stat| stat.f_type == TMPFS_MAGIC)
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
        Durability::Wal => "wal",
        _ => "auto",
    }
}

/// The durability of this name.
pub(crate) fn named(name: &str) -> Option<Durability> {
    [Durability::Pmem, Durability::Process, Durability::Wal]
        .into_iter()
        .find(|&durability| self::name(durability) == name)
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
