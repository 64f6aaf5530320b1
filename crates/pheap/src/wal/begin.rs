//! The log of a closed heap begins when a thread begins a transaction, or is about to append a record or to
//! write the header. So a heap that is only opened, read and closed gets no log and no new header, and no
//! thread waits for a sync unless the program [asks](Wal::sync) for a sync. Other heaps (a new heap, or one
//! that was prepared for `Wal`) count as closed first, too. Their log begins during the opening.
//!
//! Before the log [begins](Wal::ensure_log), it has no file, the heap's file has the content that the opening
//! found, and its header says that the heap is closed. An opening after a crash, a copy, or a follower then
//! finds a closed heap. The beginning writes the following, each durable before the next. A crash in between
//! leaves a closed heap, perhaps next to an unused log, or a heap in use with a log without records.
//!
//! 1. The header that was found, unless it is known to be durable. Without this write, a torn write of the
//!    next header could leave no whole header. Then zeros over the other slot, if an earlier torn write has
//!    left that slot torn.
//! 2. The log, and its name.
//! 3. Headers that say that the heap is in use, and name the log. From here on, records count.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::format::{FIRST_SEGMENTS, LogLayout};
use super::{HIDES_WRITES, Wal};
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::os::storage::{Disk, Storage};
use crate::units::PAGE;

/// The writes to the heap's file when the log begins.
#[derive(Debug)]
pub(crate) struct LogBeginning {
    /// The header that was found, and its offset. `None` once it is known to be durable.
    pub(crate) found: Option<(Vec<u8>, u64)>,
    /// Length and offset of a header slot that a torn write has left. The slot is to be zeroed.
    pub(crate) torn: Option<(usize, u64)>,
    /// Headers that name the log, and their offsets.
    pub(crate) headers: [(Vec<u8>, u64); 2],
}

impl Wal {
    /// Returns whether the log exists and the heap's header names it.
    #[inline]
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Sets the writes with which the log begins.
    pub(crate) fn will_begin(&self, beginning: LogBeginning) {
        // SURVIVES drop: no other thread has the log yet, so none needs this lock.
        *self.beginning.lock() = Some(beginning);
    }

    /// Keeps the log from beginning, if it has not begun. The heap is being closed, and another process may
    /// have its file afterwards. Waits for a thread that is making the log begin.
    pub(super) fn begin_no_more(&self) {
        *self.beginning.lock() = None;
    }

    /// Makes the log if there is none yet, and names it in the heap's header. All of this is durable on
    /// return.
    ///
    /// # Errors
    /// [`Error::NoPermission`], [`Error::OutOfSpace`], [`Error::Unsupported`], [`Error::Misplaced`] and
    /// [`Error::Io`] if the log cannot be made: then the heap still counts as closed, and the next call tries
    /// again. [`Error::Failed`] if the header cannot be written, or the log has failed before: the log
    /// refuses everything from now on. [`Error::Closed`] if the log [must not begin any
    /// more](Self::begin_no_more).
    #[inline]
    pub(crate) fn ensure_log(&self) -> Result<()> {
        if self.has_begun() { Ok(()) } else { self.begin_now() }
    }

    #[cold]
    fn begin_now(&self) -> Result<()> {
        let mut held = self.beginning.lock();
        if self.has_begun() {
            return Ok(()); // another thread has begun the log meanwhile
        }
        let Some(beginning) = &mut *held else {
            return Err(Error::Closed);
        };
        // After a failed write of the heap's file, its content on the disk is unknown. The log has failed
        // then, and its failure is returned.
        let failed = |error| self.failure().unwrap_or(error);
        self.write_found(beginning).map_err(failed)?;
        if let Some((len, at)) = beginning.torn {
            // The rest of a torn header and words of the next header must not form a valid header.
            // SURVIVES drop: only with certain random numbers do words of two torn headers form a valid
            // header; `resume_tests.rs` has a test.
            // SURVIVES delay: only with certain random numbers do words of two torn headers form a valid
            // header.
            self.write_directly(&vec![0; len], at).map_err(failed)?;
        }
        // If the heap was renamed since it was opened, the log must be made next to its new name.
        self.keep_data_found()?;
        let mut log = None;
        if !bug(Bug::NameBeforeLog) {
            log = Some(make(&*self.disk, self.layout)?);
        }
        if !bug(Bug::RecordUnnamed) {
            for (bytes, at) in &beginning.headers {
                self.write_directly(bytes, *at).map_err(failed)?;
            }
        }
        let log = match log {
            Some(log) => log,
            None => make(&*self.disk, self.layout)?,
        };
        self.use_log(log);
        *held = None;
        self.begun.store(true, Ordering::Release);
        Ok(())
    }

