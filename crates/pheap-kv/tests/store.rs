//! The promises of a store, one at a time, and its errors for wrong inputs.

use pheap_kv::{Batch, Durability, Error, MAX_KEY, Options, Store, SyncPolicy};
use pheap_testkit::tempdir;
use std::path::Path;
use std::time::Duration;

fn options() -> Options {
    Options::new().heap(|heap| heap.arena_size(1 << 20)).reserve(1 << 30)
}

fn open(path: &Path) -> Store {
    options().open(path).expect("a store")
}

/// The text of the error, and the error.
fn refusal(result: pheap_kv::Result<Store>) -> (String, Error) {
    let error = result.expect_err("an error");
    (error.to_string(), error)
}

#[test]
fn a_foreign_file_is_refused_and_not_touched() {
    let dir = tempdir();
    let path = dir.path().join("notes.txt");
    std::fs::write(&path, "not a store").expect("a file");
    let (text, error) = refusal(options().open(&path));
    assert!(matches!(error, Error::Heap(pheap::Error::NotAHeap { .. })), "{text}");
    assert_eq!(std::fs::read(&path).expect("a file"), b"not a store");
}

#[test]
fn a_heap_of_something_else_is_refused_and_not_touched() {
    let dir = tempdir();
    let path = dir.path().join("numbers.pheap");
    let heap = pheap_testkit::small().open(&path).expect("a heap");
    heap.root::<u64>("number").expect("a root");
    heap.close().expect("an end");
    let (text, error) = refusal(options().open(&path));
    assert!(matches!(&error, Error::NotAStore { root } if root == "number"), "{text}");
    assert!(text.contains("a file of its own"), "{text}");
    let heap = pheap_testkit::small().open(&path).expect("a heap");
    assert_eq!(heap.roots().len(), 1);
}

/// Changes what a store is recognised by, and the last block of eras that it has reserved.
fn change_meta(path: &Path, change: impl FnOnce(&mut u64, &mut u64)) {
    #[derive(pheap::Persist, Default)]
    #[repr(C)]
    struct Meta {
        format: u64,
        eras: u64,
    }
    let heap = pheap_testkit::small().open(path).expect("a heap");
    let root: pheap::Root<Meta> = heap.root("kv").expect("what the store is recognised by");
    root.txn(|tx, meta| {
        let Meta { format, eras } = &mut tx[meta];
        change(format, eras);
        Ok(())
    })
    .expect("a change");
    drop(root);
    heap.close().expect("an end");
}

#[test]
fn a_store_of_a_newer_version_is_refused() {
    let dir = tempdir();
    let path = dir.path().join("newer.kv");
    open(&path).close().expect("an end");
    change_meta(&path, |format, _| *format += 1);
    let (text, error) = refusal(options().open(&path));
    assert!(matches!(error, Error::NewerFormat { found: 2, known: 1 }), "{text}");
}

#[test]
fn a_store_can_be_opened_again_and_again() {
    let dir = tempdir();
    let path = dir.path().join("old.kv");
    open(&path).put("first", "1").expect("a put");
    change_meta(&path, |_, eras| *eras = 1 << 40);
    let store = open(&path);
    let snapshot = store.snapshot().expect("a snapshot");
    store.put("a", "a value of some length").expect("a put");
    assert_eq!(store.get("a").expect("a read").as_deref(), Some(&b"a value of some length"[..]));
    assert_eq!(snapshot.iter().count(), 1);
}

#[test]
fn a_truncated_file_is_refused() {
    let dir = tempdir();
    let path = dir.path().join("short.kv");
    open(&path).close().expect("an end");
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("a file");
    file.set_len(100_000).expect("a shorter one");
    let (text, error) = refusal(options().open(&path));
    assert!(matches!(error, Error::Heap(pheap::Error::Truncated { .. })), "{text}");
}

#[test]
fn a_store_is_opened_once() {
    let dir = tempdir();
    let path = dir.path().join("open.kv");
    let store = open(&path);
    let (text, error) = refusal(options().open(&path));
    assert!(matches!(error, Error::Heap(pheap::Error::AlreadyOpen { .. })), "{text}");
    store.close().expect("an end");
    open(&path);
}

