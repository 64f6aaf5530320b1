//! The files of a heap, and copies of them that simulate a killed process.

use std::fs;
use std::path::{Path, PathBuf};

use arbitrary::Arbitrary;
use pheap::{Durability, Options, SyncPolicy};
use pheap_testkit::{log_of, with_suffix};

/// The durability of a heap.
#[derive(Arbitrary, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durable {
    Process,
    Pmem,
    Wal,
    /// A log that is synced on demand.
    Lazy,
}

impl Durable {
    /// Returns the options with this durability.
    pub fn of(self, options: Options) -> Options {
        match self {
            Durable::Process => options.durability(Durability::Process),
            Durable::Pmem => options.durability(Durability::Pmem),
            Durable::Wal => options.durability(Durability::Wal).sync_policy(SyncPolicy::EveryCommit),
            Durable::Lazy => options.durability(Durability::Wal).sync_policy(SyncPolicy::OnDemand),
        }
    }
}

/// The file of a heap, and its log, if there is one.
#[derive(Debug)]
pub struct Files {
    heap: PathBuf,
    copied: bool,
}

impl Files {
    /// Returns the files of the heap at `path`.
    pub fn new(path: PathBuf) -> Files {
        Files { heap: path, copied: false }
    }

    /// Returns the path of the heap's file.
    pub fn heap(&self) -> &Path {
        &self.heap
    }

    /// Returns both paths, the log first. If a checkpoint runs between the two copies, it removes only
    /// entries that the copy of the log already has.
    pub fn both(&self) -> [PathBuf; 2] {
        [log_of(&self.heap), self.heap.clone()]
    }

    /// Returns the content of both files, the log first. A file that cannot be read counts as empty.
    pub fn read(&self) -> [Vec<u8>; 2] {
        self.both().map(|name| fs::read(name).unwrap_or_default())
    }

    /// Copies the files. A crash leaves them as they are now, unless they were copied before.
    pub fn copy(&mut self) {
        if std::mem::replace(&mut self.copied, true) {
            return;
        }
        for name in self.both() {
            if name.exists() {
                fs::copy(&name, with_suffix(&name, ".copy")).expect("the file can be copied");
            }
        }
    }

    /// Returns whether there are copies, which [`Files::take_copies`] has not taken yet.
    pub fn are_copied(&self) -> bool {
        self.copied
    }

    /// Replaces the files by their copies. Removes a file that has no copy.
    pub fn take_copies(&mut self) {
        for name in self.both() {
            let copy = with_suffix(&name, ".copy");
            if copy.exists() {
                // Writes into the same file. Opening would refuse another file as a copy of a heap in use.
                fs::copy(&copy, &name).expect("the file can be written");
                fs::remove_file(copy).expect("the copy is there");
            } else {
                let _ = fs::remove_file(&name);
            }
        }
        self.copied = false;
    }
}
