//! `Heap::backup`: a copy of a heap that is in use.

mod copy;
mod format;
mod partial;
mod target;

use std::fmt;
use std::fs::Permissions;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::Heap;
use crate::error::{Error, Result};
use crate::os::names::folder_of;
use crate::os::unnamed_file;
use crate::wal::files::storage;
use copy::Copier;
use format::{Reader, Writer};
use partial::Partial;
use target::{FileTarget, Target};

pub(super) use target::unless_zero;

/// Mode of the copy of a heap that has no file.
const MODE: u32 = 0o600;

impl Heap {
    /// Copies the heap to a new file at `path`: the state between two transactions, marked as closed. So it opens anywhere and after a
    /// reboot, whatever the durability of this heap. This works for heaps in memory, too, and for read-only ones, whose logs are replayed in the copy.
    ///
    /// With [`Durability::Wal`](crate::Durability::Wal), transactions go on, and nothing waits: the copy is the state after the last one that had committed when the pages were copied, or a
    /// later one. With other durabilities, transactions wait until the copy is complete; reads go on.
    ///
    /// The copy takes the space of the pages that are in use. It shares no blocks with the heap's file: a
    /// store to a shared block needs space, and ends the process if the disk is full. What transactions
    /// change meanwhile is kept, 24 MiB of it in memory, more in a file without a name, in the folder of the
    /// copy. The file has the permissions of the heap's. It appears under its name when it is complete and
    /// durable. If the program is killed before that, a file called `.NAME.NUMBER.partial` remains, which the
    /// next backup to `path` removes.
    ///
    /// Use this to copy a heap that is open. A copy that other programs make of the open file may be torn, and is refused as [`Error::Copied`].
    ///
    /// See [`Backup`] for progress, and [`backup_to`](Self::backup_to) for copies that are sent elsewhere.
    ///
    /// # Errors
    /// [`Error::Io`] of the kind [`AlreadyExists`](io::ErrorKind::AlreadyExists) if there is a file at `path`, which is left as it is, or
    /// another one if the file cannot be written; [`Error::NoPermission`]; [`Error::OutOfSpace`]; [`Error::Nested`] if this thread is
    /// inside a transaction or read of the heap; [`Error::Failed`] or [`Error::OutcomeUnknown`] if the heap's disk fails, [`Error::Misplaced`] if its files are moved away; [`Error::Closed`], also if another thread is about to close it; [`Error::Forked`].
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<()> {
        Backup::of(self).write_file(path)
    }

    /// Like [`backup`](Self::backup), but writes the copy to `to`, from front to back: to a pipe, a socket, or a compressor. [`restore`](Self::restore) makes a heap of it.
    ///
    /// With [`Durability::Wal`](crate::Durability::Wal), nobody waits for `to`, however slow it is. (What transactions change meanwhile is kept as for [`backup`](Self::backup), but in the
    /// [folder for temporary files](std::env::temp_dir).) With other durabilities, transactions wait for it, so it must wait for none.
    /// What `to` may do with the heap is said in [`Backup::progress`].
    ///
    /// # Errors
    /// [`Error::Io`] if `to` fails; others as for [`backup`](Self::backup). What was written then is of no use, and `restore` refuses it.
    pub fn backup_to(&self, to: impl Write) -> Result<()> {
        Backup::of(self).write_to(to)
    }

    /// Makes a heap at `path` of what [`backup_to`](Self::backup_to) has written. The file appears when it is complete and durable, as that of a [`backup`](Self::backup).
    ///
    /// What was damaged on its way is noticed. What somebody has made up is not: [`Options::verify`](crate::Options::verify) checks that.
    ///
    /// # Errors
    /// [`Error::Io`] if `from` fails, of the kind [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if it ends too early, or of the kind [`AlreadyExists`](io::ErrorKind::AlreadyExists) if there is a
    /// file at `path`; [`Error::Corrupt`] if it is something else, or damaged; [`Error::NewerFormat`]; [`Error::NoPermission`]; [`Error::OutOfSpace`].
    pub fn restore(from: impl Read, path: impl AsRef<Path>) -> Result<()> {
        let reader = Reader::begin(from)?;
        let mode = reader.mode;
        make_file(path.as_ref(), Some(mode), |file| reader.copy(file, |e| explain(path.as_ref(), e)))
    }
}