#[test]
fn what_is_too_large_is_refused() {
    let store = Store::in_memory().expect("a store");
    let long = vec![1; MAX_KEY + 1];
    assert!(matches!(store.put(&long, b""), Err(Error::KeyTooLong { len }) if len == MAX_KEY + 1));
    assert!(matches!(store.get(&long), Err(Error::KeyTooLong { .. })));
    assert!(matches!(Batch::new().put(&store, &long, b""), Err(Error::KeyTooLong { .. })));
    store.put(&long[1..], b"longest").expect("a put");
    assert_eq!(store.get(&long[1..]).expect("a value").as_deref(), Some(&b"longest"[..]));
    for name in [String::new(), "n".repeat(256)] {
        assert!(matches!(store.space(&name), Err(Error::InvalidName { .. })));
    }
}

#[test]
fn a_key_space_of_another_store_is_refused() {
    let (one, two) = (Store::in_memory().expect("a store"), Store::in_memory().expect("another"));
    let mut batch = Batch::new();
    batch.put(&one, "a", "1").expect("room");
    assert!(matches!(batch.put(&two, "a", "1"), Err(Error::OtherStore)));
    assert!(matches!(two.write(&batch), Err(Error::OtherStore)));
    assert!(matches!(one.snapshot().expect("a snapshot").space(&two), Err(Error::OtherStore)));
    one.write(&batch).expect("a batch");
    batch.clear();
    batch.put(&two, "a", "1").expect("room in an empty one");
}

#[test]
fn what_is_not_sorted_is_refused_where_it_is_not() {
    let store = Store::in_memory().expect("a store");
    let error = store.load([("a", "1"), ("b", "2"), ("b", "3")]).expect_err("an error");
    assert!(matches!(error, Error::NotSorted { index: 2 }), "{error}");
    assert_eq!(store.iter().count(), 2);
}

#[test]
fn nothing_is_left_of_what_has_expired() {
    let dir = tempdir();
    let path = dir.path().join("expired.kv");
    let store = open(&path);
    store.put_for("gone", "1", Duration::ZERO).expect("a put");
    store.put_for("later", "2", Duration::from_secs(3600)).expect("a put");
    store.put_for("kept", "3", Duration::ZERO).expect("a put");
    // A value that replaces one that expires does not expire.
    store.put("kept", "4").expect("a put");
    assert_eq!(store.get("gone").expect("a read"), None);
    assert_eq!(store.iter().count(), 2);
    assert!(!store.delete("gone").expect("a delete"));
    store.close().expect("an end");
    let store = open(&path);
    assert!(store.expires_at("later").expect("a time").is_some());
    assert_eq!(store.expires_at("kept").expect("no time"), None);
    assert_eq!(store.expires_at("gone").expect("no time"), None);
    assert!(store.compare_and_swap("gone", None, Some(b"new")).expect("a swap"));
    store.purge().expect("a purge");
    assert_eq!(store.stats().expect("counters").entries, 3);
    assert_eq!(store.get("kept").expect("a read").as_deref(), Some(&b"4"[..]));
    assert_eq!(store.get("gone").expect("a read").as_deref(), Some(&b"new"[..]));
}

#[test]
fn writes_remove_what_has_expired() {
    let store = Store::in_memory().expect("a store");
    for n in 0..50u8 {
        store.put_for([n], "gone", Duration::ZERO).expect("a put");
    }
    for _ in 0..50 {
        store.put("one", "key").expect("a put");
    }
    assert_eq!(store.stats().expect("counters").entries, 1);
}

