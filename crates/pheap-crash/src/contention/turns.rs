//! Threads that could wait for ever, for those who come later, or for one another.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pheap::sim::{Bug, set_bug};
use pheap::{Heap, Root};
use pheap_testkit::forks::in_child;

use super::{outcome, small};

/// Reads of a root that may begin while somebody does a few transactions on it.
const ENOUGH: u64 = 200_000;
/// How long a read waits for the next one to begin: long enough for that to be given a processor, and less than who waits at a gate. Where transactions get their turns, that is
/// what each of these takes.
const PATIENCE: Duration = Duration::from_millis(50);

fn roots() -> (Heap, [Root<u64>; 2]) {
    let heap = small().in_memory().unwrap();
    let roots = ["a", "b"].map(|name| heap.root(name).unwrap());
    (heap, roots)
}

/// Two readers of each of two roots, of which one is always inside as far as the lock lets them, and a thread with transactions on one and on both.
pub(super) fn turns(bug: Option<Bug>) -> Result<(), String> {
    let (_heap, roots) = roots();
    let (done, begun) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 2]);
    let relay = |root: &Root<u64>, begun: &AtomicU64| {
        set_bug(bug);
        while !done.load(Ordering::Relaxed) && begun.load(Ordering::Relaxed) < ENOUGH {
            let read = root.read(|_, _| {
                let (mine, start) = (begun.fetch_add(1, Ordering::Relaxed) + 1, Instant::now());
                while begun.load(Ordering::Relaxed) == mine && start.elapsed() < PATIENCE {
                    thread::yield_now();
                }
            });
            read.unwrap();
        }
    };
    thread::scope(|scope| {
        for (root, begun) in roots.iter().zip(&begun) {
            (0..2).for_each(|_| drop(scope.spawn(|| relay(root, begun))));
        }
        scope.spawn(|| {
            set_bug(bug);
            for _ in 0..3 {
                roots[0].txn(|tx, n| Ok(tx[n] += 1)).unwrap();
                let both = pheap::txn((&roots[0], &roots[1]), |((ta, a), (tb, b))| {
                    ta[a] += 1;
                    Ok(tb[b] += 1)
                });
                both.unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
    });
    if begun.iter().any(|begun| begun.load(Ordering::Relaxed) >= ENOUGH) {
        return Err("reads that overlap have kept a transaction away".to_owned());
    }
    outcome()
}

/// Transactions on a root that may begin while somebody has one on two.
const ENOUGH_TRANSACTIONS: u64 = 300;

/// Two threads for each of two roots, with transactions on it that are so long that the lock goes from one to the other, and a thread with a transaction on both.
pub(super) fn transactions(bug: Option<Bug>) -> Result<(), String> {
    let (_heap, roots) = roots();
    let (done, begun) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 2]);
    let count = |begun: &AtomicU64| begun.load(Ordering::Relaxed);
    let stay = |root: &Root<u64>, begun: &AtomicU64| {
        set_bug(bug);
        while !done.load(Ordering::Relaxed) && count(begun) < ENOUGH_TRANSACTIONS {
            let transaction = root.txn(|tx, n| {
                begun.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(2));
                Ok(tx[n] += 1)
            });
            transaction.unwrap();
        }
    };
    thread::scope(|scope| {
        for (root, begun) in roots.iter().zip(&begun) {
            (0..2).for_each(|_| drop(scope.spawn(|| stay(root, begun))));
        }
        scope.spawn(|| {
            set_bug(bug);
            while begun.iter().any(|begun| count(begun) < 2) {
                thread::yield_now();
            }
            pheap::txn((&roots[0], &roots[1]), |((tx, n), _)| Ok(tx[n] += 1)).unwrap();
            done.store(true, Ordering::Relaxed);
        });
    });
    if begun.iter().any(|begun| count(begun) >= ENOUGH_TRANSACTIONS) {
        return Err("transactions on one root have kept one on two away".to_owned());
    }
    outcome()
}

/// Reads in reads, in opposite orders, beside transactions on each root.
pub(super) fn nested(bug: Option<Bug>) -> Result<(), String> {
    in_child(|| {
        let (_heap, [a, b]) = roots();
        thread::scope(|scope| {
            for (first, second) in [(&a, &b), (&b, &a), (&a, &a)] {
                scope.spawn(move || {
                    set_bug(bug);
                    for _ in 0..2000 {
                        let inner = first.read(|_, _| {
                            thread::yield_now();
                            second.read(|view, n| view[n]).unwrap()
                        });
                        assert!(inner.unwrap() <= 4000);
                    }
                });
            }
            for root in [&a, &b] {
                scope.spawn(move || (0..2000).for_each(|_| root.txn(|tx, n| Ok(tx[n] += 1)).unwrap()));
            }
        });
        true
    })?;
    outcome()
}
