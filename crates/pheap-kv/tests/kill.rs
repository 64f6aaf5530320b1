//! Kills the program of a store at any moment. The store keeps all acknowledged writes, and each batch as a
//! whole.

use pheap_kv::{Batch, Durability, Options, Store};
use pheap_testkit::{role, run_until, tempdir};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Threads of the program. Each has its private keys.
const THREADS: u64 = 2;
const DURABILITIES: [(&str, Durability); 3] =
    [("process", Durability::Process), ("pmem", Durability::Pmem), ("wal", Durability::Wal)];

fn open(path: &Path, durability: Durability) -> Store {
    let options =
        Options::new().heap(|heap| heap.arena_size(1 << 20)).reserve(1 << 32).durability(durability);
    options.open(path).expect("a store")
}

fn acknowledged(path: &Path, thread: u64) -> PathBuf {
    path.with_extension(format!("acknowledged.{thread}"))
}

/// Keys of 16 to 40 bytes: some lie in the nodes, others outside of them.
fn key(thread: u64, n: u64) -> Vec<u8> {
    // Scattered, so that all shards are written to.
    let middle = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    [&thread.to_be_bytes()[..], &middle.to_be_bytes(), &[7; 24][..n as usize % 25]].concat()
}

fn value(n: u64) -> Vec<u8> {
    n.to_le_bytes().repeat(1 + n as usize % 150)
}

/// Writes until the process is killed. Each batch puts one entry into each of two key spaces, and their count
/// into the second. From the first, every third entry is removed again, and every fifth is put once more.
fn write(store: &Store, path: &Path, thread: u64) {
    let other = store.space("other").expect("a space");
    let mut file =
        OpenOptions::new().create(true).append(true).open(acknowledged(path, thread)).expect("a file");
    for n in count(store, thread).. {
        let mut batch = Batch::new();
        batch.put(store, key(thread, n), value(n)).expect("room");
        batch.put(&other, key(thread, n), b"there").expect("room");
        batch.put(&other, format!("count {thread}"), (n + 1).to_le_bytes()).expect("room");
        if n % 3 == 2 {
            batch.delete(store, key(thread, n - 1)).expect("room");
        }
        if n % 5 == 4 {
            batch.put(store, key(thread, n - 4), value(n)).expect("room");
        }
        store.write(&batch).expect("a batch");
        file.write_all(&[1]).expect("an acknowledgement");
    }
}

fn count(store: &Store, thread: u64) -> u64 {
    let count = store.space("other").and_then(|other| other.get(format!("count {thread}"))).expect("a value");
    count.map_or(0, |count| u64::from_le_bytes(count.try_into().expect("a number")))
}

fn check(store: &Store, path: &Path) {
    let other = store.space("other").expect("a space");
    let mut all = 0;
    for thread in 0..THREADS {
        let count = count(store, thread);
        let told =
            File::open(acknowledged(path, thread)).and_then(|file| file.metadata()).expect("a file").len();
        assert!(count >= told, "thread {thread}: {count} of {told} acknowledged batches");
        for n in 0..count {
            let replaced_by = (n % 5 == 0 && n + 4 < count).then_some(n + 4);
            let removed_by = (n % 3 == 1 && n + 1 < count).then_some(n + 1);
            let expected = match (replaced_by, removed_by) {
                (Some(by), _) => Some(value(by)),
                (None, Some(_)) => None,
                (None, None) => Some(value(n)),
            };
            assert_eq!(
                store.get(key(thread, n)).expect("a value"),
                expected,
                "thread {thread}, {n} of {count}"
            );
            assert!(other.contains_key(key(thread, n)).expect("a value"));
            all += u64::from(expected.is_some());
        }
        assert_eq!(other.get(key(thread, count)).expect("a value"), None);
    }
    assert_eq!(store.iter().count() as u64, all);
}

/// Entries of a key space that is removed.
const MANY: u64 = 2000;