#[test]
fn versions_go_with_the_snapshots() {
    let store = Store::in_memory().expect("a store");
    store.put("a", "1").expect("a put");
    let first = store.snapshot().expect("a snapshot");
    store.put("a", "2").expect("a put");
    let second = store.snapshot().expect("a snapshot");
    store.delete("a").expect("a delete");
    store.put("b", "3").expect("a put");
    let get = |snapshot: &pheap_kv::Snapshot| snapshot.get("a").expect("a read");
    assert_eq!((get(&first).as_deref(), get(&second).as_deref()), (Some(&b"1"[..]), Some(&b"2"[..])));
    assert!(second.iter().eq_by_key([b"a"]));
    drop(first);
    assert_eq!(get(&second).as_deref(), Some(&b"2"[..]));
    drop(second);
    store.purge().expect("a purge");
    assert!(store.iter().eq_by_key([b"b"]));
}

trait Keys {
    fn eq_by_key<const N: usize>(self, keys: [&[u8; 1]; N]) -> bool;
}

impl Keys for pheap_kv::Range {
    fn eq_by_key<const N: usize>(self, keys: [&[u8; 1]; N]) -> bool {
        self.map(|entry| entry.expect("an entry").0).eq(keys.map(|key| key.to_vec()))
    }
}

#[test]
fn a_deferred_write_becomes_durable() {
    let dir = tempdir();
    let store = options().durability(Durability::Wal).open(dir.path().join("deferred.kv")).expect("a store");
    let commit = store.put_deferred("a", "1").expect("a put");
    assert_eq!(store.get("a").expect("a read").as_deref(), Some(&b"1"[..]));
    commit.wait().expect("a disk that works");
    assert!(commit.is_durable());
    let mut batch = Batch::new();
    assert!(store.write_deferred(&batch).expect("nothing to do").is_none());
    batch.put(&store, "b", "2").expect("room");
    let commit = store.write_deferred(&batch).expect("a batch").expect("something to wait for");
    commit.wait().expect("a disk that works");
}

#[test]
fn a_store_that_is_not_synced_is_synced_on_demand() {
    let dir = tempdir();
    let options = options().durability(Durability::Wal).sync_policy(SyncPolicy::OnDemand);
    let store = options.open(dir.path().join("late.kv")).expect("a store");
    let before = store.stats().expect("counters").heap.syncs;
    for n in 0..100u8 {
        store.put([n], "value").expect("a put");
    }
    assert!(store.stats().expect("counters").heap.syncs < before + 50);
    store.sync().expect("a disk that works");
    assert!(store.stats().expect("counters").heap.syncs > before);
}

#[test]
fn a_compact_store_has_the_same_in_less_space() {
    let dir = tempdir();
    let options = || options().durability(Durability::Process);
    let store = options().open(dir.path().join("large.kv")).expect("a store");
    let users = store.space("users").expect("a space");
    for n in 0..5000u32 {
        store.put(n.to_be_bytes(), vec![n as u8; 1000]).expect("a put");
        users.put_for(n.to_be_bytes(), "user", Duration::from_secs(3600)).expect("a put");
    }
    for n in 0..4900u32 {
        store.delete(n.to_be_bytes()).expect("a delete");
    }
    let small = store.compact_to(dir.path().join("small.kv"), options()).expect("a copy");
    assert!(small.iter().map(Result::unwrap).eq(store.iter().map(Result::unwrap)));
    let copied = small.space("users").expect("a space");
    assert!(copied.iter().map(Result::unwrap).eq(users.iter().map(Result::unwrap)));
    assert_eq!(copied.expires_at(7u32.to_be_bytes()).unwrap(), users.expires_at(7u32.to_be_bytes()).unwrap());
    let size = |store: &Store| store.stats().expect("counters").heap.file_bytes;
    assert!(size(&small) * 2 < size(&store), "{} of {}", size(&small), size(&store));
}

#[test]
fn key_spaces_keep_their_numbers() {
    let dir = tempdir();
    let path = dir.path().join("spaces.kv");
    let store = open(&path);
    // More than have a prefix of one byte.
    for n in 0..300 {
        store.space(&format!("{n}")).expect("a space").put("number", n.to_string()).expect("a put");
    }
    assert!(store.remove_space("7").expect("a removal"));
    assert!(!store.remove_space("7").expect("nothing"));
    store.close().expect("an end");
    let store = open(&path);
    assert_eq!(store.spaces().expect("names").len(), 299);
    for n in (0..300).filter(|n| *n != 7) {
        let space = store.space(&format!("{n}")).expect("a space");
        assert_eq!(space.get("number").expect("a read"), Some(n.to_string().into_bytes()));
        assert_eq!(space.iter().count(), 1);
    }
    assert_eq!(store.space("7").expect("a new one").iter().count(), 0);
}

