//! `Heap::backup`: copies a heap that is in use.

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
use crate::os::own_file::OwnFile;
use crate::os::unnamed_file;
use crate::wal::files::storage;
use copy::Copier;
use format::{Reader, Writer};
use partial::Partial;
use target::{FileTarget, Target};

pub(super) use target::unless_zero;

/// Permissions that a backup stream gives for the copy of a heap that has no file.
const MODE: u32 = 0o600;

impl Heap {
    /// Copies the heap to a new file at `path`: the state between two transactions, marked as closed. So the
    /// copy opens on another machine and after a reboot, whatever the durability of this heap. This works for
    /// heaps in memory, too, and for read-only ones, whose logs are replayed in the copy.
    ///
    /// With [`Durability::Wal`](crate::Durability::Wal), transactions go on, and no thread waits: the copy is
    /// the state after the last transaction that had committed when the pages were copied, or after a later
    /// one. With other durabilities, and if the heap's file was removed, transactions wait until the copy is
    /// complete; reads go on.
    ///
    /// The copy takes the space of the pages that are in use. It shares no blocks with the heap's file: a
    /// store to a shared block needs space, and ends the process if the disk is full. Changes by transactions
    /// during the copy are kept until they are written: 24 MiB of them in memory, more in a file without a
    /// name, in the folder of the copy. The copy gets the permissions of the heap's file. It appears under
    /// its name when it is complete and durable. If the program is killed before that, a file called
    /// `.NAME.NUMBER.partial` remains, which the next backup to `path` removes.
    ///
    /// Use this to copy a heap that is open. A copy that other programs make of the open file may be torn,
    /// and is refused as [`Error::Copied`].
    ///
    /// See [`Backup`] for progress, and [`backup_to`](Self::backup_to) for copies that are sent elsewhere.
    ///
    /// # Errors
    /// [`Error::Io`] of the kind [`AlreadyExists`](io::ErrorKind::AlreadyExists) if there is a file at
    /// `path`, which is left as it is, or of another kind if the file cannot be written;
    /// [`Error::NoPermission`]; [`Error::OutOfSpace`]; [`Error::Nested`] if this thread is inside a
    /// transaction or read of the heap; [`Error::SeveralHeaps`] if it is inside another heap,
    /// [`Error::Unsupported`] if it is inside too many heaps; [`Error::Failed`] or [`Error::OutcomeUnknown`]
    /// if the heap's disk fails, [`Error::Misplaced`] if its files are moved away; [`Error::Corrupt`] if the
    /// heap's tables cannot be read; [`Error::Closed`], also if another thread is about to close the heap;
    /// [`Error::Forked`].
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<()> {
        Backup::of(self).write_file(path)
    }

    /// Like [`backup`](Self::backup), but writes the copy to `to`, from front to back: to a pipe, a socket,
    /// or a compressor. [`restore`](Self::restore) makes a heap of it.
    ///
    /// With [`Durability::Wal`](crate::Durability::Wal), no thread waits for `to`, however slow it is, unless
    /// the heap's file was removed. (Changes during the copy are kept as for [`backup`](Self::backup), but 8
    /// MiB of them in memory, and more in the [folder for temporary files](std::env::temp_dir).) With other
    /// durabilities, and if the heap's file was removed, transactions wait for `to`, so it must wait for no
    /// transaction. [`Backup::progress`] says how `to` may use the heap.
    ///
    /// # Errors
    /// [`Error::Io`] if `to` fails; others as for [`backup`](Self::backup), except those about the file at
    /// `path`. The bytes that were written before an error are useless, and `restore` refuses them.
    pub fn backup_to(&self, to: impl Write) -> Result<()> {
        Backup::of(self).write_to(to)
    }

