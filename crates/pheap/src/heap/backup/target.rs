//! Where a copy of a heap goes.

use std::fs::File;
use std::io;

use crate::os::storage::Storage;
use crate::os::{set_len, write_out};
use crate::units::PAGE;
use crate::wal::Fold;

/// Takes a copy: pages, then what has changed since they were read, and the headers at the end.
pub(super) trait Target {
    /// Takes whole pages. Each comes once at most; those that do not come are zero.
    fn pages(&mut self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Has the disk write what it was not given yet, if that has become much. For copies beside transactions: who waits for a sync of the log waits for all that the disk was given before.
    fn pace(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Takes records, each a whole one, which are newer than all that came before.
    fn records(&mut self, words: &[u64]) -> io::Result<()>;

    /// Takes the headers, and how many bytes the heap has. Nothing comes after that.
    fn finish(&mut self, headers: &[u8], mapped: u64) -> io::Result<()>;
}

/// Bytes of memory for records that wait to be written.
const ROOM: u64 = 16 << 20;

/// Bytes that the disk is given at a time: a whole copy at once takes it half a second and more.
const PACE: usize = 1 << 20;

/// A new file.
pub(super) struct FileTarget<'a> {
    file: &'a File,
    storage: &'a dyn Storage,
    /// Records wait there, and are written after the pages that came meanwhile. So it is for [streams](crate::wal::stream): what a page has that is newer than a record that came
    /// before it, a record has that comes after it.
    fold: Fold<'a>,
    /// Bytes of pages that the disk was not given yet.
    waiting: usize,
}

impl<'a> FileTarget<'a> {
    /// `storage` is the same file.
    pub(super) fn new(file: &'a File, storage: &'a dyn Storage) -> FileTarget<'a> {
        FileTarget { file, storage, fold: Fold::with_room(storage, ROOM), waiting: 0 }
    }
}

impl Target for FileTarget<'_> {
    fn pages(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        // SURVIVES unreached: copies are real files, which the simulator does not make; `tests/files/backup.rs` is for this.
        self.storage.write_all(bytes, at)?;
        self.waiting += bytes.len();
        Ok(())
    }

    fn pace(&mut self) -> io::Result<()> {
        if self.waiting < PACE {
            return Ok(());
        }
        self.waiting = 0;
        write_out(self.file)
    }

    fn records(&mut self, words: &[u64]) -> io::Result<()> {
        crate::wal::stream::records(words).try_for_each(|record| self.fold.add(record))
    }

    fn finish(&mut self, headers: &[u8], mapped: u64) -> io::Result<()> {
        std::mem::replace(&mut self.fold, Fold::with_room(self.storage, ROOM)).finish()?;
        set_len(self.file, mapped)?;
        // SURVIVES unreached: as above.
        self.storage.write_all(headers, 0)
    }
}

/// Hands on whole pages, but for those that are zero, which those of a new file are anyway.
pub(in crate::heap) fn unless_zero(
    bytes: &[u8],
    at: u64,
    mut to: impl FnMut(&[u8], u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut place = at;
    let page = PAGE as usize;
    let is_zero = |page: &[u8]| page.iter().all(|&byte| byte == 0);
    let pages: Vec<&[u8]> = bytes.chunks(page).collect();
    for run in pages.chunk_by(|one, next| is_zero(one) == is_zero(next)) {
        let len = run.len() * page;
        if !is_zero(run[0]) {
            let first = (place - at) as usize;
            to(&bytes[first..first + len], place)?;
        }
        place += len as u64;
    }
    Ok(())
}
