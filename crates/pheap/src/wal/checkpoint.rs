//! Checkpoints, the thread in the background that makes them, and when it does.

use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::begin::FIRST_SEGMENTS;
use super::fold::Fold;
use super::format::{MARKS, Mark, Segment, each_record};
use super::{Failure, Folded, State, Wal};
use crate::error::{Error, Result};
use crate::os::cpu::bytes;
use crate::sync::MutexGuard;

/// How often it is looked whether something was appended since.
const LOOK: Duration = Duration::from_secs(1);
/// How often nothing is to be new when a log that has grown is cut down. It would soon grow again otherwise, for which transactions wait.
const LOOKS: u32 = 10;
/// Bytes of records that are brought to the heap's file once nothing was appended for so long. To replay them would take a moment if the program was killed; fewer do not matter.
pub(super) const WORTH_FOLDING: u64 = 1 << 20;

impl Wal {
    /// Writes to the heap's file, and syncs it: for the header and new arenas, which no record covers.
    ///
    /// # Errors
    /// What failed; the log then refuses everything.
    #[track_caller]
    pub(crate) fn write_through(&self, bytes: &[u8], at: u64) -> Result<()> {
        self.begin()?;
        self.write_directly(bytes, at)
    }

    /// The same, whether the log has begun or not.
    #[track_caller]
    pub(super) fn write_directly(&self, bytes: &[u8], at: u64) -> Result<()> {
        // What follows a failure could reach the disk without what came before.
        self.may_write()?;
        self.pages.note(at, bytes.len() as u64);
        let mut written = self.data.write_all(bytes, at);
        if written.is_ok() {
            written = self.data.sync(); // not in a closure, of which nobody would know who has called it
        }
        written.map_err(|e| {
            self.fail(&mut self.state.lock(), "writing the heap's file", &e);
            Error::io("writing the heap's file", e)
        })
    }

    /// Copies all records to the heap's file, and frees their segments. Then `after` runs, while no other checkpoint does.
    ///
    /// # Errors
    /// What failed; the log then refuses everything.
    pub(crate) fn checkpoint(&self, after: impl FnOnce()) -> Result<()> {
        self.may_write()?;
        let closing = self.closing.load(Ordering::Relaxed);
        if !closing {
            // What is durable already was found by whoever synced it. It may have been moved since.
            self.find_log()?;
        }
        let mut folded = self.folded.lock();
        let (from, end, live) = {
            let state = self.state.lock();
            self.check(&state)?;
            // In this order, under this lock: what is recorded in the new epoch is behind `end`.
            self.pages.next_epoch();
            (state.folded, state.buffer.end(), state.buffer.live())
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
            // For those who wait for room, a little before the end of the round will tell them again.
            self.changed.notify_all();
        }
        after();
        Ok(())
    }

    /// Lets recovery begin at a position, durably: of the segments before it that are used again, the disk may have any part at any time.
    /// The other mark stays as it is until this one is there.
    fn mark_folded(&self, end: u64, mark: usize) -> io::Result<()> {
        let log = self.log();
        // By now the heap's header names this run.
        let says = Mark { folded: end, runs: self.runs, run: self.run, before: self.run };
        log.write_all(bytes(&says.to_words(self.seed)), MARKS[mark])?;
        log.let_go(); // of what was appended meanwhile, which may be much
        // SURVIVES delay: one write may come before it then, to the segment that has been free for longest. Without the mark, recovery begins with one after that
        // and replays what the heap's file has; or with that one, and finds nothing.
        log.sync()
    }

    /// Writes the records between two positions to the heap's file, and says how many bytes that were.
    fn fold(&self, folded: &Folded, positions: Range<u64>, live: &[Segment]) -> io::Result<u64> {
        let log = self.log();
        // For what half of the log says, and a little more, if there may be so much in memory: each page is written once then.
        let room = (self.settings.log_limit / 4 * 3).min(self.settings.memory_limit / 2);
        let mut fold = Fold::with_room(&*self.data, room);
        each_record(log, self.layout, live, positions, |record| {
            folded.streams.iter().for_each(|stream| stream.add(record));
            fold.add(record)
        })?;
        fold.finish()
    }

    /// The heap is going to be closed: all goes to its file, and then nobody has to find the log. So if the log cannot be found, and that is all, who closes the heap
    /// can use it once more. All others are still told that it has failed: until the heap is closed, nobody would find what they have written. Nothing is
    /// appended any more, a log that has not begun never will, and there is no thread in the background. Returns whether the log may have refused something before.
    pub(crate) fn begin_to_close(&self) -> bool {
        self.begin_no_more();
        let refused = self.failure().is_some();
        let _ = self.find_log(); // kept as a failure
        let state = self.quiesce();
        if state.failure.as_ref().is_some_and(|failure| failure.misplaced) {
            self.closing.store(true, Ordering::Relaxed);
        }
        refused
    }

