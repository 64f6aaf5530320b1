//! Group commit: a thread that waits for the log writes and syncs it for all threads that wait.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use super::buffer::SegmentChunk;
use super::{Wal, WalState};
use crate::error::{Error, Result};
use crate::faults::{Bug, Kind, bug, is_left_out};
use crate::os::cpu::bytes;
use crate::os::storage::Storage;
use crate::sync::{Mistake, MutexGuard, mistake};
use crate::wal::SyncPolicy;

/// Unsynced bytes from which on a sync first takes the log's pages out of the map, which makes the sync
/// faster. With fewer bytes, this would cost more than it saves: the next records would fault their pages in
/// again.
const MUCH: u64 = 256 << 10;

impl Wal {
    /// Waits until all records before `position` have been handed to the kernel, and synced if the policy
    /// says so.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`].
    #[inline]
    pub(crate) fn acknowledge(&self, position: u64) -> Result<()> {
        if self.is_acknowledged(position) { Ok(()) } else { self.reach_now(position, self.syncs_commits()) }
    }

    /// Fails if the log has failed, because it may have refused a record. A record that was refused has no
    /// position for which the caller could wait.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`].
    pub(crate) fn has_taken_all(&self) -> Result<()> {
        match &self.state.lock().failure {
            Some(failure) => Err(Error::OutcomeUnknown { source: failure.source() }),
            None => Ok(()),
        }
    }

    /// Returns whether [`acknowledge`](Self::acknowledge) of this position has nothing to wait for.
    #[inline]
    pub(crate) fn is_acknowledged(&self, position: u64) -> bool {
        self.level(self.syncs_commits()) >= position
    }

    /// Returns whether commits that are not deferred wait for a sync.
    #[inline]
    pub(crate) fn syncs_commits(&self) -> bool {
        match self.policy() {
            SyncPolicy::EveryCommit | SyncPolicy::Awaited => true,
            SyncPolicy::OnDemand => false,
            SyncPolicy::Every(_) => !self.has_syncer(),
        }
    }

    /// Returns the position up to which all records survive a power failure.
    #[inline]
    pub(crate) fn durable_end(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Returns the positions that [`durable_end`](Self::durable_end) may return until all present records are
    /// durable: the end of the synced part of the log, of the sync in progress, of the written part, and of
    /// the write in progress. Any sync ends at one of these positions, or covers all present records.
    pub(crate) fn next_ends(&self) -> [u64; 4] {
        let state = self.state.lock();
        let writing = state.writing.filter(|_| !mistake(Mistake::WriterUnseen));
        let (durable, written) = (self.durable_end(), self.written());
        [durable, state.syncing.unwrap_or(durable), written, writing.unwrap_or(written)]
    }

    /// Returns the position up to which all records survive the end of the process.
    #[inline]
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Returns the position up to which records are synced, if `synced`, or otherwise written.
    fn level(&self, synced: bool) -> u64 {
        if synced { self.durable_end() } else { self.written() }
    }

    /// Waits until all records are durable.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`], the failure that the log has already, the errors of
    /// [`find_log`](Self::find_log), or [`Error::Closed`] if the log has not begun and the heap was closed.
    pub(crate) fn sync(&self) -> Result<()> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        // If the log has not begun, the heap's file has everything.
        let unknown = |error| match error {
            Error::Io { source, .. } => Error::OutcomeUnknown { source },
            other => other,
        };
        if !self.has_begun() && self.sync_found().map_err(unknown)? {
            return Ok(());
        }
        self.reach(self.end_position(), true)?;
        self.find_log()
    }

    /// Returns the position behind the last record, or behind the first line of a new segment.
    pub(crate) fn end_position(&self) -> u64 {
        self.state.lock().buffer.end_position()
    }

    /// Waits until all records before `position` have been handed to the kernel, or, if `synced`, have been
    /// synced. The first thread that comes writes and syncs for all threads whose records are in the buffer
    /// when it begins.
    #[track_caller]
    pub(super) fn reach(&self, position: u64, synced: bool) -> Result<()> {
        if self.level(synced) >= position || is_left_out(Kind::FileSync) {
            return Ok(());
        }
        self.reach_now(position, synced)
    }

    fn reach_now(&self, position: u64, synced: bool) -> Result<()> {
        let mut state = self.state.lock();
        while self.level(synced) < position {
            if let Some(failure) = &state.failure {
                return Err(Error::OutcomeUnknown { source: failure.source() });
            }
            let is_written = self.written() >= position;
            let busy = synced && state.syncing.is_some() || !is_written && state.writing.is_some();
            if busy && !mistake(Mistake::TwoLeaders) {
                self.changed.wait(&mut state);
            } else if is_written {
                self.sync_written(&mut state);
            } else {
                self.write_buffer(&mut state);
            }
        }
        Ok(())
    }

