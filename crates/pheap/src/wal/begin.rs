//! The log of a heap that was closed well is made when something is about to be recorded: a heap that is opened, read and closed again is not written to, and waits for no disk. Other heaps are closed ones first, too,
//! and their logs begin while they are opened.
//!
//! Until the log has [begun](Wal::begin) there is no file for it, the heap's file is as it was found, and its header says that it is closed. So whoever finds the heap after a crash, or copies its file, or
//! follows it, sees a heap that is closed. Then everything follows at once, in an order in which each step is durable before the next one, and a crash in between leaves a closed heap, perhaps
//! beside a log that was never used, or one in use with a log without records:
//!
//! 1. the header that was found, or a disk that tears what it writes could leave none;
//! 2. the log, and its name;
//! 3. headers that say that the heap is in use, and name the log. From here on, records count.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::format::Layout;
use super::{HIDES_WRITES, Wal};
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::os::storage::{Disk, Storage};
use crate::units::PAGE;

/// Segments of a new log.
pub(super) const FIRST_SEGMENTS: u64 = 2;

/// What the heap's file is to say when the log begins.
#[derive(Debug)]
pub(crate) struct Beginning {
    /// The header that was found, and its place, until the disk is known to have it.
    pub(crate) found: Option<(Vec<u8>, u64)>,
    /// Where a slot is that a torn write has left, which is to be zero, and of how many bytes.
    pub(crate) torn: Option<(usize, u64)>,
    /// Headers that name the log, and their places.
    pub(crate) headers: [(Vec<u8>, u64); 2],
}

impl Wal {
    /// Whether there is a log, and the heap's header names it.
    #[inline]
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Says how it is to begin.
    pub(crate) fn will_begin(&self, beginning: Beginning) {
        // SURVIVES drop: nobody else has the log yet.
        *self.beginning.lock() = Some(beginning);
    }

    /// If it has not begun, it never will: the heap is being closed, and then somebody else may have its file. Waits for a thread that is at it.
    pub(super) fn begin_no_more(&self) {
        *self.beginning.lock() = None;
    }

    /// Makes the log, if there is none yet, and says so in the heap's header. Durable on return.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`], [`Error::Unsupported`], [`Error::Misplaced`] and [`Error::Io`] if it cannot be made: then nothing has changed, and the next call tries again. [`Error::Failed`] if the header cannot be written: the log
    /// refuses everything from now on. [`Error::Closed`] if it is [not to begin any more](Self::begin_no_more).
    #[inline]
    pub(crate) fn begin(&self) -> Result<()> {
        if self.has_begun() { Ok(()) } else { self.begin_now() }
    }

    #[cold]
    fn begin_now(&self) -> Result<()> {
        let mut held = self.beginning.lock();
        if self.has_begun() {
            return Ok(()); // another thread was faster
        }
        let Some(beginning) = &mut *held else {
            return Err(Error::Closed);
        };
        // What the disk has of the heap's file is not known after a failure.
        let failed = |error| self.failure().unwrap_or(error);
        self.write_found(beginning).map_err(failed)?;
        if let Some((len, at)) = beginning.torn {
            // What is left there and the next header must not be a header together. SURVIVES drop: which words of two headers make one depends on random numbers in them; `resume_tests` has a test.
            // SURVIVES delay: as above.
            self.write_directly(&vec![0; len], at).map_err(failed)?;
        }
        // Whoever has renamed the heap since it was opened wants the log beside it.
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

    /// Makes durable what the heap's file has, as long as the log has not begun: it may be a copy that its disk does not have. `false` if the log has begun.
    ///
    /// # Errors
    /// What failed; the log then refuses everything. [`Error::Closed`] if it is [not to begin any more](Self::begin_no_more).
    pub(super) fn sync_found(&self) -> Result<bool> {
        // SURVIVES unreached: no program of the lab syncs a heap before it changes it; a test below writes the header that was found.
        match &mut *self.beginning.lock() {
            Some(beginning) => self.write_found(beginning).map(|()| true),
            None if self.has_begun() => Ok(false),
            None => Err(Error::Closed),
        }
    }

    /// Writes the header that was found, as it was read when the heap was opened, and syncs the heap's file: if a sync has failed before, a sync alone says nothing of the header, and the page cache may have
    /// forgotten it since. Once is enough: until the log has begun, nobody writes to the file.
    fn write_found(&self, beginning: &mut Beginning) -> Result<()> {
        if let Some((bytes, at)) = &beginning.found {
            self.write_directly(bytes, *at)?;
            beginning.found = None;
        }
        Ok(())
    }

    /// Takes a file for the log that there is none of yet.
    pub(super) fn use_log(&self, log: Arc<dyn Storage>) {
        self.mapped.store(!self.policy.keeps_records() && self.map(&*log), Ordering::Relaxed);
        self.log.set(log).expect("a log begins once");
    }
}

/// Makes the file of a new log. If there is an error, there is none.
pub(super) fn make(disk: &dyn Disk, layout: Layout) -> Result<Arc<dyn Storage>> {
    let error = |e| Error::making("creating the log", &disk.log_path(), e);
    let log = disk.create_log().map_err(error)?;
    let fill = || {
        let end = layout.file_offset(FIRST_SEGMENTS);
        log.extend(0, end)?;
        // In a page where nothing is looked for, and before the head: what a crash leaves of it is no log, and none that was ever used.
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

    /// Whoever wants to change something has asked whether the heap is open, and is about to begin the log when somebody else closes the heap, and a third one opens it.
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
            assert!(matches!(wal.begin(), Err(Error::Closed)));
            assert!(std::fs::read(&path).unwrap() == before && !log.exists());
            let a: Root<u64> = open().root("a").unwrap();
            assert_eq!(get(&a).unwrap(), 0);
        }
    }

    /// The header that was found is what was read of it: the page cache may have forgotten that since, if the disk has failed.
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
        // That the log cannot be made is found out behind that.
        std::fs::create_dir(folder.path().join("heap.wal")).unwrap();
        assert!(matches!(heap.inner().wal().unwrap().begin(), Err(Error::Io { .. })));
        let after = std::fs::read(&path).unwrap();
        assert!([0, 4096].iter().any(|&slot| before[slot..slot + 512] == after[slot..slot + 512]));
    }
}
