//! If a nested part of a transaction fails, all changes of the part are rolled back, and no others, however
//! the transaction keeps its changes.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pheap::{
    Durability, Error, Heap, Options, P, PBTreeMap, PHashMap, PSnapMap, PString, PVec, PVecDeque, Persist,
    Result, Root, Txn, View, field, txn,
};
use proptest::prelude::*;

#[derive(Persist)]
#[repr(C)]
struct Node<'r> {
    value: u64,
    small: u8, // and padding
    next: Option<P<'r, Node<'r>>>,
}

#[derive(Persist, Default)]
#[repr(C)]
struct All<'r> {
    numbers: [u64; 8],
    bytes: [u8; 12],
    list: Option<P<'r, Node<'r>>>,
    big: Option<P<'r, [u64]>>,
    ballast: Option<P<'r, [u64]>>,
    vec: PVec<'r, u64>,
    queue: PVecDeque<'r, u16>,
    map: PHashMap<'r, u64, u64>,
    tree: PBTreeMap<'r, PString<'r>, u64>,
    versions: PSnapMap<'r, u64, u64>,
    text: PString<'r>,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Model {
    numbers: [u64; 8],
    bytes: [u8; 12],
    list: Vec<u64>,
    big: Vec<u64>,
    /// All of it is the same.
    ballast: Option<u64>,
    vec: Vec<u64>,
    queue: Vec<u16>,
    map: BTreeMap<u64, u64>,
    tree: BTreeMap<String, u64>,
    versions: BTreeMap<u64, u64>,
    text: String,
}

/// Elements of the large object.
const BIG: usize = 600;
/// Bytes of a heap that cannot grow, and elements of an object for whose old content it has no room.
const SIZE: u64 = 1 << 20;
const BALLAST: usize = 66_000;

fn seen<'r>(view: &View<'r>, p: P<'r, All<'r>>) -> Model {
    let all = &view[p];
    let mut list = Vec::new();
    let mut next = all.list;
    while let Some(node) = next {
        assert_eq!(u64::from(view[node].small), view[node].value % 256);
        list.push(view[node].value);
        next = view[node].next;
    }
    Model {
        numbers: all.numbers,
        bytes: all.bytes,
        list,
        big: all.big.map_or(Vec::new(), |big| view[big].to_vec()),
        ballast: all.ballast.map(|ballast| {
            let first = view[ballast][0];
            assert!(view[ballast].iter().all(|&number| number == first));
            first
        }),
        vec: all.vec.iter(view).copied().collect(),
        queue: all.queue.iter(view).copied().collect(),
        map: all.map.iter(view).map(|(k, v)| (*k, *v)).collect(),
        tree: all.tree.iter(view).map(|(k, v)| (k.to_owned(), *v)).collect(),
        versions: all.versions.iter(view).map(|(k, v)| (*k, *v)).collect(),
        text: all.text.as_str(view).to_owned(),
    }
}

#[derive(Debug, Clone)]
enum Op {
    Number(usize, u64),
    Byte(usize, u8),
    Push(u64),
    Pop,
    Change(u64),
    /// Stores of a `#[txn]` function, more than once to the same.
    Stores(usize, u64),
    Item(usize, u64),
    Items(usize, usize, u64),
    Swap(usize, usize),
    NewBig(u64),
    Vec(u64),
    VecPop,
    Queue(u16),
    Map(u64, u64),
    MapRemove(u64),
    Tree(u64, u64),
    TreeRemove(u64),
    Version(u64, u64),
    VersionRemove(u64),
    Text(char),
    Clear,
    /// Reads all.
    Look,
    /// Leaves the copies.
    Spill,
    /// Writes to more than can be logged, if there is so much.
    Ballast(u64),
    /// A nested part, and whether it fails.
    Nested(Vec<Op>, bool),
}

