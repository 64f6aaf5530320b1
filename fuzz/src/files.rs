//! The files of a heap, and what a killed process leaves of them.

use std::fs;
use std::path::{Path, PathBuf};

use arbitrary::Arbitrary;
use pheap::{Durability, Options, SyncPolicy};
use pheap_testkit::{log_of, with_suffix};

/// How a heap is made durable.
#[derive(Arbitrary, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durable {
    Process,
    Pmem,
    Wal,
    /// A log that is synced on demand.
    Lazy,
}

impl Durable {
    /// The options, with this.
    pub fn of(self, options: Options) -> Options {
        match self {
            Durable::Process => options.durability(Durability::Process),
            Durable::Pmem => options.durability(Durability::Pmem),
            Durable::Wal => options.durability(Durability::Wal).sync_policy(SyncPolicy::EveryCommit),
            Durable::Lazy => options.durability(Durability::Wal).sync_policy(SyncPolicy::OnDemand),
        }
    }
}

/// A heap's file, and the log beside it.
#[derive(Debug)]
pub struct Files {
    heap: PathBuf,
    copied: bool,
}

impl Files {
    /// Those of the heap at `path`.
    pub fn new(path: PathBuf) -> Files {
        Files { heap: path, copied: false }
    }

    /// The heap's.
    pub fn heap(&self) -> &Path {
        &self.heap
    }

    /// Both of them. The log first: a checkpoint that runs meanwhile takes nothing from it that the copy does not have.
    pub fn both(&self) -> [PathBuf; 2] {
        [log_of(&self.heap), self.heap.clone()]
    }

    /// What they hold.
    pub fn read(&self) -> [Vec<u8>; 2] {
        self.both().map(|name| fs::read(name).unwrap_or_default())
    }

    /// What the files hold now is what a crash leaves, unless that was said before.
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

    /// Whether they were copied.
    pub fn are_copied(&self) -> bool {
        self.copied
    }

    /// Puts the copies in the place of the files.
    pub fn take_copies(&mut self) {
        for name in self.both() {
            let copy = with_suffix(&name, ".copy");
            if copy.exists() {
                // Into the same file, or it would be refused as a copy of one in use.
                fs::copy(&copy, &name).expect("the file can be written");
                fs::remove_file(copy).expect("the copy is there");
            } else {
                let _ = fs::remove_file(&name);
            }
        }
        self.copied = false;
    }
}
