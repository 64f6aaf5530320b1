//! What is left of a store when a power failure takes the end of its log, and with that a split of a shard, for which nobody waits.

use pheap_kv::{Durability, Options, Store, SyncPolicy};
use pheap_testkit::{copy_as_killed, log_of, tempdir};
use std::path::Path;

fn open(path: &Path) -> Store {
    let options = Options::new().heap(|heap| heap.arena_size(1 << 20)).reserve(1 << 32);
    // So that all is in the log, and nothing synced.
    options.durability(Durability::Wal).sync_policy(SyncPolicy::OnDemand).open(path).expect("a store")
}

fn write(store: &Store, numbers: std::ops::Range<u64>) {
    for n in numbers {
        let key = n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
        store.put(key, n.to_le_bytes()).expect("room");
    }
}

/// How many entries there are: the first ones that were written.
fn check(store: &Store) -> u64 {
    let value = |entry: pheap_kv::Result<(Vec<u8>, Vec<u8>)>| entry.expect("an entry").1;
    let number = |entry| u64::from_le_bytes(value(entry).try_into().expect("a number"));
    let mut numbers: Vec<u64> = store.iter().map(number).collect();
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64));
    assert_eq!(store.stats().expect("counters").entries, numbers.len() as u64);
    numbers.len() as u64
}

fn shards(store: &Store) -> usize {
    store.stats().expect("counters").shards
}

#[test]
fn a_split_that_is_lost_takes_place_later() {
    let dir = tempdir();
    let (live, path) = (dir.path().join("live.kv"), dir.path().join("torn.kv"));
    let store = open(&live);
    write(&store, 0..300);
    assert_eq!(shards(&store), 2);
    copy_as_killed(&live, &path);
    let (file, log) = (std::fs::read(&path).expect("a file"), std::fs::read(log_of(&live)).expect("a log"));
    let tear = |at: usize| {
        let mut log = log.clone();
        log[at..].fill(0);
        std::fs::write(&path, &file).expect("a file");
        std::fs::write(log_of(&path), log).expect("a log");
        open(&path)
    };
    // Between the last place that is too early for it, and the first that is not.
    let (mut lost, mut kept) = (16 << 10, log.len());
    while kept - lost > 64 {
        let middle = lost.midpoint(kept);
        let store = tear(middle);
        check(&store);
        *(if shards(&store) == 1 { &mut lost } else { &mut kept }) = middle;
    }
    for at in [lost, kept] {
        let store = tear(at);
        let count = check(&store);
        assert_eq!((count, shards(&store)), (256, if at == lost { 1 } else { 2 }));
        drop(store);
        let heap = pheap::Options::new().open(&path).expect("a heap");
        assert!(heap.roots().iter().any(|root| root.name == "kv.shard.1"), "it has its root in any case");
        drop(heap);
        let store = open(&path);
        write(&store, count..9000);
        let count = shards(&store);
        store.close().expect("an end");
        let store = open(&path);
        assert_eq!((check(&store), shards(&store)), (9000, count));
        store.close().expect("an end");
        let heap = pheap::Options::new().verify(true).open(&path).expect("a heap that is well");
        assert!(heap.check().expect("a check").is_clean());
    }
}
