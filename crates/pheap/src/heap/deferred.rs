//! Deferred commits of a heap, and the thread that makes them durable. The first deferred commit or read
//! starts this thread, or the policy `SyncPolicy::Every` does.

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
    /// With [`SyncPolicy::EveryCommit`], requests the sync of these records. If the policy lets commits wait
    /// for syncs, waits until no more bytes before `position` are unsynced than the limit allows; without a
    /// sync thread, until none are.
    pub(crate) fn deferred(self: &Arc<Self>, position: u64) -> Commit {
        let commit = self.commit_of_read(position);
        if let Some(wal) = self.wal()
            && wal.syncs_commits()
        {
            // A simulated heap has no sync thread: its log stands still until a thread waits for a position.
            let goes_on = wal.has_syncer() || self.is_simulated();
            wal.limit_unsynced(position, if goes_on { wal.settings().unsynced_limit } else { 0 });
        }
        commit
    }

    /// Returns a `Commit` for all records before `position`. With [`SyncPolicy::EveryCommit`], requests their
    /// sync: a read may have seen records that no commit waits for, such as the end of a collection.
    pub(crate) fn commit_of_read(self: &Arc<Self>, position: u64) -> Commit {
        let Some(wal) = self.wal() else { return Commit::done() };
        if !wal.is_durable(position) && !self.is_simulated() && !self.is_forked() {
            self.start_syncer(wal); // with any policy, the sync thread wakes the task
            wal.ask(position);
        }
        Commit::for_position(wal, position)
    }

    /// Returns whether a transaction that is not deferred waits for a sync before it returns.
    pub(crate) fn waits_for_syncs(&self) -> bool {
        self.wal().is_some_and(|wal| wal.syncs_commits())
    }

    /// Returns the `Commit` that must be durable before a task may begin its next transaction, so that the
    /// unsynced bytes stay within their limit; `None` if they are within it. A task waits for this `Commit`
    /// before a transaction, and not after it.
    pub(crate) fn backlog(self: &Arc<Self>) -> Option<Commit> {
        if self.is_forked() {
            return None; // the log belongs to the parent process
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

    /// Starts the thread that syncs the log, unless the thread exists, the log has failed, or the heap is
    /// being closed. Nothing happens if the system starts no thread.
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

    /// Tells the sync thread to end, and joins it where that is safe. Before the thread ends, it wakes all
    /// waiting tasks. All records are durable, or the heap has failed. The caller has no region locked.
    pub(super) fn stop_syncer(&self) {
        let Some(wal) = self.wal() else { return };
        wal.stop_syncer();
        // A sync thread joins neither itself nor the sync thread of another heap, because that thread may be
        // about to join this one: the wakers that two sync threads call may drop each other's heaps. A thread
        // inside a heap does not join either, because a waker may wait for that heap.
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
        // This reference to the heap is released before any task is woken: a task may drop its handle of the
        // heap and open the heap again.
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
