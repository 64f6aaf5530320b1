//! One thread, one transaction.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

use pheap::{Error, Result, Root};
use pheap_testkit::*;

fn is_nested<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Nested))
}

#[test]
fn nested_transactions_and_reads() -> Result<()> {
    for options in both() {
        let heap = options.in_memory()?;
        let (a, b): (Root<u64>, Root<u64>) = (heap.root("a")?, heap.root("b")?);
        a.txn(|tx, p| {
            tx[p] = 1;
            assert!(is_nested(a.txn(|_, _| Ok(()))));
            assert!(is_nested(a.clone().txn(|_, _| Ok(()))));
            assert!(is_nested(b.txn(|_, _| Ok(()))));
            assert!(is_nested(a.read(|_, _| ())));
            assert!(is_nested(b.read(|_, _| ())));
            assert!(is_nested(pheap::txn((&a, &b), |_| Ok(()))));
            assert!(is_nested(heap.root::<u64>("c")));
            assert!(is_nested(heap.remove_root("b")));
            assert!(is_nested(heap.rename_root("b", "d")));
            assert!(is_nested(heap.clone().close()));
            heap.root::<u64>("b")?; // exists
            assert_eq!(heap.roots().len(), 2);
            tx[p] += 1;
            Ok(())
        })?;
        a.read(|view, p| {
            assert_eq!(view[p], 2);
            assert!(is_nested(a.txn(|_, _| Ok(()))));
            assert!(is_nested(b.txn(|_, _| Ok(()))));
            assert!(is_nested(heap.root::<u64>("c")));
            assert!(is_nested(heap.remove_root("a")));
            assert!(is_nested(heap.clone().close()));
            // Reads may nest.
            assert_eq!(a.read(|view, p| view[p]).unwrap(), 2);
            assert_eq!(b.read(|view, p| view[p]).unwrap(), 0);
        })?;
        pheap::txn((&a, &b), |((ta, pa), (tb, pb))| {
            assert!(is_nested(a.txn(|_, _| Ok(()))));
            assert!(is_nested(b.read(|_, _| ())));
            (ta[pa], tb[pb]) = (5, 6);
            Ok(())
        })?;
        assert_eq!((a.read(|view, p| view[p])?, b.read(|view, p| view[p])?), (5, 6));
        heap.root::<u64>("c")?;
        heap.close()?;
    }
    Ok(())
}

/// A read within a read, against a transaction over both roots: no thread waits while it holds the root that
/// the other thread wants.
#[test]
fn nested_reads_and_transactions_over_several_roots() -> Result<()> {
    let heap = small().in_memory()?;
    let (a, b): (Root<u64>, Root<u64>) = (heap.root("a")?, heap.root("b")?);
    for (outer, inner) in [(&a, &b), (&b, &a)] {
        let (inside, is_inside) = std::sync::mpsc::channel();
        let (done, is_done) = std::sync::mpsc::channel();
        let (x, y, outer, inner) = (a.clone(), b.clone(), outer.clone(), inner.clone());
        std::thread::spawn(move || {
            is_inside.recv().unwrap();
            pheap::txn((&x, &y), |_| Ok(())).unwrap();
        });
        std::thread::spawn(move || {
            outer
                .read(|_, _| {
                    inside.send(()).unwrap();
                    // Long enough for the other one to wait, usually. If it is not, this tests less.
                    std::thread::sleep(std::time::Duration::from_millis(50));
                    let _ = inner.read(|_, _| ());
                })
                .unwrap();
            done.send(()).unwrap();
        });
        is_done.recv_timeout(std::time::Duration::from_secs(20)).expect("a deadlock");
    }
    Ok(())
}

#[test]
fn heaps_do_not_nest_in_themselves_only() -> Result<()> {
    let (one, two) = (small().in_memory()?, small().in_memory()?);
    let (a, b): (Root<u64>, Root<u64>) = (one.root("a")?, two.root("b")?);
    pheap::with_several_heaps(|| {
        a.txn(|tx, p| {
            tx[p] = 3;
            b.txn(|tx, q| {
                tx[q] = 4;
                assert!(is_nested(a.read(|_, _| ())));
                Ok(())
            })?;
            two.root::<u64>("new")?;
            assert_eq!(b.read(|view, q| view[q])?, 4);
            Err::<(), _>(Error::abort("only this one"))
        })
    })
    .unwrap_err();
    assert_eq!((a.read(|view, p| view[p])?, b.read(|view, p| view[p])?), (0, 4));
    assert!(matches!(pheap::txn((&a, &b), |_| Ok(())), Err(Error::InvalidOption(_))));
    assert!(matches!(pheap::txn(&[] as &[Root<u64>], |_| Ok(())), Err(Error::InvalidOption(_))));
    Ok(())
}