fn op() -> impl Strategy<Value = Op> {
    let number = || 0u64..40;
    let leaf = prop_oneof![
        (0usize..8, any::<u64>()).prop_map(|(i, n)| Op::Number(i, n)),
        (0usize..12, any::<u8>()).prop_map(|(i, n)| Op::Byte(i, n)),
        any::<u64>().prop_map(Op::Push),
        Just(Op::Pop),
        any::<u64>().prop_map(Op::Change),
        (0usize..8, any::<u64>()).prop_map(|(i, n)| Op::Stores(i, n)),
        (0usize..BIG, any::<u64>()).prop_map(|(i, n)| Op::Item(i, n)),
        (0usize..BIG, 1usize..100, any::<u64>()).prop_map(|(i, len, n)| Op::Items(i, len, n)),
        (0usize..BIG, 0usize..BIG).prop_map(|(i, j)| Op::Swap(i, j)),
        any::<u64>().prop_map(Op::NewBig),
        any::<u64>().prop_map(Op::Vec),
        Just(Op::VecPop),
        any::<u16>().prop_map(Op::Queue),
        (number(), any::<u64>()).prop_map(|(k, v)| Op::Map(k, v)),
        number().prop_map(Op::MapRemove),
        (number(), any::<u64>()).prop_map(|(k, v)| Op::Tree(k, v)),
        number().prop_map(Op::TreeRemove),
        (number(), any::<u64>()).prop_map(|(k, v)| Op::Version(k, v)),
        number().prop_map(Op::VersionRemove),
        any::<char>().prop_map(Op::Text),
        Just(Op::Clear),
        Just(Op::Look),
        Just(Op::Spill),
        any::<u64>().prop_map(Op::Ballast),
    ];
    leaf.prop_recursive(3, 60, 8, |inner| {
        (prop::collection::vec(inner, 1..8), any::<bool>()).prop_map(|(ops, fails)| Op::Nested(ops, fails))
    })
}

fn run<'r>(tx: &mut Txn<'r>, p: P<'r, All<'r>>, model: &mut Model, ops: &[Op]) -> Result<()> {
    ops.iter().try_for_each(|op| apply(tx, p, model, op))
}

