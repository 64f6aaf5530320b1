//! Maps with snapshots, and changes of the heap while there are snapshots.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use pheap::{Durability, Error, Heap, Options, P, PSnapMap, Persist, Root, Snapshot, field};
use pheap_testkit::threads::{sleeps, this_thread};
use pheap_testkit::{Rng, forks, process, small};

type Accounts = PSnapMap<'static, u64, i64>;

/// A key type of the program, with padding.
#[derive(Persist, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(C)]
struct Key {
    number: u64,
    kind: u8,
}

#[derive(Persist, Default)]
#[repr(C)]
struct All<'r> {
    by_key: PSnapMap<'r, Key, [u16; 3]>,
    by_text: PSnapMap<'r, P<'r, str>, P<'r, [Key]>>,
}

fn snapshot<K, V>(root: &Root<PSnapMap<'static, K, V>>) -> Snapshot<K, V>
where
    K: for<'r> pheap::collections::Frozen<'r, Shown: Ord, Unbranded = K>,
    V: for<'r> pheap::collections::Frozen<'r, Unbranded = V>,
{
    root.read(|view, map| map.snapshot(view)).unwrap().unwrap()
}

fn sum(snapshot: &Snapshot<u64, i64>) -> i64 {
    snapshot.read(|accounts| accounts.values().sum()).unwrap()
}

/// Two maps have what their models have, over many transactions. The heap is opened four times.
#[test]
fn maps_of_keys_and_texts() {
    let dir = pheap_testkit::tempdir();
    let options = small().durability(Durability::Process);
    let mut rng = Rng::from_seed(3);
    let (mut by_key, mut by_text) = (BTreeMap::new(), BTreeMap::new());
    let key = |n: usize| Key { number: n as u64 / 2, kind: n as u8 % 2 };
    for round in 0..4 {
        let heap = options.open(dir.path().join("x")).unwrap();
        let root: Root<All> = heap.root("all").unwrap();
        for _ in 0..100 {
            root.txn(|tx, all| {
                for _ in 0..rng.below(30) {
                    let n = rng.below(700);
                    let (text, keys) = (format!("text {n}"), vec![key(n); n % 5]);
                    if rng.below(5) < 3 {
                        field!(all.by_key).insert(tx, &key(n), &[round; 3])?;
                        field!(all.by_text).insert(tx, &text, &keys)?;
                        by_key.insert(key(n), [round; 3]);
                        by_text.insert(text, keys);
                    } else {
                        assert_eq!(field!(all.by_key).remove(tx, &key(n))?, by_key.remove(&key(n)).is_some());
                        assert_eq!(field!(all.by_text).remove(tx, &text)?, by_text.remove(&text).is_some());
                    }
                }
                Ok(())
            })
            .unwrap();
        }
        root.read(|view, all| {
            assert!(view[all].by_key.iter(view).eq(&by_key));
            assert!(view[all].by_text.iter(view).eq(by_text.iter().map(|(text, keys)| (&**text, &**keys))));
            assert_eq!(format!("{:?}", view[all].by_key.seen(view)), format!("{by_key:?}"));
        })
        .unwrap();
        heap.collect().unwrap();
        let report = heap.check().unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }
}

/// Threads read snapshots while transactions write, and old versions are collected. The heap with a log has
/// little memory, so it evicts pages.
#[test]
fn snapshots_are_read_beside_a_writer() {
    const ACCOUNTS: u64 = 2000;
    let dir = pheap_testkit::tempdir();
    let log = small().durability(Durability::Wal).log_limit(256 << 10).memory_limit(128 << 10);
    let log = log.sync_policy(pheap::SyncPolicy::OnDemand);
    for (name, options) in [("process", small().durability(Durability::Process)), ("log", log)] {
        let heap = options.open(dir.path().join(name)).unwrap();
        let root: Root<Accounts> = heap.root("accounts").unwrap();
        root.txn(|tx, map| map.extend(tx, (0..ACCOUNTS).map(|i| (i, 100)))).unwrap();
        heap.sync().unwrap();
        let first = snapshot(&root);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let (mut old, mut versions) = (Vec::new(), 0);
                    while !done.load(Ordering::Relaxed) || versions < 50 {
                        let durable = versions % 2 == 0;
                        let new = if durable { root.durable_snapshot().unwrap() } else { snapshot(&root) };
                        assert_eq!(sum(&new), 100 * ACCOUNTS as i64);
                        let entries: Vec<i64> = new.read(|map| map.values().copied().collect()).unwrap();
                        old.push((new, entries));
                        if old.len() > 8 {
                            let (first, entries) = old.remove(0);
                            assert!(first.read(|map| map.values().eq(&entries)).unwrap());
                        }
                        versions += 1;
                    }
                });
            }
            let mut rng = Rng::from_seed(5);
            for round in 0..1500 {
                let moved = root.txn(|tx, map| {
                    for _ in 0..4 {
                        let (from, to) = (rng.below(2000) as u64, rng.below(2000) as u64);
                        let amount = rng.below(50) as i64;
                        let left = map.get(tx, &from).unwrap() - amount;
                        map.insert(tx, &from, &left)?;
                        let more = map.get(tx, &to).unwrap() + amount;
                        map.insert(tx, &to, &more)?;
                    }
                    if round % 7 == 0 { Err(Error::abort("rolled back")) } else { Ok(()) }
                });
                assert_eq!(moved.is_err(), round % 7 == 0);
                if round % 100 == 0 {
                    heap.collect().unwrap();
                    heap.checkpoint().unwrap();
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        assert!(first.read(|map| map.len() == 2000 && map.values().all(|value| *value == 100)).unwrap());
        let report = heap.check().unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }
}

