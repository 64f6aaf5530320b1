//! Group commit: a thread that waits for the log writes and syncs it for all who wait.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::buffer::Chunk;
use super::format::HEAD;
use super::tail::Locked;
use super::{LogFile, State, Wal};
use crate::error::{Error, Result};
use crate::faults::{Bug, Kind, bug, is_left_out};
use crate::os::cpu::bytes;
use crate::os::storage::{Kept, Storage};
use crate::sync::{Mistake, mistake};
use crate::units::LINE;
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
        match &self.tail.lock().failure {
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
        let state = self.tail.lock();
        let writing = state.writing.filter(|_| !mistake(Mistake::WriterUnseen));
        let (durable, written) = (self.durable_end(), self.tail.written.get());
        [durable, state.syncing.unwrap_or(durable), written, writing.unwrap_or(written)]
    }

    fn level(&self, synced: bool) -> u64 {
        if synced { self.durable_end() } else { self.tail.written.get() }
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
        self.keep_found()
    }

    /// Position behind the last record.
    pub(crate) fn end(&self) -> u64 {
        self.tail.lock().buffer.end()
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
        let mut state = self.tail.lock();
        while self.level(synced) < position {
            if let Some(failure) = &state.failure {
                return Err(Error::OutcomeUnknown { source: failure.source() });
            }
            let is_written = self.tail.written.get() >= position;
            let busy = synced && state.syncing.is_some() || !is_written && state.writing.is_some();
            if busy && !mistake(Mistake::TwoLeaders) {
                state.wait(&self.changed);
            } else if is_written {
                self.sync_written(&mut state);
            } else {
                self.write_buffer(&mut state);
            }
        }
        Ok(())
    }

    /// Hands what is in the buffer to the kernel.
    fn write_buffer(&self, state: &mut Locked<'_>) {
        let chunks = state.buffer.take();
        let end = state.buffer.end();
        state.writing = Some(end);
        let written = state.unlocked(|| self.write_chunks(&chunks));
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
            // Locked meanwhile: the log may not get another file in between.
            let log = self.log.read();
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
                    self.tail.written.raise(end);
                }
                state.buffer.give_back(chunks);
            }
            Err(e) => self.fail(state, &format!("writing {}", self.disk.log_path().display()), &e),
        }
    }

    /// Syncs what has been written.
    fn sync_written(&self, state: &mut Locked<'_>) {
        let end = self.tail.written.get();
        let is_much = end.saturating_sub(self.durable_end()) >= MUCH;
        state.syncing = Some(end);
        if mistake(Mistake::PublishBeforeSync) {
            self.durable.fetch_max(end, Ordering::Release);
        }
        let sync = || {
            let log = self.log.read().clone();
            if is_much {
                log.let_go();
            }
            let synced = log.sync();
            // Behind the sync, so that it is known as late as can be. Whoever replaces the log meanwhile syncs what this one has.
            synced.map(|()| self.keep(|log| self.disk.keep_log_lately(log)))
        };
        let synced = state.unlocked(|| without_panic(sync));
        state.syncing = None;
        match synced {
            Ok(kept) => {
                // Another thread may have looked since, and not found it.
                if self.note_kept(state, &kept) && state.failure.is_none() {
                    self.durable.fetch_max(end, Ordering::Release);
                    state.buffer.set_synced(end);
                    self.counters.syncs.fetch_add(1, Ordering::Relaxed);
                }
                self.changed.notify_all();
            }
            Err(e) => self.fail(state, &format!("syncing {}", self.disk.log_path().display()), &e),
        }
    }

    /// Sees to it that the next opening finds the log.
    fn keep(&self, look: impl FnOnce(&dyn Storage) -> io::Result<Kept>) -> io::Result<Kept> {
        if !self.has_begun() {
            return Ok(Kept::Here); // there is none, and the next opening looks for none
        }
        let kept = {
            // Locked meanwhile, or the one that has replaced this log would seem to be a foreign one.
            let log = self.log.read();
            if bug(Bug::TrustLogName) || self.closing.load(Ordering::Relaxed) {
                return Ok(Kept::Here);
            }
            look(&***log)?
        };
        if kept == Kept::Lost {
            self.replace_log()?;
        }
        Ok(kept)
    }

    /// Notes what has come of a look. Returns whether the next opening finds the log, or needs none.
    fn note_kept(&self, state: &mut State, kept: &io::Result<Kept>) -> bool {
        match kept {
            Err(e) => {
                self.fail_with(state, "looking for the log", e, true);
                false
            }
            Ok(Kept::HereBefore) => {
                // The thread in the background is to look again: there may be no other commit that does. With other policies it comes by itself.
                if !std::mem::replace(&mut state.unseen, true) && self.policy.keeps_records() {
                    self.requested.notify_all();
                }
                true
            }
            Ok(_) => true,
        }
    }

    /// [`keep`](Self::keep), with a look at what is there now.
    ///
    /// # Errors
    /// The log cannot be put where the next opening would find it, and refuses everything from now on.
    pub(crate) fn keep_found(&self) -> Result<()> {
        {
            let mut state = self.tail.lock();
            if let Some(failure) = &state.failure {
                return Err(failure.error());
            }
            state.unseen = false; // before the look, which may come too early for a commit beside it
        }
        let kept = self.keep(|log| self.disk.keep_log(log));
        let mut state = self.tail.lock();
        self.note_kept(&mut state, &kept);
        state.failure.as_ref().map_or(Ok(()), |failure| Err(failure.error()))
    }

    /// Somebody has removed the log's name: gives it a new file with the same content.
    #[cold]
    pub(super) fn replace_log(&self) -> io::Result<()> {
        // From here on, nobody writes to the file without `log` locked.
        if !mistake(Mistake::ReplaceOpen) {
            self.tail.lock().is_first = false;
        }
        let _growth = self.growth.lock();
        let mut current = self.log.write();
        if self.closing.load(Ordering::Relaxed) {
            return Ok(()); // it was removed by this process
        }
        if self.disk.keep_log(&***current)? == Kept::Here {
            return Ok(()); // another thread was faster
        }
        let old = Arc::clone(&current);
        let new = self.disk.create_log()?;
        copy(&*old, &*new).inspect_err(|_| {
            let _ = self.disk.remove_log(&*new); // or it would seem to be all that there was
        })?;
        if self.is_at_once() {
            self.map(&*new);
        }
        *current = LogFile(Some(new));
        retire(&*old);
        Ok(())
    }
}

