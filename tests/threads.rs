//! Threads on many roots, on one root, and on several roots at once in any order; readers and writers at the
//! same time; and threads that share one view.
//!
//! No result depends on timing. Where two threads must be inside of something together, they meet at a
//! barrier there. So if a lock is held for too long, the test never ends.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use pheap::{Error, Heap, Held, Options, P, Persist, Result, Root, Shared, Txn, View, txn};

use pheap_testkit::Rng;

#[derive(Persist, Default)]
#[repr(C)]
struct List<'r> {
    head: Option<P<'r, Node<'r>>>,
    len: u64,
    sum: u64,
}

#[derive(Persist)]
#[repr(C)]
struct Node<'r> {
    value: u64,
    next: Option<P<'r, Node<'r>>>,
}

#[txn]
fn push<'r>(tx: &mut Txn<'r>, list: P<'r, List<'r>>, value: u64) -> Result<()> {
    let node = tx.alloc(Node { value, next: tx[list].head })?;
    tx[list].head = Some(node);
    tx[list].len += 1;
    tx[list].sum += value;
    Ok(())
}

/// Returns the values, oldest first. Panics if the length or the sum is wrong.
fn values<'r>(view: &View<'r>, list: P<'r, List<'r>>) -> Vec<u64> {
    let nodes = std::iter::successors(view[list].head, |&node| view[node].next);
    let mut values: Vec<u64> = nodes.map(|node| view[node].value).collect();
    values.reverse();
    assert_eq!((values.len() as u64, values.iter().sum()), (view[list].len, view[list].sum));
    values
}

/// Returns two heaps in memory: in the second one, all transactions use the undo log.
fn heaps() -> impl Iterator<Item = Heap> {
    let options = Options::new().arena_size(1 << 20).reserve(1 << 30);
    [false, true].into_iter().map(move |pin| options.clone().pin_undo(pin).in_memory().unwrap())
}

#[test]
fn each_on_a_root_of_its_own() -> Result<()> {
    for heap in heaps() {
        thread::scope(|scope| {
            for thread in 0..8 {
                let heap = &heap;
                scope.spawn(move || {
                    let list: Root<List> = heap.root(&format!("list {thread}")).unwrap();
                    for i in 0..500 {
                        list.txn(|tx, list| push(tx, list, thread * 1000 + i)).unwrap();
                    }
                });
            }
        });
        assert_eq!(heap.roots().len(), 8);
        for thread in 0..8 {
            let list: Root<List> = heap.existing_root(&format!("list {thread}"))?;
            assert_eq!(list.read(values)?, (0..500).map(|i| thread * 1000 + i).collect::<Vec<_>>());
        }
    }
    Ok(())
}

#[test]
fn all_on_one_root() -> Result<()> {
    for heap in heaps() {
        let list: Root<List> = heap.root("list")?;
        thread::scope(|scope| {
            for thread in 0..8 {
                let list = &list;
                scope.spawn(move || {
                    for i in 0..300 {
                        let given_up = list.txn(|tx, list| {
                            push(tx, list, 1 << 40)?;
                            Err::<(), _>(Error::abort("as planned"))
                        });
                        assert!(matches!(given_up, Err(Error::Aborted(_))));
                        list.txn(|tx, list| push(tx, list, thread * 1000 + i)).unwrap();
                    }
                });
            }
        });
        let all = list.read(values)?;
        assert_eq!(all.len(), 8 * 300);
        for thread in 0..8 {
            let own: Vec<u64> = all.iter().copied().filter(|value| value / 1000 == thread).collect();
            assert_eq!(own, (0..300).map(|i| thread * 1000 + i).collect::<Vec<_>>());
        }
    }
    Ok(())
}

#[test]
fn different_roots_do_not_wait_for_one_another() -> Result<()> {
    for heap in heaps() {
        let roots: Vec<Root<u64>> =
            ["a", "b"].map(|name| heap.root(name)).into_iter().collect::<Result<_>>()?;
        let both_inside = Barrier::new(2);
        thread::scope(|scope| {
            for root in &roots {
                scope.spawn(|| {
                    root.txn(|tx, number| {
                        tx[number] += 1;
                        both_inside.wait();
                        tx[number] += 1;
                        Ok(())
                    })
                });
            }
        });
        for root in &roots {
            assert_eq!(root.read(|view, number| view[number])?, 2);
        }
    }
    Ok(())
}

