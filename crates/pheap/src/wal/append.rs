//! Appending records, with the log's state locked.

use std::io;
use std::ops::Range as Positions;

use super::{State, Wal};
use crate::error::Result;
use crate::log::{Range, Staged};
use crate::os::cpu::bytes;
use crate::sync::{Mistake, MutexGuard, mistake};

const METADATA: &str = "recording metadata";

impl Wal {
    /// Appends the new content of ranges, all of it or nothing, and returns the positions before and behind it. `words` is the number of words of the ranges,
    /// heads included. Nothing waits for a disk, unless the log is full.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`](crate::Error::OutOfSpace) if the log cannot take it, [`Error::Failed`](crate::Error::Failed).
    pub(crate) fn append<'a>(
        &self,
        words: usize,
        ranges: impl Iterator<Item = Range<'a>>,
        is_metadata: bool,
    ) -> Result<Positions<u64>> {
        self.begin().inspect_err(|error| {
            // As below: it has been stored already.
            if is_metadata {
                self.poison(METADATA, &io::Error::other(error.to_string()));
            }
        })?;
        let mut state = self.with_room(words, is_metadata)?;
        let start = state.buffer.end();
        self.append_ranges(&mut state, words, ranges.inspect(|range| self.note(range)));
        Ok(start..self.has_appended(&mut state))
    }

    /// Appends to the buffer, for `words` words of ranges. Of a [long](Self::is_long) transaction, what fills
    /// segments is written meanwhile, so that it needs no memory. That takes no longer than others have to
    /// wait for what is appended before them.
    fn append_ranges<'a>(&self, state: &mut State, words: usize, ranges: impl Iterator<Item = Range<'a>>) {
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
            let end = state.buffer.end();
            self.note_written(state, Vec::new(), end, written);
        } else if at_once {
            self.write_at_once(state);
        }
    }

    /// [`append`](Self::append) of a transaction's entry, which is a record but for its checksum. So it is written from where it is, if it need not be taken apart and nothing is to be
    /// written before it.
    ///
    /// # Errors
    /// As for `append`.
    #[inline]
    pub(crate) fn append_staged(&self, staged: &mut Staged) -> Result<Positions<u64>> {
        self.begin()?;
        let mut state = self.with_room(staged.range_words(), false)?;
        let start = state.buffer.end();
        staged.ranges().for_each(|range| self.note(&range));
        if self.writes_at_once(&state)
            && let Some((record, place)) = state.buffer.append_whole(staged)
        {
            let written = self.log().write_all(bytes(record), place);
            let end = state.buffer.end();
            self.note_written(&mut state, Vec::new(), end, written);
        } else {
            self.append_ranges(&mut state, staged.range_words(), staged.ranges());
        }
        Ok(start..self.has_appended(&mut state))
    }

    /// Whether so many words of ranges are written while they are appended.
    fn is_long(&self, words: usize) -> bool {
        words as u64 * 8 > self.settings.log_limit / 4
    }

    /// Locks the state, and waits until there is room for so many words of ranges, with their heads; if they
    /// are [long](Self::is_long), also until nobody writes.
    #[inline]
    fn with_room(&self, words: usize, is_metadata: bool) -> Result<MutexGuard<'_, State>> {
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
                // It has been stored already, and others will rely on it. (If the log itself has failed, that says why, and whether closing the heap gets over it.)
                self.fail(&mut state, METADATA, &io::Error::other(error.to_string()));
            }
            made?;
            rounds += 1;
        }
    }

    /// Notes where a record goes that has its position, or is about to get it under the mutex: the epoch of a page is that of its last record.
    fn note(&self, range: &Range<'_>) {
        self.pages.note(range.offset, range.words.len() as u64 * 8);
    }

    /// Whether records are written by who appends them. Another thread may be writing what came before, the head of the first segment: then this waits for it, as in any log.
    fn writes_at_once(&self, state: &State) -> bool {
        self.is_at_once() && (state.writing.is_none() || mistake(Mistake::OvertakeWriter))
    }

    /// Sees to what a record calls for. Returns the position behind it.
    #[inline]
    fn has_appended(&self, state: &mut State) -> u64 {
        self.note_unsynced(state);
        self.watch_for_idleness(state);
        let may_grow = !state.full_disk
            && state.buffer.free_segments() == 0
            && state.buffer.segments() * self.layout.segment < self.settings.log_limit;
        if may_grow || self.is_checkpoint_due(state) {
            self.request(state);
        }
        state.buffer.end()
    }
}