/// A panic amid a write or a sync is a failure like others: who waits for its end is not to wait for ever.
fn without_panic<R>(work: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(io::Error::other("a panic; see what it has printed")))
}

/// Makes a log that was replaced one that was never completed, durably, before its successor acknowledges anything: it may have other names still, and both are of the same heap and count
/// alike. Should the heap come to lie beside this one, it must be missing its log, not find an old state. Who still uses the old file only syncs it, or reads records.
fn retire(old: &dyn Storage) {
    // As well as can be: if the disk fails here, nobody has been told a thing that the new one does not hold.
    // SURVIVES drop: a simulated log that has lost its name is never found again. SURVIVES delay: as above.
    let _ = old.write_all(&[0; LINE], 0);
    // SURVIVES drop: as above. SURVIVES delay: as above.
    let _ = old.sync();
}

/// Copies a log, with what says that it is one at the end: a part of it must not be taken for the whole.
fn copy(old: &dyn Storage, new: &dyn Storage) -> io::Result<()> {
    let len = old.len()?;
    // SURVIVES drop: what is written next makes it as long. This is to know of a full disk early.
    new.extend(0, len)?;
    let mut bytes = vec![0; 1 << 20];
    for at in (HEAD..len).step_by(bytes.len()) {
        let have = old.read_up_to(&mut bytes, at)?;
        new.write_all(&bytes[..have], at)?;
    }
    new.sync()?;
    let have = old.read_up_to(&mut bytes[..HEAD as usize], 0)?;
    new.write_all(&bytes[..have], 0)?;
    new.sync()
}