fn apply<'r>(tx: &mut Txn<'r>, p: P<'r, All<'r>>, model: &mut Model, op: &Op) -> Result<()> {
    let big = tx[p].big.expect("it has one from the beginning");
    match *op {
        Op::Number(i, n) => {
            tx[p].numbers[i] = n;
            model.numbers[i] = n;
        }
        Op::Byte(i, n) => {
            tx[field!(p.bytes)][i] = n;
            model.bytes[i] = n;
        }
        Op::Push(value) => {
            let node = tx.alloc(Node { value, small: value as u8, next: tx[p].list })?;
            tx[field!(p.list)] = Some(node);
            model.list.insert(0, value);
        }
        Op::Pop => {
            if let Some(node) = tx[p].list {
                tx[p].list = tx[node].next;
                model.list.remove(0);
            }
        }
        Op::Change(value) => {
            if let Some(node) = tx[p].list {
                (tx[node].value, tx[node].small) = (value, value as u8);
                model.list[0] = value;
            }
        }
        Op::Stores(i, n) => {
            store(tx, p, i, n);
            model.numbers[i] = n.wrapping_add(1);
            model.bytes[i + 1] = n as u8;
            model.big[i] = n;
            if let Some(first) = model.list.first_mut() {
                *first = n.wrapping_add(1);
            }
        }
        Op::Item(i, n) => {
            let element = big.at(tx, i);
            tx[element] = n;
            model.big[i] = n;
        }
        Op::Items(i, len, n) => {
            let range = i..(i + len).min(BIG);
            tx.slice_mut(big, range.clone()).fill(n);
            model.big[range].fill(n);
        }
        Op::Swap(i, j) => {
            tx.swap(big.at(tx, i), big.at(tx, j));
            model.big.swap(i, j);
        }
        Op::NewBig(n) => {
            let new = tx.alloc_slice(BIG, |i| n.wrapping_add(i as u64))?;
            tx[p].big = Some(new);
            model.big = (0..BIG).map(|i| n.wrapping_add(i as u64)).collect();
        }
        Op::Vec(n) => {
            field!(p.vec).push(tx, n)?;
            model.vec.push(n);
        }
        Op::VecPop => assert_eq!(field!(p.vec).pop(tx), model.vec.pop()),
        Op::Queue(n) => {
            field!(p.queue).push_front(tx, n)?;
            model.queue.insert(0, n);
        }
        Op::Map(k, v) => assert_eq!(field!(p.map).insert(tx, k, v)?, model.map.insert(k, v)),
        Op::MapRemove(k) => assert_eq!(field!(p.map).remove(tx, k), model.map.remove(&k)),
        Op::Tree(k, v) => {
            assert_eq!(field!(p.tree).insert(tx, &k.to_string(), v)?, model.tree.insert(k.to_string(), v));
        }
        Op::TreeRemove(k) => {
            assert_eq!(field!(p.tree).remove(tx, &k.to_string()), model.tree.remove(&k.to_string()));
        }
        Op::Version(k, v) => {
            field!(p.versions).insert(tx, &k, &v)?;
            model.versions.insert(k, v);
        }
        Op::VersionRemove(k) => {
            field!(p.versions).remove(tx, &k)?;
            model.versions.remove(&k);
        }
        Op::Text(c) => {
            field!(p.text).push(tx, c)?;
            model.text.push(c);
        }
        Op::Clear => {
            field!(p.vec).clear(tx);
            field!(p.map).clear(tx);
            (model.vec, model.map) = Default::default();
        }
        Op::Look => assert_eq!(seen(tx, p), *model),
        Op::Spill => {
            // A transaction that is doomed cannot.
            let _ = catch_unwind(AssertUnwindSafe(|| tx.shared().len_of_list(p)));
        }
        Op::Ballast(n) => {
            if let Some(ballast) = tx[p].ballast {
                tx[ballast].fill(n);
                model.ballast = Some(n);
            }
        }
        Op::Nested(ref ops, fails) => {
            let before = model.clone();
            let result = tx.nested(p, |tx, p| {
                run(tx, p, model, ops)?;
                if fails { Err(Error::abort("it is to fail")) } else { Ok(()) }
            });
            if result.is_err() {
                *model = before;
            }
        }
    }
    Ok(())
}

#[txn]
fn store<'r>(tx: &mut Txn<'r>, p: P<'r, All<'r>>, i: usize, n: u64) {
    tx[p].numbers[i] = n;
    tx[p].bytes[i + 1] = n as u8;
    tx[p].numbers[i] = n.wrapping_add(1);
    if let Some(big) = tx[p].big {
        tx[big][i] = n;
    }
    if let Some(node) = tx[p].list {
        tx[node].value = n;
        let n = n.wrapping_add(1);
        tx[node].value = n;
        tx[node].small = n as u8;
    }
}

trait LenOfList<'r> {
    fn len_of_list(&self, p: P<'r, All<'r>>) -> usize;
}

impl<'r> LenOfList<'r> for pheap::Shared<'_, 'r> {
    fn len_of_list(&self, p: P<'r, All<'r>>) -> usize {
        std::iter::successors(self[p].list, |&node| self[node].next).count()
    }
}

fn new(options: Options) -> (Heap, Root<All<'static>>) {
    let heap = options.in_memory().unwrap();
    let root: Root<All> = heap.root("all").unwrap();
    root.txn(|tx, p| {
        tx[p].big = Some(tx.alloc_slice(BIG, |_| 0)?);
        Ok(())
    })
    .unwrap();
    (heap, root)
}

