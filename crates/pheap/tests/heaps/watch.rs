//! A watcher of a root is called after each commit that has changed something.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pheap::{Durability, Error, Heap, Persist, Result, Root, Watch};
use pheap_testkit::*;

/// Counts the calls of a watcher, and stores the value that the root has at each call.
fn counted(root: &Root<u64>) -> (Watch, Arc<AtomicU64>, Arc<AtomicU64>) {
    let (count, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (counter, shown, reader) = (count.clone(), seen.clone(), root.clone());
    let watch = root.watch(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        shown.store(reader.read(|view, n| view[n]).unwrap(), Ordering::Relaxed);
    });
    (watch, count, seen)
}

#[test]
fn commits_are_told_when_they_are_over() -> Result<()> {
    for durability in [Durability::Process, Durability::Pmem, Durability::Wal] {
        for pin in [false, true] {
            let dir = tempdir();
            let heap = small().durability(durability).pin_undo(pin).open(dir.path().join("x"))?;
            let [a, b]: [Root<u64>; 2] = ["a", "b"].map(|name| heap.root(name).unwrap());
            let (watch, count, seen) = counted(&a);
            let told = || (count.load(Ordering::Relaxed), seen.load(Ordering::Relaxed));
            a.txn(|tx, a| Ok(tx[a] = 5))?;
            assert_eq!(told(), (1, 5), "{durability:?}");
            b.txn(|tx, b| Ok(tx[b] = 6))?;
            assert!(
                a.txn(|tx, a| Err::<(), _>({
                    tx[a] = 7;
                    Error::abort("no")
                }))
                .is_err()
            );
            a.read(|view, a| view[a])?;
            assert_eq!(told(), (1, 5));
            pheap::txn((&b, &a), |((tb, b), (ta, a))| Ok((tb[b], ta[a]) = (8, 8)))?;
            assert_eq!(told(), (2, 8));
            let ((), commit) = a.txn_deferred(|tx, a| Ok(tx[a] = 9))?;
            assert_eq!(told(), (3, 9));
            commit.wait()?;
            drop(watch);
            a.txn(|tx, a| Ok(tx[a] = 10))?;
            assert_eq!(told(), (3, 9));
        }
    }
    Ok(())
}

#[test]
fn who_is_told_may_change_the_root_and_stop() -> Result<()> {
    let heap = Heap::in_memory()?;
    let root: Root<u64> = heap.root("n")?;
    let (other, _kept) = (root.clone(), counted(&root));
    let first = root.watch(move || {
        if other.read(|view, n| view[n]).unwrap() < 5 {
            other.txn(|tx, n| Ok(tx[n] += 1)).unwrap();
        }
    });
    root.txn(|tx, n| Ok(tx[n] = 1))?;
    assert_eq!(root.read(|view, n| view[n])?, 5);
    drop(first);
    let watch = root.watch(|| resume_unwind(Box::new("expected")));
    let panic = catch_unwind(AssertUnwindSafe(|| root.txn(|tx, n| Ok(tx[n] = 7))));
    assert_eq!(*panic.unwrap_err().downcast::<&str>().unwrap(), "expected");
    drop(watch);
    assert_eq!(root.read(|view, n| view[n])?, 7);
    root.txn(|tx, n| Ok(tx[n] = 8))
}

/// One that panics comes first, and another one last.
#[test]
fn everybody_is_told() -> Result<()> {
    let heap = Heap::in_memory()?;
    let [a, b]: [Root<u64>; 2] = ["a", "b"].map(|name| heap.root(name).unwrap());
    let _first = a.watch(|| resume_unwind(Box::new("first")));
    let (_watch_a, of_a, _) = counted(&a);
    let (_watch_b, of_b, _) = counted(&b);
    let _last = b.watch(|| resume_unwind(Box::new(()))); // it is leaked, so it has no bytes
    let calls: [&dyn Fn() -> Result<()>; 2] = [&|| a.txn(|tx, a| Ok(tx[a] += 1)), &|| {
        pheap::txn((&a, &b), |((ta, a), (tb, b))| Ok((ta[a], tb[b]) = (5, 5)))
    }];
    for (i, call) in (0..).zip(calls) {
        let panic = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
        assert_eq!(*panic.downcast::<&str>().unwrap(), "first");
        assert_eq!((of_a.load(Ordering::Relaxed), of_b.load(Ordering::Relaxed)), (1 + i, i));
    }
    Ok(())
}

#[derive(Persist, Default)]
#[repr(C)]
struct Pair {
    first: u64,
    second: u64,
}

mod later {
    use pheap::Persist;

    #[derive(Persist, Default)]
    #[repr(C)]
    pub(super) struct Pair {
        pub(super) first: u64,
        pub(super) second: u64,
        #[persist(since = 2, default = 7)]
        pub(super) third: u64,
    }
}

/// While the type of a root changes, no other thread may create or remove roots. A watcher that did so would
/// wait for ever, so watchers do not hear of these changes.
#[test]
fn changes_of_types_are_not_told() -> Result<()> {
    let heap = Heap::in_memory()?;
    let root: Root<u64> = heap.root("n")?;
    let (_watch, count, _) = counted(&root);
    assert!(heap.migrate::<u64, Pair>("n", |tx, n| Ok(Pair { first: tx[n], second: 1 }))?);
    assert!(heap.evolve::<later::Pair>("n").run()?);
    let root: Root<later::Pair> = heap.root("n")?;
    assert_eq!(root.read(|view, pair| (view[pair].second, view[pair].third))?, (1, 7));
    assert_eq!(count.load(Ordering::Relaxed), 0);
    Ok(())
}