#[test]
fn a_panic_leaves_no_trace_in_the_thread() -> Result<()> {
    let heap = small().in_memory()?;
    let a: Root<u64> = heap.root("a")?;
    for _ in 0..40 {
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            a.read(|_, _| a.read(|_, _| std::panic::resume_unwind(Box::new(()))))
        }));
    }
    a.txn(|tx, p| Ok(tx[p] = 1))?;
    heap.close()
}

#[test]
fn a_root_given_twice() -> Result<()> {
    let heap = small().in_memory()?;
    let a: Root<u64> = heap.root("a")?;
    let error = pheap::txn((&a, &a.clone()), |_| Ok(())).unwrap_err();
    assert!(matches!(&error, Error::DuplicateRoot { root } if root == "a"), "{error}");
    let list = vec![a.clone(), a.clone()];
    assert!(matches!(pheap::txn(&list, |_| Ok(())), Err(Error::DuplicateRoot { .. })));
    a.txn(|_, _| Ok(()))
}

/// One heap cannot roll back what the other has committed, so that is asked for by name.
#[test]
fn transactions_on_two_heaps_nest_only_if_that_is_allowed() -> Result<()> {
    let (one, other) = (small().in_memory()?, small().in_memory()?);
    let (a, b): (Root<u64>, Root<u64>) = (one.root("a")?, other.root("b")?);
    let is_refused = |result: Result<()>| assert!(matches!(result, Err(Error::SeveralHeaps)), "{result:?}");
    a.txn(|tx, p| {
        is_refused(b.txn(|_, _| Ok(())));
        is_refused(pheap::txn((&b,), |_| Ok(())));
        is_refused(other.root::<u64>("new").map(drop));
        is_refused(other.check().map(drop));
        is_refused(other.close());
        is_refused(other.wait_ready());
        is_refused(b.collect());
        other.root::<u64>("b")?; // exists
        // What only reads has nothing to take back.
        tx[p] = b.read(|view, p| view[p] + 1)?;
        Ok(())
    })?;
    b.read(|_, _| {
        is_refused(one.check().map(drop));
        is_refused(one.collect());
        a.txn(|tx, p| Ok(tx[p] += 1))
    })??;
    let failed = pheap::with_several_heaps(|| {
        a.txn(|tx, p| {
            tx[p] = 100;
            b.txn(|tx, p| Ok(tx[p] = 7))?;
            Err::<(), _>(Error::abort("after the inner one has committed"))
        })
    });
    assert!(matches!(failed, Err(Error::Aborted(_))));
    assert_eq!((a.read(|view, p| view[p])?, b.read(|view, p| view[p])?), (2, 7));
    // Not any more, also behind a panic.
    let panicked = std::panic::catch_unwind(|| pheap::with_several_heaps(|| panic!("in the middle")));
    assert!(panicked.is_err());
    a.txn(|_, _| {
        is_refused(b.txn(|_, _| Ok(())));
        Ok(())
    })
}

/// A handle is good after a panic: what the transaction did is undone.
#[test]
fn handles_are_unwind_safe() -> Result<()> {
    let heap = small().in_memory()?;
    let root: Root<u64> = heap.root("a")?;
    root.txn(|tx, p| Ok(tx[p] = 1))?;
    let panicked = std::panic::catch_unwind(|| {
        let _ = heap.stats();
        root.txn(|tx, p| {
            tx[p] = 2;
            panic!("in a transaction")
        })
    });
    let panicked: std::thread::Result<Result<()>> = panicked;
    assert!(panicked.is_err());
    assert_eq!(root.read(|view, p| view[p])?, 1);
    Ok(())
}

#[test]
fn a_heap_says_where_it_is() -> Result<()> {
    let dir = tempdir();
    let path = dir.path().join("heap");
    let base = small().open(&path)?.base();
    assert_eq!(base_of(&std::fs::read(&path).unwrap()), base);
    let heap = small().open(&path)?;
    let root: Root<u64> = heap.root("a")?;
    assert_eq!(heap.base(), base);
    // As it is shown: `P::<u64>(0x…)`.
    let shown = root.read(|_, p| format!("{p:?}"))?;
    let address = shown.split(['(', ')']).nth(1).and_then(|hex| u64::from_str_radix(&hex[2..], 16).ok());
    assert!(address.is_some_and(|address| (base..base + (1 << 30)).contains(&address)), "{shown} {base:#x}");
    Ok(())
}
