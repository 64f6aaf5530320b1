//! Many threads: what one of them does is whole for the others, and nothing that was acknowledged is lost.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

mod bank;
mod beside;
mod biased;
mod close;
mod collect;
mod roots;

use std::path::Path;
use std::time::Duration;

use pheap::{Durability, Heap, Options, SyncPolicy};
use pheap_testkit::{MIB, Rng, log_of, tempdir};

/// Heaps of all kinds, small enough that logs and memory are often full, and that collections are frequent.
fn kinds() -> Vec<(&'static str, Options)> {
    let small = || Options::new().arena_size(MIB).reserve(1 << 30).collect_least(4 << 10).collect_threads(2);
    let log = || small().durability(Durability::Wal).log_limit(256 << 10).memory_limit(256 << 10);
    vec![
        ("process", small().durability(Durability::Process)),
        ("long transactions", small().durability(Durability::Process).pin_undo(true)),
        ("pmem", small().durability(Durability::Pmem)),
        ("log", log()),
        ("log, synced on demand", log().sync_policy(SyncPolicy::OnDemand)),
        ("log, synced at intervals", log().sync_policy(SyncPolicy::Every(Duration::from_millis(1)))),
    ]
}

/// Runs `test` with a heap of each kind. Then the heap must be sound, and `later` must accept it, before and
/// after it is reopened.
fn for_each_kind(test: impl Fn(&Heap, &mut Rng), later: impl Fn(&Heap)) {
    for (seed, (kind, options)) in kinds().into_iter().enumerate() {
        println!("{kind}");
        let dir = tempdir();
        let path = dir.path().join("heap");
        let heap = options.open(&path).unwrap();
        test(&heap, &mut Rng::from_seed(seed as u64 + 1));
        is_sound(&heap);
        later(&heap);
        heap.close().unwrap();
        let heap = options.open(&path).unwrap();
        is_sound(&heap);
        later(&heap);
    }
}

fn is_sound(heap: &Heap) {
    let report = heap.check().unwrap();
    assert!(report.is_clean(), "{report}");
}

/// Copies what a crash would leave of a heap without an open transaction. Copies the log first, because a
/// checkpoint may run at the same time.
fn copy(path: &Path, to: &Path) {
    if log_of(path).exists() {
        std::fs::copy(log_of(path), log_of(to)).unwrap();
    }
    pheap_testkit::copy_as_killed(path, to);
}
