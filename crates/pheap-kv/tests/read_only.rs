//! Stores that are only read: followers of one that is open elsewhere, and files that are not to be changed.

use pheap_kv::{Durability, Error, Options, Store};
use pheap_testkit::tempdir;
use std::time::Duration;

fn wal() -> Options {
    Options::new().heap(|heap| heap.arena_size(1 << 20)).reserve(1 << 30).durability(Durability::Wal)
}

fn keys(range: pheap_kv::Range) -> Vec<Vec<u8>> {
    range.map(|entry| entry.expect("an entry").0).collect()
}

#[test]
fn opening_a_store_writes_nothing() {
    let dir = tempdir();
    let path = dir.path().join("read.kv");
    let open = || wal().open(&path).expect("a store");
    open().put("a", "1").expect("a put");
    let before = std::fs::read(&path).expect("a file");
    let store = open();
    assert_eq!(store.get("a").expect("a read").as_deref(), Some(&b"1"[..]));
    store.close().expect("an end");
    assert!(std::fs::read(&path).expect("a file") == before, "a log was made for it");
}

#[test]
fn others_can_follow_a_store() {
    let dir = tempdir();
    let path = dir.path().join("followed.kv");
    let store = wal().open(&path).expect("a store");
    store.put("a", "1").expect("a put");
    let follower = wal().heap(|heap| heap.follower(true)).open(&path).expect("a copy in memory");
    store.put("a", "2").expect("a put");
    assert_eq!(follower.get("a").expect("a read").as_deref(), Some(&b"1"[..]));
    assert_eq!(keys(follower.iter()), [b"a"]);
    assert!(matches!(follower.put("a", "3"), Err(Error::Heap(pheap::Error::ReadOnly))));
}

#[test]
fn a_store_that_is_only_read_is_its_own_snapshot_and_can_be_written_out() {
    let dir = tempdir();
    let path = dir.path().join("read.kv");
    let store = wal().open(&path).expect("a store");
    let users = store.space("users").expect("a space");
    store.put("a", "1").expect("a put");
    users.put_for("b", "2", Duration::from_secs(3600)).expect("a put");
    // The file now has old versions for this snapshot. Other readers must not see them.
    let before = store.snapshot().expect("a snapshot");
    store.put("a", "3").expect("a put");
    store.delete("gone").expect("a delete");
    let check = |of: &str, read: &Store| {
        let snapshot = read.snapshot().expect("a snapshot");
        assert_eq!(snapshot.get("a").expect("a read").as_deref(), Some(&b"3"[..]), "{of}");
        let users = read.space("users").expect("a space");
        assert_eq!(keys(snapshot.space(&users).expect("a space").iter()), [b"b"], "{of}");
        let copy = read.compact_to(dir.path().join(of), wal()).expect("a copy");
        assert!(copy.iter().map(Result::unwrap).eq(read.iter().map(Result::unwrap)), "{of}");
        let copied = copy.space("users").expect("a space");
        assert_eq!(copied.expires_at("b").expect("a time"), users.expires_at("b").expect("a time"), "{of}");
    };
    let follower = wal().heap(|heap| heap.follower(true)).open(&path).expect("a copy in memory");
    store.put("a", "4").expect("a put");
    check("follower", &follower);
    assert_eq!(before.get("a").expect("a read").as_deref(), Some(&b"1"[..]));
    store.put("a", "3").expect("a put");
    store.close().expect("an end");
    check("read only", &wal().heap(|heap| heap.read_only(true)).open(&path).expect("a store"));
}

/// The state if the program was killed after it had made the root of a store, and before the rest.
#[test]
fn a_store_that_was_not_made_to_the_end_is_made_by_who_may_write() {
    #[derive(pheap::Persist, Default)]
    #[repr(C)]
    struct Meta {
        format: u64,
        eras: u64,
    }
    let dir = tempdir();
    let path = dir.path().join("begun.kv");
    let heap = pheap_testkit::small().open(&path).expect("a heap");
    heap.root::<Meta>("kv").expect("what the store is recognised by");
    heap.close().expect("an end");
    let error = wal().heap(|heap| heap.read_only(true)).open(&path).expect_err("an error");
    assert!(matches!(error, Error::Heap(pheap::Error::ReadOnly)), "{error}");
    let store = wal().open(&path).expect("a store");
    store.put("a", "1").expect("a put");
    assert_eq!(keys(store.snapshot().expect("a snapshot").iter()), [b"a"]);
}
