//! Tests of durable versions during transactions that are not durable, on a heap whose disk stands still
//! while the test wants it to.
#![allow(clippy::unit_arg)] // transactions of one assignment

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::{io, thread};

use pheap_testkit::threads::this_thread;

use super::PSnapMap;
use crate::wal::deferred_tests::{until_it_sleeps, while_the_disk_stands_still};
use crate::{Commit, Durability, Error, Heap, Options, Persist, Result, Root, SyncPolicy};

type Map = PSnapMap<'static, u64, u64>;

struct Setup {
    folder: tempfile::TempDir,
    heap: Heap,
    map: Root<Map>,
}

fn options(policy: SyncPolicy) -> Options {
    Options::new().durability(Durability::Wal).sync_policy(policy).arena_size(1 << 20).reserve(1 << 30)
}

impl Setup {
    /// Makes a heap whose map has an entry 0, which is durable.
    fn new(policy: SyncPolicy) -> Setup {
        let folder = tempfile::tempdir().unwrap();
        let heap = options(policy).open(folder.path().join("heap")).unwrap();
        let map = heap.root("map").unwrap();
        drop(insert(&map, 0));
        heap.sync().unwrap();
        Setup { folder, heap, map }
    }

    fn while_the_disk_stands_still<R>(&self, f: impl FnOnce() -> R) -> R {
        while_the_disk_stands_still(self.heap.inner().wal().unwrap(), f)
    }

    /// Makes the log fail, as an error of the disk does.
    fn poison(&self) {
        let error = io::Error::from_raw_os_error(libc::EIO);
        self.heap.inner().wal().unwrap().poison("syncing the log", &error);
    }
}

fn insert(map: &Root<Map>, key: u64) -> Commit {
    map.txn_deferred(|tx, map| map.insert(tx, &key, &key)).unwrap().1
}

/// Returns the keys of the durable version.
fn durable(map: &Root<Map>) -> Vec<u64> {
    map.durable_snapshot().unwrap().read(|map| map.keys().copied().collect()).unwrap()
}

#[test]
fn what_is_not_durable_is_not_shown_and_nobody_waits() {
    let setup = Setup::new(SyncPolicy::EveryCommit);
    let Setup { heap, map, .. } = &setup;
    let number: Root<u64> = heap.root("number").unwrap();
    let mut commits = Vec::new();
    thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        setup.while_the_disk_stands_still(|| {
            commits.push(insert(map, 1));
            // A thread waits for the disk at the end of its transaction.
            scope.spawn(move || {
                tell.send(this_thread()).unwrap();
                map.txn(|tx, map| map.insert(tx, &2, &2)).unwrap();
                assert!(durable(map).starts_with(&[0, 1, 2])); // and perhaps later keys
            });
            until_it_sleeps(told.recv().unwrap());
            assert_eq!(durable(map), [0]);
            commits.extend((3..9).map(|key| insert(map, key)));
            // The durable version is shown inside a transaction, too, also after the transaction has become
            // long, and if it is rolled back.
            let panics = || {
                map.txn_deferred(|tx, map_here| -> Result<()> {
                    map_here.insert(tx, &9, &9)?;
                    assert_eq!(durable(map), [0]);
                    let _ = tx.shared();
                    assert_eq!(durable(map), [0]);
                    panic!("as it should");
                })
            };
            catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
        });
    });
    commits.last().unwrap().wait().unwrap();
    assert_eq!(durable(map), (0..9).collect::<Vec<_>>());
    // Deferred transactions over several roots, and without a change.
    setup.while_the_disk_stands_still(|| {
        let both = crate::txn_deferred((map, &number), |((tx, map), (other, number))| {
            other[number] = 7;
            map.insert(tx, &9, &9)
        });
        commits.push(both.unwrap().1);
        commits.push(map.txn_deferred(|_, _| Ok(())).unwrap().1);
        assert_eq!(durable(map).len(), 9);
    });
    commits.last().unwrap().wait().unwrap();
    assert_eq!(durable(map).len(), 10);
    // A deferred transaction that becomes long.
    setup.while_the_disk_stands_still(|| {
        let long = map.txn_deferred(|tx, map| {
            map.extend(tx, (10..1000).map(|key| (key, key)))?;
            let _ = tx.shared();
            map.extend(tx, (1000..2000).map(|key| (key, key)))
        });
        commits.push(long.unwrap().1);
        assert_eq!(durable(map).len(), 10);
    });
    commits.last().unwrap().wait().unwrap();
    assert_eq!(durable(map).len(), 2000);
}

/// A thread that has learned of a commit sees it: if syncs begin and end while other threads commit, no
/// version is lost.
#[test]
fn who_was_told_of_a_commit_sees_it() {
    let setup = Setup::new(SyncPolicy::EveryCommit);
    thread::scope(|scope| {
        for thread in 1..4 {
            let map = &setup.map;
            scope.spawn(move || {
                for i in 0..200 {
                    let key = i * 4 + thread;
                    if i % 2 == 0 {
                        map.txn(|tx, map| map.insert(tx, &key, &key)).unwrap();
                    } else {
                        insert(map, key).wait().unwrap();
                    }
                    assert!(map.durable_snapshot().unwrap().read(|map| map.contains_key(&key)).unwrap());
                }
            });
        }
    });
}

