//! What waits for the write-ahead log, and what becomes of a heap whose log has failed.

use std::sync::Arc;

use super::Store;
use crate::error::{Error, Result};
use crate::faults::{Kind, is_left_out};
use crate::wal::Wal;

impl Store {
    /// The write-ahead log, if the heap has one.
    #[inline(always)]
    pub(crate) fn wal(&self) -> Option<&Arc<Wal>> {
        self.medium.wal()
    }

    /// Position up to which everything is durable, in the sense of the heap's durability.
    #[inline]
    pub(crate) fn durable_end(&self) -> u64 {
        self.wal().map_or(u64::MAX, |wal| wal.durable_end())
    }

    /// With a write-ahead log: waits until what was recorded before `position` may be told to others.
    #[inline]
    #[track_caller]
    pub(crate) fn acknowledge(&self, position: u64) -> Result<()> {
        let Some(wal) = self.wal() else { return Ok(()) };
        if wal.is_acknowledged(position) || is_left_out(Kind::FileSync) {
            return Ok(());
        }
        if self.is_forked() {
            return Err(Error::Forked); // the log is the parent's
        }
        self.note_failure(wal.acknowledge(position))
    }

    /// [`acknowledge`](Self::acknowledge) for who gives up what it was at. In a forked child, where the log
    /// is the parent's, it waits for nothing.
    #[cold]
    #[track_caller]
    pub(crate) fn acknowledge_seen(&self, position: u64) -> Result<()> {
        if self.is_forked() { Ok(()) } else { self.acknowledge(position) }
    }

    /// For a transaction that does not wait for a sync, and whose record ends at `position`, which this
    /// returns: if others only wait until the kernel has their records, this one does, too.
    pub(crate) fn hand_over(&self, position: u64) -> u64 {
        if self.wal().is_some_and(|wal| !wal.syncs_commits()) {
            // Who asks for the outcome is told of a failure.
            // SURVIVES unreached: a simulated log is mapped, so a record is there when it was appended, unless another thread writes.
            let _ = self.acknowledge(position);
        }
        position
    }

    /// Waits for a checkpoint if too much memory is private, or makes one.
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

    /// Waits until all that was recorded may be told to others.
    #[track_caller]
    pub(crate) fn acknowledge_all(&self) -> Result<()> {
        let Some(wal) = self.wal() else { return Ok(()) };
        self.acknowledge(wal.end())?;
        self.note_failure(wal.has_taken_all())
    }

    /// Fails if the log has: what is going to be done would not be recorded.
    pub(crate) fn check_log(&self) -> Result<()> {
        match self.wal().and_then(|wal| wal.failure()) {
            Some(failure) => self.note_failure(Err(failure)),
            None => Ok(()),
        }
    }

    /// If the log has failed, nobody may use the heap any more.
    pub(crate) fn note_failure<R>(&self, result: Result<R>) -> Result<R> {
        if result.is_err() && self.wal().is_some_and(|wal| wal.failure().is_some()) {
            self.set_failed();
        }
        result
    }
}