/// A snapshot keeps the heap open, and its version, without a root and a heap.
#[test]
fn a_snapshot_outlives_its_root() {
    let dir = pheap_testkit::tempdir();
    let path = dir.path().join("x");
    let options = small().durability(Durability::Process);
    let heap = options.open(&path).unwrap();
    let root: Root<Accounts> = heap.root("accounts").unwrap();
    let empty = snapshot(&root);
    root.txn(|tx, map| map.extend(tx, [(1, 2), (3, 4)])).unwrap();
    let kept = snapshot(&root);
    root.txn(|tx, map| {
        map.clear(tx);
        Ok(())
    })
    .unwrap();
    drop((root, heap));
    assert!(empty.read(|map| map.is_empty()).unwrap());
    assert!(kept.clone().read(|map| map.iter().eq([(&1, &2), (&3, &4)])).unwrap());
    assert!(matches!(options.open(&path), Err(Error::AlreadyOpen { .. })));
    drop(kept);
    drop(empty);
    let root: Root<Accounts> = options.open(&path).unwrap().existing_root("accounts").unwrap();
    assert!(root.read(|view, map| map.is_empty(view)).unwrap());
}

/// Runs `ends` while a snapshot is read: it must wait until that is over. Returns the snapshot.
fn ends_meanwhile(ends: impl FnOnce(&Heap) + Send) -> Snapshot<u64, i64> {
    let heap = Heap::in_memory().unwrap();
    let root: Root<Accounts> = heap.root("accounts").unwrap();
    let (other, third): (Root<u64>, Root<u64>) = (heap.root("other").unwrap(), heap.root("third").unwrap());
    root.txn(|tx, map| map.insert(tx, &1, &2)).unwrap();
    let kept = snapshot(&root);
    let (begun, thread) = (Barrier::new(2), AtomicI32::new(0));
    std::thread::scope(|scope| {
        let ending = scope.spawn(|| {
            begun.wait();
            thread.store(this_thread(), Ordering::Relaxed);
            ends(&heap);
        });
        kept.read(|map| {
            begun.wait();
            // Until others are turned away, and the one that ends it all waits.
            while kept.read(|_| ()).is_ok() || !sleeps(thread.load(Ordering::Relaxed)) {
                std::thread::yield_now();
            }
            assert!(matches!(kept.read(|_| ()), Err(Error::Closed)));
            assert!(matches!(root.txn(|tx, map| map.insert(tx, &1, &3)), Err(Error::Closed)));
            // None of these waits for the other thread.
            let _ = other.txn(|tx, number| {
                tx[number] = 1;
                Ok(())
            });
            let _ = third.read(|view, number| view[number]);
            assert!(matches!(heap.root::<u64>("new"), Err(Error::Nested | Error::Closed)));
            assert!(!ending.is_finished());
            assert_eq!(map.get(&1), Some(&2));
        })
        .unwrap();
        ending.join().unwrap();
    });
    kept
}

