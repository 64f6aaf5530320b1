//! A panic within pheap, at any [place](crate::faults::may_panic) of the end of a transaction, leaves nothing
//! half done, neither for this process nor for the next opening.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;

use pheap_testkit::threads::{sleeps, this_thread};

use crate::faults::panics;
use crate::{Durability, Error, Heap, Options, P, Root};

type Numbers<'r> = Option<P<'r, [u64]>>;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    /// A transaction on one root, which commits by a redo record.
    Short,
    /// A transaction on one root, which is changed in place (a long transaction).
    Long,
    /// A transaction on two roots.
    Both,
    /// A transaction on two roots, which makes a new object in the first root only.
    OneNew,
}

impl Kind {
    fn is_of_both(self) -> bool {
        matches!(self, Kind::Both | Kind::OneNew)
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    Commit,
    GiveUp,
}

/// Returns the number that all elements of `a` have. Checks that no change is half done: all elements of `b`
/// have the same number, or have 1 if the transaction is of `a` only.
fn value(a: &Root<Numbers<'_>>, b: &Root<Numbers<'_>>, kind: Kind) -> Result<u64, Error> {
    let read = |root: &Root<Numbers<'_>>| {
        root.read(|view, p| {
            let numbers = &view[view[p].unwrap()];
            assert!(numbers.iter().all(|&number| number == numbers[0]), "{numbers:?}");
            numbers[0]
        })
    };
    let (a, b) = (read(a)?, read(b)?);
    assert_eq!(b, if kind.is_of_both() { a } else { 1 });
    Ok(a)
}

fn roots(heap: &Heap) -> (Root<Numbers<'static>>, Root<Numbers<'static>>) {
    let root = |name| heap.root_or(name, |tx| Ok(Some(tx.alloc_slice(40, |_| 1)?))).unwrap();
    (root("a"), root("b"))
}

/// Runs a transaction that panics at place number `places` of its end, counted from 0. Returns whether its
/// end had no such place, so that the transaction has not panicked.
fn run(a: &Root<Numbers<'static>>, b: &Root<Numbers<'static>>, kind: Kind, end: End, places: u32) -> bool {
    run_beside(a, b, kind, end, places, &|| {})
}

/// [`run`], but calls `before` before the end of the transaction.
fn run_beside(
    a: &Root<Numbers<'static>>,
    b: &Root<Numbers<'static>>,
    kind: Kind,
    end: End,
    places: u32,
    before: &dyn Fn(),
) -> bool {
    macro_rules! set {
        ($tx:ident, $p:ident, $value:expr) => {{
            let old = $tx[$p].unwrap();
            $tx.slice_mut(old, ..).fill(7);
            let new = $tx.alloc_slice(40, |_| $value)?;
            $tx[$p] = Some(new);
        }};
    }
    let end = move || {
        before();
        panics::after(places);
        match end {
            End::Commit => Ok(()),
            End::GiveUp => Err(Error::abort("given up")),
        }
    };
    let result = catch_unwind(AssertUnwindSafe(|| match kind {
        Kind::Both => crate::txn((a, b), |((ta, pa), (tb, pb))| {
            set!(ta, pa, 2);
            set!(tb, pb, 2);
            end()
        }),
        Kind::OneNew => crate::txn((a, b), |((ta, pa), (tb, pb))| {
            set!(ta, pa, 2);
            let numbers = tb[pb].unwrap();
            tb.slice_mut(numbers, ..).fill(2);
            end()
        }),
        _ => a.txn(|tx, p| {
            set!(tx, p, 2);
            end()
        }),
    }));
    let never = panics::never_mind();
    assert!(never == result.is_ok());
    never
}