#[test]
fn several_roots_in_any_order() -> Result<()> {
    const ROOTS: usize = 5;
    for heap in heaps() {
        let roots = (0..ROOTS)
            .map(|i| heap.root_or(&format!("{i}"), |_| Ok(1000)))
            .collect::<Result<Vec<Root<u64>>>>()?;
        thread::scope(|scope| {
            for thread in 0..8 {
                let roots = &roots;
                scope.spawn(move || {
                    let mut rng = Rng::from_seed(thread);
                    for _ in 0..400 {
                        let mut order: Vec<usize> = (0..ROOTS).collect();
                        for i in (1..ROOTS).rev() {
                            order.swap(i, rng.scaled(i as u64 + 1) as usize);
                        }
                        move_one(roots, &order, rng.scaled(5)).unwrap();
                    }
                });
            }
        });
        let sum: u64 = pheap::txn(&roots, |mut roots| {
            Ok((0..ROOTS).map(|i| roots.with(i, |tx, number| tx[number])).sum())
        })?;
        assert_eq!(sum, 1000 * ROOTS as u64);
    }
    Ok(())
}

/// Moves 1 from the first root to another one, in a transaction on 2 to 5 roots; or rolls such a change back.
fn move_one(roots: &[Root<u64>], order: &[usize], way: u64) -> Result<()> {
    let root = |i: usize| &roots[order[i]];
    match way {
        0 => pheap::txn((root(0), root(1)), |((ta, a), (tb, b))| {
            ta[a] -= 1;
            tb[b] += 1;
            Ok(())
        }),
        1 => pheap::txn((root(0), root(1), root(2)), |((ta, a), _, (tc, c))| {
            ta[a] -= 1;
            tc[c] += 1;
            Ok(())
        }),
        2 => pheap::txn((root(0), root(1), root(2), root(3)), |((ta, a), _, _, (td, d))| {
            ta[a] -= 1;
            td[d] += 1;
            Ok(())
        }),
        3 => {
            let shards: Vec<Root<u64>> = order.iter().map(|&i| roots[i].clone()).collect();
            pheap::txn(&shards, |mut shards| {
                let last = shards.len() - 1;
                shards.with_two(0, last, |ta, a, tb, b| {
                    ta[a] -= 1;
                    tb[b] += 1;
                });
                Ok(())
            })
        }
        _ => {
            let given_up = pheap::txn((root(0), root(1)), |((ta, a), (tb, b))| {
                ta[a] -= 1;
                tb[b] += 2;
                Err::<(), _>(Error::abort("as planned"))
            });
            assert!(matches!(given_up, Err(Error::Aborted(_))));
            Ok(())
        }
    }
}

#[test]
fn readers_see_whole_transactions() -> Result<()> {
    for heap in heaps() {
        let list: Root<List> = heap.root("list")?;
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut before = 0;
                    loop {
                        let last = done.load(Ordering::Acquire);
                        let now = list.read(values).unwrap();
                        assert!(
                            now.len() >= before && now.len().is_multiple_of(5),
                            "{} after {before}",
                            now.len()
                        );
                        before = now.len();
                        if last {
                            return;
                        }
                    }
                });
            }
            for i in 0..200 {
                list.txn(|tx, list| (0..5).try_for_each(|j| push(tx, list, i * 5 + j))).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        assert_eq!(list.read(values)?, (0..1000).collect::<Vec<_>>());
    }
    Ok(())
}

#[test]
fn readers_read_together() -> Result<()> {
    let heap = Heap::in_memory()?;
    let list: Root<List> = heap.root("list")?;
    list.txn(|tx, list| push(tx, list, 1))?;
    let both_inside = Barrier::new(2);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                list.read(|view, list| {
                    both_inside.wait();
                    assert_eq!(values(view, list), [1]);
                })
            });
        }
    });
    Ok(())
}

#[test]
fn one_root_is_created_once() -> Result<()> {
    for heap in heaps() {
        let start = Barrier::new(4);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    for i in 0..20 {
                        let count: Root<u64> = heap.root(&format!("root {i}")).unwrap();
                        count
                            .txn(|tx, count| {
                                tx[count] += 1;
                                Ok(())
                            })
                            .unwrap();
                    }
                });
            }
        });
        assert_eq!(heap.roots().len(), 20);
        for i in 0..20 {
            let count: Root<u64> = heap.existing_root(&format!("root {i}"))?;
            assert_eq!(count.read(|view, count| view[count])?, 4);
        }
    }
    Ok(())
}

#[test]
fn a_root_that_is_removed_is_gone_for_all() -> Result<()> {
    for heap in heaps() {
        for _ in 0..20 {
            let list: Root<List> = heap.root("list")?;
            let first = Barrier::new(3);
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        list.txn(|tx, list| push(tx, list, 1)).unwrap();
                        first.wait();
                        let error = loop {
                            if let Err(error) = list.txn(|tx, list| push(tx, list, 1)) {
                                break error;
                            }
                        };
                        assert!(matches!(error, Error::Closed), "{error}");
                        assert!(matches!(list.read(values), Err(Error::Closed)));
                    });
                }
                first.wait();
                heap.remove_root("list").unwrap();
            });
            assert!(heap.roots().is_empty());
        }
    }
    Ok(())
}

