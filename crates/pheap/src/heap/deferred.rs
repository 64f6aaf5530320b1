//! Deferred commits of a heap. The first one, or `SyncPolicy::Every`, starts the thread that makes them
//! durable.

use std::sync::{Arc, Weak};
use std::thread;

use super::HeapInner;
use super::close::BackgroundTask;
use crate::os::fork::start_thread;
use crate::region::guard;
use crate::wal::{Commit, SyncPolicy, Wal};

const NAME: &str = "pheap log";

impl HeapInner {
    /// Returns a `Commit` for a transaction that was committed just now, whose records end at `position`.
    /// With [`SyncPolicy::EveryCommit`], it requests the sync. If commits are synced, it waits if more bytes
    /// are unsynced than the limit allows; without a sync thread, it waits for the sync.
    pub(crate) fn deferred(self: &Arc<Self>, position: u64) -> Commit {
        let commit = self.commit_of_read(position);
        if let Some(wal) = self.wal()
            && wal.syncs_commits()
        {
            // A simulated log stands still until a thread waits.
            let goes_on = wal.has_syncer() || self.is_simulated();
            wal.limit_unsynced(position, if goes_on { wal.settings().unsynced_limit } else { 0 });
        }
        commit
    }

    /// Returns a `Commit` for everything before `position`. With [`SyncPolicy::EveryCommit`], it requests the
    /// sync: a read may have seen records that no commit waits for, such as the end of a collection.
    pub(crate) fn commit_of_read(self: &Arc<Self>, position: u64) -> Commit {
        let Some(wal) = self.wal() else { return Commit::done() };
        if !wal.is_durable(position) && !self.is_simulated() && !self.is_forked() {
            self.start_syncer(wal); // it wakes the task, with any policy
            wal.ask(position);
        }
        Commit::for_position(wal, position)
    }

    /// Returns whether a transaction that is not deferred waits for a sync before it returns.
    pub(crate) fn waits_for_syncs(&self) -> bool {
        self.wal().is_some_and(|wal| wal.syncs_commits())
    }

    /// Returns the commit that must be durable before a task may commit more, so that the unsynced bytes stay
    /// within their limit; `None` if they are within it. A task does not wait for that when it commits.
    pub(crate) fn backlog(self: &Arc<Self>) -> Option<Commit> {
        if self.is_forked() {
            return None; // the log's records are the parent's
        }
        let wal = self.wal()?;
        let least = wal.end_position().saturating_sub(wal.settings().unsynced_limit);
        (!wal.is_durable(least)).then(|| self.commit_of_read(least))
    }

    /// Starts the sync thread if the policy is `SyncPolicy::Every`.
    pub(super) fn sync_at_intervals(self: &Arc<Self>) {
        if let Some(wal) = self.wal()
            && matches!(wal.policy(), SyncPolicy::Every(_))
            && !self.is_simulated()
        {
            self.start_syncer(wal);
        }
    }

    /// Starts the thread that syncs the log, unless it exists, may not begin any more, or cannot be started.
    fn start_syncer(self: &Arc<Self>, wal: &Arc<Wal>) {
        if wal.has_syncer() {
            return;
        }
        self.workers.start(BackgroundTask::Syncs, || {
            wal.begin_syncer(|| {
                // A waker that the thread calls may drop the last handle of the heap. So the thread has a
                // weak reference to it, and goes on with the log alone.
                let (wal, heap) = (wal.clone(), Arc::downgrade(self));
                start_thread(NAME, move || SyncThread { wal, heap }.run())
            })
        });
    }

    /// Tells the sync thread to end, which first wakes all waiting tasks, and joins it where that is safe.
    /// Everything is durable, or the heap has failed. The caller has no region locked.
    pub(super) fn stop_syncer(&self) {
        let Some(wal) = self.wal() else { return };
        wal.stop_syncer();
        // A thread of this kind joins neither itself nor the thread of another heap, because that may be
        // about to join this one: their wakers may drop each other's heaps. A thread inside a heap does not
        // join either, because a waker may wait for that heap.
        if let Some(syncer) = self.workers.take_thread(BackgroundTask::Syncs)
            && guard::is_outside()
            && thread::current().name() != Some(NAME)
        {
            let _ = syncer.join();
        }
    }
}

/// The state of the sync thread. Its drop ends the thread's work.
struct SyncThread {
    wal: Arc<Wal>,
    heap: Weak<HeapInner>,
}

impl SyncThread {
    fn run(self) {
        while self.wal.sync_deferred() {}
    }
}

impl Drop for SyncThread {
    fn drop(&mut self) {
        // The reference to the heap is released before any task is woken: the task may drop the heap and open
        // it again.
        if let Some(heap) = self.heap.upgrade() {
            if thread::panicking() {
                heap.set_panicked();
            } else if self.wal.failure().is_some() {
                heap.set_failed();
            }
        }
        self.wal.end_syncer();
    }
}
