//! Space that the file has behind the end of the heap. With it, a thread that needs more pages mostly finds
//! that a background thread has made the file longer already.

use std::sync::OnceLock;

use super::{Store, Tables};
use crate::error::{Error, Result};
use crate::os::file_size_limit;
use crate::sync::Mutex;

type StartGrowth = Box<dyn Fn(u64, u64) + Send + Sync>;

/// The state of the space that the file has behind the end of the heap.
#[derive(Default)]
pub(crate) struct SpaceAhead {
    /// Offset up to which the file was made longer since the heap was opened; 0 if it was not. The file has
    /// space up to this offset, and zeros behind the heap's end. A thread that makes the file longer holds
    /// this lock, with or without the lock of the tables.
    ready: Mutex<u64>,
    /// A function that starts a thread that [makes the file longer](Store::make_ready), or does nothing. Set
    /// when the heap is opened, or never.
    pub(crate) start: OnceLock<StartGrowth>,
}

impl Store {
    /// Makes the file longer, up to the offset `to`, unless it was made that long already. The heap ends at
    /// `from` or behind it.
    pub(crate) fn make_ready(&self, from: u64, to: u64) -> Result<()> {
        let mut ready = self.ahead.ready.lock();
        let from = from.max(*ready);
        if from >= to {
            return Ok(());
        }
        let grown = self.mapping.grow_file(from, to).and_then(|()| {
            // Once the header relies on the new length, a power failure must not lose it. With `Process` the
            // heap may be torn after a power failure anyway, so there is no sync. A sync would also write
            // pages that other threads have stored to, and these threads would wait when they store to them
            // again.
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
        // SURVIVES drop: heaps of the crash lab grow too seldom for this lock to meet a thread that makes the
        // file longer.
        self.ahead.ready.try_lock().map(|ready| *ready)
    }
}

impl Tables {
    /// If half of the newest arena is used, starts a thread that makes the file long enough for the next
    /// arena, unless the file is. Does nothing while the heap has only its first arena, so a small heap has
    /// no space ahead.
    pub(super) fn look_ahead(&self, store: &Store) {
        let (Some(start), Some(newest)) = (store.ahead.start.get(), self.arenas.last()) else { return };
        if newest.start == 0 || newest.used - newest.start < newest.size / 2 {
            return;
        }
        let Ok(next) = self.next_arena(store, 1) else { return };
        // The file does not grow ahead beyond this process's limit of file sizes: a signal would end the
        // program, which may never need so long a file.
        if store.ready().is_some_and(|ready| ready < next.end()) && next.end() <= file_size_limit() {
            start(next.start, next.end());
        }
    }
}
