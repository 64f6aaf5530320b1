//! A biased lock: the first thread that uses it owns it, and needs no locked instruction until a second
//! thread comes. In the test, other threads come again and again.

use std::sync::atomic::{AtomicBool, Ordering};

use super::for_each_kind;
use pheap_testkit::Rng;

/// Transactions in a row, before others come.
const OFTEN: u64 = 1200;
const ROUNDS: u64 = 3;
const OTHERS: u64 = 2;
const EACH: u64 = 20;

#[test]
fn others_meet_a_thread_that_has_the_lock_all_the_time() {
    for_each_kind(
        |heap, _: &mut Rng| {
            let root = heap.root_or::<[u64; 2]>("pair", |_| Ok([0, 0])).unwrap();
            let add = || {
                root.txn(|tx, pair| {
                    tx[pair][0] += 1;
                    tx[pair][1] += 1;
                    Ok(())
                })
                .unwrap();
            };
            for _ in 0..ROUNDS {
                (0..OFTEN).for_each(|_| add());
                let done = AtomicBool::new(false);
                std::thread::scope(|scope| {
                    let others: Vec<_> = (0..OTHERS)
                        .map(|_| {
                            scope.spawn(|| {
                                for _ in 0..EACH {
                                    add();
                                    root.read(|view, pair| assert_eq!(view[pair][0], view[pair][1])).unwrap();
                                }
                            })
                        })
                        .collect();
                    scope.spawn(|| {
                        others.into_iter().for_each(|other| other.join().unwrap());
                        done.store(true, Ordering::Relaxed);
                    });
                    // The owner goes on at the same time.
                    while !done.load(Ordering::Relaxed) {
                        root.txn(|tx, pair| {
                            assert_eq!(tx[pair][0], tx[pair][1]);
                            Ok(())
                        })
                        .unwrap();
                    }
                });
            }
        },
        |heap| {
            let root = heap.root_or::<[u64; 2]>("pair", |_| Ok([0, 0])).unwrap();
            let expected = ROUNDS * (OFTEN + OTHERS * EACH);
            root.read(|view, pair| assert_eq!(view[pair], [expected; 2])).unwrap();
        },
    );
}
