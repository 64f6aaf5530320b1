//! Deferred commits as the heap sees them: the thread that makes them durable is started when there is a first one.

use std::sync::{Arc, Weak};
use std::thread;

use super::HeapInner;
use super::close::Work;
use crate::os::fork::start_thread;
use crate::region::guard;
use crate::wal::{Commit, SyncPolicy, Wal};

const NAME: &str = "pheap log";

impl HeapInner {
    /// What tells when a transaction is durable that was committed just now, and whose records end at `position`. If commits are synced, sees to it that it becomes so, and waits if much more
    /// is not synced than may be.
    pub(crate) fn deferred(self: &Arc<Self>, position: u64) -> Commit {
        let commit = self.seen(position);
        if let Some(wal) = self.wal()
            && wal.syncs_commits()
        {
            // A simulated log stands still until somebody waits.
            let goes_on = wal.has_syncer() || self.is_simulated();
            wal.limit_unsynced(position, if goes_on { wal.settings().unsynced_limit } else { 0 });
        }
        commit
    }

    /// What tells when everything before `position` is durable. Sees to it that it becomes so if commits are synced: not only a commit may be what a read has seen, and for the end of a
    /// collection nobody waits.
    pub(crate) fn seen(self: &Arc<Self>, position: u64) -> Commit {
        let Some(wal) = self.wal() else { return Commit::done() };
        if !wal.is_durable(position) && !self.is_simulated() && !self.is_forked() {
            self.start_syncer(wal); // who wakes the task, whatever is synced
            wal.ask(position);
        }
        Commit::at(wal, position)
    }

    /// Whether a transaction waits for the disk before it returns.
    pub(crate) fn waits_for_syncs(&self) -> bool {
        self.wal().is_some_and(|wal| wal.syncs_commits())
    }

    /// What has to be durable before a task may commit more: no more than so many bytes are to be unsynced, and a task does not wait for that when it commits.
    pub(crate) fn backlog(self: &Arc<Self>) -> Option<Commit> {
        if self.is_forked() {
            return None; // what waits there is the parent's
        }
        let wal = self.wal()?;
        let least = wal.end().saturating_sub(wal.settings().unsynced_limit);
        (!wal.is_durable(least)).then(|| self.seen(least))
    }

    /// Starts the thread if the policy needs it.
    pub(super) fn sync_at_intervals(self: &Arc<Self>) {
        if let Some(wal) = self.wal()
            && matches!(wal.policy(), SyncPolicy::Every(_))
            && !self.is_simulated()
        {
            self.start_syncer(wal);
        }
    }

    /// Starts the thread that syncs the log, unless there is one, or there can be none.
    fn start_syncer(self: &Arc<Self>, wal: &Arc<Wal>) {
        if wal.has_syncer() {
            return;
        }
        self.workers.start(Work::Syncs, || {
            wal.begin_syncer(|| {
                // The thread may drop the last handle of the heap, in a waker, and then goes on by itself.
                let (wal, heap) = (wal.clone(), Arc::downgrade(self));
                start_thread(NAME, move || Syncer { wal, heap }.run())
            })
        });
    }

    /// Ends that thread, which first wakes all that wait. Everything is durable, or has failed. No region is locked by this thread.
    pub(super) fn stop_syncer(&self) {
        let Some(wal) = self.wal() else { return };
        wal.stop_syncer();
        // None of these threads waits for itself, nor for that of another heap, which may be about to wait for it: their wakers may drop each other's heaps. And a waker may wait for another
        // heap that this thread is inside of.
        if let Some(syncer) = self.workers.take(Work::Syncs)
            && guard::is_outside()
            && thread::current().name() != Some(NAME)
        {
            let _ = syncer.join();
        }
    }
}

/// What the thread has. Dropped when it ends.
struct Syncer {
    wal: Arc<Wal>,
    heap: Weak<HeapInner>,
}

impl Syncer {
    fn run(self) {
        while self.wal.sync_deferred() {}
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        // Let go of before anybody is told: who is may drop the heap, and open it again.
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
