//! Counts forks of this process. A heap belongs to the process that has opened it;
//! [`own_file`](super::own_file) has the consequences for a forked child.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{Builder, JoinHandle};

use crate::error::{Error, Result};

/// Number of forks between the first process that used pheap and this one. Written in forked children only.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Returns the number of forks between the first process that used pheap and this one.
#[inline(always)]
fn forks() -> u64 {
    FORKS.load(Relaxed)
}

/// The process that has created a value, such as a heap. A child that is forked from it must not use the
/// value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(u64);

impl Default for Process {
    /// Returns this process.
    fn default() -> Process {
        Process(forks())
    }
}

impl Process {
    /// Returns whether this process was forked from `self`.
    #[inline(always)]
    pub(crate) fn is_parent(self) -> bool {
        self.0 != forks()
    }

    /// Fails in a process that was forked from `self`.
    #[inline(always)]
    pub(crate) fn check(self) -> Result<()> {
        if self.is_parent() { Err(Error::Forked) } else { Ok(()) }
    }
}

/// Returns whether threads can be started: not in a forked child. `std` has a lock that each thread takes
/// when it begins and when it ends. If a thread of the parent held it during the fork, a thread of the child
/// would wait for it for ever, and so would a thread that joins that one.
pub(crate) fn may_start_threads() -> bool {
    forks() == 0
}

/// Starts a thread, if [possible](may_start_threads). Returns `None` otherwise, and if the system refuses.
pub(crate) fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    let builder = may_start_threads().then(|| Builder::new().name(name.to_owned()))?;
    builder.spawn(work).ok()
}

/// Counts a fork. Runs in the child, where no other thread runs.
pub(super) fn count() {
    FORKS.fetch_add(1, Relaxed);
}