/// Panics at each place of the end of a transaction, one place in each round. Returns in how many rounds the
/// transaction was rolled back, and in how many the heap has failed.
fn everywhere(durability: Durability, kind: Kind, end: End) -> (u32, u32) {
    let (mut undone, mut failed) = (0, 0);
    for places in 0.. {
        let what = format!("{durability:?} {kind:?} {end:?} {places}");
        let dir = tempfile::tempdir().unwrap();
        let open = || {
            let options = Options::new().durability(durability).pin_undo(kind == Kind::Long);
            options.open(dir.path().join("heap")).unwrap()
        };
        let heap = open();
        let (a, b) = roots(&heap);
        let never = run(&a, &b, kind, end, places);
        // The list that both contexts shared must be gone: it is an `Rc`, and two threads may drop the last
        // handles.
        for root in [&a, &b] {
            let alone = root.region.lock_alone(heap.inner()).unwrap();
            assert!(alone.context().group.is_none(), "{what}");
            alone.ended();
        }
        let seen = match value(&a, &b, kind) {
            Ok(value) if never => {
                assert_eq!(value, if end == End::Commit { 2 } else { 1 }, "{what}");
                Some(value)
            }
            Ok(seen) => {
                assert_eq!(seen, 1, "{what}");
                undone += 1;
                // The heap still runs transactions after the panic.
                assert!(run(&a, &b, kind, End::Commit, u32::MAX), "{what}");
                assert_eq!(value(&a, &b, kind).unwrap(), 2, "{what}");
                Some(2)
            }
            Err(error) => {
                assert!(!never && matches!(error, Error::Failed { .. }), "{what}: {error}");
                assert!(matches!(b.txn(|_, _| Ok(())), Err(Error::Failed { .. })), "{what}");
                assert!(matches!(heap.root::<u64>("c"), Err(Error::Failed { .. })), "{what}");
                failed += 1;
                None
            }
        };
        drop((a, b));
        let closed = heap.close();
        assert!(
            if seen.is_some() { closed.is_ok() } else { matches!(closed, Err(Error::Failed { .. })) },
            "{what}: {closed:?}"
        );
        let heap = open();
        let (a, b) = roots(&heap);
        let found = value(&a, &b, kind).unwrap();
        assert!(seen.map_or(found == 1 || found == 2 && end == End::Commit, |seen| seen == found), "{what}");
        assert!(heap.check().unwrap().is_clean(), "{what}");
        if never {
            return (undone, failed);
        }
    }
    unreachable!()
}

#[test]
fn a_panic_within_a_commit_leaves_nothing_half_done() {
    for durability in [Durability::Pmem, Durability::Process, Durability::Wal] {
        for kind in [Kind::Short, Kind::Long, Kind::Both, Kind::OneNew] {
            let (undone, failed) = everywhere(durability, kind, End::Commit);
            assert!(undone > 0 && failed > 0, "{durability:?} {kind:?}: {undone} {failed}");
        }
    }
}

#[test]
fn a_panic_within_a_rollback_leaves_nothing_half_done() {
    for durability in [Durability::Pmem, Durability::Wal] {
        for kind in [Kind::Short, Kind::Long, Kind::Both, Kind::OneNew] {
            let (_, failed) = everywhere(durability, kind, End::GiveUp);
            assert!(failed > 0, "{durability:?} {kind:?}");
        }
    }
}

