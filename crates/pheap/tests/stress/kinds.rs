//! Heaps of all kinds, none of which has much room.

use std::path::Path;

use pheap::{Durability, Heap, Options, SyncPolicy};

use pheap_testkit::{MIB, Rng, log_of};

/// How a heap is opened and used.
#[derive(Debug)]
pub(crate) struct Kind {
    durability: Durability,
    policy: SyncPolicy,
    pin_undo: bool,
    arena_size: u64,
    pub(crate) max_size: u64,
    collect_least: u64,
    collect_growth: u32,
    pub(crate) threads: usize,
    /// Of each thread, in each life.
    pub(crate) steps: usize,
    /// Elements of a slice, at most.
    pub(crate) slice: usize,
}

impl Kind {
    pub(crate) fn new(random: &mut Rng) -> Kind {
        let policy = if random.below(3) == 0 { SyncPolicy::OnDemand } else { SyncPolicy::EveryCommit };
        let arena_size = (128 << 10) << random.below(4);
        let max_size = arena_size.max(MIB) * (1 + random.below(3) as u64);
        let durabilities = [Durability::Process, Durability::Pmem, Durability::Wal, Durability::Auto];
        let threads = [1, 1, 2, 3][random.below(4)];
        Kind {
            durability: durabilities[random.below(4)],
            policy,
            pin_undo: random.below(4) == 0,
            arena_size,
            max_size,
            collect_least: [1, 1, 4 << 10, 64 << 10, MIB][random.below(5)],
            collect_growth: [0, 50, 100][random.below(3)],
            threads,
            steps: 90 / threads,
            // The slices of all roots take about half of the heap, on average.
            slice: max_size as usize / 8 / 24,
        }
    }

    pub(crate) fn options(&self) -> Options {
        Options::new()
            .durability(self.durability)
            .sync_policy(self.policy)
            .pin_undo(self.pin_undo)
            .arena_size(self.arena_size)
            .max_size(self.max_size)
            .reserve(1 << 30)
            .collect_least(self.collect_least)
            .collect_growth(self.collect_growth)
            .collect_threads(1)
            .log_limit(256 << 10)
            .memory_limit(256 << 10)
            .restored(true) // lives go on in copies
    }

    /// The same, and looks at all of the heap first.
    pub(crate) fn verified(&self) -> Options {
        self.options().verify(true)
    }
}

/// In memory, if possible: the disk is not under test.
pub(crate) fn tempdir() -> tempfile::TempDir {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.expect("a temporary directory")
}

/// Copies what a kill would leave of a heap that no other thread uses. Copies the log first, because a
/// checkpoint may run at the same time.
pub(crate) fn copy(path: &Path, to: &Path) {
    if log_of(path).exists() {
        std::fs::copy(log_of(path), log_of(to)).unwrap();
    }
    std::fs::copy(path, to).unwrap();
}

/// Opens what may be a [`copy`] of a heap that is, or was, in use.
pub(crate) fn open_copy(options: &Options, path: &Path) -> Heap {
    options.open(path).unwrap()
}

pub(crate) fn remove(path: &Path) {
    std::fs::remove_file(path).unwrap();
    let _ = std::fs::remove_file(log_of(path));
}