/// A copy of a heap that is to be made, with options: like [`Heap::backup`].
///
/// ```
/// # fn main() -> pheap::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("copy");
/// let heap = pheap::Heap::in_memory()?;
/// pheap::Backup::of(&heap).progress(|done, total| println!("{done} of {total} bytes")).write_file(path)?;
/// # Ok(())
/// # }
/// ```
pub struct Backup<'a> {
    heap: &'a Heap,
    progress: Box<dyn FnMut(u64, u64) + 'a>,
}

impl fmt::Debug for Backup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backup").field("heap", &self.heap).finish_non_exhaustive()
    }
}

impl<'a> Backup<'a> {
    /// A copy of this heap.
    pub fn of(heap: &'a Heap) -> Backup<'a> {
        Backup { heap, progress: Box::new(|_, _| {}) }
    }

    /// Has `f` called again and again, with how many bytes were read and how many there are to be read, as far as is known: there are more when transactions go on. In the end
    /// both are the same.
    ///
    /// With [`Durability::Wal`](crate::Durability::Wal), `f` may use the heap, but to close or to copy it is
    /// [`Error::Nested`]. With other durabilities, transactions wait meanwhile: `f` may read, and must wait
    /// for no transaction of another thread. Its own are [`Error::Nested`], like all that waits.
    #[must_use]
    pub fn progress(mut self, f: impl FnMut(u64, u64) + 'a) -> Backup<'a> {
        self.progress = Box::new(f);
        self
    }

    /// Copies the heap to a new file: see [`Heap::backup`].
    ///
    /// # Errors
    /// See [`Heap::backup`].
    pub fn write_file(self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let mode = self.heap.inner().mode()?;
        let spill = folder_of(path).to_owned();
        make_file(path, mode, |file| {
            self.copy(file, &|e| explain(path, e), Box::new(move || unnamed_file(&spill)))
        })
    }

    /// Writes a copy of the heap to `to`: see [`Heap::backup_to`].
    ///
    /// # Errors
    /// See [`Heap::backup_to`].
    pub fn write_to(self, to: impl Write) -> Result<()> {
        let error = |e| Error::io("writing a backup", e);
        let mode = self.heap.inner().mode()?.unwrap_or(MODE);
        let mut writer = Writer::begin(to, mode).map_err(error)?;
        self.copy(&mut writer, &error, Box::new(|| unnamed_file(&std::env::temp_dir())))
    }

    fn copy(
        mut self,
        to: &mut dyn Target,
        explain: &dyn Fn(io::Error) -> Error,
        spill: crate::wal::stream::Spill,
    ) -> Result<()> {
        Copier::new(self.heap.inner(), to, explain, &mut self.progress).copy(spill)
    }
}

/// Makes a file at `path`, which appears when it is complete and durable.
fn make_file(path: &Path, mode: Option<u32>, fill: impl FnOnce(&mut dyn Target) -> Result<()>) -> Result<()> {
    let error = |e: io::Error| explain(path, e);
    if path.symlink_metadata().is_ok() {
        return Err(error(io::ErrorKind::AlreadyExists.into()));
    }
    // Before anyone has to wait: most of what can go wrong.
    let partial = Partial::create(path).map_err(error)?;
    let storage = partial.file.try_clone().and_then(storage).map_err(error)?;
    fill(&mut FileTarget::new(&partial.file, &storage))?;
    if let Some(mode) = mode {
        partial.file.set_permissions(Permissions::from_mode(mode)).map_err(error)?;
    }
    // SURVIVES unreached: copies are real files, which the simulator does not make; no crash test covers it.
    partial.file.sync_all().map_err(error)?;
    partial.publish(path).map_err(error)
}

/// An error of the operating system while `path` is made.
fn explain(path: &Path, e: io::Error) -> Error {
    Error::making("making the backup", path, e)
}

impl super::HeapInner {
    /// The permissions of the heap's file, if it has one.
    fn mode(&self) -> Result<Option<u32>> {
        self.check_open()?;
        let metadata = self.mapping.file().map(|file| file.metadata()).transpose();
        let metadata = metadata.map_err(|e| Error::io("looking at the heap's file", e))?;
        Ok(metadata.map(|metadata| metadata.mode() & 0o777))
    }
}
