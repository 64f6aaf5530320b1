//! The measured heaps: each has a new file, which is removed with it.

use crate::Result;
use crate::measure::{Counts, Sample};
use crate::pmdk::Pmdk;
use pheap::{Durability, Heap, Options};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The systems that can be selected.
pub const SYSTEMS: [&str; 4] = ["pheap", "volatile", "pmdk", "floor"];

/// Settings of all cases of a run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The directory of the heap files, and of the file that the floor is measured on.
    pub dir: PathBuf,
    /// Durabilities of the measured heaps. Each has separate rows.
    pub durabilities: Vec<Durability>,
    /// The systems that are measured.
    pub systems: Vec<String>,
    /// The programs on libpmemobj, if they are measured.
    pub pmdk: Option<Pmdk>,
}

impl Default for Setup {
    /// Both durabilities that need no disk, in shared memory if there is any, and without PMDK.
    fn default() -> Self {
        let shm = Path::new("/dev/shm");
        let dir = if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() };
        let systems = SYSTEMS.map(String::from).to_vec();
        Setup { dir, durabilities: vec![Durability::Pmem, Durability::Process], systems, pmdk: None }
    }
}

impl Setup {
    /// Makes an empty heap.
    pub fn heap(&self, durability: Durability) -> Result<Scratch> {
        self.heap_with(&Options::new().durability(durability))
    }

    /// Makes an empty heap with these options.
    pub fn heap_with(&self, options: &Options) -> Result<Scratch> {
        let dir = self.folder()?;
        let heap = options.open(heap_in(&dir))?;
        Ok(Scratch { heap, _dir: dir })
    }

    /// Makes a directory for one heap.
    pub(crate) fn folder(&self) -> Result<TempDir> {
        Ok(tempfile::Builder::new().prefix("pheap-bench-").tempdir_in(&self.dir)?)
    }

    /// Returns the options of each durability, with its name in `variant`.
    pub(crate) fn modes(&self) -> impl Iterator<Item = (Options, &'static str)> {
        self.durabilities.iter().map(|&durability| (Options::new().durability(durability), name(durability)))
    }

    /// Returns the same with undo logging for all transactions. Only durabilities that write to the file in
    /// place have this.
    pub(crate) fn undo_modes(&self) -> impl Iterator<Item = (Options, &'static str)> {
        let mapped = |durability: &&Durability| **durability != Durability::Wal;
        let pinned = |&durability: &Durability| {
            (Options::new().durability(durability).pin_undo(true), name(durability))
        };
        self.durabilities.iter().filter(mapped).map(pinned)
    }

    /// Returns whether this system is measured.
    pub fn measures(&self, system: &str) -> bool {
        self.systems.iter().any(|measured| measured == system)
    }

    /// Returns whether the heaps are in a tmpfs, where syncing a file has no effect.
    pub fn is_tmpfs(&self) -> bool {
        const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;
        rustix::fs::statfs(&self.dir).is_ok_and(|stat| stat.f_type == TMPFS_MAGIC)
    }
}

/// Returns the path of the heap in its directory.
pub(crate) fn heap_in(dir: &TempDir) -> PathBuf {
    dir.path().join("bench.pheap")
}

/// Returns the name of a durability in `variant`.
pub fn name(durability: Durability) -> &'static str {
    match durability {
        Durability::Pmem => "pmem",
        Durability::Process => "process",
        Durability::Wal => "wal",
        _ => "auto",
    }
}

/// Returns the durability with this name.
pub(crate) fn named(name: &str) -> Option<Durability> {
    [Durability::Pmem, Durability::Process, Durability::Wal]
        .into_iter()
        .find(|&durability| self::name(durability) == name)
}

/// A heap in a separate directory. Fields are dropped in order: the heap is closed before its files are
/// removed.
pub struct Scratch {
    /// The heap.
    pub heap: Heap,
    _dir: TempDir,
}

impl Scratch {
    /// Times `work`, and counts the heap's work for it.
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
