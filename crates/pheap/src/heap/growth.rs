//! The thread that makes the heap's file longer before somebody needs that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::HeapInner;
use super::close::Work;

impl HeapInner {
    /// Has the file grow ahead of need from now on. The thread ends when it is one arena ahead: a heap that does not grow has none.
    pub(super) fn grow_ahead(self: &Arc<Self>) {
        // With a log, growth is mostly the syncs of the header, which stay; and on ext4, whoever commits meanwhile waits more often than it saves.
        if self.is_simulated() || self.mapping.shared_file().is_none() {
            return;
        }
        let (heap, asked) = (Arc::downgrade(self), AtomicU64::new(0));
        let start = move |from, to| {
            // Who needs pages has the heap, so that none drops it here.
            let Some(heap) = heap.upgrade() else { return };
            if asked.swap(to, Ordering::Relaxed) == to && heap.workers.is_at_work(Work::Growth) {
                return;
            }
            // One that was asked for less has nothing to do any more.
            heap.wait_for_growth();
            // What fails is found out by whoever needs the space.
            heap.start(Work::Growth, "pheap growth", move |heap| drop(heap.make_ready(from, to)));
        };
        let _ = self.ahead.start.set(Box::new(start));
    }

    /// Waits until that thread has ended.
    pub(super) fn wait_for_growth(&self) {
        if let Some(thread) = self.workers.take(Work::Growth) {
            let _ = thread.join();
        }
    }
}