/// The heap fails, whether the panic was in a nested part of the transaction or not, and even if the program
/// ends the transaction without an error: the state after the panic is unknown.
#[test]
fn a_panic_that_the_program_catches_is_not_committed() {
    fn change<'r>(tx: &mut crate::Txn<'r>, p: P<'r, Numbers<'r>>) -> Result<(), Error> {
        let old = tx[p].unwrap();
        tx[old].fill(7);
        // The new slice gets a separate span.
        tx[p] = Some(tx.alloc_slice(5000, |_| 2)?);
        Ok(())
    }
    /// Allocates a slice, as the first change of the transaction.
    fn make_one<'r>(tx: &mut crate::Txn<'r>, _: P<'r, Numbers<'r>>) -> Result<(), Error> {
        tx.alloc_slice(5000, |_| 2u64).map(drop)
    }
    type Change = for<'r> fn(&mut crate::Txn<'r>, P<'r, Numbers<'r>>) -> Result<(), Error>;
    for durability in [Durability::Pmem, Durability::Process, Durability::Wal] {
        for (nested, several, change) in [
            (false, false, change as Change),
            (false, false, make_one),
            (true, false, change),
            (true, false, make_one),
            (true, true, change),
            (false, true, make_one),
        ] {
            let first = std::ptr::fn_addr_eq(change, make_one as Change);
            let what = format!("{durability:?}, nested: {nested}, several: {several}, first: {first}");
            let dir = tempfile::tempdir().unwrap();
            let open = || Options::new().durability(durability).open(dir.path().join("heap")).unwrap();
            let heap = open();
            let (a, b) = roots(&heap);
            fn caught<'r>(
                tx: &mut crate::Txn<'r>,
                p: P<'r, Numbers<'r>>,
                nested: bool,
                change: Change,
            ) -> Result<(), Error> {
                panics::after(0);
                let result = catch_unwind(AssertUnwindSafe(|| match nested {
                    true => tx.nested(p, change),
                    false => change(tx, p),
                }));
                assert!(!panics::never_mind() && result.is_err());
                Ok(())
            }
            let result = match several {
                true => crate::txn((&a, &b), |((tx, p), _)| caught(tx, p, nested, change)),
                false => a.txn(|tx, p| caught(tx, p, nested, change)),
            };
            assert!(matches!(result, Err(Error::Failed { .. })), "{what}: {result:?}");
            drop((a, b));
            let closed = heap.close();
            assert!(matches!(closed, Err(Error::Failed { .. })), "{what}: {closed:?}");
            let heap = open();
            let (a, b) = roots(&heap);
            assert_eq!(value(&a, &b, Kind::Short).unwrap(), 1, "{what}");
            assert!(heap.check().unwrap().is_clean(), "{what}");
        }
    }
}

/// After a panic in a transaction the objects in place may be inconsistent. A backup must not copy them: it
/// is marked as a closed heap, so no opening would replay its logs.
#[test]
fn a_backup_waits_for_a_transaction_that_panics() {
    for places in 0.. {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new().durability(Durability::Process).pin_undo(true);
        let open = |name| options.open(dir.path().join(name)).unwrap();
        let (heap, copy) = (&open("heap"), dir.path().join("copy"));
        let (a, b) = roots(heap);
        let ((begin, begun), (tell, waits)) = (mpsc::channel(), mpsc::channel());
        let (never, copied) = thread::scope(|scope| {
            let backup = scope.spawn(move || {
                begun.recv().unwrap();
                tell.send(this_thread()).unwrap();
                heap.backup(copy)
            });
            let never = run_beside(&a, &b, Kind::Long, End::GiveUp, places, &|| {
                begin.send(()).unwrap();
                let thread = waits.recv().unwrap();
                while !sleeps(thread) {
                    thread::yield_now();
                }
            });
            (never, backup.join().unwrap())
        });
        match copied {
            Ok(()) => {
                let copy = open("copy");
                let (a, b) = roots(&copy);
                assert_eq!(value(&a, &b, Kind::Long).unwrap(), 1, "{places}");
            }
            Err(error) => assert!(!never && matches!(error, Error::Failed { .. }), "{places}: {error}"),
        }
        if never {
            return;
        }
    }
}

/// The memory of a closed heap is unmapped only when its readers have left, although the region is gone
/// before that.
#[test]
fn a_heap_that_has_failed_beside_readers_is_closed_behind_them() {
    let dir = tempfile::tempdir().unwrap();
    let heap = Options::new().durability(Durability::Process).open(dir.path().join("heap")).unwrap();
    let (a, b) = roots(&heap);
    thread::scope(|scope| {
        let closing = a.read(|view, p| {
            // A transaction that panics while its record is written has not been upgraded yet, so it does not
            // wait for this read.
            let fails = || {
                (0..).any(|places| {
                    !run(&a, &b, Kind::Short, End::Commit, places) && a.read(|_, _| ()).is_err()
                })
            };
            assert!(scope.spawn(fails).join().unwrap());
            let (tell, told) = mpsc::channel();
            let closing = scope.spawn(move || {
                tell.send(this_thread()).unwrap();
                heap.close()
            });
            let thread = told.recv().unwrap();
            while !sleeps(thread) {
                assert!(!closing.is_finished(), "nothing is mapped any more");
                thread::yield_now();
            }
            assert_eq!(view[view[p].unwrap()][0], 1);
            closing
        });
        assert!(matches!(closing.unwrap().join().unwrap(), Err(Error::Failed { .. })));
    });
}
