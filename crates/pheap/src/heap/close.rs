//! `Heap::close`, and the threads in the background: they are started here, too, for each must have ended before the heap goes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use super::HeapInner;
use super::directory::Creation;
use crate::alloc::bitmaps::store_live_slots;
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::region::guard::{Entered, Scope};
use crate::store::header::Use;
use crate::store::{CLOSED, Tables, panicked};
use crate::sync::Mutex;
use crate::wal::Wal;

impl HeapInner {
    /// Closes the heap; also one whose file was removed, if it is the `last` time that anybody could use it.
    pub(super) fn close(&self, last: bool) -> Result<()> {
        self.check_not_forked()?;
        let entered = Entered::new(self.id(), Scope::Copy)?;
        let copies = self.copies.write();
        let creation = Creation::lock(self)?;
        let regions = self.regions();
        // One that has failed cannot be saved any more.
        if !last && self.state.load(Ordering::Relaxed) < CLOSED {
            self.check_named()?;
        }
        if self.state.swap(CLOSED, Ordering::Relaxed) == CLOSED {
            return Err(Error::Closed);
        }
        self.stop_background();
        self.stop_checkpoints();
        let mut live = Some(Vec::new());
        let mut is_whole = true;
        for region in regions {
            let retired = region.retire(self, |context| {
                live = live.take().and_then(|live| context.gc.live_slots(&mut context.alloc, self, live))
            });
            match retired {
                Ok(()) => {}
                // One that a panic has left between two states is for the next opening to bring to one of them.
                Err(Error::Closed) => is_whole = false,
                // Whoever may be inside keeps the memory, and the lock on the file, until the last handle is gone. Then the file is as after a crash.
                Err(error) => return Err(error),
            }
        }
        let mut tables = self.tables.lock();
        self.wait_for_growth(); // nobody starts the thread again: it takes the tables
        let refused = self.wal().is_some_and(|wal| wal.begin_to_close());
        if refused {
            live = None;
        }
        let closed = match self.wal().map_or(Ok(()), |wal| wal.may_write()) {
            // What the disk has is for the next opening to find out.
            Err(error) => Err(error),
            Ok(()) if !is_whole => Err(panicked()),
            Ok(()) if self.is_read_only() => Ok(()),
            Ok(()) => self.mark_closed(&mut tables, live, !refused).or_else(|error| {
                // The log may have been misplaced since it was looked for: that, closing gets over. If it has not failed, it is not looked for again: it may be removed.
                let gets_over = |wal: &Arc<Wal>| {
                    wal.failure().is_some() && wal.begin_to_close() && wal.may_write().is_ok()
                };
                if !self.wal().is_some_and(gets_over) {
                    return Err(error);
                }
                tables.header.live_slots = (0, 0); // the file may not have them
                self.mark_closed(&mut tables, None, false)
            }),
        };
        self.unmap(tables);
        // One that is opened to be checked first shares the lock of who is going to open it.
        if let Some(file) = &*self.file {
            self.mapping.unlock();
            file.forget();
        }
        // Last: tasks that wait for a commit are told what has become of it. And without a lock: their wakers
        // may wait for that.
        drop((creation, copies, entered));
        self.stop_syncer();
        closed
    }

    /// Marks the heap as closed, once the disk has everything. `live` are the live slots, if they are known. `is_recorded` if every change of the metadata was recorded:
    /// else pages that are free here may be in use in the file.
    fn mark_closed(&self, tables: &mut Tables, live: Option<Vec<u64>>, is_recorded: bool) -> Result<()> {
        if self.wal().is_some_and(|wal| !wal.has_begun()) {
            return self.mapping.shrink_file(tables.header.mapped); // nothing was recorded: it says that it is closed, as when it was opened
        }
        // A simulated medium cannot be cut off.
        if is_recorded && !self.is_simulated() {
            tables.drop_free_arenas();
        }
        if let Some(wal) = self.wal() {
            // First of all: records of what was in these pages must not come after what is written there directly.
            wal.checkpoint(|| {})?;
        }
        if let Some(live) = live {
            store_live_slots(tables, &live);
        }
        self.mapping.sync()?;
        let Tables { heap, header, media, .. } = tables;
        header.in_use = Use::Closed;
        header.has_parts = false; // the logs are empty
        // Both slots: should one be damaged later, the other must not say that the heap is in use, nor miss a log that is gone, nor a file that is longer. One after the other, for
        // a power failure may tear what is being written.
        let sync = || if bug(Bug::SyncHeadersAtOnce) { Ok(()) } else { self.mapping.sync() };
        header.write_both(media, *heap, sync)?;
        if bug(Bug::SyncHeadersAtOnce) {
            self.mapping.sync()?;
        }
        if let Some(wal) = self.wal() {
            wal.may_write()?;
            wal.remove();
            wal.keep_data_found()?;
        }
        // Also what was made ready and not used, here or by a program that was killed.
        if is_recorded { self.mapping.shrink_file(header.mapped) } else { Ok(()) }
    }
}

/// What a thread is there for.
#[derive(Clone, Copy)]
pub(super) enum Work {
    Marking,
    Checkpoints,
    Growth,
    Syncs,
}

/// The threads, as far as there are some.
#[derive(Default)]
pub(super) struct Workers(pub(super) [Mutex<Option<JoinHandle<()>>>; 4]);

impl Workers {
    /// Whether there is one that has not ended.
    pub(super) fn is_at_work(&self, what: Work) -> bool {
        // SURVIVES drop: heaps of the lab grow too seldom for two threads to meet here. SURVIVES unreached: of threads that simulated heaps do not have.
        self.0[what as usize].lock().as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Takes a thread, to wait for it.
    pub(super) fn take(&self, what: Work) -> Option<JoinHandle<()>> {
        self.swap(what, None)
    }

    /// Puts the thread there that `start` starts, if it does. One at a time.
    pub(super) fn start(&self, what: Work, start: impl FnOnce() -> Option<JoinHandle<()>>) {
        let mut place = self.0[what as usize].lock();
        if let Some(thread) = start() {
            *place = Some(thread);
        }
    }

    pub(super) fn swap(&self, what: Work, thread: Option<JoinHandle<()>>) -> Option<JoinHandle<()>> {
        // SURVIVES drop: nobody else has a heap that is being opened, and only one thread closes it.
        std::mem::replace(&mut *self.0[what as usize].lock(), thread)
    }
}