    /// Hands the records of the buffer to the kernel, with the state unlocked during the write.
    fn write_buffer(&self, state: &mut MutexGuard<'_, WalState>) {
        let chunks = state.buffer.take_chunks();
        let end = state.buffer.end_position();
        state.writing = Some(end);
        let written = MutexGuard::unlocked(state, || self.write_chunks(&chunks));
        state.writing = None;
        self.note_written(state, chunks, end, written);
        self.changed.notify_all();
    }

    /// Hands the records of the buffer to the kernel, as [`write_buffer`](Self::write_buffer) does, but keeps
    /// the state locked. No other thread is writing, and none can begin, so no thread waits for the end of
    /// this write other than by the lock. A write to a mapped log takes less time than unlocking and locking.
    pub(super) fn write_at_once(&self, state: &mut WalState) {
        let chunks = state.buffer.take_chunks();
        let end = state.buffer.end_position();
        let written = self.write_chunks(&chunks);
        self.note_written(state, chunks, end, written);
    }

    /// Writes chunks to the log's file.
    pub(super) fn write_chunks(&self, chunks: &[SegmentChunk]) -> io::Result<()> {
        without_panic(|| {
            let log = self.log();
            chunks.iter().try_for_each(|chunk| log.write_all(bytes(&chunk.words), chunk.file_offset))
        })
    }

    /// Notes the result of a write of `chunks`, which end at position `end`.
    pub(super) fn note_written(
        &self,
        state: &mut WalState,
        chunks: Vec<SegmentChunk>,
        end: u64,
        written: io::Result<()>,
    ) {
        match written {
            Ok(()) => {
                // Once the log has failed, no commit is acknowledged any more, not even when the thread that
                // closes the heap writes the rest of the records.
                if state.failure.is_none() {
                    self.written.fetch_max(end, Ordering::Release);
                }
                state.buffer.give_back(chunks);
            }
            Err(e) => self.fail(state, &format!("writing {}", self.disk.log_path().display()), &e),
        }
    }

    /// Syncs the records that have been written, with the state unlocked during the sync.
    fn sync_written(&self, state: &mut MutexGuard<'_, WalState>) {
        let end = self.written();
        let is_much = end.saturating_sub(self.durable_end()) >= MUCH;
        state.syncing = Some(end);
        if mistake(Mistake::PublishBeforeSync) {
            self.durable.fetch_max(end, Ordering::Release);
        }
        let sync = || {
            let log = self.log();
            if is_much {
                log.let_go();
            }
            let synced = log.sync();
            // The look for the log's file comes after the sync, so that it is as late as possible.
            synced.map(|()| self.check_findable(|log| self.disk.find_log_lately(log)))
        };
        let synced = MutexGuard::unlocked(state, || without_panic(sync));
        state.syncing = None;
        match synced {
            Ok(found) => {
                self.note_found(state, &found);
                // Another thread may have noted a failure during the sync. Then the synced records do not
                // count as durable.
                if state.failure.is_none() {
                    self.durable.fetch_max(end, Ordering::Release);
                    state.buffer.set_synced(end);
                    self.counters.syncs.fetch_add(1, Ordering::Relaxed);
                }
                self.changed.notify_all();
            }
            Err(e) => self.fail(state, &format!("syncing {}", self.disk.log_path().display()), &e),
        }
    }

    /// Fails if the next opening would not find the log, unless `closing` says that it need not. `find` looks
    /// for the log's file.
    fn check_findable(&self, find: impl FnOnce(&dyn Storage) -> io::Result<()>) -> io::Result<()> {
        if !self.has_begun() || bug(Bug::TrustLogName) {
            // If the log has not begun, the next opening looks for no log.
            return Ok(());
        }
        let found = find(self.log());
        // `closing` is read after the look, because it is set before the log is removed.
        if self.closing.load(Ordering::Relaxed) { Ok(()) } else { found }
    }

    /// Notes the result of a look for the log's file. Once the file was not found, no commit is acknowledged
    /// any more.
    fn note_found(&self, state: &mut WalState, found: &io::Result<()>) {
        if let Err(e) = found {
            self.fail_with(state, "looking for the log", e, true);
        }
    }

    /// Looks for the log's file now, without relying on an earlier look.
    ///
    /// # Errors
    /// [`Error::Misplaced`] if the log is not found next to the heap's file: it refuses everything from now
    /// on. The failure that the log has already: [`Error::Failed`] or [`Error::Misplaced`].
    pub(crate) fn find_log(&self) -> Result<()> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let found = self.check_findable(|log| self.disk.find_log(log));
        let mut state = self.state.lock();
        self.note_found(&mut state, &found);
        state.failure.as_ref().map_or(Ok(()), |failure| Err(failure.error()))
    }
}

/// Runs `work`, and turns a panic in it into an error, so that threads that wait for its end do not wait for
/// ever.
fn without_panic<R>(work: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(io::Error::other("a panic; see its message")))
}
