//! Forks of this process, counted. A heap belongs to the process that has opened it; [`own_file`](super::own_file) says what becomes of it in a child.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{Builder, JoinHandle};

use crate::error::{Error, Result};

static FORKS: AtomicU64 = AtomicU64::new(0);

/// How many forks lie between this process and the first one that used pheap.
#[inline(always)]
fn forks() -> u64 {
    FORKS.load(Relaxed)
}

/// The process that has made something. What it has made is nothing to a forked child.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(u64);

impl Default for Process {
    /// This one.
    fn default() -> Process {
        Process(forks())
    }
}

impl Process {
    /// Whether this process was forked from it.
    #[inline(always)]
    pub(crate) fn is_parent(self) -> bool {
        self.0 != forks()
    }

    /// Fails in a process that was forked from it.
    #[inline(always)]
    pub(crate) fn check(self) -> Result<()> {
        if self.is_parent() { Err(Error::Forked) } else { Ok(()) }
    }
}

/// Whether a thread can be started: not in a forked child. `std` has a lock that each thread takes when it
/// begins and when it ends. If a thread of the parent had it when the child was made, a thread of the child
/// waits for it for ever, and so does the one that waits for that thread.
pub(crate) fn may_start_threads() -> bool {
    forks() == 0
}

/// Starts a thread, if that [can be](may_start_threads).
pub(crate) fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    let builder = may_start_threads().then(|| Builder::new().name(name.to_owned()))?;
    builder.spawn(work).ok()
}

/// In a child, where nothing else runs.
pub(super) fn count() {
    FORKS.fetch_add(1, Relaxed);
}
