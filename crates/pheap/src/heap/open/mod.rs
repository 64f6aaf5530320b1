//! Opening a heap: in a file, in memory, or on the simulated medium. It goes through stages, of which each owns what it has learnt, and is used up by the next one:
//!
//! | stage | is known | file |
//! |---|---|---|
//! | [`Found`] | the header, and what the log holds besides | [`found`] |
//! | [`Surveyed`](found::Surveyed) | all metadata, as they will be when the logs are replayed: it is a good heap, and has its addresses | [`contents`], [`survey`] |
//! | [`Plan`](plan::Plan) | the durability, and how the file becomes ready for it | [`plan`], [`choose`] |
//! | [`Recovered`] | the file is ready, and says that it is in use | [`contents`], [`wal`] |
//! | [`Heap`] | | [`contents`] |
//!
//! What needs more memory than it may have is [made to fit](fit) before it is surveyed. Of a heap that another process has
//! open, [`follow`] makes a copy that is surveyed.
//!
//! Nothing is changed before there is a plan, but that a log which needs too much memory is brought to the file. What differs between a file and a simulated medium is in [`place`]. [`create`] makes a heap where there is none, [`verify`] checks one
//! more than the survey does.

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
use crate::os::file_lock::OpenFile;
use crate::os::own_file::OwnFile;
use crate::os::{regular, unlock};
use crate::wal::files::Files;
use contents::Recovered;
use found::Found;
use place::{InFile, Place};

impl Options {
    /// Opens the heap in the file at `path`: creates it if there is none, recovers it if its last user crashed.
    ///
    /// # Errors
    /// [`Error::NotAHeap`], [`Error::Truncated`], [`Error::NewerFormat`], [`Error::OlderFormat`], [`Error::Corrupt`] for files that are not (or no longer) valid
    /// heaps, which are left as they are (but a log whose pages need [too much memory](Options::memory_limit) may have
    /// been brought to the file); [`Error::Locked`] and [`Error::AlreadyOpen`] for heaps that are in use; [`Error::Copied`], [`Error::NotClosed`] and
    /// [`Error::BootUnknown`] for those that may be torn; for a [follower](Options::follower), [`Error::NotFollowed`] and [`Error::Overtaken`];
    /// [`Error::NoPermission`], [`Error::OutOfSpace`], [`Error::AddressInUse`], [`Error::Io`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Heap> {
        self.check()?;
        if self.follower { follow::follow(self, path.as_ref()) } else { open_file(self, path.as_ref()) }
    }

    /// A heap in volatile memory, without a file. It is gone when the last handle is dropped.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`], [`Error::AddressInUse`], [`Error::Io`].
    pub fn in_memory(&self) -> Result<Heap> {
        self.check()?;
        Ok(create::create_in_memory(self)?.finish(self, None))
    }
}

/// From what lies at a place to a heap that is ready.
fn open(options: &Options, place: &dyn Place) -> Result<Recovered> {
    let Some(found) = Found::read(options, place)? else { return create::create(options, place) };
    verify::verify(&found)?;
    fit::survey(found, |surveyed| surveyed.plan()?.recover())
}

fn open_file(options: &Options, path: &Path) -> Result<Heap> {
    let mut how = OpenOptions::new();
    how.read(true).write(!options.read_only).create(!options.read_only).truncate(false);
    let file = OwnFile::open(|| regular::open(&mut how, path))?;
    let lock = OpenFile::lock(&file, path, options.read_only)?;
    let recovered = Files::new(file.clone(), path)
        .map_err(|e| Error::io(format!("opening {}", path.display()), e))
        .and_then(|files| {
            open(options, &InFile { path, file: file.clone(), is_copy: false, disk: Arc::new(files) })
        });
    match recovered {
        Ok(recovered) => Ok(recovered.finish(options, Some(lock))),
        Err(error) => {
            // A child that another thread has just made shares the lock until it runs another program.
            unlock(&file);
            Err(error)
        }
    }
}
