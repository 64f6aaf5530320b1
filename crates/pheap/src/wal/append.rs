//! Appending records, with the log's state locked.

use std::io;
use std::ops::Range as Positions;

use super::{Wal, WalState};
use crate::error::Result;
use crate::log::{Range, StagedEntry};
use crate::os::cpu::bytes;
use crate::sync::{Mistake, MutexGuard, mistake};

const METADATA: &str = "recording metadata";

impl Wal {
    /// Appends the new content of `ranges` as records, all of it or nothing, and returns the log positions
    /// before and behind these records. `words` is the number of words of the ranges, heads included. This
    /// waits for a sync only if the log is full or has not begun.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`](crate::Error::OutOfSpace) or [`Error::Io`](crate::Error::Io) if the log has no
    /// room and cannot get any, the errors of [`ensure_log`](Self::ensure_log) and
    /// [`checkpoint`](Self::checkpoint), or the failure of the log.
    pub(crate) fn append<'a>(
        &self,
        words: usize,
        ranges: impl Iterator<Item = Range<'a>>,
        is_metadata: bool,
    ) -> Result<Positions<u64>> {
        self.ensure_log().inspect_err(|error| {
            // The metadata are in the heap's memory already, and other threads will rely on them. If their
            // record is missing, the log must refuse everything.
            if is_metadata {
                self.poison(METADATA, &io::Error::other(error.to_string()));
            }
        })?;
        let mut state = self.with_room(words, is_metadata)?;
        let start = state.buffer.end_position();
        self.append_ranges(&mut state, words, ranges.inspect(|range| self.mark_range_private(range)));
        Ok(start..self.has_appended(&mut state))
    }

    /// Appends ranges of `words` words to the buffer. If the transaction is [long](Self::is_long), each
    /// segment is written as soon as it is full, so the buffer stays small. The state stays locked during
    /// these writes: the records of other threads could only follow this transaction anyway.
    fn append_ranges<'a>(&self, state: &mut WalState, words: usize, ranges: impl Iterator<Item = Range<'a>>) {
        let at_once = self.writes_at_once(state);
        let is_long = self.is_long(words);
        let mut written = Ok(());
        state.buffer.append(ranges, |chunk| {
            if is_long && written.is_ok() {
                written = self.write_chunks(std::slice::from_ref(chunk));
            }
            is_long
        });
        if written.is_err() {
            let end = state.buffer.end_position();
            self.note_written(state, Vec::new(), end, written);
        } else if at_once {
            self.write_at_once(state);
        }
    }

    /// [Appends](Self::append) the entry of a transaction, which has the form of a record except for its
    /// checksum. If records are [written at once](Self::writes_at_once), the entry fits into the segment in
    /// one piece, and the buffer is empty, the entry is written directly from `staged`, without a copy.
    ///
    /// # Errors
    /// See [`append`](Self::append).
    #[inline]
    pub(crate) fn append_staged(&self, staged: &mut StagedEntry) -> Result<Positions<u64>> {
        self.ensure_log()?;
        let mut state = self.with_room(staged.range_words(), false)?;
        let start = state.buffer.end_position();
        staged.ranges().for_each(|range| self.mark_range_private(&range));
        if self.writes_at_once(&state)
            && let Some((record, place)) = state.buffer.append_whole(staged)
        {
            let written = self.log().write_all(bytes(record), place);
            let end = state.buffer.end_position();
            self.note_written(&mut state, Vec::new(), end, written);
        } else {
            self.append_ranges(&mut state, staged.range_words(), staged.ranges());
        }
        Ok(start..self.has_appended(&mut state))
    }

    /// Returns whether a transaction with ranges of `words` words is so long that its records are written
    /// while they are appended.
    fn is_long(&self, words: usize) -> bool {
        words as u64 * 8 > self.settings.log_limit / 4
    }

    /// Locks the state, and waits until there is room for `words` words of ranges with their heads, and,
    /// unless they are metadata, for the [reserve](Self::reserve). If the transaction is
    /// [long](Self::is_long), this also waits until no thread writes to the log with the state unlocked.
    #[inline]
    fn with_room(&self, words: usize, is_metadata: bool) -> Result<MutexGuard<'_, WalState>> {
        let mut state = self.state.lock_briefly();
        let need = state.buffer.need(words) + if is_metadata { 0 } else { self.reserve() };
        let mut rounds = 0;
        loop {
            if let Some(failure) = &state.failure {
                return Err(failure.error());
            }
            if need <= state.buffer.room() {
                if self.is_long(words) && state.writing.is_some() {
                    self.changed.wait(&mut state);
                    continue;
                }
                return Ok(state);
            }
            let made = self.make_room(&mut state, need, rounds);
            if is_metadata
                && let Err(error) = &made
                && state.failure.is_none()
            {
                // The metadata are in the heap's memory already, and other threads will rely on them. If
                // the log itself has failed, that failure is kept: it says whether closing the heap gets
                // over it.
                self.fail(&mut state, METADATA, &io::Error::other(error.to_string()));
            }
            made?;
            rounds += 1;
        }
    }

    /// Marks the pages of `range` as private, in the current epoch. This runs while the state is locked and
    /// the record gets its position, because the epoch of a page must be that of its last record.
    fn mark_range_private(&self, range: &Range<'_>) {
        self.pages.mark_stored(range.offset, range.words.len() as u64 * 8);
    }

    /// Returns whether the appending thread writes its record at once. If another thread is writing to the
    /// log, that thread writes the bytes before the record (the first line of the first segment, for
    /// example). Then the record stays in the buffer, as in a log that is not mapped.
    fn writes_at_once(&self, state: &WalState) -> bool {
        self.is_at_once() && (state.writing.is_none() || mistake(Mistake::OvertakeWriter))
    }

    /// Wakes the threads that the new record gives work to. Returns the position behind the record.
    #[inline]
    fn has_appended(&self, state: &mut WalState) -> u64 {
        self.note_unsynced(state);
        self.watch_for_idleness(state);
        let may_grow = !state.full_disk
            && state.buffer.free_segments() == 0
            && state.buffer.segments() * self.layout.segment < self.settings.log_limit;
        if may_grow || self.is_checkpoint_due(state) {
            self.request(state);
        }
        state.buffer.end_position()
    }
}
