//! Kills a store while its shards are split: by batches larger than a shard, by appends to a key space that
//! another key space follows, and by writes in the middle.

use pheap_kv::{Batch, Durability, KeySpace, Options, Store};
use pheap_testkit::{Rng, child, role, run_until, tempdir};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DURABILITIES: [(&str, Durability); 3] =
    [("process", Durability::Process), ("pmem", Durability::Pmem), ("wal", Durability::Wal)];
/// Writes of a batch: so many that it should get separate shards.
const LARGE: u64 = 9000;

fn open(path: &Path, durability: Durability) -> Store {
    let options =
        Options::new().heap(|heap| heap.arena_size(1 << 20)).reserve(1 << 32).durability(durability);
    options.open(path).expect("a store")
}

/// What a thread writes, the `n`th time, all of it in one transaction.
type Writes = fn(n: u64) -> Vec<Vec<u8>>;

/// The threads: the key space of each, and its writes.
const THREADS: [(&str, Writes); 3] = [
    ("a log", |n| vec![n.to_be_bytes().to_vec()]),
    ("batches", |n| (0..LARGE).map(|i| scattered(n * LARGE + i)).collect()),
    ("one by one", |n| vec![scattered(n)]),
];

fn scattered(n: u64) -> Vec<u8> {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes().repeat(1 + n as usize % 5)
}

/// Whether an entry is written to expire, in an hour: about every third is.
fn expires(key: &[u8]) -> bool {
    key[7].is_multiple_of(3)
}

fn acknowledged(path: &Path, thread: usize) -> PathBuf {
    path.with_extension(format!("acknowledged.{thread}"))
}

fn told(path: &Path, thread: usize) -> u64 {
    File::open(acknowledged(path, thread)).and_then(|file| file.metadata()).map_or(0, |file| file.len())
}

fn write(store: &Store, space: &KeySpace, path: &Path, thread: usize) {
    let mut file =
        OpenOptions::new().create(true).append(true).open(acknowledged(path, thread)).expect("a file");
    let mut batch = Batch::new();
    for n in 0.. {
        batch.clear();
        for key in THREADS[thread].1(n) {
            match expires(&key) {
                true => batch.put_for(space, &key, n.to_le_bytes(), Duration::from_secs(3600)),
                false => batch.put(space, &key, n.to_le_bytes()),
            }
            .expect("room");
        }
        let commit = store.write_deferred(&batch).expect("a batch").expect("something to wait for");
        // Not each time, so that shards are split while they have writes that are not durable.
        if n % 8 == 7 || batch.len() > 1 {
            commit.wait().expect("a disk that works");
            file.write_all(&vec![1; if batch.len() > 1 { 1 } else { 8 }]).expect("an acknowledgement");
        }
    }
}

fn check(store: &Store, path: &Path) {
    let mut all = THREADS.len() as u64;
    for (thread, (name, writes)) in THREADS.into_iter().enumerate() {
        let space = store.space(name).expect("a space");
        let entries: Vec<_> = space.iter().map(|entry| entry.expect("an entry")).collect();
        assert!(entries.windows(2).all(|pair| pair[0].0 < pair[1].0), "{name}: in order");
        let mut backwards: Vec<_> = space.iter().rev().map(|entry| entry.expect("an entry")).collect();
        backwards.reverse();
        assert!(entries == backwards, "{name}: backwards");
        // The writes of the first transactions, as many as there are entries.
        let (mut count, mut expected) = (0, Vec::new());
        while expected.len() < entries.len() {
            expected.extend(writes(count).into_iter().map(|key| (key, count.to_le_bytes().to_vec())));
            count += 1;
        }
        assert!(count >= told(path, thread), "{name}: {count} of {}", told(path, thread));
        for (key, value) in &expected {
            assert_eq!(space.get(key).expect("a read").as_ref(), Some(value), "{name}");
            assert_eq!(space.expires_at(key).expect("a time").is_some(), expires(key));
        }
        expected.sort();
        assert!(entries == expected, "{name}");
        all += entries.len() as u64;
    }
    assert_eq!(store.stats().expect("counters").entries, all);
}

const TEST: &str = "shards_that_were_cut_have_all_that_they_had";

#[test]
fn shards_that_were_cut_have_all_that_they_had() {
    if let Some((role, path)) = role() {
        let (_, durability) =
            DURABILITIES.into_iter().find(|(name, _)| role.starts_with(name)).expect("a role");
        let store = open(&path, durability);
        if role.ends_with("again") {
            return check(&store, &path);
        }
        // In this order: the log's keys come first.
        let spaces = THREADS.map(|(name, _)| store.space(name).expect("a space"));
        return std::thread::scope(|scope| {
            for (thread, space) in spaces.iter().enumerate() {
                let (store, path) = (&store, &path);
                scope.spawn(move || write(store, space, path, thread));
            }
        });
    }
    for (name, durability) in DURABILITIES {
        let mut rng = Rng::from_seed(7);
        for _ in 0..3 {
            let dir = tempdir();
            let path = dir.path().join("killed.kv");
            let (batches, singles) = (1 + rng.scaled(4), 1 + rng.scaled(8000));
            run_until(TEST, name, &path, || told(&path, 1) >= batches || told(&path, 0) >= singles);
            // Kills it twice again, perhaps while it recovers.
            for _ in 0..2 {
                let mut child = child(TEST, &format!("{name} again"), &path).spawn().expect("a child");
                std::thread::sleep(Duration::from_millis(rng.scaled(20)));
                child.kill().expect("a signal");
                child.wait().expect("a child");
            }
            let store = open(&path, durability);
            check(&store, &path);
            store.close().expect("an end");
            let heap = pheap::Options::new().verify(true).open(&path).expect("a heap that is well");
            assert!(heap.check().expect("a check").is_clean());
        }
    }
}