#[test]
fn closing_waits_for_those_who_read_a_snapshot() {
    let kept = ends_meanwhile(|heap| heap.clone().close().unwrap());
    assert!(matches!(kept.read(|_| ()), Err(Error::Closed)));
}

#[test]
fn removing_a_root_waits_for_those_who_read_a_snapshot() {
    let kept = ends_meanwhile(|heap| heap.remove_root("accounts").unwrap());
    assert!(matches!(kept.read(|_| ()), Err(Error::Closed)));
}

#[test]
fn snapshots_nest_with_all_that_has_a_lock() {
    let heap = Heap::in_memory().unwrap();
    let root: Root<Accounts> = heap.root("accounts").unwrap();
    root.txn(|tx, map| map.insert(tx, &1, &1)).unwrap();
    let one = snapshot(&root);
    root.txn(|tx, map| {
        map.insert(tx, &1, &2)?;
        assert!(matches!(map.snapshot(tx), Err(Error::Nested)));
        assert!(matches!(map.snapshot(&tx.shared()), Err(Error::Nested)));
        one.read(|one| assert_eq!((one.get(&1), map.get(tx, &1)), (Some(&1), Some(&2))))
    })
    .unwrap();
    one.read(|one| {
        root.txn(|tx, map| map.insert(tx, &1, &3)).unwrap();
        let other = snapshot(&root);
        other.read(|other| assert_eq!((one.get(&1), other.get(&1)), (Some(&1), Some(&3)))).unwrap();
        root.read(|view, map| assert_eq!(map.get(view, &1), Some(&3))).unwrap();
        // These would wait for all readers.
        assert!(matches!(heap.clone().close(), Err(Error::Nested)));
        assert!(matches!(heap.remove_root("accounts"), Err(Error::Nested)));
        assert!(matches!(heap.collect(), Err(Error::Nested)));
        assert!(matches!(heap.check(), Err(Error::Nested)));
    })
    .unwrap();
    fn deeper(snapshot: &Snapshot<u64, i64>, depth: usize) -> usize {
        match snapshot.read(|_| deeper(snapshot, depth + 1)) {
            Ok(depth) => depth,
            Err(Error::Unsupported(_)) => depth,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(deeper(&one, 0), 16);
    // A panic ends the reading, too.
    let unwound =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| one.read(|_| panic!("as it should"))));
    assert!(unwound.is_err());
    heap.close().unwrap();
}

/// A migration leaves versions where they are.
#[test]
fn a_snapshot_survives_a_migration() {
    let heap = Heap::in_memory().unwrap();
    let root: Root<Accounts> = heap.root("accounts").unwrap();
    root.txn(|tx, map| map.extend(tx, (0..500).map(|i| (i, 7)))).unwrap();
    let kept = snapshot(&root);
    heap.migrate::<Accounts, u64>("accounts", |_, _| Ok(1)).unwrap();
    heap.root::<u64>("accounts").unwrap().collect().unwrap();
    assert_eq!(sum(&kept), 3500);
}

#[test]
fn a_snapshot_is_of_no_use_in_a_forked_child() {
    let heap = Heap::in_memory().unwrap();
    let root: Root<Accounts> = heap.root("accounts").unwrap();
    root.txn(|tx, map| map.insert(tx, &1, &1)).unwrap();
    let kept = snapshot(&root);
    let is_forked =
        || matches!((kept.read(|_| ()), root.durable_snapshot()), (Err(Error::Forked), Err(Error::Forked)));
    forks::in_child(|| {
        drop(kept.clone());
        is_forked()
    })
    .unwrap();
    kept.read(|_| forks::in_child(is_forked).unwrap()).unwrap();
    // A child that is made while the snapshot is read ends the reading as its parent does.
    let child = kept.read(|_| forks::split()).unwrap();
    if child == 0 {
        forks::end(is_forked());
    }
    forks::ended(child).unwrap();
    drop(root);
    heap.close().unwrap();
}

