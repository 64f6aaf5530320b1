//! The thread that makes the heap's file longer before a transaction needs the space.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::HeapInner;
use super::close::BackgroundTask;

impl HeapInner {
    /// From now on, a thread makes the heap's file longer before the space is needed, if stores go directly
    /// to the file. The thread ends when the file is longer by one arena, so a heap that does not grow has no
    /// such thread.
    pub(super) fn grow_ahead(self: &Arc<Self>) {
        // With a log, growth consists mostly of syncs of the header, which growing ahead does not avoid. On
        // ext4, commits during such a growth wait longer than it saves.
        if self.is_simulated() || self.mapping.shared_file().is_none() {
            return;
        }
        let (heap, asked) = (Arc::downgrade(self), AtomicU64::new(0));
        let start = move |from, to| {
            // The thread that needs pages, and calls this function, has a handle of the heap. So the handle
            // that `upgrade` returns is never the last one.
            let Some(heap) = heap.upgrade() else { return };
            if asked.swap(to, Ordering::Relaxed) == to && heap.workers.is_at_work(BackgroundTask::Growth) {
                return;
            }
            // If there is an earlier growth thread, it was asked for less space, and is done or nearly done.
            // So this thread waits for it.
            heap.wait_for_growth();
            // If the growth fails, the transaction that needs the space tries again, and gets the error.
            heap.start(BackgroundTask::Growth, "pheap growth", move |heap| drop(heap.make_ready(from, to)));
        };
        let _ = self.ahead.start.set(Box::new(start));
    }

    /// Waits until the growth thread has ended.
    pub(super) fn wait_for_growth(&self) {
        if let Some(thread) = self.workers.take_thread(BackgroundTask::Growth) {
            let _ = thread.join();
        }
    }
}