#[test]
fn a_closed_store_says_so() {
    let dir = tempdir();
    let store = open(&dir.path().join("closed.kv"));
    let (other, mut entries) = (store.clone(), store.iter());
    other.close().expect("an end");
    assert!(matches!(store.get("a"), Err(Error::Heap(pheap::Error::Closed))));
    assert!(matches!(store.put("a", "1"), Err(Error::Heap(pheap::Error::Closed))));
    assert!(entries.next().is_some_and(|entry| entry.is_err()));
    assert!(entries.next().is_none(), "an error ends it");
}

#[test]
fn writing_while_a_value_is_shown_is_an_error() {
    let store = Store::in_memory().expect("a store");
    store.put("a", "1").expect("a put");
    let result = store.get_with("a", |_| store.put("b", "2")).expect("a read").expect("a value");
    assert!(matches!(result, Err(Error::Heap(pheap::Error::Nested))));
}

#[test]
fn a_read_of_another_key_does_not_wait_for_the_disk_and_one_of_the_same_does() {
    let dir = tempdir();
    let store = options().durability(Durability::Wal).open(dir.path().join("late.kv")).expect("a store");
    store.put("durable", "1").expect("a put");
    for n in 0..50u32 {
        let commit = store.put_deferred("late", n.to_le_bytes()).expect("a put");
        assert_eq!(store.get("durable").expect("a read").as_deref(), Some(&b"1"[..]));
        assert_eq!(store.get_with("late", |value| value == n.to_le_bytes()).expect("a read"), Some(true));
        assert!(commit.is_durable(), "what a read has returned is durable");
    }
    let mut batch = Batch::new();
    for n in 0..50u32 {
        batch.clear();
        batch.put(&store, "one", n.to_le_bytes()).expect("room");
        batch.put(&store, "two", n.to_le_bytes()).expect("room");
        let commit = store.write_deferred(&batch).expect("a batch").expect("something to wait for");
        assert!(store.contains_key("two").expect("a read") && commit.is_durable());
    }
}

#[test]
fn nothing_is_made_for_a_copy_of_a_store_that_cannot_be_read() {
    let dir = tempdir();
    let (store, path) = (open(&dir.path().join("closed.kv")), dir.path().join("copy.kv"));
    store.clone().close().expect("an end");
    let (text, error) = refusal(store.compact_to(&path, options()));
    assert!(matches!(error, Error::Heap(pheap::Error::Closed)), "{text}");
    assert!(!path.exists());
}