#[test]
fn closing_waits_for_the_transactions_that_run() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    for pin in [false, true] {
        let path = dir.path().join(format!("{pin}.pheap"));
        let options = Options::new().arena_size(1 << 20).reserve(1 << 30).pin_undo(pin);
        let mut committed = 0;
        for _ in 0..10 {
            let heap = options.open(&path)?;
            let list: Root<List> = heap.root("list")?;
            assert_eq!(list.read(values)?.len(), committed);
            let first = Barrier::new(3);
            let pushed: usize = thread::scope(|scope| {
                let work = || {
                    first.wait();
                    let mut pushed = 0;
                    while list.txn(|tx, list| push(tx, list, 7)).is_ok() {
                        pushed += 1;
                    }
                    pushed
                };
                let threads = [scope.spawn(work), scope.spawn(work)];
                first.wait();
                heap.close().unwrap();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum()
            });
            committed += pushed;
        }
        let list: Root<List> = options.open(&path)?.root("list")?;
        assert_eq!(list.read(values)?.len(), committed);
    }
    Ok(())
}

#[test]
fn threads_share_a_read() -> Result<()> {
    let heap = Heap::in_memory()?;
    let numbers: Root<Numbers> =
        heap.root_or("numbers", |tx| Ok(Numbers { all: tx.alloc_slice(10_000, |i| i as u64)?, first: 0 }))?;
    let sum = numbers.read(|view, numbers| sum(&view.shared(), numbers))?;
    assert_eq!(sum, (0..10_000).sum());
    Ok(())
}

#[test]
fn threads_share_a_transaction() -> Result<()> {
    for heap in heaps() {
        let numbers: Root<Numbers> =
            heap.root_or("numbers", |tx| Ok(Numbers { all: tx.alloc_slice(10_000, |_| 1)?, first: 0 }))?;
        for give_up in [true, false] {
            let result = numbers.txn(|tx, numbers| {
                let all = tx[numbers].all;
                for round in 0..5 {
                    // All threads see the values that were just written. The next round writes again.
                    let element = all.at(tx, round);
                    tx[element] += 10;
                    tx[numbers].first += 1;
                    let new = tx.alloc(round as u64)?;
                    let shared = tx.shared();
                    assert_eq!(sum(&shared, numbers), 10_000 + 10 * (round as u64 + 1));
                    thread::scope(|scope| {
                        scope.spawn(|| {
                            assert_eq!((shared[new], shared[numbers].first), (round as u64, round as u64 + 1))
                        });
                    });
                }
                if give_up { Err(Error::abort("as planned")) } else { Ok(()) }
            });
            assert_eq!(result.is_err(), give_up);
            let (sum, first) =
                numbers.read(|view, numbers| (sum(&view.shared(), numbers), view[numbers].first))?;
            assert_eq!((sum, first), if give_up { (10_000, 0) } else { (10_050, 5) });
        }
    }
    Ok(())
}

#[derive(Persist)]
#[repr(C)]
struct Numbers<'r> {
    all: P<'r, [u64]>,
    first: u64,
}

/// Returns the sum of all numbers, computed by four threads.
fn sum<'r>(view: &Shared<'_, 'r>, numbers: P<'r, Numbers<'r>>) -> u64 {
    let all = view[numbers].all;
    let quarter = all.len(view) / 4;
    thread::scope(|scope| {
        let parts: Vec<_> = (0..4)
            .map(|part| scope.spawn(move || view[all][part * quarter..][..quarter].iter().sum::<u64>()))
            .collect();
        parts.into_iter().map(|part| part.join().unwrap()).sum()
    })
}

#[test]
fn held_pointers_go_to_other_threads() -> Result<()> {
    for heap in heaps() {
        let list: Root<List> = heap.root("list")?;
        let held: Vec<Held<Node>> = list.txn(|tx, list| {
            (0..8)
                .map(|i| {
                    push(tx, list, i)?;
                    Ok(tx.hold(tx[list].head.expect("just pushed")))
                })
                .collect()
        })?;
        thread::scope(|scope| {
            for held in &held {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let mine = held.clone();
                        list.txn(|tx, list| {
                            let node = tx.get(&mine)?;
                            tx[node].value += 8;
                            tx[list].sum += 8;
                            Ok(())
                        })
                        .unwrap();
                    }
                });
            }
        });
        assert_eq!(list.read(values)?, (0..8).map(|i| i + 800).collect::<Vec<_>>());
    }
    Ok(())
}