/// As large as a map takes them, on the stack of a test's thread.
#[test]
fn the_largest_entries() {
    let heap = Heap::in_memory().unwrap();
    let root: Root<PSnapMap<u64, [u64; 127]>> = heap.root("map").unwrap();
    root.txn(|tx, map| map.extend(tx, (0..200).map(|i| (i * 7919 % 200, [i; 127])))).unwrap();
    root.txn(|tx, map| (0..190).try_for_each(|key| map.remove(tx, &key).map(drop))).unwrap();
    assert!(root.read(|view, map| map.iter(view).map(|(key, _)| *key).eq(190..200)).unwrap());
}

/// Changes that there is no memory for change nothing.
#[test]
fn a_full_heap_has_the_map_as_it_was() {
    let dir = pheap_testkit::tempdir();
    let options = Options::new().arena_size(256 << 10).max_size(1 << 20).durability(Durability::Process);
    let heap = options.open(dir.path().join("x")).unwrap();
    let root: Root<PSnapMap<u64, P<str>>> = heap.root("map").unwrap();
    root.txn(|tx, map| {
        let mut model = BTreeMap::new();
        let text = "x".repeat(100);
        let mut n = 0_u64;
        let full = loop {
            n = n.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            match map.insert(tx, &n, &text) {
                Ok(is_new) => assert_eq!(is_new, model.insert(n, text.clone()).is_none()),
                Err(full) => break full,
            }
        };
        assert!(matches!(full, Error::OutOfSpace { .. }), "{full}");
        assert_eq!(map.len(tx), model.len());
        assert!(map.iter(tx).eq(model.iter().map(|(n, text)| (n, text.as_str()))));
        Ok(())
    })
    .unwrap();
}

/// A process is killed while one thread writes versions and another one reads them: the newest ones, or the
/// durable ones. All versions that the reader has seen survive, each as a whole.
#[test]
fn what_a_snapshot_has_shown_survives_a_kill() {
    const KEYS: u64 = 300;
    let options = |path: &Path| {
        let durability = if path.ends_with("mapped") { Durability::Process } else { Durability::Wal };
        small().durability(durability).log_limit(256 << 10).memory_limit(128 << 10)
    };
    if let Some((_, path)) = process::role() {
        let heap = options(&path).open(&path).unwrap();
        let root: Root<Accounts> = heap.root("accounts").unwrap();
        let is_deferred = path.ends_with("deferred");
        let version = || if is_deferred { root.durable_snapshot().unwrap() } else { snapshot(&root) };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                loop {
                    let seen = version().read(|map| map.get(&0).copied()).unwrap().unwrap_or(0);
                    std::fs::write(path.with_extension("seen"), seen.to_string()).unwrap();
                    if seen >= 100 {
                        process::die();
                    }
                }
            });
            for version in 1.. {
                let (_, commit) = root
                    .txn_deferred(|tx, map| map.extend(tx, (0..KEYS).map(|i| (i * 7 % KEYS, version))))
                    .unwrap();
                if !is_deferred {
                    commit.wait().unwrap();
                }
            }
        });
    }
    let dir = pheap_testkit::tempdir();
    for name in ["mapped", "log", "deferred"] {
        let path = dir.path().join(name);
        process::run_killed("snap::what_a_snapshot_has_shown_survives_a_kill", name, &path);
        let seen: i64 = std::fs::read_to_string(path.with_extension("seen")).unwrap().parse().unwrap();
        let heap = options(&path).verify(true).open(&path).unwrap();
        let root: Root<Accounts> = heap.existing_root("accounts").unwrap();
        let versions: Vec<i64> = snapshot(&root).read(|map| map.values().copied().collect()).unwrap();
        assert!(versions.len() == 300 && versions.iter().all(|version| *version == versions[0]));
        assert!(versions[0] >= seen, "{seen} was seen, {} is there", versions[0]);
    }
}