/// Until it is killed: fills a key space, removes it, and says so.
fn fill_and_remove(store: &Store, path: &Path) {
    let mut file = OpenOptions::new().create(true).append(true).open(acknowledged(path, 0)).expect("a file");
    for n in 0u64.. {
        let space = store.space("removed").expect("a space");
        let mut batch = Batch::new();
        for i in 0..MANY {
            batch.put(&space, key(i % 3, n * MANY + i), n.to_le_bytes()).expect("room");
        }
        store.write(&batch).expect("a batch");
        assert!(store.remove_space("removed").expect("a removal"));
        file.write_all(&[1]).expect("an acknowledgement");
    }
}

/// The removed key space has all entries or none, or is not there, and one that is made later has nothing of
/// it.
fn check_removed(store: &Store) {
    let names = store.spaces().expect("names");
    assert!(names.is_empty() || names == ["removed"], "{names:?}");
    let mut all = 0;
    if !names.is_empty() {
        let entries: Vec<_> = store.space("removed").expect("a space").iter().map(Result::unwrap).collect();
        assert!(entries.is_empty() || entries.len() as u64 == MANY, "{} entries", entries.len());
        assert!(entries.windows(2).all(|pair| pair[0].1 == pair[1].1));
        all = 1 + entries.len() as u64;
    }
    assert_eq!(store.stats().expect("counters").entries, all, "entries without a key space");
    assert_eq!(store.space("new").expect("a space").iter().count(), 0);
    assert!(store.remove_space("new").expect("a removal"));
}

#[test]
fn of_a_key_space_that_was_removed_nothing_is_left() {
    const TEST: &str = "of_a_key_space_that_was_removed_nothing_is_left";
    if let Some((role, path)) = role() {
        let (_, durability) = DURABILITIES.into_iter().find(|(name, _)| *name == role).expect("a role");
        return fill_and_remove(&open(&path, durability), &path);
    }
    for (name, durability) in DURABILITIES {
        let dir = tempdir();
        let path = dir.path().join("killed.kv");
        let told = || std::fs::metadata(acknowledged(&path, 0)).map_or(0, |file| file.len());
        for round in 0..8 {
            let (before, mut waited) = (told(), 0);
            // At different moments of a removal: it is asked once a millisecond.
            run_until(TEST, name, &path, || {
                waited += u64::from(told() > before);
                waited > round
            });
            let store = open(&path, durability);
            check_removed(&store);
            store.close().expect("an end");
        }
        let heap = pheap::Options::new().verify(true).open(&path).expect("a heap that is well");
        assert!(heap.check().expect("a check").is_clean());
    }
}

#[test]
fn nothing_that_was_acknowledged_is_lost() {
    if let Some((role, path)) = role() {
        let (_, durability) = DURABILITIES.into_iter().find(|(name, _)| *name == role).expect("a role");
        let store = open(&path, durability);
        // Kept while entries are replaced, so that there is something to clear up.
        let _snapshot = store.snapshot().expect("a snapshot");
        return std::thread::scope(|scope| {
            (0..THREADS).for_each(|thread| {
                drop(scope.spawn({
                    let (store, path) = (&store, &path);
                    move || write(store, path, thread)
                }))
            });
        });
    }
    for (name, durability) in DURABILITIES {
        let dir = tempdir();
        let path = dir.path().join("killed.kv");
        for round in 1..=4 {
            let enough = |thread| {
                std::fs::metadata(acknowledged(&path, thread)).is_ok_and(|file| file.len() >= round * 150)
            };
            run_until("nothing_that_was_acknowledged_is_lost", name, &path, || (0..THREADS).all(enough));
            let store = open(&path, durability);
            check(&store, &path);
            store.close().expect("an end");
        }
        let heap = pheap::Options::new().verify(true).open(&path).expect("a heap that is well");
        assert!(heap.check().expect("a check").is_clean());
    }
}
