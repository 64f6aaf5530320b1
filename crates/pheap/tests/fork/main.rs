//! A forked process has the handles of its parent, and may not use them.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

mod busy;
mod files;
mod within;

use pheap::{Error, Heap, P, Persist, Result, Root};
use pheap_testkit::forks::*;
use pheap_testkit::*;

#[derive(Persist, Default)]
#[repr(C)]
struct Data<'r> {
    items: Option<P<'r, [u64]>>,
    count: u64,
}

/// Runs `f` in a forked child, and returns its result.
fn forked(f: impl FnOnce() -> bool) -> bool {
    in_child(f).inspect_err(|error| eprintln!("{error}")).is_ok()
}

/// Runs `body` in a process in which no other test runs, with a path for its file.
fn alone(test: &str, body: fn(&std::path::Path) -> Result<()>) -> Result<()> {
    if let Some((_, path)) = role() {
        return body(&path);
    }
    let dir = tempdir();
    run_well(test, "alone", &dir.path().join("x"));
    Ok(())
}

fn made(path: &std::path::Path) -> Result<(Heap, Root<Data<'static>>)> {
    let heap = small().open(path)?;
    let root: Root<Data> =
        heap.root_or("data", |tx| Ok(Data { items: Some(tx.alloc_slice(1000, |i| i as u64)?), count: 0 }))?;
    Ok((heap, root))
}

fn is_forked<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Forked))
}

#[test]
fn a_child_is_refused_and_the_parent_goes_on() -> Result<()> {
    alone("a_child_is_refused_and_the_parent_goes_on", |path| {
        let (heap, root) = made(path)?;
        for round in 1..=3 {
            root.txn(|tx, d| Ok(tx[d].count += 1))?;
            assert!(forked(|| {
                is_forked(root.txn(|_, _| Ok(())))
                    && is_forked(root.read(|_, _| ()))
                    && is_forked(pheap::txn((&root,), |_| Ok(())))
                    && is_forked(heap.root::<u64>("new"))
                    && is_forked(heap.existing_root::<Data>("data"))
                    && is_forked(heap.rename_root("data", "x"))
                    && is_forked(heap.remove_root("data"))
                    && is_forked(heap.clone().close())
            }));
            let seen = root.read(|view, d| (view[d].count, view[view[d].items.unwrap()].len()))?;
            assert_eq!(seen, (round, 1000));
        }
        heap.close()
    })
}

#[test]
fn a_child_that_drops_its_handles_takes_nothing_away() -> Result<()> {
    alone("a_child_that_drops_its_handles_takes_nothing_away", |path| {
        let (heap, root) = made(path)?;
        let mut handles = Some((heap.clone(), root.clone()));
        drop((heap, root));
        assert!(forked(|| {
            drop(handles.take());
            true
        }));
        let (heap, root) = handles.unwrap();
        root.txn(|tx, d| {
            let items = tx[d].items.unwrap();
            tx[items].fill(3);
            Ok(())
        })?;
        // It is still locked.
        run_well("still_locked", "other", path);
        drop(root);
        heap.close()?;
        let (_heap, root) = made(path)?;
        assert_eq!(root.read(|view, d| view[view[d].items.unwrap()].iter().sum::<u64>())?, 3000);
        Ok(())
    })
}

/// The other process of the test above.
#[test]
fn still_locked() {
    if let Some((_, path)) = role() {
        assert!(matches!(small().open(path), Err(Error::Locked { .. })));
    }
}

#[test]
fn a_child_within_a_transaction_cannot_commit() -> Result<()> {
    alone("a_child_within_a_transaction_cannot_commit", |path| {
        for pin in [false, true] {
            let heap = small().pin_undo(pin).open(path)?;
            let root: Root<Data> = heap.root_or("data", |tx| {
                Ok(Data { items: Some(tx.alloc_slice(1000, |i| i as u64)?), count: 0 })
            })?;
            root.txn(|tx, d| {
                tx[d].count = 5;
                // It goes back into the transaction, and dies there: the memory of the heap is not its own.
                assert!(!forked(|| {
                    tx[d].count = 6;
                    let items = tx[d].items.unwrap();
                    tx[items].fill(9);
                    true
                }));
                Ok(())
            })?;
            let seen = root.read(|view, d| (view[d].count, view[view[d].items.unwrap()][999]))?;
            assert_eq!(seen, (5, 999));
            heap.close()?;
        }
        Ok(())
    })
}

#[test]
fn a_child_opens_heaps_of_its_own() -> Result<()> {
    alone("a_child_opens_heaps_of_its_own", |path| {
        let (heap, _root) = made(path)?;
        let other = path.with_extension("other");
        // Another one, and a grandchild is refused again.
        assert!(forked(|| {
            let mine = small().open(&other).unwrap();
            let root: Root<u64> = mine.root("n").unwrap();
            root.txn(|tx, n| Ok(tx[n] = 8)).unwrap();
            let refused = forked(|| is_forked(root.read(|_, _| ())));
            mine.close().unwrap();
            refused
        }));
        // The parent's is in use ...
        assert!(forked(|| matches!(small().open(path), Err(Error::Locked { .. }))));
        heap.close()?;
        let mine = small().open(&other)?;
        assert_eq!(mine.existing_root::<u64>("n")?.read(|view, n| view[n])?, 8);
        Ok(())
    })
}

#[test]
fn a_child_opens_the_heap_that_its_parent_has_closed() -> Result<()> {
    alone("a_child_opens_the_heap_that_its_parent_has_closed", |path| {
        let (heap, root) = made(path)?;
        drop(root);
        let mut ends = [0; 2];
        // SAFETY: a pipe; its ends are closed with the processes.
        unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        }
        let child = fork(|| {
            let mut byte = 0u8;
            // SAFETY: waits for the byte that the parent writes once it has closed the heap.
            unsafe { libc::read(ends[0], (&raw mut byte).cast(), 1) };
            let opened = small().open(path).and_then(|heap| heap.existing_root::<Data>("data"));
            opened.inspect_err(|error| eprintln!("in the child: {error}")).is_ok()
        });
        heap.close()?;
        // SAFETY: writes a byte that lives, which wakes the child.
        unsafe { libc::write(ends[1], [1u8].as_ptr().cast(), 1) };
        assert_eq!(ended(child), Ok(()));
        Ok(())
    })
}
