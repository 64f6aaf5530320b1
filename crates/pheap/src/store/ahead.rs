//! Space that the file has behind the end of the heap. With it, a thread that needs more pages mostly finds
//! that a background thread has made the file longer already.

use std::sync::OnceLock;

use super::{Store, Tables};
use crate::error::{Error, Result};
use crate::os::file_size_limit;
use crate::sync::Mutex;

type StartGrowth = Box<dyn Fn(u64, u64) + Send + Sync>;

/// The state of the space ahead.
#[derive(Default)]
pub(crate) struct SpaceAhead {
    /// Offset up to which the file was made longer since the heap was opened; 0 if it was not. The file has
    /// space up to there, and zeros behind the heap's end. A thread that makes the file longer holds this
    /// lock, with or without the lock of the tables.
    ready: Mutex<u64>,
    /// Starts a thread that [makes the file ready](Store::make_ready), or does nothing. Set when the heap is
    /// opened, or never.
    pub(crate) start: OnceLock<StartGrowth>,
}

impl Store {
    /// Makes the file longer, up to `to`. The heap ends at `from` or behind it.
    pub(crate) fn make_ready(&self, from: u64, to: u64) -> Result<()> {
        let mut ready = self.ahead.ready.lock();
        let from = from.max(*ready);
        if from >= to {
            return Ok(());
        }
        let grown = self.mapping.grow_file(from, to).and_then(|()| {
            // Once the header relies on the length, a power failure must not lose it. With `Process` the heap
            // may be torn after a power failure anyway, so there is no sync. It would also write pages that
            // other threads have stored to, and these threads would wait when they store there again.
            let is_torn = self.medium.kind().is_torn_by_power_failure();
            if is_torn { Ok(()) } else { self.mapping.sync_length() }
        });
        grown.inspect_err(|error| {
            // The sync may have reported a failed write of a checkpoint, which the kernel reports only once.
            if let (Some(wal), Error::Io { source, .. }) = (self.wal(), error) {
                wal.poison("growing the heap's file", source);
            }
        })?;
        *ready = to;
        Ok(())
    }

    /// Returns the offset up to which the file was made ready, 0 if it was not. Returns `None` while a thread
    /// is making it longer.
    pub(crate) fn ready(&self) -> Option<u64> {
        // SURVIVES drop: heaps of the lab grow too seldom for this to meet a thread that makes the file
        // ready.
        self.ahead.ready.try_lock().map(|ready| *ready)
    }
}

impl Tables {
    /// Starts a thread that makes the file ready for the next arena, unless it is ready, if half of the
    /// newest arena is used, and that is not the first one. So a small heap has no space ahead.
    pub(super) fn look_ahead(&self, store: &Store) {
        let (Some(start), Some(newest)) = (store.ahead.start.get(), self.arenas.last()) else { return };
        if newest.start == 0 || newest.used - newest.start < newest.size / 2 {
            return;
        }
        let Ok(next) = self.next_arena(store, 1) else { return };
        // Beyond the limit of file sizes a signal would end the program, which may never need that much.
        if store.ready().is_some_and(|ready| ready < next.end()) && next.end() <= file_size_limit() {
            start(next.start, next.end());
        }
    }
}
