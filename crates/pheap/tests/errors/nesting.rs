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

/// A read in a read, against a transaction over both roots: nobody waits while he holds what the other wants.
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