    /// Makes a heap at `path` from the bytes that [`backup_to`](Self::backup_to) has written. The file
    /// appears when it is complete and durable, like that of a [`backup`](Self::backup).
    ///
    /// Accidental damage to the bytes is detected. Forged bytes are not:
    /// [`Options::verify`](crate::Options::verify) checks the resulting heap.
    ///
    /// # Errors
    /// [`Error::Io`] if `from` fails, of the kind [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if it ends
    /// too early, of the kind [`AlreadyExists`](io::ErrorKind::AlreadyExists) if there is a file at `path`,
    /// or of another kind if the file cannot be written; [`Error::Corrupt`] if the bytes are no backup, or
    /// are damaged; [`Error::NewerFormat`]; [`Error::OlderFormat`]; [`Error::NoPermission`];
    /// [`Error::OutOfSpace`].
    pub fn restore(from: impl Read, path: impl AsRef<Path>) -> Result<()> {
        let reader = Reader::read_head(from)?;
        let mode = reader.mode;
        make_file(path.as_ref(), Some(mode), |file| reader.copy(file, |e| explain(path.as_ref(), e)))
    }
}

/// A backup with options; see [`Heap::backup`].
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
    /// Returns a backup of this heap.
    pub fn of(heap: &'a Heap) -> Backup<'a> {
        Backup { heap, progress: Box::new(|_, _| {}) }
    }

    /// Sets a function that is called repeatedly, with the bytes copied so far and the bytes to be copied in
    /// all. The second number is an estimate: it grows if transactions go on. At the end both numbers are
    /// equal.
    ///
    /// With [`Durability::Wal`](crate::Durability::Wal), `f` may use the heap, but closing or copying it is
    /// [`Error::Nested`]. With other durabilities, and if the heap's file was removed, transactions wait
    /// during the copy: `f` may read, and must wait for no transaction of another thread. In `f`,
    /// transactions and all other calls that wait are [`Error::Nested`] then.
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
        let mut writer = Writer::write_head(to, mode).map_err(error)?;
        self.copy(&mut writer, &error, Box::new(|| unnamed_file(&std::env::temp_dir())))
    }

    fn copy(
        mut self,
        to: &mut dyn Target,
        explain: &dyn Fn(io::Error) -> Error,
        spill: crate::wal::stream::MakeSpillFile,
    ) -> Result<()> {
        Copier::new(self.heap.inner(), to, explain, &mut self.progress).copy(spill)
    }
}

/// Makes a file, which appears at `path` when it is complete and durable. `fill` writes its content; `mode`
/// has its permissions.
fn make_file(path: &Path, mode: Option<u32>, fill: impl FnOnce(&mut dyn Target) -> Result<()>) -> Result<()> {
    let error = |e: io::Error| explain(path, e);
    if path.symlink_metadata().is_ok() {
        let exists = "the file exists already; choose another path";
        return Err(error(io::Error::new(io::ErrorKind::AlreadyExists, exists)));
    }
    // The partial file is created before any thread has to wait for the copy, because most errors occur here.
    let partial = Partial::create(path).map_err(error)?;
    let storage = partial.file.try_clone().map(OwnFile::new).and_then(storage).map_err(error)?;
    fill(&mut FileTarget::new(&partial.file, &storage))?;
    if let Some(mode) = mode {
        partial.file.set_permissions(Permissions::from_mode(mode)).map_err(error)?;
    }
    // SURVIVES unreached: copies are real files, which the simulator does not make; no crash test covers this
    // sync.
    partial.file.sync_all().map_err(error)?;
    partial.publish(path).map_err(error)
}

/// Converts an error of the operating system while `path` is made.
fn explain(path: &Path, e: io::Error) -> Error {
    Error::making("creating the file", path, e)
}

impl super::HeapInner {
    /// Returns the permissions of the heap's file, if it has one.
    fn mode(&self) -> Result<Option<u32>> {
        self.check_open()?;
        let metadata = self.mapping.file().map(|file| file.metadata()).transpose();
        let metadata = metadata.map_err(|e| Error::io("looking at the heap's file", e))?;
        Ok(metadata.map(|metadata| metadata.mode() & 0o777))
    }
}