    /// Waits until no thread writes to a file: one that has failed, or is about to, may still do so, or think that it has found the log.
    pub(super) fn quiesce(&self) -> MutexGuard<'_, State> {
        let _folded = self.folded.lock();
        let mut state = self.state.lock();
        while state.writing.is_some() || state.syncing.is_some() {
            self.changed.wait(&mut state);
        }
        state
    }

    /// Fails if the log has, unless that does not keep the heap from being [closed](Self::begin_to_close).
    ///
    /// # Errors
    /// [`Error::Failed`], [`Error::Misplaced`].
    pub(crate) fn may_write(&self) -> Result<()> {
        if self.failed.load(Ordering::Acquire) { self.check(&self.state.lock()) } else { Ok(()) }
    }

    pub(super) fn check(&self, state: &State) -> Result<()> {
        let gets_over = |failure: &Failure| failure.misplaced && self.closing.load(Ordering::Relaxed);
        match &state.failure {
            Some(failure) if !gets_over(failure) => Err(failure.error()),
            _ => Ok(()),
        }
    }

    /// Hands what is left in the buffer to the disk when the heap is being closed. Nobody is told that it is durable: a crash before the heap is closed would leave it in a log that the
    /// next opening does not find.
    fn write_rest(&self) -> Result<()> {
        // SURVIVES unreached: as the sync below; the models run it.
        let mut state = self.state.lock();
        self.write_at_once(&mut state);
        self.check(&state)?;
        // SURVIVES unreached: no program of the lab misplaces a log. Somebody may put a real one back after a power failure.
        self.log().sync().map_err(|e| {
            self.fail(&mut state, "syncing the log", &e);
            Error::io("syncing the log", e)
        })
    }

    /// Fails if the heap's file cannot be found any more.
    ///
    /// # Errors
    /// [`Error::Misplaced`].
    pub(crate) fn keep_data_found(&self) -> Result<()> {
        self.disk.keep_data().map_err(|e| Error::Misplaced { reason: e.to_string() })
    }
}

pub(super) fn is_worth_folding(state: &State) -> bool {
    state.buffer.end() - state.folded > WORTH_FOLDING
}

/// The thread in the background.
impl Wal {
    /// Says that there is one.
    pub(crate) fn set_background(&self, there: bool) {
        let mut state = self.state.lock();
        state.background = there;
        state.stop = false;
        self.changed.notify_all();
    }

    /// Tells it to end.
    pub(crate) fn stop_background(&self) {
        self.state.lock().stop = true;
        self.requested.notify_all();
    }

    /// Waits until a checkpoint is asked for. `false` if the thread is to end.
    pub(crate) fn wait_for_request(&self) -> bool {
        let mut state = self.state.lock();
        while !state.checkpoint && !state.stop && state.failure.is_none() {
            let has_grown = !self.is_mapped() && state.buffer.segments() > FIRST_SEGMENTS;
            if !state.ages && !has_grown {
                self.requested.wait(&mut state);
                continue;
            }
            // Others may have something to say before that.
            let is_over = self.requested.wait_until(&mut state, Instant::now() + LOOK);
            let end = state.buffer.end();
            let is_same = std::mem::replace(&mut state.looked, end) == end;
            state.idle = if is_same { state.idle + u32::from(is_over) } else { 0 };
            if is_over && is_same && state.ages || has_grown && state.idle == LOOKS {
                (state.fold, state.checkpoint) = (true, true);
            }
        }
        !state.stop && state.failure.is_none()
    }

    /// Has the thread in the background look again and again, once there are records that are to be in the heap's file if no others follow.
    pub(super) fn watch_for_idleness(&self, state: &mut State) {
        if !state.ages && is_worth_folding(state) {
            state.ages = true;
            self.requested.notify_all();
        }
    }

    /// Whether half of the log is used, or too many pages are private.
    pub(super) fn is_checkpoint_due(&self, state: &State) -> bool {
        let is_half_used = state.buffer.end() - state.folded > self.settings.log_limit / 2;
        is_half_used || self.pages.bytes() > self.memory_trigger.load(Ordering::Relaxed)
    }

    /// Whether who commits is about to wait for a checkpoint: for room in the log, or for memory.
    pub(crate) fn is_room_wanted(&self) -> bool {
        self.is_checkpoint_due(&self.state.lock())
    }

    /// Does what was asked for. If that takes a checkpoint, `before` runs before it, and `after` with what that has returned when the checkpoint is complete.
    pub(crate) fn work<T>(&self, before: impl FnOnce() -> T, after: impl FnOnce(T)) {
        let (free, segments, due, idle) = {
            let mut state = self.state.lock();
            // Once: this thread may not look again before there is more to do.
            let idle = std::mem::take(&mut state.idle) >= LOOKS;
            let due = std::mem::take(&mut state.fold) || self.is_checkpoint_due(&state);
            (state.buffer.free_segments(), state.buffer.segments(), due, idle)
        };
        let size = segments * self.layout.segment;
        if free == 0 && size < self.settings.log_limit {
            // So that no transaction has to. If it fails, one that needs it will find out why.
            let grown = self.grow(1);
            self.state.lock().full_disk = grown.is_err();
            let _ = self.find_log(); // a failure is kept, for all others to see
        }
        if due {
            let found = before();
            // A failure is kept, for all others to see.
            let _ = self.checkpoint(|| after(found));
        }
        if idle {
            let _ = self.cut_down(); // as well
        }
        let limit = self.settings.memory_limit;
        let trigger = (limit / 2).max(self.pages.bytes() + limit / 4);
        self.memory_trigger.store(trigger, Ordering::Relaxed);
        let mut state = self.state.lock();
        state.checkpoint = false;
        state.rounds += 1;
        self.changed.notify_all();
    }

    /// Waits for one round of the thread in the background, if too many pages are private.
    #[cold]
    pub(crate) fn wait_for_memory(&self) {
        let mut state = self.state.lock();
        let rounds = state.rounds;
        self.request(&mut state);
        while state.background && state.rounds == rounds && state.failure.is_none() {
            self.changed.wait(&mut state);
        }
    }

    /// Whether more pages are private than should be, and the next checkpoint may help.
    #[inline]
    pub(crate) fn is_over_memory(&self) -> bool {
        let bytes = self.pages.bytes();
        bytes > self.settings.memory_limit && bytes > self.memory_trigger.load(Ordering::Relaxed)
    }
}
