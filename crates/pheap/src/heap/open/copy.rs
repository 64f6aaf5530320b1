//! Makes temporary copies of heaps that are only read. Such a copy is a file without a name, in memory or in
//! a folder.

use std::fs::{File, Permissions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::error::{Error, Result};
use crate::heap::backup::unless_zero;
use crate::heap::options::Options;
use crate::os::file_system::overwrite_in_place;
use crate::os::holes::{check_room, reserve_range};
use crate::os::own_file::OwnFile;
use crate::os::storage::{Storage, write_all};
use crate::os::{file_in_memory, set_len, unnamed_file, write_at};
use crate::units::PAGE;
use crate::wal::files::storage;

/// Number of bytes of a heap's file that one read copies.
pub(super) const CHUNK: u64 = 1 << 20;
/// Bytes of a block that `st_blocks` counts.
const BLOCK: u64 = 512;

/// Returns the bytes of disk that a file takes.
pub(super) fn space(of: &File) -> io::Result<u64> {
    Ok(of.metadata()?.blocks() * BLOCK)
}

/// Returns whether a copy of this many bytes may be in memory.
pub(super) fn is_small(options: &Options, bytes: u64) -> bool {
    bytes <= options.memory() / 2
}

/// Creates a file without a name, in memory or in a folder.
pub(super) fn empty_file(in_memory: bool, folder: &Path) -> io::Result<File> {
    if in_memory {
        return file_in_memory();
    }
    unnamed_file(folder).inspect(overwrite_in_place)
}

/// A copy of a heap in the making: its pages, without the header.
pub(super) struct HeapCopy<'a> {
    options: &'a Options,
    path: &'a Path,
    /// Bytes that the copy takes, including the pages to which the log's records store.
    takes: u64,
    /// Bytes of private memory that the opening would need without a copy; for the error.
    need: u64,
    file: OwnFile,
    in_memory: bool,
}

impl<'a> HeapCopy<'a> {
    /// Creates an empty copy of the heap in the file `of` at `path`. The copy will take `takes` bytes,
    /// including what the records of the log store. It is in memory if these bytes are at most half of the
    /// memory limit, else in [`Options::temp_dir`].
    ///
    /// # Errors
    /// [`Error::MemoryLimit`]; for a copy in memory, [`Error::OutOfSpace`] and [`Error::Io`].
    pub(super) fn create(
        options: &'a Options,
        path: &'a Path,
        of: &File,
        takes: u64,
        need: u64,
    ) -> Result<HeapCopy<'a>> {
        let in_memory = is_small(options, takes);
        let create = || {
            let file = empty_file(in_memory, &options.folder_for_copies())?;
            // The copy gets the permissions of the heap's file, because a backup of the copy gets those of
            // the copy. The kernel does not set execute bits on files in memory, so these bits are left out.
            file.set_permissions(Permissions::from_mode(of.metadata()?.mode() & 0o666))?;
            Ok(OwnFile::new(file))
        };
        let file = create().map_err(|e| error(options, path, need, in_memory, e))?;
        Ok(HeapCopy { options, path, takes, need, file, in_memory })
    }

    /// Copies the range `pages` of `data`, the heap's file. Calls `go_on` after each chunk. Returns whether
    /// all pages were copied: `false` if `go_on` has returned `false`, or the file has become shorter.
    ///
    /// # Errors
    /// Those of `go_on`; [`Error::MemoryLimit`], [`Error::OutOfSpace`], [`Error::Io`].
    pub(super) fn pages(
        &self,
        data: &dyn Storage,
        pages: Range<u64>,
        go_on: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<bool> {
        let reading = |e| Error::io(format!("reading {}", self.path.display()), e);
        let mut buffer = vec![0; CHUNK as usize];
        let mut at = pages.start;
        while let Some(next) = data.data_from(at).map_err(reading)?.filter(|&next| next < pages.end) {
            at = next & !(PAGE - 1);
            let len = (pages.end - at).min(CHUNK) as usize;
            if data.read_up_to(&mut buffer[..len], at).map_err(reading)? < len {
                return Ok(false);
            }
            let write = |bytes: &[u8], at| write_all(bytes, at, |bytes, at| write_at(&self.file, bytes, at));
            unless_zero(&buffer[..len], at, write).map_err(|e| self.error(e))?;
            at += len as u64;
            if !go_on()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes the copy `mapped` bytes long, and returns its file. Calls `replay`, which brings the records of
    /// the log to the copy; its second argument is the number of bytes of memory that it may use.
    ///
    /// # Errors
    /// [`Error::MemoryLimit`]; for a copy in memory, [`Error::OutOfSpace`] and [`Error::Io`].
    pub(super) fn replay_log(
        self,
        mapped: u64,
        replay: impl FnOnce(&dyn Storage, u64) -> io::Result<()>,
    ) -> Result<OwnFile> {
        // A copy on a disk gets all its space now. On a full disk, a store to a hole ends the process; in a
        // tmpfs a read does, too.
        let reserve = || {
            if self.in_memory {
                return Ok(());
            }
            reserve_range(&self.file, 0, mapped)?;
            check_room(&self.file, mapped)
        };
        let room = (self.options.memory() / 2).saturating_sub(if self.in_memory { self.takes } else { 0 });
        let replayed = set_len(&self.file, mapped)
            .and_then(|()| reserve())
            .and_then(|()| storage(self.file.clone()))
            .and_then(|storage| replay(&storage, room));
        replayed.map_err(|e| self.error(e))?;
        Ok(self.file)
    }

    fn error(&self, source: io::Error) -> Error {
        error(self.options, self.path, self.need, self.in_memory, source)
    }
}

fn error(options: &Options, path: &Path, need: u64, in_memory: bool, source: io::Error) -> Error {
    if in_memory {
        // A copy in memory is made only within the limit, so its error is not `MemoryLimit`.
        return Error::writing(format!("copying {} to memory", path.display()), source);
    }
    let (path, directory, limit) = (path.to_owned(), options.folder_for_copies(), options.memory());
    Error::MemoryLimit { path, need, limit, directory, source }
}
