//! A power failure takes the end of a store's log. The tests look at the rest of the store if a shard was
//! just split or given up, because no commit waits for that.

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
        store.put(scattered(n), n.to_le_bytes()).expect("room");
    }
}

fn scattered(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

/// Checks that the entries are the first ones that were written. Returns their number.
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
    // Narrows down where the log must end for the split to be lost, and where it is kept.
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

/// Wherever the log ends: while a key space is removed, its shards are given up, and the next one gets them.
#[test]
fn shards_that_are_given_up_lose_nothing() {
    const ENTRIES: u64 = 3000;
    const NAMES: [&str; 3] = ["kept", "gone", "next"];
    let dir = tempdir();
    let (live, path) = (dir.path().join("live.kv"), dir.path().join("torn.kv"));
    let store = open(&live);
    let fill = |name| {
        let space = store.space(name).expect("a space");
        (0..ENTRIES).for_each(|n| space.put(scattered(n), n.to_le_bytes()).expect("room"));
    };
    fill("kept");
    fill("gone");
    let all = shards(&store);
    assert!(store.remove_space("gone").expect("a removal"));
    assert!(shards(&store) < all);
    fill("next");
    copy_as_killed(&live, &path);
    let (file, log) = (std::fs::read(&path).expect("a file"), std::fs::read(log_of(&live)).expect("a log"));
    let end = log.iter().rposition(|&byte| byte != 0).expect("a record");
    let mut seen = std::collections::BTreeSet::new();
    for at in (16 << 10..end).step_by(end / 60).chain([end + 1]) {
        let mut log = log.clone();
        log[at..].fill(0);
        std::fs::write(&path, &file).expect("a file");
        std::fs::write(log_of(&path), log).expect("a log");
        let store = open(&path);
        let names = store.spaces().expect("names");
        let count = |name: &str| {
            let space =
                names.iter().any(|there| there == name).then(|| store.space(name).expect("a space"))?;
            let key = |entry: pheap_kv::Result<pheap_kv::Entry>| entry.expect("an entry").0;
            let mut keys: Vec<_> = space.iter().map(key).collect();
            assert!(space.iter().rev().map(key).eq(keys.iter().rev().cloned()), "{name}: backwards");
            let mut expected: Vec<_> = (0..keys.len() as u64).map(|n| scattered(n).to_vec()).collect();
            keys.sort();
            expected.sort();
            assert!(keys == expected, "{name}");
            Some(keys.len() as u64)
        };
        let counts = NAMES.map(count);
        let all: u64 = counts.into_iter().flatten().map(|count| 1 + count).sum();
        assert_eq!(store.stats().expect("counters").entries, all);
        // The first one is whole before another begins, and the last two are never there together.
        let whole = |i: usize| counts[i] == Some(ENTRIES);
        let is_in_order = match counts {
            [_, None, None] => true,
            [_, Some(_), None] | [_, None, Some(_)] => whole(0),
            _ => false,
        };
        assert!(is_in_order, "{counts:?}");
        seen.insert((counts.map(|count| count.is_some()), whole(0)));
    }
    assert_eq!(seen.len(), 5, "{seen:?}");
}