/// At lengths around those at which a key's form changes, in spaces with prefixes of one byte and of three.
#[test]
fn keys_of_all_lengths_are_kept_apart() {
    let dir = tempdir();
    let path = dir.path().join("lengths.kv");
    let lengths = [0, 1, 7, 8, 26, 27, 28, 29, 30, 31, 32, MAX_KEY - 1, MAX_KEY];
    let name = "with a long prefix";
    let store = open(&path);
    for n in 0..240 {
        store.space(&format!("{n}")).expect("a space");
    }
    let check = |store: &Store, of: &str| {
        for space in [pheap_kv::KeySpace::clone(store), store.space(name).expect("a space")] {
            let found: Vec<_> = space.iter().map(Result::unwrap).collect();
            // Each is the beginning of the next one, and all are zero.
            assert!(found.iter().map(|(key, _)| key.len()).eq(lengths));
            assert!(found.iter().all(|(key, value)| *value == format!("{of} {}", key.len()).as_bytes()));
            for (i, len) in lengths.into_iter().enumerate() {
                let key = vec![0; len];
                assert!(space.get(&key).expect("a read").is_some());
                assert_eq!(space.prefix(&key).count(), lengths.len() - i);
                assert_eq!(space.range(key.clone()..key.clone()).count(), 0);
                assert_eq!(space.range(..=key.clone()).count(), i + 1);
                assert_eq!(space.range(vec![1]..key.clone()).count(), 0, "backwards");
                // Longer than a key can be.
                let long = vec![0; MAX_KEY + 9];
                assert_eq!(space.range(key..long).rev().count(), lengths.len() - i);
            }
        }
    };
    let write = |store: &Store, of: &str| {
        let mut batch = Batch::new();
        for len in lengths.into_iter().rev() {
            batch.put(store, vec![0; len], format!("{of} {len}")).expect("room");
            let ttl = Duration::from_secs(3600);
            batch
                .put_for(&store.space(name).unwrap(), vec![0; len], format!("{of} {len}"), ttl)
                .expect("room");
        }
        store.write(&batch).expect("a batch");
    };
    write(&store, "first");
    check(&store, "first");
    // Its addresses are in use, so it is moved to others.
    let copy = dir.path().join("copy.kv");
    store.backup(&copy).expect("a copy");
    check(&open(&copy), "first");
    let snapshot = store.snapshot().expect("a snapshot");
    write(&store, "second");
    for len in lengths {
        assert!(store.delete(vec![0; len]).expect("a delete"));
    }
    assert_eq!((snapshot.iter().count(), store.iter().count()), (lengths.len(), 0));
    drop(snapshot);
    write(&store, "third");
    store.close().expect("an end");
    check(&open(&path), "third");
    let heap = pheap::Options::new().verify(true).open(&path).expect("a heap");
    assert!(heap.check().expect("a check").is_clean());
}