/// Runs transactions, some of which fail as a whole, and compares the content with the model.
fn follows_the_model(
    (heap, root): (Heap, Root<All<'static>>),
    transactions: &[(Vec<Op>, bool)],
) -> std::result::Result<(), TestCaseError> {
    let mut model = root.read(seen).unwrap();
    for (ops, fails) in transactions {
        let before = model.clone();
        let result = root.txn(|tx, p| {
            run(tx, p, &mut model, ops)?;
            assert_eq!(seen(tx, p), model);
            if *fails { Err(Error::abort("it is to fail")) } else { Ok(()) }
        });
        match result {
            Ok(()) => {}
            Err(Error::Aborted(_) | Error::OutOfSpace { .. } | Error::ReservationFull { .. }) => {
                model = before
            }
            Err(error) => panic!("{error}"),
        }
        prop_assert_eq!(&root.read(seen).unwrap(), &model);
    }
    prop_assert!(heap.check().unwrap().is_clean());
    heap.collect().unwrap();
    prop_assert_eq!(&root.read(seen).unwrap(), &model);
    prop_assert!(heap.check().unwrap().is_clean());
    Ok(())
}

fn transactions() -> impl Strategy<Value = Vec<(Vec<Op>, bool)>> {
    prop::collection::vec((prop::collection::vec(op(), 1..12), prop::bool::weighted(0.2)), 1..8)
}

fn small() -> Options {
    Options::new().reserve(1 << 30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn short_transactions(transactions in transactions()) {
        follows_the_model(new(small()), &transactions)?;
    }

    #[test]
    fn short_transactions_with_fences(transactions in transactions()) {
        let options = small().durability(Durability::Pmem).collect_least(0).collect_growth(1);
        follows_the_model(new(options), &transactions)?;
    }

    #[test]
    fn long_transactions(transactions in transactions()) {
        follows_the_model(new(small().pin_undo(true)), &transactions)?;
    }

    #[test]
    fn in_a_heap_that_is_nearly_full(transactions in transactions()) {
        follows_the_model(new(small().arena_size(SIZE).max_size(SIZE)), &transactions)?;
    }

    #[test]
    fn where_some_transactions_cannot_be_logged(transactions in transactions()) {
        follows_the_model(full(), &transactions)?;
    }
}

/// A heap that has no room for a log of all that is in it.
fn full() -> (Heap, Root<All<'static>>) {
    let (heap, root) = new(Options::new().durability(Durability::Process).arena_size(SIZE).max_size(SIZE));
    root.txn(|tx, p| {
        tx[p].ballast = Some(tx.alloc_slice(BALLAST, |_| 0)?);
        Ok(())
    })
    .unwrap();
    (heap, root)
}

#[test]
fn a_transaction_that_cannot_be_logged_sees_what_it_should() {
    let (_heap, root) = full();
    let before = root.read(seen).unwrap();
    let result = root.txn(|tx, p| {
        let big = tx[p].big.unwrap();
        let element = big.at(tx, 3);
        tx[element] = 1;
        tx[p].numbers[0] = 1;
        let failed = tx.nested((p, big), |tx, (p, big)| {
            tx[p].numbers = [2; 8];
            tx[p].bytes[3] = 2;
            // From here on, in memory only.
            let ballast = tx[p].ballast.unwrap();
            tx[ballast].fill(2);
            tx[big].fill(2);
            let element = big.at(tx, 3);
            tx[element] = 3;
            tx[p].numbers[1] = 3;
            assert_eq!((tx[ballast][2], tx[big][3], tx[p].numbers[0]), (2, 3, 2));
            Err::<(), _>(Error::abort("it is to fail"))
        });
        assert!(failed.is_err());
        let mut expected = before.clone();
        expected.big[3] = 1;
        expected.numbers[0] = 1;
        assert_eq!(seen(tx, p), expected);
        let kept = tx.nested(p, |tx, p| {
            tx[p].bytes[5] = 7;
            tx.nested(p, |tx, p| {
                tx[p].bytes = [9; 12];
                Err::<(), _>(Error::abort("it is to fail"))
            })
            .unwrap_err();
            Ok(())
        });
        kept?;
        expected.bytes[5] = 7;
        assert_eq!(seen(tx, p), expected);
        Ok(())
    });
    assert!(matches!(result, Err(Error::OutOfSpace { .. })), "there was room for the log: {result:?}");
    assert_eq!(root.read(seen).unwrap(), before);
}

/// The rollback of a part has written its words to the private memory of the doomed transaction. A map,
/// however, changes new nodes in place.
#[test]
fn a_map_of_versions_goes_on_when_a_part_was_taken_back_for_want_of_a_log() {
    let (_heap, root) = full();
    let before = root.read(seen).unwrap();
    let result = root.txn(|tx, p| {
        let versions = field!(p.versions);
        versions.extend(tx, (0..5u64).map(|key| (key, key)))?;
        let failed = tx.nested(p, |tx, p| {
            field!(p.versions).insert(tx, &6, &1)?;
            // From here on, in memory only.
            let ballast = tx[p].ballast.unwrap();
            tx[ballast].fill(2);
            Err::<(), _>(Error::abort("it is to fail"))
        });
        assert!(failed.is_err());
        assert!(versions.insert(tx, &6, &2)?);
        assert_eq!(versions.get(tx, &6), Some(&2));
        for fails in [true, false] {
            let result = tx.nested(p, |tx, p| {
                field!(p.versions).insert(tx, &6, &3)?;
                field!(p.versions).remove(tx, &1)?;
                if fails { Err(Error::abort("it is to fail")) } else { Ok(()) }
            });
            assert_eq!(result.is_err(), fails);
            let expected = if fails { (Some(&2), Some(&1)) } else { (Some(&3), None) };
            assert_eq!((versions.get(tx, &6), versions.get(tx, &1)), expected);
        }
        Ok(())
    });
    assert!(matches!(result, Err(Error::OutOfSpace { .. })), "there was room for the log: {result:?}");
    assert_eq!(root.read(seen).unwrap(), before);
}

#[test]
fn what_was_held_in_it_is_held_only_if_it_was_not_taken_back() {
    let (_heap, root) = new(small());
    root.txn(|tx, p| {
        let before = tx.hold(p);
        let mut lost = None;
        tx.nested(p, |tx, p| {
            assert_eq!(tx.get(&before)?, p);
            lost = Some((tx.hold(tx.alloc(7u64)?), tx.hold(p)));
            Err::<(), _>(Error::abort("it is to fail"))
        })
        .unwrap_err();
        let (object, root) = lost.unwrap();
        assert!(matches!(tx.get(&object), Err(Error::NotHeld)));
        assert!(matches!(tx.get(&root), Err(Error::NotHeld)));
        assert_eq!(tx.get(&before)?, p);
        let kept = tx.nested((), |tx, ()| {
            let kept = tx.alloc(8u64)?;
            Ok(tx.hold(kept))
        })?;
        let kept = tx.get(&kept)?;
        assert_eq!(tx[kept], 8);
        Ok(())
    })
    .unwrap();
}

/// Objects that were freed before the part are freed at the commit. Objects that a rolled back part has freed
/// are not.
#[test]
fn what_was_freed_in_it_is_freed_only_if_it_was_not_taken_back() {
    for fails in [false, true] {
        let (heap, root) = new(small().collect_least(1 << 40));
        let mut used = 0;
        for round in 0..60 {
            root.txn(|tx, p| {
                let vec = field!(p.vec);
                assert!(vec.iter(tx).copied().eq(0..if fails && round > 0 { 20_000 } else { 0 }));
                vec.clear(tx);
                vec.shrink_to_fit(tx)?;
                vec.extend(tx, 0..20_000)?;
                let result = tx.nested(p, |tx, p| {
                    field!(p.vec).clear(tx);
                    field!(p.vec).shrink_to_fit(tx)?;
                    if fails { Err(Error::abort("it is to fail")) } else { Ok(()) }
                });
                assert_eq!(result.is_err(), fails);
                Ok(())
            })
            .unwrap();
            if round == 20 {
                used = heap.info().file_bytes;
            }
        }
        assert_eq!((heap.stats().collections, heap.info().file_bytes), (0, used), "buffers pile up");
        assert!(heap.check().unwrap().is_clean());
    }
}

#[test]
fn a_panic_takes_it_back_and_goes_on() {
    for pin in [false, true] {
        let (_heap, root) = new(small().pin_undo(pin));
        root.txn(|tx, p| {
            tx[p].numbers[0] = 1;
            let panic = catch_unwind(AssertUnwindSafe(|| {
                tx.nested(p, |tx, p| {
                    tx[p].numbers[0] = 2;
                    field!(p.vec).push(tx, 3)?;
                    std::panic::resume_unwind(Box::new("expected"));
                    #[expect(unreachable_code, reason = "it says of which type the result is")]
                    Ok(())
                })
            }));
            assert_eq!(*panic.unwrap_err().downcast::<&str>().unwrap(), "expected");
            assert_eq!((tx[p].numbers[0], tx[p].vec.len()), (1, 0));
            Ok(())
        })
        .unwrap();
        let panic = catch_unwind(AssertUnwindSafe(|| {
            root.txn(|tx, p| {
                tx[p].numbers[0] = 2;
                tx.nested(p, |tx, p| {
                    tx[p].numbers[0] = 3;
                    tx.nested(p, |_, _| -> Result<()> { std::panic::resume_unwind(Box::new("expected")) })
                })
            })
        }));
        assert!(panic.is_err());
        assert_eq!(root.read(|view, p| view[p].numbers[0]).unwrap(), 1);
    }
}

#[test]
fn in_a_transaction_over_several_roots_it_is_of_one() {
    for pin in [false, true] {
        let heap = small().pin_undo(pin).in_memory().unwrap();
        let [a, b]: [Root<u64>; 2] = ["a", "b"].map(|name| heap.root(name).unwrap());
        pheap::txn((&a, &b), |((ta, a), (tb, b))| {
            (ta[a], tb[b]) = (1, 1);
            ta.nested(a, |ta, a| {
                (ta[a], tb[b]) = (2, 2);
                // The transaction leaves its copies, if it has any.
                tb.shared();
                ta[a] = 3;
                Err::<(), _>(Error::abort("it is to fail"))
            })
            .unwrap_err();
            assert_eq!((ta[a], tb[b]), (1, 2));
            Ok(())
        })
        .unwrap();
        assert_eq!([&a, &b].map(|root| root.read(|view, p| view[p]).unwrap()), [1, 2]);
    }
}

#[test]
fn pointers_are_carried_in_by_ones_and_many() {
    let (_heap, root) = new(small());
    root.txn(|tx, p| {
        let nodes: Vec<P<'_, Node<'_>>> = (0..3)
            .map(|value| tx.alloc(Node { value, small: value as u8, next: None }))
            .collect::<Result<_>>()?;
        let text = tx.alloc_str("text")?;
        let carried = (p, nodes.clone(), [Some(text), None], (text, (p,)));
        tx.nested(carried, |tx, (p, nodes, [text, none], (same, (root,)))| {
            assert!(none.is_none() && text == Some(same) && p == root);
            for node in nodes {
                tx[node].next = tx[p].list;
                tx[p].list = Some(node);
            }
            assert_eq!(&tx[same], "text");
            Ok(())
        })?;
        assert_eq!(seen(tx, p).list, [2, 1, 0]);
        Ok(())
    })
    .unwrap();
}

/// An error type of the program's.
#[derive(Debug, PartialEq)]
struct TooMuch(u64);

impl From<Error> for TooMuch {
    fn from(_: Error) -> TooMuch {
        TooMuch(u64::MAX)
    }
}

#[test]
fn it_may_fail_with_an_error_of_the_program() {
    let (_heap, root) = new(small());
    let result = root.try_txn(|tx, p| {
        for n in 0.. {
            tx.try_nested(p, |tx, p| {
                field!(p.vec).push(tx, n)?;
                if n < 5 { Ok(()) } else { Err(TooMuch(n)) }
            })
            .or_else(|error| {
                assert_eq!(tx[p].vec.len(), 5);
                if n < 7 { Ok(()) } else { Err(error) }
            })?;
        }
        Ok(())
    });
    assert_eq!(result, Err(TooMuch(7)));
}