#[test]
fn a_broken_disk_leaves_what_was_durable_before() {
    let setup = Setup::new(SyncPolicy::EveryCommit);
    let commit = setup.while_the_disk_stands_still(|| {
        let commit = insert(&setup.map, 1);
        setup.poison();
        commit
    });
    commit.wait().unwrap_err();
    assert_eq!(durable(&setup.map), [0]);
    setup.map.read(|_, _| ()).unwrap_err();
    let (kept, Setup { heap, map, folder: _folder }) = (setup.map.durable_snapshot().unwrap(), setup);
    heap.close().unwrap_err();
    assert!(matches!(kept.read(|_| ()), Err(Error::Closed)));
    assert!(map.durable_snapshot().is_err());
}

/// Old versions are kept as long as a thread may ask for them, and no longer.
#[test]
fn old_versions_are_collected_when_a_newer_one_is_durable() {
    let setup = Setup::new(SyncPolicy::OnDemand);
    let Setup { heap, map, .. } = &setup;
    for key in 1..2000 {
        map.txn(|tx, map| map.insert(tx, &(key % 700), &key)).unwrap();
        if key % 100 == 0 {
            heap.collect().unwrap();
            assert_eq!(durable(map), [0]);
        }
    }
    heap.sync().unwrap();
    assert_eq!(durable(map).len(), 700);
    heap.collect().unwrap();
    assert_eq!(heap.stats().live_objects, heap.check().unwrap().objects);
    assert_eq!(durable(map).len(), 700);
}

/// The durable version of a root's map is empty until the map is durable. If a root becomes another map, the
/// old handle shows the old map, and a new handle an empty one, until the change is durable.
#[test]
fn roots_come_and_change() {
    let setup = Setup::new(SyncPolicy::OnDemand);
    let Setup { heap, map, .. } = &setup;
    let new: Root<Map> = heap.root("new").unwrap();
    drop(insert(&new, 1));
    assert_eq!(durable(&new), []);
    heap.sync().unwrap();
    assert_eq!(durable(&new), [1]);

    heap.migrate::<Map, u64>("new", |_, _| Ok(3)).unwrap();
    assert_eq!(durable(&new), [1]);
    let number: Root<u64> = heap.root("new").unwrap();
    number.txn(|tx, n| Ok(tx[n] += 1)).unwrap();
    assert_eq!(durable(&new), [1]);
    heap.sync().unwrap();
    assert!(matches!(new.durable_snapshot(), Err(Error::Migrated { .. })));
    number.txn(|tx, n| Ok(tx[n] += 1)).unwrap();

    type Other = PSnapMap<'static, u64, u8>;
    heap.migrate::<Map, Other>("map", |_, _| Ok(PSnapMap::new())).unwrap();
    let other: Root<Other> = heap.root("map").unwrap();
    other.txn(|tx, map| map.insert(tx, &5, &5)).unwrap();
    let seen = || other.durable_snapshot().unwrap().read(|map| map.len()).unwrap();
    assert_eq!((durable(map), seen()), (vec![0], 0));
    heap.sync().unwrap();
    assert_eq!(seen(), 1);
    assert!(matches!(map.durable_snapshot(), Err(Error::Migrated { .. })));

    heap.migrate::<u64, Map>("new", |_, _| Ok(PSnapMap::new())).unwrap();
    let again: Root<Map> = heap.root("new").unwrap();
    drop(insert(&again, 8));
    assert_eq!(durable(&again), []);
    heap.sync().unwrap();
    assert_eq!(durable(&again), [8]);
    heap.remove_root("new").unwrap();
    assert!(matches!(again.durable_snapshot(), Err(Error::Closed)));
    // The handle from before the migrations returns the same error.
    assert!(matches!(new.durable_snapshot(), Err(Error::Closed)));
}

/// The content of a heap is durable when the heap is opened, with any durability. If commits do not wait for
/// the disk, each committed transaction counts as durable, too.
#[test]
fn a_heap_that_is_opened_is_durable() {
    let setup = Setup::new(SyncPolicy::EveryCommit);
    insert(&setup.map, 1).wait().unwrap();
    let Setup { folder, heap, map } = setup;
    drop(map);
    heap.close().unwrap();
    let path = folder.path().join("heap");
    let mut found = vec![0, 1];
    for durability in [Durability::Process, Durability::Wal, Durability::Process] {
        let heap = options(SyncPolicy::EveryCommit).durability(durability).open(&path).unwrap();
        let map: Root<Map> = heap.existing_root("map").unwrap();
        assert_eq!(durable(&map), found);
        let key = found.len() as u64;
        map.txn(|tx, map_here| {
            map_here.insert(tx, &key, &key)?;
            assert_eq!(durable(&map), found);
            Ok(())
        })
        .unwrap();
        found.push(key);
        assert_eq!(durable(&map), found);
    }
    let heap = Options::new().read_only(true).open(&path).unwrap();
    assert_eq!(durable(&heap.existing_root("map").unwrap()), found);
}

/// A map that is a field of a root object has no durable versions: no method could return them.
#[test]
fn only_a_root_has_versions() -> Result<()> {
    #[derive(Persist, Default)]
    #[repr(C)]
    #[persist(crate = "crate")]
    struct Shop<'r> {
        prices: PSnapMap<'r, u64, u64>,
    }
    let heap = Options::new().reserve(1 << 30).in_memory()?;
    let shop: Root<Shop> = heap.root("shop")?;
    assert!(shop.region.held.durable_version(|| 0).is_none());
    Ok(())
}
