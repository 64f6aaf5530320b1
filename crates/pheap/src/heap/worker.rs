//! The threads that work for a heap in the background, from its opening until it is closed.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use super::HeapInner;
use crate::os::fork;
use crate::sync::Mutex;

/// What a thread is there for.
#[derive(Clone, Copy)]
pub(super) enum Work {
    Marking,
    Checkpoints,
}

/// The threads, as far as there are some.
#[derive(Default)]
pub(super) struct Workers([Mutex<Option<JoinHandle<()>>>; 2]);

impl Workers {
    /// Takes a thread, to wait for it.
    pub(super) fn take(&self, what: Work) -> Option<JoinHandle<()>> {
        self.swap(what, None)
    }

    fn swap(&self, what: Work, thread: Option<JoinHandle<()>>) -> Option<JoinHandle<()>> {
        // SURVIVES drop: nobody else has a heap that is being opened, and only one thread closes it.
        std::mem::replace(&mut *self.0[what as usize].lock(), thread)
    }
}

impl HeapInner {
    /// Starts a thread that works for the heap. Returns whether it could.
    pub(super) fn start(
        self: &Arc<Self>,
        what: Work,
        name: &str,
        work: impl FnOnce(&HeapInner) + Send + 'static,
    ) -> bool {
        struct Shared(*const HeapInner);
        // SAFETY: a heap can be shared.
        unsafe impl Send for Shared {}
        // Not an `Arc`: the file is closed when the last handle of the program is gone.
        let shared = Shared(Arc::as_ptr(self));
        let work = move || {
            let shared = shared;
            // SAFETY: a heap goes by `drop` below, which waits for its threads, or by the end of the process: nobody who takes a thread of `workers` does not wait for it.
            work(unsafe { &*shared.0 });
        };
        let thread = Builder::new().name(name.to_owned()).spawn(work).ok();
        let started = thread.is_some();
        self.workers.swap(what, thread);
        started
    }
}

impl Drop for HeapInner {
    fn drop(&mut self) {
        if self.forks != fork::forks() {
            // They have stayed with the parent: they can neither be waited for nor let go of.
            self.workers.0.iter_mut().for_each(|thread| std::mem::forget(thread.get_mut().take()));
        }
        // The last handle is gone, so no transaction runs. A forked child must leave the file alone.
        let _ = self.close(true);
        self.stop_background();
        self.stop_checkpoints();
    }
}
