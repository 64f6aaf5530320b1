//! Checkpoints, the background thread that makes them, and the conditions for a checkpoint.

use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::fold::Fold;
use super::format::{FIRST_SEGMENTS, LogMark, MARKS, WalSegment, each_record};
use super::{CheckpointState, Wal, WalFailure, WalState};
use crate::error::{Error, Result};
use crate::os::cpu::bytes;
use crate::sync::MutexGuard;

/// Time between two looks of the background thread at whether records were appended.
const LOOK: Duration = Duration::from_secs(1);
/// Number of [looks](LOOK) in a row without a new record after which a log that has grown is cut down. If the
/// log were cut down earlier, it might soon grow again, and transactions might wait for that.
const LOOKS: u32 = 10;
/// Bytes of records above which a log gets a checkpoint after one idle [`LOOK`]. After a crash, replaying
/// many more would take noticeable time.
pub(super) const WORTH_FOLDING: u64 = 1 << 20;

impl Wal {
    /// Writes bytes to the heap's file at the offset `at`, and syncs the file. This is for bytes that no
    /// record covers, such as the header.
    ///
    /// # Errors
    /// The error of the write or sync; the log then refuses everything. Also the errors of
    /// [`ensure_log`](Self::ensure_log), and those of [`may_write`](Self::may_write).
    #[track_caller]
    pub(crate) fn write_through(&self, bytes: &[u8], at: u64) -> Result<()> {
        self.ensure_log()?;
        self.write_directly(bytes, at)
    }

    /// [Writes through](Self::write_through) to the heap's file, whether the log has begun or not.
    #[track_caller]
    pub(super) fn write_directly(&self, bytes: &[u8], at: u64) -> Result<()> {
        // After a failure of the log, a write to the heap's file could reach the disk without the writes
        // before it.
        self.may_write()?;
        self.pages.mark_stored(at, bytes.len() as u64);
        let mut written = self.data.write_all(bytes, at);
        if written.is_ok() {
            // The sync is not called in a closure, because the crash lab would then not see the caller's
            // line.
            written = self.data.sync();
        }
        written.map_err(|e| {
            self.fail(&mut self.state.lock(), "writing the heap's file", &e);
            Error::io("writing the heap's file", e)
        })
    }

    /// Copies all records that are in the log at the beginning of the checkpoint to the heap's file, and
    /// frees the segments before their end. If that works, runs `after`, still before any other checkpoint.
    ///
    /// # Errors
    /// The failure that the log has or gets, [`Error::OutcomeUnknown`] if the records cannot be made durable,
    /// or [`Error::Io`] if their sync fails while a heap with a misplaced log is being closed. The log then
    /// refuses everything.
    pub(crate) fn checkpoint(&self, after: impl FnOnce()) -> Result<()> {
        self.may_write()?;
        let closing = self.closing.load(Ordering::Relaxed);
        if !closing {
            // A thread that has made a record durable has found the log's file at that time. The file may
            // have been moved since.
            self.find_log()?;
        }
        let mut folded = self.folded.lock();
        let (from, end, live) = {
            let state = self.state.lock();
            self.check(&state)?;
            // The next epoch begins under the same lock that gives `end`, so all records of the new epoch are
            // behind `end`.
            self.pages.next_epoch();
            (state.folded, state.buffer.end_position(), state.buffer.live())
        };
        if from < end {
            if closing {
                self.write_rest()?;
            } else {
                self.reach(end, true)?;
            }
            let result = self.fold(&folded, from..end, &live).and_then(|written| {
                self.counters.checkpoint_bytes.fetch_add(written, Ordering::Relaxed);
                self.data.sync()?;
                self.mark_folded(end, folded.mark)
            });
            let mut state = self.state.lock();
            if let Err(e) = result {
                self.fail(&mut state, "writing a checkpoint to the heap's file", &e);
                return Err(state.failure.as_ref().expect("it has failed").error());
            }
            folded.mark = 1 - folded.mark;
            folded.streams.iter().for_each(|stream| stream.publish());
            state.folded = end;
            state.ages = is_worth_folding(&state);
            state.buffer.recycle(end);
            state.full_disk = false;
            self.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
            // Threads that wait for room in the log can go on now. If this notification were missing and the
            // background thread has made this checkpoint, the notification at the end of its round would wake
            // them a little later.
            self.changed.notify_all();
        }
        after();
        Ok(())
    }

    /// Writes and syncs the mark with the index `mark`, after which recovery begins at `end`. Segments before
    /// `end` are used again only afterwards, because from then on the disk may have any part of them. The
    /// other mark stays as it is until this one is durable.
    fn mark_folded(&self, end: u64, mark: usize) -> io::Result<()> {
        let log = self.log();
        // By the time of a checkpoint the heap's header names this run, so the mark need not name an older
        // one.
        let says = LogMark { folded: end, runs: self.runs, run: self.run, before: self.run };
        log.write_all(bytes(&says.to_words(self.seed)), MARKS[mark])?;
        // Records that were appended during the checkpoint may have dirtied many pages in the log's map. The
        // sync is faster if they are taken out of the map first.
        log.let_go();
        // SURVIVES delay: one write may come before the delayed sync: to the segment that has been free for
        // longest. If the disk lacks the mark, recovery begins with a later segment and replays records that
        // the heap's file has; or it begins with that segment, and finds nothing.
        log.sync()
    }

