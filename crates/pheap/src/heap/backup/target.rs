//! The targets of a backup: a file, or a stream.

use std::fs::File;
use std::io;

use crate::os::storage::Storage;
use crate::os::{set_len, write_out};
use crate::units::PAGE;
use crate::wal::Fold;

/// Receives a backup: pages, the changes since they were read, which may come between pages, and the headers
/// at the end.
pub(super) trait Target {
    /// Receives whole pages, the first of them at the offset `at`. Each page comes once at most. Pages that
    /// do not come are zero, apart from the words that records write to them.
    fn pages(&mut self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Makes the disk write the pages that this target has received since the last write, if they are many.
    /// Called by copies during transactions: a sync of the log would wait for all writes that the disk was
    /// given before.
    fn pace(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Receives whole records, which are newer than all records received before. A page received before may
    /// already have newer words than these records; then later records have those words, too.
    fn records(&mut self, words: &[u64]) -> io::Result<()>;

    /// Receives the headers, and the bytes of the heap. This is the last call.
    fn receive_headers(&mut self, headers: &[u8], mapped: u64) -> io::Result<()>;
}

/// Bytes of memory for records that a file target has received and not written yet.
const ROOM: u64 = 16 << 20;

/// Bytes of pages after which the disk is made to write them. If the disk got a whole copy at once, it would
/// write for long.
const PACE: usize = 1 << 20;

/// A new file as the target.
pub(super) struct FileTarget<'a> {
    file: &'a File,
    storage: &'a dyn Storage,
    /// The records received so far. They are collected here, and written after pages that come later.
    /// [Streams](crate::wal::stream) allow that: if a page has something newer than a record that came before
    /// it, a record that comes after the page has it, too.
    fold: Fold<'a>,
    /// Bytes of pages written since the last `write_out`.
    waiting: usize,
}

impl<'a> FileTarget<'a> {
    /// Creates a target for a new file. `storage` is the same file as `file`.
    pub(super) fn new(file: &'a File, storage: &'a dyn Storage) -> FileTarget<'a> {
        FileTarget { file, storage, fold: Fold::with_room(storage, ROOM), waiting: 0 }
    }
}

impl Target for FileTarget<'_> {
    fn pages(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        // SURVIVES unreached: copies are real files, which the simulator does not make;
        // `tests/files/backup.rs` tests this write.
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

    fn receive_headers(&mut self, headers: &[u8], mapped: u64) -> io::Result<()> {
        std::mem::replace(&mut self.fold, Fold::with_room(self.storage, ROOM)).flush_rest()?;
        set_len(self.file, mapped)?;
        // SURVIVES unreached: copies are real files, which the simulator does not make;
        // `tests/files/backup.rs` tests this write.
        self.storage.write_all(headers, 0)
    }
}

/// Calls `to` with each run of pages in `bytes` that are not all zero, and with the offset of the run. The
/// first page has the offset `at`. Pages that are all zero are left out, because a new file has zeros there
/// anyway.
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
