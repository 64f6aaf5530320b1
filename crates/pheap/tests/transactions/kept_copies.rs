//! The next transaction uses the copies of the last one, but only if nothing else came between. After any
//! such event, it must read the right objects.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pheap::{Durability, Error, Heap, Options, P, Persist, Result, Root, SyncPolicy, Txn};
use pheap_testkit::*;
use proptest::prelude::*;

type Words = [u64; 6];

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Item {
    words: Words,
}

/// Two items, which transactions take in the same order.
#[derive(Persist)]
#[repr(C)]
struct Items<'r> {
    first: P<'r, Item>,
    second: P<'r, Item>,
}

fn items(heap: &Heap, name: &str) -> Root<Items<'static>> {
    let root = heap.root_or(name, |tx| {
        Ok(Items { first: tx.alloc(Item { words: [0; 6] })?, second: tx.alloc(Item { words: [0; 6] })? })
    });
    root.unwrap()
}

/// Adds to one word of each item, and to the model.
fn count<'r>(tx: &mut Txn<'r>, p: P<'r, Items<'r>>, model: &mut [Words; 2], at: usize) -> Result<()> {
    let (first, second) = (tx[p].first, tx[p].second);
    tx[first].words[at] += 1;
    tx[second].words[at] += 10;
    model[0][at] += 1;
    model[1][at] += 10;
    Ok(())
}

/// Puts a new item where the first one was.
fn replace<'r>(tx: &mut Txn<'r>, p: P<'r, Items<'r>>, model: &mut [Words; 2], at: usize) -> Result<()> {
    let words = [at as u64; 6];
    let new = tx.alloc(Item { words })?;
    tx[p].first = new;
    model[0] = words;
    Ok(())
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Count,
    CountLong,
    CountTwo,
    Replace,
    ReplaceAndCount,
    Abort,
    AbortLong,
    Panic,
    Nothing,
    Collect,
}

fn step() -> impl Strategy<Value = Step> {
    use Step::*;
    prop_oneof![
        8 => Just(Count),
        1 => Just(CountLong),
        1 => Just(CountTwo),
        2 => Just(Replace),
        1 => Just(ReplaceAndCount),
        1 => Just(Abort),
        1 => Just(AbortLong),
        1 => Just(Panic),
        1 => Just(Nothing),
        2 => Just(Collect),
    ]
}

fn run(options: &Options, steps: &[(Step, usize)]) {
    let dir = tempdir();
    let heap = options.clone().collect_least(4096).open(dir.path().join("heap")).unwrap();
    let (a, b) = (items(&heap, "a"), items(&heap, "b"));
    let [mut model, mut other] = [[[0; 6]; 2]; 2];
    for &(step, at) in steps {
        let mut gone = model;
        match step {
            Step::Count => a.txn(|tx, p| count(tx, p, &mut model, at)).unwrap(),
            Step::CountLong => {
                let long = a.txn(|tx, p| {
                    count(tx, p, &mut model, at)?;
                    let _ = tx.shared(); // moves the copies home
                    count(tx, p, &mut model, at)
                });
                long.unwrap();
            }
            Step::CountTwo => {
                let two = pheap::txn((&a, &b), |((ta, pa), (tb, pb))| {
                    count(ta, pa, &mut model, at)?;
                    count(tb, pb, &mut other, at)
                });
                two.unwrap();
            }
            Step::Replace => a.txn(|tx, p| replace(tx, p, &mut model, at)).unwrap(),
            Step::ReplaceAndCount => {
                let both = a.txn(|tx, p| {
                    replace(tx, p, &mut model, at)?;
                    count(tx, p, &mut model, at)
                });
                both.unwrap();
            }
            Step::Abort | Step::AbortLong => {
                let aborted = a.txn(|tx, p| {
                    count(tx, p, &mut gone, at)?;
                    if matches!(step, Step::AbortLong) {
                        let _ = tx.shared();
                        replace(tx, p, &mut gone, at)?;
                    }
                    Err::<(), _>(Error::abort("as it should"))
                });
                assert!(aborted.is_err());
            }
            Step::Panic => {
                let panics = || {
                    a.txn(|tx, p| -> Result<()> {
                        count(tx, p, &mut gone, at)?;
                        resume_unwind(Box::new("as it should"))
                    })
                };
                assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
            }
            Step::Nothing => a.txn(|_, _| Ok(())).unwrap(),
            Step::Collect => heap.collect().unwrap(),
        }
        for (root, model) in [(&a, &model), (&b, &other)] {
            let is = root.read(|view, p| [view[view[p].first].words, view[view[p].second].words]).unwrap();
            assert_eq!(is, *model, "after {step:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn items_are_as_the_last_transaction_left_them(steps in prop::collection::vec((step(), 0usize..6), 1..60)) {
        run(&small(), &steps);
        run(&small().durability(Durability::Wal).sync_policy(SyncPolicy::OnDemand), &steps);
    }
}

#[test]
fn a_new_item_where_an_old_one_was_is_not_taken_for_it() {
    let heap = small().collect_least(4096).in_memory().unwrap();
    let root = items(&heap, "a");
    let (mut places, mut model) = (HashSet::new(), [[0; 6]; 2]);
    let mut reused = 0;
    for at in (0..6).cycle().take(200) {
        root.txn(|tx, p| count(tx, p, &mut model, at)).unwrap();
        root.txn(|tx, p| replace(tx, p, &mut model, at)).unwrap();
        heap.collect().unwrap();
        root.txn(|tx, p| count(tx, p, &mut model, at)).unwrap();
        let (place, is) = root
            .read(|view, p| {
                let (first, second) = (view[p].first, view[p].second);
                (format!("{first:?}"), [view[first].words, view[second].words])
            })
            .unwrap();
        assert_eq!(is, model);
        reused += usize::from(!places.insert(place));
    }
    assert!(reused > 10, "the test is about memory that is used again: {reused}");
}
