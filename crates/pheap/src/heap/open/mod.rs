//! Opens a heap: in a file, in memory, or on the simulated medium. An opening goes through stages. Each stage
//! is a value with all that is known so far, and is consumed by the next one:
//!
//! | stage | is known | file |
//! |---|---|---|
//! | [`FoundHeap`] | the header, and the records in the log | [`found`] |
//! | [`SurveyedHeap`] | valid metadata (after a replay), reserved addresses | [`contents`], [`survey`] |
//! | [`OpenPlan`](plan::OpenPlan) | the durability, and how the file is prepared | [`plan`], [`choose`] |
//! | [`RecoveredHeap`] | the file is ready, and in use once a log (if any) begins | [`contents`], [`wal`] |
//! | [`Heap`] | | [`contents`] |
//!
//! If an opening needs more memory than its limit, [`fit`] brings the log to the file first, or makes a copy.
//! With [`Options::follower`], [`follow`] makes a copy, even if another process has the heap open. The copy
//! is surveyed.
//!
//! No byte of the heap's file or log is changed before there is a plan, with one exception: a log that needs
//! too much memory is brought to the file. [`place`] has the differences between a file and a simulated
//! medium. [`create`] creates a heap where there is none. [`verify`] checks a heap more thoroughly than the
//! survey.
//!
//! [`SurveyedHeap`]: found::SurveyedHeap

pub(super) mod choose;
mod contents;
mod copy;
mod create;
mod fit;
mod follow;
#[cfg(all(test, not(pheap_loom)))]
mod follow_tests;
mod found;
mod lost;
mod place;
mod plan;
#[cfg(feature = "sim")]
mod simulated;
mod store;
mod survey;
mod verify;
mod wal;

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;

use super::Heap;
use super::options::Options;
use crate::error::{Error, Result};
use crate::os::file_lock::OpenFileEntry;
use crate::os::own_file::OwnFile;
use crate::os::{regular, unlock};
use crate::wal::files::Files;
use contents::RecoveredHeap;
use found::FoundHeap;
use place::{FilePlace, HeapPlace};

impl Options {
    /// Opens the heap in the file at `path`. Creates it if there is none, unless it is only read, and
    /// recovers it if its last user crashed.
    ///
    /// # Errors
    /// [`Error::NotAHeap`], [`Error::Truncated`], [`Error::NewerFormat`], [`Error::OlderFormat`],
    /// [`Error::Corrupt`] for files that are not (or no longer) valid heaps. These are left as they are (but
    /// a log whose pages need [too much memory](Options::memory_limit) may have been brought to the file).
    /// [`Error::Locked`] and [`Error::AlreadyOpen`] for heaps that are in use; [`Error::Copied`],
    /// [`Error::NotClosed`] and [`Error::BootUnknown`] for heaps that may be torn; for a
    /// [follower](Options::follower), [`Error::NotFollowed`] and [`Error::Overtaken`]; [`Error::LogMissing`],
    /// [`Error::ForeignLog`] and [`Error::MountedAlone`] for heaps whose log is not where it should be;
    /// [`Error::NotAFile`], [`Error::NoPermission`], [`Error::OutOfSpace`], [`Error::MemoryLimit`],
    /// [`Error::AddressInUse`], [`Error::TooManyHeaps`], [`Error::InvalidOption`], [`Error::Unsupported`],
    /// [`Error::Io`]; [`Error::Failed`] and [`Error::Misplaced`] if the disk fails, or the files are moved
    /// away, while the log is being made; [`Error::SeveralHeaps`] if the heap is to be
    /// [checked](Options::verify) and this thread is inside another heap.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Heap> {
        self.check()?;
        if self.follower { follow::follow(self, path.as_ref()) } else { open_file(self, path.as_ref()) }
    }

    /// Creates a heap in volatile memory, without a file. It is gone when it is closed, or when the last
    /// handle is dropped.
    ///
    /// # Errors
    /// [`Error::AddressInUse`], [`Error::TooManyHeaps`], [`Error::InvalidOption`], [`Error::Io`].
    pub fn in_memory(&self) -> Result<Heap> {
        self.check()?;
        Ok(create::create_in_memory(self)?.into_heap(self, None))
    }
}

/// Goes through the stages of an opening for the file or medium `place`. Creates a heap if there is none.
fn open(options: &Options, place: &dyn HeapPlace) -> Result<RecoveredHeap> {
    let Some(found) = FoundHeap::read(options, place)? else { return create::create(options, place) };
    verify::verify(&found)?;
    fit::survey(found, |surveyed| surveyed.plan()?.recover())
}

fn open_file(options: &Options, path: &Path) -> Result<Heap> {
    let mut how = OpenOptions::new();
    how.read(true).write(!options.read_only).create(!options.read_only).truncate(false);
    let file = OwnFile::open(|| regular::open(&mut how, path))?;
    let lock = OpenFileEntry::lock(&file, path, options.read_only)?;
    let recovered = Files::new(file.clone(), path)
        .map_err(|e| Error::io(format!("opening {}", path.display()), e))
        .and_then(|files| {
            open(options, &FilePlace { path, file: file.clone(), is_copy: false, disk: Arc::new(files) })
        });
    match recovered {
        Ok(recovered) => Ok(recovered.into_heap(options, Some(lock))),
        Err(error) => {
            // If another thread has just forked, the child shares the file's lock until it has given up the
            // parent's files. So the lock is released explicitly.
            unlock(&file);
            Err(error)
        }
    }
}
