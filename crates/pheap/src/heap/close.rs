//! `Heap::close` and the table of background threads.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use super::HeapInner;
use super::directory::CreationLock;
use crate::alloc::bitmaps::store_live_slots;
use crate::error::{Error, Result};
use crate::faults::{Bug, bug};
use crate::region::guard::{Scope, ScopeGuard};
use crate::store::header::HeapUse;
use crate::store::{CLOSED, Tables, panicked};
use crate::sync::Mutex;
use crate::wal::Wal;

impl HeapInner {
    /// Closes the heap. Fails if the heap's file was removed, unless the `last` handle is being dropped, or
    /// the heap has failed.
    pub(super) fn close(&self, last: bool) -> Result<()> {
        self.check_not_forked()?;
        let entered = ScopeGuard::new(self.id(), Scope::Copy)?;
        let copies = self.copies.write();
        let creation = CreationLock::lock(self)?;
        let regions = self.regions();
        // A failed heap cannot be saved any more, so it is closed even if its file was removed.
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
                // A panic has left this region inconsistent. So the heap is not marked as closed, and the
                // next opening recovers it.
                Err(Error::Closed) => is_whole = false,
                // The system refuses a fence, so a thread may be inside this region unseen. Therefore the
                // memory, and the lock on the file, stay until the last handle is dropped. The file is then
                // as after a crash.
                Err(error) => return Err(error),
            }
        }
        let mut tables = self.tables.lock();
        self.wait_for_growth(); // no thread starts growth again: that needs the tables
        let refused = self.wal().is_some_and(|wal| wal.begin_to_close());
        if refused {
            live = None;
        }
        let closed = match self.wal().map_or(Ok(()), |wal| wal.may_write()) {
            // The log has failed, so the content of the disk is unknown. The next opening reads it.
            Err(error) => Err(error),
            Ok(()) if !is_whole => Err(panicked()),
            Ok(()) if self.is_read_only() => Ok(()),
            Ok(()) => self.mark_closed(&mut tables, live, !refused).or_else(|error| {
                // The log may have been misplaced since the look above; closing can go on in that case. If
                // the log has not failed, it is not looked up again, because `mark_closed` may have removed
                // it.
                let gets_over = |wal: &Arc<Wal>| {
                    wal.failure().is_some() && wal.begin_to_close() && wal.may_write().is_ok()
                };
                if !self.wal().is_some_and(gets_over) {
                    return Err(error);
                }
                tables.header.live_slots = (0, 0); // the file may not have the bitmaps of live slots
                self.mark_closed(&mut tables, None, false)
            }),
        };
        self.unmap(tables);
        // A heap that is opened only to be verified has no lock of its own: it relies on the lock of the
        // opening, and does not release it.
        if let Some(file) = &*self.file {
            self.mapping.unlock();
            file.forget();
        }
        // The sync thread ends last: by then, tasks that wait for a commit get its outcome. No lock of the
        // heap is held here, because wakers of tasks may wait for the locks.
        drop((creation, copies, entered));
        self.stop_syncer();
        closed
    }

    /// Marks the heap as closed, once the disk has everything. `live` has the bitmaps of live slots, if they
    /// are known. If `is_recorded`, every change of the metadata was recorded. Otherwise pages that are free
    /// in memory may be in use in the file.
    fn mark_closed(&self, tables: &mut Tables, live: Option<Vec<u64>>, is_recorded: bool) -> Result<()> {
        if self.wal().is_some_and(|wal| !wal.has_begun()) {
            // nothing was recorded, so the header still says closed
            return self.mapping.shrink_file(tables.header.mapped);
        }
        // A simulated medium does not become shorter when its heap is closed, so all its arenas stay.
        if is_recorded && !self.is_simulated() {
            tables.drop_free_arenas();
        }
        if let Some(wal) = self.wal() {
            // This checkpoint comes before the bitmaps of live slots are stored directly to free pages:
            // records of the old content of these pages must not be applied afterwards.
            wal.checkpoint(|| {})?;
        }
        if let Some(live) = live {
            store_live_slots(tables, &live);
        }
        self.mapping.sync()?;
        let Tables { heap, header, media, .. } = tables;
        header.in_use = HeapUse::Closed;
        header.has_parts = false; // the logs of regions are empty
        // Both slots of the header are written. If one is damaged later, the other must not say that the heap
        // is in use, need a log that was removed, or name arenas that were cut off. The first is synced
        // before the second is written, because a power failure may tear the slot that is being written.
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
        // The file is cut at the heap's end. Behind the end there may be dropped arenas, and space that this
        // process or a killed one has allocated in advance and not used.
        if is_recorded { self.mapping.shrink_file(header.mapped) } else { Ok(()) }
    }
}

/// The task of a background thread.
#[derive(Clone, Copy)]
pub(super) enum BackgroundTask {
    Marking,
    Checkpoints,
    Growth,
    Syncs,
}

/// The background threads that were started and not taken out of the table, by task. They may have ended.
#[derive(Default)]
pub(super) struct BackgroundThreads(pub(super) [Mutex<Option<JoinHandle<()>>>; 4]);

impl BackgroundThreads {
    /// Returns whether there is a thread for this task that has not ended.
    pub(super) fn is_at_work(&self, what: BackgroundTask) -> bool {
        // SURVIVES drop: heaps of the crash lab grow too seldom for two threads to meet at this lock.
        // SURVIVES unreached: simulated heaps have no growth threads.
        self.0[what as usize].lock().as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Removes the thread of this task from the table, so that the caller can join it.
    pub(super) fn take_thread(&self, what: BackgroundTask) -> Option<JoinHandle<()>> {
        self.swap(what, None)
    }

    /// Calls `start` under the lock of this task's place, so that one thread starts at a time, and stores the
    /// thread that it returns, if any.
    pub(super) fn start(&self, what: BackgroundTask, start: impl FnOnce() -> Option<JoinHandle<()>>) {
        let mut place = self.0[what as usize].lock();
        if let Some(thread) = start() {
            *place = Some(thread);
        }
    }

    pub(super) fn swap(
        &self,
        what: BackgroundTask,
        thread: Option<JoinHandle<()>>,
    ) -> Option<JoinHandle<()>> {
        // SURVIVES drop: no other thread has a heap that is being opened, and only one thread closes a heap.
        std::mem::replace(&mut *self.0[what as usize].lock(), thread)
    }
}
