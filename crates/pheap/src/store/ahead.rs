//! Space behind the end of the heap that the file has already: so nobody waits for the file to grow, unless it is faster than a thread in the background.

use std::sync::OnceLock;

use super::{Store, Tables};
use crate::error::{Error, Result};
use crate::os::file_size_limit;
use crate::sync::Mutex;

type Start = Box<dyn Fn(u64, u64) + Send + Sync>;

#[derive(Default)]
pub(crate) struct Ahead {
    /// Up to where the file was made longer since the heap was opened: it has space there, and zeros. 0 if it was not. Who makes it longer holds this, also without the tables.
    ready: Mutex<u64>,
    /// Starts a thread that [makes the file ready](Store::make_ready), or does nothing. Set when the heap is opened, if at all.
    pub(crate) start: OnceLock<Start>,
}

impl Store {
    /// Makes the file ready up to `to`, for a heap that ends at `from`, or further behind by now.
    pub(crate) fn make_ready(&self, from: u64, to: u64) -> Result<()> {
        let mut ready = self.ahead.ready.lock();
        let from = from.max(*ready);
        if from >= to {
            return Ok(());
        }
        let grown = self.mapping.grow_file(from, to).and_then(|()| {
            // The length must not be lost in a power failure once the header relies on it. After one that leaves nothing to rely on, nobody looks; and a sync writes what others have
            // stored, who wait for that when they store there again.
            let is_torn = self.medium.kind().is_torn_by_power_failure();
            if is_torn { Ok(()) } else { self.mapping.sync_length() }
        });
        grown.inspect_err(|error| {
            // It may be the failure to write pages that a checkpoint has written, and is told once.
            if let (Some(wal), Error::Io { source, .. }) = (self.wal(), error) {
                wal.poison("growing the heap's file", source);
            }
        })?;
        *ready = to;
        Ok(())
    }

    /// Up to where the file was made ready; 0 if it was not. `None` while somebody is about to.
    pub(crate) fn ready(&self) -> Option<u64> {
        // SURVIVES drop: heaps of the lab grow too seldom for a thread that makes a file ready to be met here.
        self.ahead.ready.try_lock().map(|ready| *ready)
    }
}

impl Tables {
    /// Has the file made ready for the next arena, if the newest one is not the first, and half of it is used. Small heaps never have more than they need.
    pub(super) fn look_ahead(&self, store: &Store) {
        let (Some(start), Some(newest)) = (store.ahead.start.get(), self.arenas.last()) else { return };
        if newest.start == 0 || newest.used - newest.start < newest.size / 2 {
            return;
        }
        let Ok(next) = self.next_arena(store, 1) else { return };
        // Behind the limit, a signal would end the program, which may never need that much.
        if store.ready().is_some_and(|ready| ready < next.end()) && next.end() <= file_size_limit() {
            start(next.start, next.end());
        }
    }
}