    /// Writes the records between two positions to the heap's file, and returns the number of bytes written.
    fn fold(&self, folded: &CheckpointState, positions: Range<u64>, live: &[WalSegment]) -> io::Result<u64> {
        let log = self.log();
        // If the memory limit allows three quarters of `log_limit`, this is mostly enough memory for half of
        // the log and a little more. Then each page is written once.
        let room = (self.settings.log_limit / 4 * 3).min(self.settings.memory_limit / 2);
        let mut fold = Fold::with_room(&*self.data, room);
        each_record(log, self.layout, live, positions, |record| {
            folded.streams.iter().for_each(|stream| stream.add(record));
            fold.add(record)
        })?;
        fold.flush_rest()
    }

    /// Prepares the log for closing the heap. From now on, a log that has not begun never begins. The caller
    /// has stopped the background thread, and keeps other threads from appending.
    ///
    /// Closing brings all records to the heap's file, so the next opening needs no log. Therefore a log that
    /// is misplaced, but has not failed otherwise, can still be used by the closing thread. All other threads
    /// still get the failure: until the heap is closed, no opening would find what they have written. Returns
    /// whether the log had failed before, and so may have refused a record.
    pub(crate) fn begin_to_close(&self) -> bool {
        self.begin_no_more();
        let refused = self.failure().is_some();
        // The result is ignored, because the log's state keeps a failure.
        let _ = self.find_log();
        let state = self.quiesce();
        if state.failure.as_ref().is_some_and(|failure| failure.misplaced) {
            self.closing.store(true, Ordering::Relaxed);
        }
        refused
    }

    /// Waits until no thread makes a checkpoint, or writes or syncs records, and returns the locked state.
    /// Otherwise, while the heap is being closed, a thread whose write is about to fail could still write,
    /// and a thread that has looked for the log before could still acknowledge a commit.
    pub(super) fn quiesce(&self) -> MutexGuard<'_, WalState> {
        let _folded = self.folded.lock();
        let mut state = self.state.lock();
        while state.writing.is_some() || state.syncing.is_some() {
            self.changed.wait(&mut state);
        }
        state
    }

    /// Fails if the log has failed. A misplaced log does not count while the heap is
    /// [being closed](Self::begin_to_close).
    ///
    /// # Errors
    /// [`Error::Failed`], [`Error::Misplaced`].
    pub(crate) fn may_write(&self) -> Result<()> {
        if self.failed.load(Ordering::Acquire) { self.check(&self.state.lock()) } else { Ok(()) }
    }

    /// [`may_write`](Self::may_write), with the state locked.
    pub(super) fn check(&self, state: &WalState) -> Result<()> {
        let gets_over = |failure: &WalFailure| failure.misplaced && self.closing.load(Ordering::Relaxed);
        match &state.failure {
            Some(failure) if !gets_over(failure) => Err(failure.error()),
            _ => Ok(()),
        }
    }

    /// Writes and syncs the rest of the buffer when the heap is being closed and the log is misplaced. The
    /// records are not acknowledged: a crash before the heap is closed would leave them in a log that the
    /// next opening does not find.
    fn write_rest(&self) -> Result<()> {
        // SURVIVES unreached: no program of the crash lab misplaces a log; the models do.
        let mut state = self.state.lock();
        self.write_at_once(&mut state);
        self.check(&state)?;
        // SURVIVES drop: closing brings the records to the heap's file afterwards. The sync matters only if
        // the power fails before that and the log is put back, which no program of the crash lab does.
        // SURVIVES delay: the sync matters only if the power fails before the heap is closed and the log is
        // put back, which no program of the crash lab does.
        self.log().sync().map_err(|e| {
            self.fail(&mut state, "syncing the log", &e);
            Error::io("syncing the log", e)
        })
    }

    /// Fails if the next opening could not find the heap's file any more.
    ///
    /// # Errors
    /// [`Error::Misplaced`].
    pub(crate) fn keep_data_found(&self) -> Result<()> {
        self.disk.keep_data().map_err(|e| Error::Misplaced { reason: e.to_string() })
    }
}

/// Returns whether there are enough records for a checkpoint once the log is idle.
pub(super) fn is_worth_folding(state: &WalState) -> bool {
    state.buffer.end_position() - state.folded > WORTH_FOLDING
}

