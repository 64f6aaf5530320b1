//! Heaps that are closed, or cut off, while threads commit: all acknowledged commits survive.

use std::sync::atomic::{AtomicU64, Ordering};

use pheap::{Error, Heap, Root};

use super::{copy, is_sound, kinds};

const THREADS: usize = 4;

fn counters(heap: &Heap) -> Vec<Root<u64>> {
    (0..THREADS).map(|thread| heap.root::<u64>(&format!("{thread}")).unwrap()).collect()
}

fn values(heap: &Heap) -> Vec<u64> {
    counters(heap).iter().map(|root| root.read(|view, n| view[n]).unwrap()).collect()
}

#[test]
fn closing_a_heap_that_is_in_use() {
    for (kind, options) in kinds() {
        println!("{kind}");
        let dir = pheap_testkit::tempdir();
        let path = dir.path().join("heap");
        let mut least = vec![0; THREADS];
        for round in 0..4 {
            let heap = options.open(&path).unwrap();
            is_sound(&heap);
            let before = values(&heap);
            assert!(before.iter().zip(&least).all(|(found, least)| found == least), "{before:?}, {least:?}");
            let acknowledged: Vec<AtomicU64> = before.iter().map(|&n| AtomicU64::new(n)).collect();
            let enough = 20 * (round + 1);
            std::thread::scope(|scope| {
                for (root, acknowledged) in counters(&heap).into_iter().zip(&acknowledged) {
                    let heap = &heap;
                    scope.spawn(move || {
                        loop {
                            let mut next = 0;
                            let result = root.txn(|tx, n| {
                                tx[n] += 1;
                                Ok(next = tx[n])
                            });
                            match result {
                                Ok(()) => acknowledged.store(next, Ordering::Relaxed),
                                Err(Error::Closed) => break,
                                Err(error) => panic!("{error}"),
                            }
                            match (next % 3, root.read(|view, n| view[n])) {
                                (_, Err(Error::Closed)) => break,
                                (0, Ok(_)) => drop(heap.checkpoint()),
                                (1, Ok(_)) => drop(heap.collect()),
                                (_, found) => assert_eq!(found.unwrap(), next),
                            }
                        }
                    });
                }
                let count = |n: &AtomicU64| n.load(Ordering::Relaxed);
                let done = |acknowledged: &[AtomicU64]| {
                    acknowledged.iter().zip(&before).map(|(now, before)| count(now) - before).sum::<u64>()
                };
                while done(&acknowledged) < enough {
                    std::thread::yield_now();
                }
                heap.clone().close().unwrap();
            });
            least = acknowledged.into_iter().map(AtomicU64::into_inner).collect();
            assert!(matches!(heap.root::<u64>("0"), Err(Error::Closed)));
        }
    }
}

/// The files as they are at a moment when all threads have been told of their commits.
#[test]
fn what_threads_were_told_is_in_the_files() {
    for (kind, options) in kinds() {
        println!("{kind}");
        let dir = pheap_testkit::tempdir();
        let (path, crashed) = (dir.path().join("a.pheap"), dir.path().join("b.pheap"));
        let heap = options.open(&path).unwrap();
        let counters = counters(&heap);
        for round in 1..=6 {
            std::thread::scope(|scope| {
                for root in &counters {
                    scope.spawn(|| (0..10).for_each(|_| root.txn(|tx, n| Ok(tx[n] += 1)).unwrap()));
                }
                scope.spawn(|| heap.collect().unwrap());
            });
            copy(&path, &crashed);
            let found = options.open(&crashed).unwrap();
            is_sound(&found);
            assert_eq!(values(&found), vec![10 * round; THREADS]);
            found.close().unwrap();
            std::fs::remove_file(&crashed).unwrap();
        }
    }
}
