//! Group commit: a thread that waits for the log writes and syncs it for all who wait.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use super::buffer::Chunk;
use super::{State, Wal};
use crate::error::{Error, Result};
use crate::faults::{Bug, Kind, bug, is_left_out};
use crate::os::cpu::bytes;
use crate::os::storage::Storage;
use crate::sync::{Mistake, MutexGuard, mistake};
use crate::wal::SyncPolicy;

/// Bytes of records from which on a sync is quicker if the pages that they are in are taken out of the map before. Of few pages, those would be missed that are written to next.
const MUCH: u64 = 256 << 10;

impl Wal {
    /// Waits until what was appended before `position` has been handed to the kernel, and synced if the policy says so.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`].
    #[inline]
    pub(crate) fn acknowledge(&self, position: u64) -> Result<()> {
        if self.is_acknowledged(position) { Ok(()) } else { self.reach_now(position, self.syncs_commits()) }
    }

    /// Fails if the log may have refused something that was to be appended, for which nobody can wait.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`].
    pub(crate) fn has_taken_all(&self) -> Result<()> {
        match &self.state.lock().failure {
            Some(failure) => Err(Error::OutcomeUnknown { source: failure.source() }),
            None => Ok(()),
        }
    }

    /// Whether [`acknowledge`](Self::acknowledge) has nothing to wait for.
    #[inline]
    pub(crate) fn is_acknowledged(&self, position: u64) -> bool {
        self.level(self.syncs_commits()) >= position
    }

    /// Whether commits wait for a sync.
    #[inline]
    pub(crate) fn syncs_commits(&self) -> bool {
        match self.policy() {
            SyncPolicy::EveryCommit | SyncPolicy::Awaited => true,
            SyncPolicy::OnDemand => false,
            SyncPolicy::Every(_) => !self.has_syncer(),
        }
    }

    /// Position up to which everything survives a power failure.
    #[inline]
    pub(crate) fn durable_end(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Where the log may end for who opens it after a power failure, before it has all that was appended by now: up to where it is synced, is being synced, is written, and is being
    /// written. Any sync ends at one of these positions, or has everything.
    pub(crate) fn next_ends(&self) -> [u64; 4] {
        let state = self.state.lock();
        let writing = state.writing.filter(|_| !mistake(Mistake::WriterUnseen));
        let (durable, written) = (self.durable_end(), self.written());
        [durable, state.syncing.unwrap_or(durable), written, writing.unwrap_or(written)]
    }

    /// Position up to which everything survives the end of the process.
    #[inline]
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    fn level(&self, synced: bool) -> u64 {
        if synced { self.durable_end() } else { self.written() }
    }

    /// Waits until all that was appended is durable.
    ///
    /// # Errors
    /// [`Error::OutcomeUnknown`].
    pub(crate) fn sync(&self) -> Result<()> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        // All that there is is in the heap's file then.
        let unknown = |error| match error {
            Error::Io { source, .. } => Error::OutcomeUnknown { source },
            other => other,
        };
        if !self.has_begun() && self.sync_found().map_err(unknown)? {
            return Ok(());
        }
        self.reach(self.end(), true)?;
        self.find_log()
    }

    /// Position behind the last record.
    pub(crate) fn end(&self) -> u64 {
        self.state.lock().buffer.end()
    }

    /// Waits until what was appended before `position` has been handed to the kernel (or synced). The first thread to come writes and syncs for all
    /// that have come when it begins.
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

    /// Hands what is in the buffer to the kernel.
    fn write_buffer(&self, state: &mut MutexGuard<'_, State>) {
        let chunks = state.buffer.take();
        let end = state.buffer.end();
        state.writing = Some(end);
        let written = MutexGuard::unlocked(state, || self.write_chunks(&chunks));
        state.writing = None;
        self.note_written(state, chunks, end, written);
        self.changed.notify_all();
    }

    /// [`write_buffer`](Self::write_buffer) where that takes less time than to let others have the lock meanwhile. Nobody writes, so nobody waits for what is written.
    pub(super) fn write_at_once(&self, state: &mut State) {
        let chunks = state.buffer.take();
        let end = state.buffer.end();
        let written = self.write_chunks(&chunks);
        self.note_written(state, chunks, end, written);
    }

    pub(super) fn write_chunks(&self, chunks: &[Chunk]) -> io::Result<()> {
        without_panic(|| {
            let log = self.log();
            chunks.iter().try_for_each(|chunk| log.write_all(bytes(&chunk.words), chunk.file_offset))
        })
    }

    pub(super) fn note_written(
        &self,
        state: &mut State,
        chunks: Vec<Chunk>,
        end: u64,
        written: io::Result<()>,
    ) {
        match written {
            Ok(()) => {
                // Nobody is told that a commit is good once it is known that the log is not, also not by who closes the heap, and writes the rest.
                if state.failure.is_none() {
                    self.written.fetch_max(end, Ordering::Release);
                }
                state.buffer.give_back(chunks);
            }
            Err(e) => self.fail(state, &format!("writing {}", self.disk.log_path().display()), &e),
        }
    }

    /// Syncs what has been written.
    fn sync_written(&self, state: &mut MutexGuard<'_, State>) {
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
            // After the sync, so that it is known as late as can be.
            synced.map(|()| self.look(|log| self.disk.find_log_lately(log)))
        };
        let synced = MutexGuard::unlocked(state, || without_panic(sync));
        state.syncing = None;
        match synced {
            Ok(found) => {
                self.note_found(state, &found);
                // Another thread may have looked since, and not found it.
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

    /// Fails if the next opening would not find the log.
    fn look(&self, find: impl FnOnce(&dyn Storage) -> io::Result<()>) -> io::Result<()> {
        if !self.has_begun() || bug(Bug::TrustLogName) {
            return Ok(()); // without a log, the next opening looks for none
        }
        let found = find(self.log());
        // After the look: closing the heap removes the log when the heap's file has everything.
        if self.closing.load(Ordering::Relaxed) { Ok(()) } else { found }
    }

    /// Notes what a look has found. Once the log is not found, nothing is acknowledged any more.
    fn note_found(&self, state: &mut State, found: &io::Result<()>) {
        if let Err(e) = found {
            self.fail_with(state, "looking for the log", e, true);
        }
    }

    /// Looks for the log now.
    ///
    /// # Errors
    /// [`Error::Misplaced`] if it is not beside the heap's file: the log refuses everything from now on.
    /// [`Error::Failed`].
    pub(crate) fn find_log(&self) -> Result<()> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let found = self.look(|log| self.disk.find_log(log));
        let mut state = self.state.lock();
        self.note_found(&mut state, &found);
        state.failure.as_ref().map_or(Ok(()), |failure| Err(failure.error()))
    }
}

/// A panic amid a write or a sync is a failure like others: who waits for its end is not to wait for ever.
fn without_panic<R>(work: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(io::Error::other("a panic; see what it has printed")))
}