    /// Makes the content of the heap's file durable, if the log has not begun and this was not done before:
    /// the file may be a copy that is not on the disk yet. Returns `false` if the log has begun.
    ///
    /// # Errors
    /// The error of a failed write or sync of the heap's file; the log then refuses everything. The failure
    /// that the log has already. [`Error::Closed`] if the log [must not begin any more](Self::begin_no_more).
    pub(super) fn sync_found(&self) -> Result<bool> {
        // SURVIVES unreached: no program of the crash lab syncs a heap that it has not changed; a test below
        // checks that the header that was found is written.
        match &mut *self.beginning.lock() {
            Some(beginning) => self.write_found(beginning).map(|()| true),
            None if self.has_begun() => Ok(false),
            None => Err(Error::Closed),
        }
    }

    /// Writes the header as it was read when the heap was opened, and syncs the heap's file, unless this was
    /// done before. If an earlier sync has failed, a sync alone does not make the header durable, and the
    /// page cache may have forgotten the header since. One write is enough, because no thread changes this
    /// header before it is durable.
    fn write_found(&self, beginning: &mut LogBeginning) -> Result<()> {
        if let Some((bytes, at)) = &beginning.found {
            self.write_directly(bytes, *at)?;
            beginning.found = None;
        }
        Ok(())
    }

    /// Sets the file of a log that has none yet, and maps it if the sync policy lets threads write their
    /// records themselves.
    pub(super) fn use_log(&self, log: Arc<dyn Storage>) {
        self.mapped.store(!self.policy.keeps_records() && self.map(&*log), Ordering::Relaxed);
        self.log.set(log).expect("a log begins once");
    }
}

/// Creates the file of a new log, durably. After an error the file is removed again, if that works.
pub(super) fn make(disk: &dyn Disk, layout: LogLayout) -> Result<Arc<dyn Storage>> {
    let error = |e| Error::making("creating the log", &disk.log_path(), e);
    let log = disk.create_log().map_err(error)?;
    let fill = || {
        let end = layout.file_offset(FIRST_SEGMENTS);
        log.extend(0, end)?;
        // The test whether a mapping shows writes uses the last page of the segments, before the head is
        // written. A file without a head is taken for a log that was never used, whatever a crash during the
        // test leaves in that page.
        let shows_writes = log.shows_writes(end - PAGE)?;
        log.write_all(&layout.to_bytes(), 0)?;
        log.sync()?;
        Ok(shows_writes)
    };
    let filled = fill()
        .map_err(error)
        .and_then(|shows_writes| if shows_writes { Ok(()) } else { Err(Error::Unsupported(HIDES_WRITES)) });
    filled.inspect_err(|_| {
        let _ = disk.remove_log(&*log);
    })?;
    Ok(log)
}

#[cfg(all(test, not(pheap_loom)))]
mod tests {
    use crate::wal::deferred_tests::{get, options};
    use crate::{Error, Root, SyncPolicy};

    /// A writer has checked that the heap is open, and is about to begin the log. Then another thread closes
    /// the heap, and the heap is opened again.
    #[test]
    fn it_does_not_begin_when_the_heap_is_closed() {
        for policy in [SyncPolicy::EveryCommit, SyncPolicy::OnDemand] {
            let folder = tempfile::tempdir().unwrap();
            let (path, log) = (folder.path().join("heap"), folder.path().join("heap.wal"));
            let open = || options(policy).open(&path).unwrap();
            let heap = open();
            drop(heap.root::<u64>("a").unwrap());
            heap.close().unwrap();
            let heap = open();
            let wal = heap.inner().wal().unwrap().clone();
            heap.close().unwrap();
            let before = std::fs::read(&path).unwrap();
            assert!(matches!(wal.ensure_log(), Err(Error::Closed)));
            assert!(std::fs::read(&path).unwrap() == before && !log.exists());
            let a: Root<u64> = open().root("a").unwrap();
            assert_eq!(get(&a).unwrap(), 0);
        }
    }

    /// When the log begins, the header is written as the opening has read it. If the disk has failed since,
    /// the page cache may have forgotten the header.
    #[test]
    fn the_header_that_was_found_is_written() {
        use std::os::unix::fs::FileExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("heap");
        let heap = options(SyncPolicy::EveryCommit).open(&path).unwrap();
        drop(heap.root::<u64>("a").unwrap());
        heap.close().unwrap();
        let before = std::fs::read(&path).unwrap();
        let heap = options(SyncPolicy::EveryCommit).open(&path).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        for slot in [0, 4096] {
            file.write_all_at(&[0; 512], slot).unwrap();
        }
        // A directory has the log's name, so the log cannot be created. The header was written before that.
        std::fs::create_dir(folder.path().join("heap.wal")).unwrap();
        assert!(matches!(heap.inner().wal().unwrap().ensure_log(), Err(Error::Io { .. })));
        let after = std::fs::read(&path).unwrap();
        assert!([0, 4096].iter().any(|&slot| before[slot..slot + 512] == after[slot..slot + 512]));
    }
}