#[test]
fn what_expires_does_so_in_snapshots_and_their_ranges() {
    let store = Store::in_memory().expect("a store");
    let key = [7; 40];
    store.put_for(key, "old", Duration::from_millis(30)).expect("a put");
    let snapshot = store.snapshot().expect("a snapshot");
    store.put(key, "new").expect("a put");
    while snapshot.contains_key(key).expect("a read") {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(snapshot.expires_at(key).expect("a read"), None);
    assert_eq!((snapshot.iter().count(), snapshot.iter().rev().count()), (0, 0));
    store.purge().expect("a purge");
    assert_eq!(store.get(key).expect("a read").as_deref(), Some(&b"new"[..]));
}

#[test]
fn nothing_is_left_of_a_key_space_that_was_removed() {
    let store = Store::in_memory().expect("a store");
    let space = store.space("sessions").expect("a space");
    let mut batch = Batch::new();
    for n in 0..600u32 {
        batch.put_for(&space, n.to_be_bytes(), "gone", Duration::from_millis(100)).expect("room");
    }
    batch.put_for(&space, "last", "gone", Duration::from_secs(3600)).expect("room");
    store.write(&batch).expect("a batch");
    while space.iter().count() > 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(store.remove_space("sessions").expect("a removal"));
    assert_eq!(store.stats().expect("counters").entries, 0);
}

/// Calls with a handle of a key space that was removed, without a new one by that name and with one.
#[test]
fn a_removed_key_space_is_not_written_to() {
    let store = Store::in_memory().expect("a store");
    let old = store.space("users").expect("a space");
    (0..100u8).for_each(|n| old.put([n], "old").expect("a put"));
    let (clone, mut entries) = (old.clone(), old.iter());
    let mut batch = Batch::new();
    batch.put(&store, "a", "1").expect("room");
    batch.put(&old, "a", "1").expect("room");
    batch.put(&store, "b", "1").expect("room");
    entries.next().expect("an entry").expect("an entry");
    assert!(store.remove_space("users").expect("a removal"));
    assert!(!store.remove_space("users").expect("nothing"));
    let refused = |result: pheap_kv::Result<()>| assert!(matches!(result, Err(Error::SpaceRemoved)));
    for round in 0..2 {
        for old in [&old, &clone] {
            refused(old.put("late", "old"));
            refused(old.put_for("late", "old", Duration::from_secs(60)));
            refused(old.put_deferred("late", "old").map(drop));
            refused(old.delete("late").map(drop));
            refused(old.update("late", |_| -> Option<&[u8]> { panic!("it is not asked") }).map(drop));
            refused(old.compare_and_swap("late", None, Some(b"old")).map(drop));
            refused(old.load([("late", "old")]).map(drop));
            assert_eq!(old.iter().count() + old.iter().rev().count(), 0);
            assert_eq!(old.get([7]).expect("a read"), None);
        }
        refused(store.write(&batch));
        refused(store.write_deferred(&batch).map(drop));
        assert_eq!(store.iter().count(), 0, "half of a batch");
        let new = store.space("users").expect("a space");
        assert_eq!(new.iter().count(), round);
        new.put("new", "1").expect("a put");
    }
    assert!(entries.all(|entry| entry.expect("an entry").1 == b"old"), "an iterator goes on in the new one");
    assert_eq!(store.spaces().expect("names"), ["users"]);
    assert_eq!(store.stats().expect("counters").entries, 2);
}

#[test]
fn a_removal_for_which_there_is_no_room_removes_nothing() {
    let dir = tempdir();
    for durability in [Durability::Process, Durability::Wal] {
        let path = dir.path().join(format!("full {durability:?}.kv"));
        let full = options().durability(durability).sync_policy(SyncPolicy::OnDemand).max_size(2 << 20);
        let store = full.open(&path).expect("a store");
        let space = store.space("users").expect("a space");
        let mut n = 0u32;
        for len in [50_000, 1000, 100, 0] {
            while space.put(n.to_be_bytes(), vec![7; len]).is_ok() {
                n += 1;
            }
        }
        // As soon as there is room for it, it happens.
        loop {
            match store.remove_space("users") {
                Ok(removed) => break assert!(removed),
                Err(error) => {
                    assert!(matches!(error, Error::Heap(pheap::Error::OutOfSpace { .. })), "{error}")
                }
            }
            assert_eq!((space.iter().count(), store.spaces().expect("names").len()), (n as usize, 1));
            n -= 1;
            assert!(space.delete(n.to_be_bytes()).expect("a delete"));
        }
        assert!(matches!(space.put("late", ""), Err(Error::SpaceRemoved)));
        store.purge().expect("a purge");
        assert_eq!(store.stats().expect("counters").entries, 0);
    }
}

/// The prefix of each is new, and follows those of the removed ones.
#[test]
fn key_spaces_that_come_and_go_take_the_room_of_one() {
    let dir = tempdir();
    for durability in [Durability::Process, Durability::Pmem, Durability::Wal] {
        let path = dir.path().join(format!("cycles {durability:?}.kv"));
        let small = options().durability(durability).sync_policy(SyncPolicy::OnDemand).max_size(16 << 20);
        let store = small.open(&path).expect("a store");
        for round in 0..16 {
            let space = store.space("sessions").expect("a space");
            for n in 0..8000u32 {
                let key = [&n.to_be_bytes()[..], &[7; 196]].concat();
                let put = space.put(key, "value");
                assert!(put.is_ok(), "{durability:?}: round {round}, entry {n}: {put:?}");
            }
            assert!(store.remove_space("sessions").expect("a removal"));
            let stats = store.stats().expect("counters");
            assert_eq!((stats.entries, stats.shards), (0, 1));
        }
    }
}

#[test]
fn a_snapshot_shows_the_key_spaces_of_its_moment() {
    let dir = tempdir();
    let store = open(&dir.path().join("spaces.kv"));
    let carol = store.space("carol").expect("a space");
    (0..1000u32).for_each(|n| carol.put(n.to_be_bytes(), "carol").expect("a put"));
    let before = store.snapshot().expect("a snapshot");
    assert!(store.remove_space("carol").expect("a removal"));
    let after = store.snapshot().expect("a snapshot");
    let (dave, again) = (store.space("dave").expect("a space"), store.space("carol").expect("a space"));
    for space in [&dave, &again] {
        (0..10u32).for_each(|n| space.put(n.to_be_bytes(), "new").expect("a put"));
    }
    let values = |snapshot: &pheap_kv::Snapshot, space| {
        let reader = snapshot.space(space).expect("a space");
        assert_eq!(reader.iter().count(), reader.iter().rev().count());
        reader.iter().map(|entry| entry.expect("an entry").1).collect::<Vec<_>>()
    };
    assert_eq!(values(&before, &carol), vec![b"carol"; 1000]);
    for (snapshot, space) in [(&before, &dave), (&before, &again), (&after, &carol), (&after, &dave)] {
        assert_eq!(values(snapshot, space).len(), 0);
    }
    drop((before, after));
    store.purge().expect("a purge");
    let copy = store.compact_to(dir.path().join("copy.kv"), options()).expect("a copy");
    assert_eq!(copy.spaces().expect("names"), ["carol", "dave"]);
    assert_eq!(copy.stats().expect("counters").entries, 22);
}

/// Some of the snapshots in between are gone, so some versions are.
#[test]
fn each_of_many_snapshots_shows_its_version() {
    let store = Store::in_memory().expect("a store");
    let mut snapshots = Vec::new();
    for n in 0..200u32 {
        store.put("key", n.to_le_bytes()).expect("a put");
        snapshots.push((n, store.snapshot().expect("a snapshot")));
        if n % 3 == 1 {
            snapshots.swap_remove(n as usize / 3);
        }
    }
    store.delete("key").expect("a delete");
    store.purge().expect("a purge");
    for (n, snapshot) in &snapshots {
        assert_eq!(snapshot.get("key").expect("a read"), Some(n.to_le_bytes().to_vec()));
        assert_eq!(snapshot.iter().count(), 1);
    }
}

/// Of two spaces with one number, each would have the entries of the other.
#[test]
fn key_spaces_that_are_many_have_numbers_of_their_own() {
    let store = Store::in_memory().expect("a store");
    for n in 0..2100u32 {
        store.space(&format!("{n:05}")).expect("a space").put("number", n.to_be_bytes()).expect("a put");
    }
    // The shard that has their names becomes large enough to be split.
    for n in 0..2200u32 {
        store.put(n.to_be_bytes(), "").expect("a put");
    }
    assert!(store.stats().expect("counters").shards > 1);
    for n in ["a", "00000 a", "01000 a", "02000 a"] {
        store.space(n).expect("a space").put("number", "mine").expect("a put");
    }
    for n in 0..2100u32 {
        let number = store.space(&format!("{n:05}")).expect("a space").get("number").expect("a read");
        assert_eq!(number, Some(n.to_be_bytes().to_vec()));
    }
    assert_eq!(store.spaces().expect("names").len(), 2104);
}

#[test]
fn a_write_that_has_happened_does_not_fail_because_there_is_no_room_to_split_its_shard() {
    let dir = tempdir();
    let path = dir.path().join("full.kv");
    let options = || options().durability(Durability::Process);
    let store = options().open(&path).expect("a store");
    // In no order, or there would be nothing to move.
    let key = |n: u16| n.wrapping_mul(40503).to_be_bytes();
    let put = |store: &Store, n: u16| store.put(key(n), [7; 16_000]);
    // One more, and the store looks whether the shard is large.
    (0..255).try_for_each(|n| put(&store, n)).expect("room");
    let size = store.stats().expect("counters").heap.file_bytes;
    store.close().expect("an end");
    let store = options().max_size(size).open(&path).expect("a store");
    for n in 255..500 {
        let result = put(&store, n);
        assert_eq!(result.is_ok(), store.contains_key(key(n)).expect("a read"), "{n}: {result:?}");
        if result.is_err() {
            break;
        }
    }
    assert_eq!(store.stats().expect("counters").shards, 1, "the file has room for two halves");
}

#[test]
fn a_compact_store_goes_to_a_new_file() {
    let dir = tempdir();
    let path = dir.path().join("there.kv");
    open(&path).put("old", "1").expect("a put");
    let store = Store::in_memory().expect("a store");
    store.put("new", "2").expect("a put");
    let (text, error) = refusal(store.compact_to(&path, options()));
    let exists = |source: &std::io::Error| source.kind() == std::io::ErrorKind::AlreadyExists;
    assert!(matches!(&error, Error::Heap(pheap::Error::Io { source, .. }) if exists(source)), "{text}");
    assert!(open(&path).iter().map(|entry| entry.expect("an entry").0).eq([b"old".to_vec()]));
}

/// Neither the part that was written, nor the folder that it was in.
#[test]
fn of_a_compact_store_that_does_not_fit_nothing_is_left() {
    let dir = tempdir();
    let store = Store::in_memory().expect("a store");
    (0..100u8).try_for_each(|n| store.put([n], [n; 60_000])).expect("room");
    let small = options().durability(Durability::Process).max_size(2 << 20);
    let (text, error) = refusal(store.compact_to(dir.path().join("small.kv"), small));
    assert!(matches!(error, Error::Heap(pheap::Error::OutOfSpace { .. })), "{text}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 0);
    let copy = store.compact_to(dir.path().join("large.kv"), options()).expect("a copy");
    assert_eq!(copy.get([7]).expect("a read").as_deref(), Some(&[7; 60_000][..]));
    assert!(std::fs::read_dir(dir.path()).expect("a folder").all(|file| {
        file.expect("a name").file_name().to_str().is_some_and(|name| name.starts_with("large.kv"))
    }));
}

#[test]
fn an_update_that_panics_changes_nothing() {
    let store = Store::in_memory().expect("a store");
    store.put("a", "1").expect("a put");
    for key in ["a", "new"] {
        let panics =
            std::panic::AssertUnwindSafe(|| store.update(key, |_| -> Option<&[u8]> { panic!("no") }));
        assert!(std::panic::catch_unwind(panics).is_err());
    }
    assert!(store.iter().eq_by_key([b"a"]));
    let nested = store.update("a", |_| match store.put("b", "2") {
        Err(Error::Heap(pheap::Error::Nested)) => Some("2"),
        other => panic!("{other:?}"),
    });
    assert!(nested.expect("an update"));
    assert_eq!(store.get("a").expect("a read").as_deref(), Some(&b"2"[..]));
    assert!(store.iter().eq_by_key([b"a"]));
}

#[test]
fn a_large_batch_leaves_nothing_in_the_log() {
    let dir = tempdir();
    let store = Options::new().durability(Durability::Wal).open(dir.path().join("data.kv")).unwrap();
    let mut batch = Batch::new();
    for key in 0..65u8 {
        batch.put(&store, [key], vec![key; 1 << 20]).unwrap();
    }
    store.write(&batch).unwrap();
    let heap = store.stats().unwrap().heap;
    assert!(heap.checkpoints > 0 && heap.checkpoint_bytes >= 65 << 20, "{heap:?}");
    assert!((0..65).all(|key| store.get([key]).unwrap() == Some(vec![key; 1 << 20])));
}

#[test]
fn a_large_batch_happens_in_its_order() {
    let store = Store::in_memory().unwrap();
    // Several shards, and a batch with many writes for each.
    let key = |n: u32| (n * 7919 % 20_011).to_be_bytes();
    let fill = |value: u8| {
        let mut batch = Batch::new();
        (0..20_000).for_each(|n| batch.put(&store, key(n), [value]).unwrap());
        store.write(&batch).unwrap();
    };
    (0..6).for_each(fill);
    assert!(store.stats().unwrap().shards > 1);
    let mut batch = Batch::new();
    for round in 0..5 {
        for n in 0..1000 {
            match (n + round) % 5 {
                0 => batch.delete(&store, key(n)).unwrap(),
                _ => batch.put(&store, key(n), [100 + round as u8]).unwrap(),
            }
        }
    }
    store.write(&batch).unwrap();
    for n in 0..1000 {
        let expected = ((n + 4) % 5 > 0).then(|| vec![104]);
        assert_eq!(store.get(key(n)).unwrap(), expected, "{n}");
    }
}
