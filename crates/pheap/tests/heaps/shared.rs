//! Several threads that look at one root together.
#![allow(clippy::unit_arg)] // `Ok(tx[p] = 1)` is a transaction in one line

use pheap::{P, Persist, Result, Root, Shared};
use pheap_testkit::*;

#[derive(Persist)]
#[repr(C)]
struct Tree<'r> {
    value: u64,
    left: Option<P<'r, Tree<'r>>>,
    right: Option<P<'r, Tree<'r>>>,
}

#[derive(Persist, Default)]
#[repr(C)]
struct Forest<'r> {
    top: Option<P<'r, Tree<'r>>>,
    items: Option<P<'r, [u64]>>,
    writes: u64,
}

fn grow<'r>(tx: &pheap::Txn<'r>, depth: u32) -> Result<Option<P<'r, Tree<'r>>>> {
    if depth == 0 {
        return Ok(None);
    }
    let (left, right) = (grow(tx, depth - 1)?, grow(tx, depth - 1)?);
    tx.alloc(Tree { value: u64::from(depth), left, right }).map(Some)
}

fn forest(heap: &pheap::Heap) -> Result<Root<Forest<'static>>> {
    heap.root_or("forest", |tx| {
        Ok(Forest { top: grow(tx, 12)?, items: Some(tx.alloc_slice(5000, |i| i as u64)?), writes: 0 })
    })
}

fn sum<'r>(view: &Shared<'_, 'r>, tree: Option<P<'r, Tree<'r>>>, fork: u32) -> u64 {
    let Some(tree) = tree else { return 0 };
    let Tree { value, left, right } = view[tree];
    let below = if fork > 0 {
        std::thread::scope(|scope| {
            let other = scope.spawn(move || sum(view, left, fork - 1));
            sum(view, right, fork - 1) + other.join().unwrap()
        })
    } else {
        sum(view, left, 0) + sum(view, right, 0)
    };
    value + below
}

fn expected(depth: u32) -> u64 {
    (1..=depth).map(|d| u64::from(d) << (depth - d)).sum()
}

#[test]
fn in_a_read() -> Result<()> {
    let heap = small().in_memory()?;
    let root = forest(&heap)?;
    let total = root.read(|view, f| sum(&view.shared(), view[f].top, 3))?;
    assert_eq!(total, expected(12));
    // A shared view of a shared view.
    let first = root.read(|view, f| {
        let shared = view.shared();
        let again = shared.shared();
        again[again[f].items.unwrap()][17]
    })?;
    assert_eq!(first, 17);
    Ok(())
}

#[test]
fn in_a_transaction_with_what_it_wrote_before() -> Result<()> {
    for options in both() {
        for commit in [false, true] {
            let heap = options.in_memory()?;
            let root = forest(&heap)?;
            let result = root.txn(|tx, f| {
                let (top, items) = (tx[f].top.unwrap(), tx[f].items.unwrap());
                tx[top].value += 1000;
                let element = items.at(tx, 7);
                tx[element] = 1 << 20;
                let extra = tx.alloc(Tree { value: 5, left: Some(top), right: None })?;
                tx[f].top = Some(extra);
                {
                    let held: &u64 = &tx[items.at(tx, 7)];
                    let shared = tx.shared();
                    let total = sum(&shared, tx[f].top, 2);
                    assert_eq!(total, expected(12) + 1005);
                    // While these run, this thread reads on, and allocates.
                    std::thread::scope(|scope| {
                        for t in 0..3 {
                            let shared = &shared;
                            scope.spawn(move || {
                                for i in 0..5000 {
                                    let want = if i == 7 { 1 << 20 } else { i as u64 };
                                    assert_eq!(shared[items.at(shared, i)], want, "thread {t}");
                                }
                                assert_eq!(shared[items][7], 1 << 20);
                            });
                        }
                        for i in 0..500 {
                            let new = tx.alloc(Tree { value: i, left: None, right: None }).unwrap();
                            assert_eq!((tx[new].value, shared[new].value), (i, i));
                        }
                    });
                    assert_eq!(*held, 1 << 20);
                }
                // And it writes on after that.
                let element = items.at(tx, 8);
                tx[element] = 3;
                tx[f].writes += 1;
                assert_eq!(tx.shared()[items][..9], [0, 1, 2, 3, 4, 5, 6, 1 << 20, 3]);
                if commit { Ok(()) } else { Err(pheap::Error::abort("no")) }
            });
            assert_eq!(result.is_ok(), commit);
            root.read(|view, f| {
                let items = view[f].items.unwrap();
                let want = if commit { (1 << 20, 3, 1) } else { (7, 8, 0) };
                assert_eq!((view[items][7], view[items][8], view[f].writes), want);
                let extra = if commit { 1005 } else { 0 };
                assert_eq!(sum(&view.shared(), view[f].top, 2), expected(12) + extra);
            })?;
        }
    }
    Ok(())
}

#[test]
fn of_several_roots_in_one_transaction() -> Result<()> {
    let heap = small().in_memory()?;
    let (a, b): (Root<u64>, Root<u64>) = (heap.root("a")?, heap.root("b")?);
    pheap::txn((&a, &b), |((ta, pa), (tb, pb))| {
        (ta[pa], tb[pb]) = (1, 2);
        {
            let (sa, sb) = (ta.shared(), tb.shared());
            std::thread::scope(|scope| {
                scope.spawn(|| assert_eq!((sa[pa], sb[pb]), (1, 2)));
            });
        }
        (ta[pa], tb[pb]) = (3, 4);
        assert_eq!((ta.shared()[pa], tb.shared()[pb]), (3, 4));
        Ok(())
    })?;
    assert_eq!((a.read(|view, p| view[p])?, b.read(|view, p| view[p])?), (3, 4));
    Ok(())
}

#[test]
fn many_roots_many_threads() -> Result<()> {
    let heap = small().in_memory()?;
    let roots: Vec<Root<u64>> = (0..4).map(|i| heap.root(&i.to_string())).collect::<Result<_>>()?;
    std::thread::scope(|scope| {
        for t in 0..4usize {
            let roots = &roots;
            scope.spawn(move || {
                for i in 0..300 {
                    match i % 3 {
                        0 => roots[t].txn(|tx, p| Ok(tx[p] += 1)).unwrap(),
                        1 => pheap::txn((&roots[(t + 1) % 4], &roots[t]), |((ta, a), (tb, b))| {
                            ta[a] += 1;
                            tb[b] += 1;
                            Ok(())
                        })
                        .unwrap(),
                        _ => assert!(roots[(t + 2) % 4].read(|view, p| view[p]).unwrap() < 10_000),
                    }
                }
            });
        }
    });
    let total: u64 = roots.iter().map(|root| root.read(|view, p| view[p]).unwrap()).sum();
    assert_eq!(total, 4 * (100 + 200));
    Ok(())
}
