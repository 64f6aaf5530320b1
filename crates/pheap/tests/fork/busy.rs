//! Children that are made at any moment, while threads do all kinds of things.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pheap::{Durability, Error, Heap, Held, Options, P, Persist, Result, Root};

use crate::{alone, is_forked};
use pheap_testkit::forks::*;
use pheap_testkit::*;

#[derive(Persist)]
#[repr(C)]
struct Node<'r> {
    value: u64,
    next: Option<P<'r, Node<'r>>>,
}

#[derive(Persist, Default)]
#[repr(C)]
struct List<'r> {
    head: Option<P<'r, Node<'r>>>,
    writes: u64,
}

type Lists = [Root<List<'static>>; 3];

fn push(root: &Root<List<'static>>, nodes: u64) -> Result<Held<Node<'static>>> {
    root.txn(|tx, list| {
        let mut head = None;
        for value in 0..nodes {
            head = Some(tx.alloc(Node { value, next: head })?);
        }
        (tx[list].head, tx[list].writes) = (head, tx[list].writes + 1);
        Ok(tx.hold(head.unwrap()))
    })
}

/// One thing that a thread of the parent does. Returns how many changes of lists were committed.
fn work(rng: &mut Rng, heap: &Heap, lists: &Lists, path: &std::path::Path) -> u64 {
    let (root, other) = (&lists[rng.below(3)], &lists[rng.below(3)]);
    match rng.below(9) {
        0..3 => {
            let held = push(root, 1 + rng.below(50) as u64).unwrap();
            drop(held.clone());
            1
        }
        3 => {
            push(root, 3000).unwrap();
            1
        }
        4 => {
            let sum = root.read(|view, list| {
                let inner = other.read(|view, list| view[list].writes).unwrap();
                view[list].head.map_or(0, |head| view[head].value) + inner
            });
            assert!(sum.unwrap() < u64::MAX);
            0
        }
        5 => {
            let both = pheap::txn((&lists[0], &lists[2]), |((ta, a), (tb, b))| {
                ta[a].writes += 1;
                Ok(tb[b].writes += 1)
            });
            both.unwrap();
            2
        }
        6 => {
            let name = format!("new {}", rng.below(4));
            let _ = heap.root::<u64>(&name);
            let _ = heap.rename_root(&name, &format!("{name} again"));
            let _ = heap.remove_root(&format!("{name} again"));
            assert!(heap.stats().file_bytes > 0 && heap.roots().len() >= 3);
            0
        }
        7 => {
            root.collect().unwrap();
            let mine = small().open(path.with_extension(format!("mine {}", rng.below(1 << 20)))).unwrap();
            mine.close().unwrap();
            0
        }
        // A child that is made within a transaction, and fails there.
        _ => {
            let (mut is_child, kind) = (false, rng.below(3));
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                root.txn(|tx, list| {
                    tx[list].writes += 1;
                    let child = split();
                    is_child = child == 0;
                    match kind {
                        0 if is_child => Err(Error::abort("in the child")),
                        // Not by `panic!`, which prints a message, and may have to wait for a lock.
                        1 if is_child => std::panic::resume_unwind(Box::new("in the child")),
                        _ if is_child => Ok(()),
                        _ => {
                            ended(child).expect("the child");
                            Ok(())
                        }
                    }
                })
            }));
            if is_child {
                let well = match kind {
                    0 => matches!(result, Ok(Err(Error::Aborted(_)))),
                    1 => result.is_err(),
                    _ => matches!(result, Ok(Err(Error::Forked))),
                };
                end(well);
            }
            result.unwrap().unwrap();
            1
        }
    }
}

/// Uses the handles of a child at random. Returns whether each call behaved as it must in a child.
fn child(rng: &mut Rng, handles: &mut Option<(Heap, Lists, Held<Node<'static>>)>) -> bool {
    for _ in 0..1 + rng.below(6) {
        let Some((heap, lists, held)) = handles else { return true };
        let root = &lists[rng.below(3)];
        let well = match rng.below(10) {
            0 => is_forked(root.txn(|_, _| Ok(()))),
            1 => is_forked(root.read(|_, _| ())),
            2 => is_forked(pheap::txn((&lists[0], &lists[1]), |_| Ok(()))),
            3 => is_forked(heap.root::<u64>("new 1")) && is_forked(heap.remove_root("new 1")),
            4 => {
                let _ = (heap.stats(), heap.roots(), heap.info(), heap.types(), root.name());
                true
            }
            5 => is_forked(heap.collect()) && is_forked(heap.check()) && is_forked(heap.sync()),
            6 => {
                drop((held.clone(), root.clone()));
                true
            }
            7 => is_forked(heap.clone().close()),
            8 => {
                let mine = small().in_memory().unwrap();
                let root: Root<u64> = mine.root("n").unwrap();
                root.txn(|tx, n| Ok(tx[n] = 8)).unwrap();
                root.read(|view, n| view[n]).unwrap() == 8 && mine.close().is_ok()
            }
            _ => {
                drop(handles.take());
                true
            }
        };
        if !well {
            return false;
        }
    }
    true
}

fn at_any_moment(options: &Options, path: &std::path::Path) -> Result<()> {
    let heap = options.open(path)?;
    let lists: Lists = [heap.root("a")?, heap.root("b")?, heap.root("c")?];
    let held = push(&lists[0], 1)?;
    let (done, writes) = (AtomicBool::new(false), AtomicU64::new(1));
    let mut handles = Some((heap.clone(), lists.clone(), held));
    std::thread::scope(|scope| {
        for seed in 1..4 {
            let (heap, lists, done, writes) = (&heap, &lists, &done, &writes);
            scope.spawn(move || {
                let mut rng = Rng::from_seed(seed * 0x9e37_79b9);
                while !done.load(Ordering::Relaxed) {
                    writes.fetch_add(work(&mut rng, heap, lists, path), Ordering::Relaxed);
                }
            });
        }
        let mut rng = Rng::from_seed(0x1234_5678);
        for round in 0..150 {
            for _ in 0..rng.below(2000) {
                std::hint::spin_loop();
            }
            let mut of_child = Rng::from_seed(rng.next_u64());
            let well = in_child(|| child(&mut of_child, &mut handles));
            if well.is_err() {
                done.store(true, Ordering::Relaxed);
            }
            assert_eq!(well, Ok(()), "round {round}");
        }
        done.store(true, Ordering::Relaxed);
    });
    let seen: u64 = lists.iter().map(|root| root.read(|view, list| view[list].writes).unwrap()).sum();
    assert_eq!(seen, writes.load(Ordering::Relaxed));
    assert!(heap.check()?.is_clean());
    drop((lists, handles));
    heap.close()?;
    assert!(options.open(path)?.check()?.is_clean());
    Ok(())
}

#[test]
fn children_at_any_moment() -> Result<()> {
    alone("busy::children_at_any_moment", |path| at_any_moment(&small(), path))
}

#[test]
fn children_at_any_moment_of_a_heap_with_a_log() -> Result<()> {
    alone("busy::children_at_any_moment_of_a_heap_with_a_log", |path| {
        let options = small().durability(Durability::Wal).sync_policy(pheap::SyncPolicy::OnDemand);
        at_any_moment(&options.log_limit(MIB), path)
    })
}
