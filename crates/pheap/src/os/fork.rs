//! Forks of this process, counted. A heap belongs to the process that has opened it; [`own_file`](super::own_file) says what becomes of it in a child.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

static FORKS: AtomicU64 = AtomicU64::new(0);

/// How many forks lie between this process and the first one that used pheap. A heap is for the process that opened it.
#[inline(always)]
pub(crate) fn forks() -> u64 {
    FORKS.load(Relaxed)
}

/// Whether a thread can be started: not in a forked child. `std` has a lock that each thread takes when it begins and when it ends. If a thread of the parent had it when
/// the child was made, a thread of the child waits for it for ever, and so does who waits for that thread.
pub(crate) fn may_start_threads() -> bool {
    forks() == 0
}

/// In a child, where nothing else runs.
pub(super) fn count() {
    FORKS.fetch_add(1, Relaxed);
}
