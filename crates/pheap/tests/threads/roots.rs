//! Roots that come, go and get other names while others are used.

use std::collections::BTreeMap;

use pheap::{Error, Heap, Root};

use super::for_each_kind;
use pheap_testkit::Rng;

const THREADS: u64 = 4;
const EACH: u64 = 60;

fn value(root: &Root<u64>) -> u64 {
    root.read(|view, n| view[n]).unwrap()
}

/// Changes the roots of one thread, which no other thread names, and the roots that all threads share.
fn step(heap: &Heap, thread: u64, own: &mut BTreeMap<String, (Root<u64>, u64)>, random: &mut Rng) {
    let name = |n: usize| format!("thread {thread}, root {n}");
    let (a, b) = (name(random.below(4)), name(random.below(4)));
    match random.below(5) {
        0 => {
            let root = heap.root::<u64>(&a).unwrap();
            let expected = own.entry(a.clone()).or_insert((root.clone(), 0));
            expected.1 += 1;
            root.txn(|tx, n| Ok(tx[n] += 1)).unwrap();
            assert_eq!((value(&root), root.name()), (expected.1, a));
        }
        1 => match (heap.remove_root(&a), own.remove(&a)) {
            (Ok(()), Some((handle, _))) => assert!(matches!(handle.read(|_, _| ()), Err(Error::Closed))),
            (Err(Error::NoSuchRoot(_)), None) => {}
            (result, _) => panic!("{result:?}"),
        },
        2 => match heap.rename_root(&a, &b) {
            Ok(()) => {
                let moved = own.remove(&a).expect("there was one");
                assert_eq!(moved.0.name(), b);
                own.insert(b, moved);
            }
            Err(Error::NoSuchRoot(_)) => assert!(!own.contains_key(&a)),
            Err(Error::RootExists(_)) => assert!(own.contains_key(&b) && a != b),
            Err(error) => panic!("{error}"),
        },
        3 => {
            // All threads at once: the first one makes the root, and it may be gone again at any time.
            match heap.root_or::<u64>("common", |_| Ok(100)).and_then(|root| root.txn(|tx, n| Ok(tx[n] += 1)))
            {
                Ok(()) | Err(Error::Closed) => {}
                Err(error) => panic!("{error}"),
            }
            match heap.remove_root("common") {
                Ok(()) | Err(Error::NoSuchRoot(_) | Error::Closed) => {}
                Err(error) => panic!("{error}"),
            }
        }
        _ => {
            for (root, expected) in own.values() {
                assert_eq!(value(root), *expected);
            }
            let listed = heap.roots();
            let mine = |name: &&String| name.starts_with(&format!("thread {thread},"));
            assert!(listed.iter().map(|info| &info.name).filter(mine).eq(own.keys()));
        }
    }
}

#[test]
fn each_thread_finds_its_own() {
    let counter = |heap: &Heap| heap.root::<u64>("counter").unwrap();
    for_each_kind(
        |heap, random| {
            let counter = &counter(heap);
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let mut random = Rng::from_seed(random.next_u64() | 1);
                    scope.spawn(move || {
                        let mut own = BTreeMap::new();
                        for _ in 0..EACH {
                            step(heap, thread, &mut own, &mut random);
                            counter.txn(|tx, n| Ok(tx[n] += 1)).unwrap();
                        }
                        for name in own.keys() {
                            heap.remove_root(name).unwrap();
                        }
                    });
                }
                scope.spawn(|| (0..EACH / 6).for_each(|_| super::is_sound(heap)));
                scope.spawn(|| (0..EACH / 3).for_each(|_| heap.collect().unwrap()));
            });
        },
        |heap| {
            let names: Vec<String> = heap.roots().into_iter().map(|info| info.name).collect();
            assert!(names.iter().all(|name| ["counter", "common"].contains(&&**name)), "{names:?}");
            assert_eq!(value(&counter(heap)), THREADS * EACH);
        },
    );
}