/// The background thread, and the threads that ask it for checkpoints or wait for them.
impl Wal {
    /// Notes whether the background thread is there, and cancels an earlier request that it end.
    pub(crate) fn set_background(&self, there: bool) {
        let mut state = self.state.lock();
        state.background = there;
        state.stop = false;
        self.changed.notify_all();
    }

    /// Tells the background thread to end.
    pub(crate) fn stop_background(&self) {
        self.state.lock().stop = true;
        self.requested.notify_all();
    }

    /// Waits, in the background thread, until that thread is asked for a round of [work](Self::work), or
    /// finds the log idle and a round worthwhile. Returns `false` if the thread is to end, or the log has
    /// failed.
    pub(crate) fn wait_for_request(&self) -> bool {
        let mut state = self.state.lock();
        while !state.checkpoint && !state.stop && state.failure.is_none() {
            let has_grown = !self.is_mapped() && state.buffer.segments() > FIRST_SEGMENTS;
            if !state.ages && !has_grown {
                self.requested.wait(&mut state);
                continue;
            }
            // A notification may wake the thread before the interval is over.
            let is_over = self.requested.wait_until(&mut state, Instant::now() + LOOK);
            let end = state.buffer.end_position();
            let is_same = std::mem::replace(&mut state.looked, end) == end;
            state.idle = if is_same { state.idle + u32::from(is_over) } else { 0 };
            if is_over && is_same && state.ages || has_grown && state.idle == LOOKS {
                (state.fold, state.checkpoint) = (true, true);
            }
        }
        !state.stop && state.failure.is_none()
    }

    /// Makes the background thread look regularly, once there are enough records for a checkpoint of an idle
    /// log.
    pub(super) fn watch_for_idleness(&self, state: &mut WalState) {
        if !state.ages && is_worth_folding(state) {
            state.ages = true;
            self.requested.notify_all();
        }
    }

    /// Returns whether a checkpoint is due: records take more than half of `log_limit`, or too many pages are
    /// private.
    pub(super) fn is_checkpoint_due(&self, state: &WalState) -> bool {
        let is_half_used = state.buffer.end_position() - state.folded > self.settings.log_limit / 2;
        is_half_used || self.pages.bytes() > self.memory_trigger.load(Ordering::Relaxed)
    }

    /// Returns whether a committing thread may soon wait for a checkpoint: for room in the log, or for
    /// memory.
    pub(crate) fn is_room_wanted(&self) -> bool {
        self.is_checkpoint_due(&self.state.lock())
    }

    /// Does one round of work, in the background thread, or, if there is none, in a thread that needs memory:
    /// makes the log longer ahead of need, makes a checkpoint if one is due, and cuts an idle log down.
    /// `before` runs before the checkpoint, and `after` gets the result of `before` when the checkpoint is
    /// complete, unless it fails.
    pub(crate) fn work<T>(&self, before: impl FnOnce() -> T, after: impl FnOnce(T)) {
        let (free, segments, due, idle) = {
            let mut state = self.state.lock();
            // The count of idle looks is reset, so that the log is cut down once for each idle time.
            let idle = std::mem::take(&mut state.idle) >= LOOKS;
            let due = std::mem::take(&mut state.fold) || self.is_checkpoint_due(&state);
            (state.buffer.free_segments(), state.buffer.segments(), due, idle)
        };
        let size = segments * self.layout.segment;
        if free == 0 && size < self.settings.log_limit {
            // The log grows ahead of need, so that no transaction waits for the growth. If the growth fails,
            // a transaction that needs the room tries again, and gets the error.
            let grown = self.grow(1);
            self.state.lock().full_disk = grown.is_err();
            // The result is ignored, because the log's state keeps a failure.
            let _ = self.find_log();
        }
        if due {
            let found = before();
            // The result is ignored, because the log's state keeps a failure.
            let _ = self.checkpoint(|| after(found));
        }
        if idle {
            // The result is ignored, because the log's state keeps a failure of the log.
            let _ = self.cut_down();
        }
        let limit = self.settings.memory_limit;
        let trigger = (limit / 2).max(self.pages.bytes() + limit / 4);
        self.memory_trigger.store(trigger, Ordering::Relaxed);
        let mut state = self.state.lock();
        state.checkpoint = false;
        state.rounds += 1;
        self.changed.notify_all();
    }

    /// Because too many pages are private, asks the background thread, if there is one, for a round of work,
    /// and waits for its end.
    #[cold]
    pub(crate) fn wait_for_memory(&self) {
        let mut state = self.state.lock();
        let rounds = state.rounds;
        self.request(&mut state);
        while state.background && state.rounds == rounds && state.failure.is_none() {
            self.changed.wait(&mut state);
        }
    }

    /// Returns whether more pages are private than the limit allows, and the next checkpoint may help.
    #[inline]
    pub(crate) fn is_over_memory(&self) -> bool {
        let bytes = self.pages.bytes();
        bytes > self.settings.memory_limit && bytes > self.memory_trigger.load(Ordering::Relaxed)
    }
}
