//! Handles of the root that were there before: none of them ever sees the new object.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

fn is_migrated<T>(result: Result<T>) -> bool {
    match result {
        Err(Error::Migrated { root }) => root == "list",
        _ => false,
    }
}

#[test]
fn old_handles_fail_and_say_why() -> Result<()> {
    for options in both() {
        let heap = options.in_memory()?;
        let (list, other) = (make(&heap, 10)?, heap.root::<u64>("other")?);
        let others = [list.clone()];
        assert!(to_second(&heap)?);
        let inside = |_: &mut pheap::Txn<'_>| -> Result<()> { panic!("it must not see the new object") };
        assert!(is_migrated(list.txn(|tx, _| inside(tx))));
        assert!(is_migrated(list.clone().txn(|tx, _| inside(tx))));
        assert!(is_migrated(list.read(|_, _| panic!("it must not see the new object"))));
        assert!(is_migrated(pheap::txn((&list,), |((tx, _),)| inside(tx))));
        assert!(is_migrated(pheap::txn((&other, &list), |(_, (tx, _))| inside(tx))));
        assert!(is_migrated(pheap::txn((&list, &other), |((tx, _), _)| inside(tx))));
        assert!(is_migrated::<()>(pheap::txn(&others[..], |_| panic!("it must not see the new object"))));
        let text = list.read(|_, _| ()).unwrap_err().to_string();
        assert!(text.contains("`Heap::migrate`") && text.contains("`Heap::root`"), "{text}");
        // None of that has locked anything for good, or left this thread inside of it.
        other.txn(|tx, p| Ok(tx[p] += 1))?;
        let new: Second = heap.existing_root("list")?;
        new.txn(|tx, list| push2(tx, list, 10))?;
        pheap::txn((&new, &other), |((ta, a), (tb, b))| {
            tb[b] += 1;
            push2(ta, a, 11)
        })?;
        holds_and(&heap, 12);
        assert_eq!((list.name(), other.read(|view, p| view[p])?), ("list".to_owned(), 2));
        list.collect()?;
        // As long as the root has the type of the handle, the handle is good.
        assert!(to_first(&heap)?);
        assert_eq!(contents_of_first(&list), counted(12));
        assert!(is_migrated(new.read(|_, _| ())));
        heap.remove_root("list")?;
        assert!(matches!(new.read(|_, _| ()), Err(Error::Closed)));
        assert!(matches!(list.read(|_, _| ()), Err(Error::Closed)));
    }
    Ok(())
}

fn holds_and(heap: &Heap, n: u64) {
    assert_eq!(contents(heap), counted(n));
}

/// Threads use their handles until these become invalid. No change that was acknowledged is lost.
#[test]
fn threads_with_old_handles() -> Result<()> {
    for round in 0..20 {
        let heap = small().in_memory()?;
        let list = make(&heap, 0)?;
        let other: Root<u64> = heap.root("other")?;
        let (pushed, begun) = (AtomicU64::new(0), Barrier::new(5));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (list, other, pushed, begun) = (list.clone(), &other, &pushed, &begun);
                scope.spawn(move || {
                    begun.wait();
                    loop {
                        let result = match thread {
                            0 | 1 => list.txn(|tx, list| push(tx, list, 1)),
                            2 => pheap::txn((&list, other), |((ta, a), (tb, b))| {
                                tb[b] += 1;
                                push(ta, a, 1)
                            }),
                            _ => list.read(|view, list| {
                                assert_eq!(view[list].len, values(view, view[list].head).len() as u64);
                            }),
                        };
                        match result {
                            Ok(()) if thread < 3 => drop(pushed.fetch_add(1, Ordering::Relaxed)),
                            Ok(()) => {}
                            result => break assert!(is_migrated(result)),
                        }
                    }
                });
            }
            begun.wait();
            while pushed.load(Ordering::Relaxed) < round * 10 {
                std::thread::yield_now();
            }
            assert!(to_second(&heap).unwrap());
        });
        let len = contents(&heap).len() as u64;
        assert_eq!(len, pushed.into_inner());
        assert!(heap.check()?.is_clean());
    }
    Ok(())
}

/// Transactions that wait for the root during a migration fail if the migration succeeds, and go on if it
/// fails. A read does not wait: it sees the content from before.
#[test]
fn handles_that_wait_meanwhile() -> Result<()> {
    for succeeds in [true, false] {
        let heap = small().in_memory()?;
        let (list, other) = (make(&heap, 10)?, heap.root::<u64>("other")?);
        let ready = Barrier::new(4);
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            let migrated = heap.migrate::<v1::List, v2::List>("list", |tx, old| {
                for thread in 0..3 {
                    let (list, other, ready) = (list.clone(), &other, &ready);
                    threads.push(scope.spawn(move || {
                        ready.wait();
                        match thread {
                            0 => list.txn(|tx, list| Ok(tx[list].len)),
                            1 => list.read(|view, list| view[list].len),
                            _ => pheap::txn((other, &list), |(_, (tx, list))| Ok(tx[list].len)),
                        }
                    }));
                }
                ready.wait();
                assert!(matches!(threads.remove(1).join().unwrap(), Ok(10)));
                (0..1000).for_each(|_| std::thread::yield_now()); // most of them wait by now
                assert!(threads.iter().all(|thread| !thread.is_finished()));
                if succeeds { second(tx, old) } else { Err(Error::abort("as it should")) }
            });
            assert_eq!(migrated.is_ok(), succeeds);
            for thread in threads {
                let result = thread.join().unwrap();
                assert!(if succeeds { is_migrated(result) } else { matches!(result, Ok(10)) });
            }
        });
    }
    Ok(())
}

/// Several threads migrate one root: one of them does it.
#[test]
fn one_of_many_does_it() -> Result<()> {
    for _ in 0..20 {
        let heap = small().in_memory()?;
        make(&heap, 10)?;
        let done = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let first = to_second(&heap).unwrap();
                    done.fetch_add(first.into(), Ordering::Relaxed);
                    let list: Second = heap.existing_root("list").unwrap();
                    list.txn(|tx, list| push2(tx, list, 10)).unwrap();
                });
            }
        });
        assert_eq!(done.into_inner(), 1);
        assert_eq!(contents(&heap).len(), 14);
    }
    Ok(())
}

/// While one root goes to and fro, transactions on both its types and on others run.
#[test]
fn to_and_fro_beside_transactions() -> Result<()> {
    let heap = small().in_memory()?;
    make(&heap, 0)?;
    let pushed = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for second in [false, true, false, true] {
            let (heap, pushed) = (&heap, &pushed);
            scope.spawn(move || {
                while pushed.load(Ordering::Relaxed) < 400 {
                    let result = if second {
                        heap.existing_root::<v2::List>("list")
                            .and_then(|list| list.txn(|tx, list| push2(tx, list, 3)))
                    } else {
                        heap.existing_root::<v1::List>("list")
                            .and_then(|list| list.txn(|tx, list| push(tx, list, 3)))
                    };
                    match result {
                        Ok(()) => drop(pushed.fetch_add(1, Ordering::Relaxed)),
                        Err(Error::Migrated { .. } | Error::TypeMismatch { .. }) => std::thread::yield_now(),
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        while pushed.load(Ordering::Relaxed) < 400 {
            assert!(to_second(&heap).unwrap());
            assert!(to_first(&heap).unwrap());
        }
    });
    assert_eq!(contents(&heap).len() as u64, pushed.into_inner());
    assert!(heap.check()?.is_clean());
    Ok(())
}
