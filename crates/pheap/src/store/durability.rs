//! Waits for the write-ahead log, and the state of a heap whose log has failed.

use std::sync::Arc;

use super::Store;
use crate::error::{Error, Result};
use crate::faults::{Kind, is_left_out};
use crate::wal::Wal;

impl Store {
    /// Returns the write-ahead log, if the heap has one.
    #[inline(always)]
    pub(crate) fn wal(&self) -> Option<&Arc<Wal>> {
        self.medium.wal()
    }

    /// Returns the position up to which everything is durable, in the sense of the heap's durability.
    #[inline]
    pub(crate) fn durable_end(&self) -> u64 {
        self.wal().map_or(u64::MAX, |wal| wal.durable_end())
    }

    /// With a write-ahead log, waits until the records before `position` are as durable as the sync policy
    /// requires before a call may return data that depend on them.
    #[inline]
    #[track_caller]
    pub(crate) fn acknowledge(&self, position: u64) -> Result<()> {
        let Some(wal) = self.wal() else { return Ok(()) };
        if wal.is_acknowledged(position) || is_left_out(Kind::FileSync) {
            return Ok(());
        }
        if self.is_forked() {
            // In a forked child, the log belongs to the parent.
            return Err(Error::Forked);
        }
        self.note_failure(wal.acknowledge(position))
    }

    /// Waits, as [`acknowledge`](Self::acknowledge) does, for the records that a transaction has seen, in a
    /// thread that gives that transaction up. In a forked child, where the log belongs to the parent, this
    /// does not wait.
    #[cold]
    #[track_caller]
    pub(crate) fn acknowledge_seen(&self, position: u64) -> Result<()> {
        if self.is_forked() { Ok(()) } else { self.acknowledge(position) }
    }

    /// Ends a deferred transaction whose record ends at `position`, and returns `position`. With a sync
    /// policy whose commits wait only until the kernel has their records, this waits for that, too.
    pub(crate) fn hand_over(&self, position: u64) -> u64 {
        if self.wal().is_some_and(|wal| !wal.syncs_commits()) {
            // This waits only until the kernel has the record. An error is ignored here, because the caller
            // gets it when it waits for the commit.
            // SURVIVES unreached: the simulated log of the crash lab is mapped, so the kernel has a record as
            // soon as it is appended, unless another thread writes at that moment.
            let _ = self.acknowledge(position);
        }
        position
    }

    /// If too many pages are private, waits for a checkpoint, or makes one.
    #[inline(always)]
    pub(crate) fn wait_for_memory(&self) {
        if let Some(wal) = self.wal()
            && wal.is_over_memory()
        {
            self.make_memory(wal);
        }
    }

    #[cold]
    fn make_memory(&self, wal: &Wal) {
        match self.evict.get() {
            Some(evict) => wal.work(|| {}, |()| evict(wal)),
            None => wal.wait_for_memory(),
        }
    }

    /// Waits until all records are as durable as the sync policy requires. Then fails if the log has failed,
    /// because it may have refused a record.
    #[track_caller]
    pub(crate) fn acknowledge_all(&self) -> Result<()> {
        let Some(wal) = self.wal() else { return Ok(()) };
        self.acknowledge(wal.end_position())?;
        self.note_failure(wal.has_taken_all())
    }

    /// Fails if the log has failed, because the log would not record a change then.
    pub(crate) fn check_log(&self) -> Result<()> {
        match self.wal().and_then(|wal| wal.failure()) {
            Some(failure) => self.note_failure(Err(failure)),
            None => Ok(()),
        }
    }

    /// Passes `result` on. If it is an error, and the log has failed, the heap refuses all use from now on.
    pub(crate) fn note_failure<R>(&self, result: Result<R>) -> Result<R> {
        if result.is_err() && self.wal().is_some_and(|wal| wal.failure().is_some()) {
            self.set_failed();
        }
        result
    }
}
