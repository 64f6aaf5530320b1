//! A thread that works for a heap in the background, from its opening until it is closed.

use std::thread::{Builder, JoinHandle};

use crate::sync::Mutex;

/// The thread, if there is one.
#[derive(Default)]
pub(super) struct Worker(Mutex<Option<JoinHandle<()>>>);

impl Worker {
    /// Starts the thread. Returns whether it could.
    pub(super) fn start(&self, name: &str, work: impl FnOnce() + Send + 'static) -> bool {
        let thread = Builder::new().name(name.to_owned()).spawn(work).ok();
        let started = thread.is_some();
        self.swap(thread);
        started
    }

    /// Takes the thread, to wait for it.
    pub(super) fn take(&self) -> Option<JoinHandle<()>> {
        self.swap(None)
    }

    /// Forgets the thread in a forked child, which it has not come along to: it can neither be waited for nor let go of.
    pub(super) fn forget(&mut self) {
        std::mem::forget(self.0.get_mut().take());
    }

    fn swap(&self, thread: Option<JoinHandle<()>>) -> Option<JoinHandle<()>> {
        // SURVIVES drop: nobody else has a heap that is being opened, and only one thread closes it.
        std::mem::replace(&mut *self.0.lock(), thread)
    }
}
