//! Checkpoints of a heap with a write-ahead log, and private pages that are given back after them.

#![allow(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use super::close::Work;
use super::{Heap, HeapInner};
use crate::error::Result;
use crate::faults::{Bug, bug};
use crate::units::PAGE;
use crate::wal::Wal;

/// Bytes of a region that are looked at while its lock is held.
const STEP: u64 = 16 << 20;
/// How long to wait for the lock of a region.
const PATIENCE: Duration = Duration::from_millis(10);

impl Heap {
    /// With [`Durability::Wal`](crate::Durability::Wal), waits until all earlier commits survive a power failure. With
    /// [`Pmem`](crate::Durability::Pmem) they always do; with [`Process`](crate::Durability::Process) they never do.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`](crate::Error::OutcomeUnknown) if the disk fails; [`Error::Failed`](crate::Error::Failed) if it has failed before;
    /// [`Error::Removed`](crate::Error::Removed) if the heap's file was removed; [`Error::Closed`](crate::Error::Closed), [`Error::Forked`](crate::Error::Forked).
    pub fn sync(&self) -> Result<()> {
        let heap = self.inner();
        heap.check_open()?;
        heap.wal().map_or(Ok(()), |wal| heap.note_failure(wal.sync()))?;
        heap.check_named()
    }

    /// With [`Durability::Wal`](crate::Durability::Wal), makes a checkpoint: writes the records of the log to the heap's file. A background thread does that when the log is
    /// half full. Transactions go on meanwhile. With other durabilities this does nothing.
    ///
    /// # Errors
    /// As for [`sync`](Self::sync).
    pub fn checkpoint(&self) -> Result<()> {
        let heap = self.inner();
        heap.check_open()?;
        heap.wal().map_or(Ok(()), |wal| heap.note_failure(wal.checkpoint(|| heap.drop_copies(wal))))?;
        heap.check_log()?; // who closes the heap beside this gets over a log that is misplaced, but has not done so yet
        heap.check_named()
    }
}

impl HeapInner {
    /// Starts the thread that makes checkpoints.
    pub(super) fn make_checkpoints(self: &Arc<Self>) {
        let Some(wal) = self.wal() else { return };
        if self.is_simulated() {
            return;
        }
        let wal_of_thread = wal.clone();
        let work = move |heap: &HeapInner| {
            let wal = wal_of_thread;
            /// Also after a panic, or others would wait for this thread; what it has left half done nobody else goes on with.
            struct Ended<'a>(&'a Wal, &'a HeapInner, bool);
            impl Drop for Ended<'_> {
                fn drop(&mut self) {
                    if !self.2 {
                        self.1.set_panicked();
                    }
                    self.0.set_background(false);
                }
            }
            let mut ended = Ended(&wal, heap, false);
            while wal.wait_for_request() {
                wal.work(|| heap.drop_copies(&wal));
            }
            ended.2 = true;
            drop(ended);
            if wal.failure().is_some() {
                heap.set_failed();
            }
        };
        wal.set_background(true);
        if !self.start(Work::Checkpoints, "pheap checkpoints", work) {
            wal.set_background(false); // then transactions make them
        }
    }

    /// Ends that thread. No region is locked by this thread.
    pub(super) fn stop_checkpoints(&self) {
        if let (Some(thread), Some(wal)) = (self.workers.take(Work::Checkpoints), self.wal()) {
            wal.stop_background();
            let _ = thread.join();
        }
    }

    /// Gives private pages back whose content is in the heap's file, if they are many. Runs within a checkpoint.
    fn drop_copies(&self, wal: &Wal) {
        let limit = wal.settings().memory_limit;
        if wal.pages.bytes() <= limit / 2 && !bug(Bug::DropEarly) {
            return;
        }
        let enough = || wal.pages.bytes() <= limit / 4;
        // Nobody stores to free pages, nor reads what is in them.
        {
            // Who has them may wait for room in the log.
            let Some(tables) = self.tables.try_lock_for(PATIENCE) else { return };
            if self.check_open().is_err() {
                return; // closed meanwhile, and not mapped any more
            }
            for (offset, len) in tables.pages.runs() {
                self.drop_range(wal, offset, len, |at| wal.pages.is_private(at));
            }
        }
        for region in self.regions() {
            let mut from = 0;
            while !enough()
                && let Some(next) = region.with_spans(from, STEP, PATIENCE, |offset, len| {
                    self.drop_range(wal, offset, len, |at| wal.pages.is_old(at) || bug(Bug::DropEarly));
                })
            {
                from = next;
            }
        }
    }

    /// Gives those of these pages back that `may` go. Nobody accesses them.
    fn drop_range(&self, wal: &Wal, offset: u64, len: u64, may: impl Fn(u64) -> bool) {
        let (mut at, end) = (offset, offset + len);
        while at < end {
            if !may(at) {
                at += PAGE;
                continue;
            }
            let first = at;
            while at < end && may(at) {
                at += PAGE;
            }
            // SAFETY: the pages are free, or recorded before the checkpoint that is complete but for this, and not since; the caller has the lock
            // on them.
            unsafe { self.mapping.drop_copies(first, at - first) };
            wal.pages.forget(first, at - first);
        }
    }
}
