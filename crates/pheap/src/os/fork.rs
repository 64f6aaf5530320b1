//! Forks of this process, counted. A heap belongs to the process that has opened it; [`own_file`](super::own_file) says what becomes of it in a child.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

static FORKS: AtomicU64 = AtomicU64::new(0);

/// How many forks lie between this process and the first one that used pheap. A heap is for the process that opened it.
#[inline(always)]
pub(crate) fn forks() -> u64 {
    FORKS.load(Relaxed)
}

/// In a child, where nothing else runs.
pub(super) fn count() {
    FORKS.fetch_add(1, Relaxed);
}
