//! Unit tests of `PSnapMap`, with small nodes.

use std::collections::BTreeMap;
use std::ops::Bound;

use proptest::collection::vec;
use proptest::prelude::*;

use super::node::{Child, INNER, LEAF, Node};
use super::*;
use crate::{Error, Heap, Root, Snapshot, Txn};

type Map = PSnapMap<'static, u8, u64>;
type Texts = PSnapMap<'static, P<'static, str>, P<'static, str>>;

/// Checks the nodes below a child: their keys are sorted and between `from` and `to`. Returns the number of
/// entries, and the height.
fn check<'r>(view: &View<'r>, child: Child<'r, u8, u64>, from: u8, to: Option<u8>) -> (usize, usize) {
    fn keys<T, const N: usize>(node: &Node<u8, T, N>, from: u8, to: Option<u8>) {
        let keys = node.keys();
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
        assert!(
            keys[0] >= from && to.is_none_or(|to| keys[keys.len() - 1] < to),
            "{keys:?} in {from}..{to:?}"
        );
    }
    match child {
        Child::None(_) => (0, 0),
        Child::Leaf(leaf) => {
            keys(&view[leaf], from, to);
            (view[leaf].len(), 1)
        }
        Child::Inner(inner) => {
            let node = &view[inner];
            let mut below = Vec::new();
            for (place, &child) in node.items().iter().enumerate() {
                let first = if place == 0 { from } else { node.keys()[place] };
                let end = node.keys().get(place + 1).copied().or(to);
                below.push(check(view, child, first, end));
            }
            assert!(below.iter().all(|(_, height)| *height == below[0].1), "all leaves are equally deep");
            (below.iter().map(|(len, _)| len).sum(), below[0].1 + 1)
        }
    }
}

fn is_sound(root: &Root<Map>) -> usize {
    root.read(|view, map| {
        let map = &view[map];
        let (len, height) = check(view, map.top, 0, None);
        assert_eq!(len, map.len());
        height
    })
    .unwrap()
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u8, u64),
    Remove(u8),
    Extend(u8, u8),
    RemoveAll(u8, u8),
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<(Vec<Step>, bool)>> {
    let step = prop_oneof![
        8 => (any::<u8>(), any::<u64>()).prop_map(|(key, value)| Step::Insert(key, value)),
        8 => any::<u8>().prop_map(Step::Remove),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(from, len)| Step::Extend(from, len)),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(from, len)| Step::RemoveAll(from, len)),
        1 => Just(Step::Clear),
    ];
    // For each transaction: its steps, and whether it commits.
    vec((vec(step, 0..20), prop::bool::weighted(0.8)), 0..20)
}

fn take<'r>(
    tx: &mut Txn<'r>,
    map: P<'r, PSnapMap<'r, u8, u64>>,
    model: &mut BTreeMap<u8, u64>,
    step: &Step,
) -> crate::Result<()> {
    match *step {
        Step::Insert(key, value) => {
            assert_eq!(map.insert(tx, &key, &value)?, model.insert(key, value).is_none());
        }
        Step::Remove(key) => assert_eq!(map.remove(tx, &key)?, model.remove(&key).is_some()),
        Step::Extend(from, len) => {
            let new = (from..=from.saturating_add(len)).map(|key| (key, u64::from(key)));
            map.extend(tx, new.clone())?;
            model.extend(new);
        }
        Step::RemoveAll(from, len) => {
            for key in from..=from.saturating_add(len) {
                assert_eq!(map.remove(tx, &key)?, model.remove(&key).is_some());
            }
        }
        Step::Clear => {
            map.clear(tx);
            model.clear();
        }
    }
    assert!(
        map.iter(tx).map(|(key, value)| (*key, *value)).eq(model.iter().map(|(key, value)| (*key, *value)))
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// A map behaves like a `BTreeMap`, and each version stays the same.
    #[test]
    fn versions_stay(txns in steps()) {
        let heap = Heap::in_memory().unwrap();
        let root: Root<Map> = heap.root("map").unwrap();
        let mut model = BTreeMap::new();
        let mut versions: Vec<(Snapshot<u8, u64>, BTreeMap<u8, u64>)> = Vec::new();
        for (steps, commits) in &txns {
            let mut changed = model.clone();
            let done = root.txn(|tx, map| {
                steps.iter().try_for_each(|step| take(tx, map, &mut changed, step))?;
                if *commits { Ok(()) } else { Err(Error::InvalidOption("rolled back")) }
            });
            if done.is_ok() {
                model = changed;
            }
            is_sound(&root);
            versions.push((root.read(|view, map| map.snapshot(view)).unwrap().unwrap(), model.clone()));
            if versions.len().is_multiple_of(5) {
                heap.collect().unwrap();
            }
        }
        for (snapshot, model) in &versions {
            snapshot.read(|map| {
                assert_eq!(map.len(), model.len());
                assert!(map.iter().eq(model.iter()));
                assert!(map.iter().rev().eq(model.iter().rev()));
                assert_eq!(map.first_key_value(), model.first_key_value());
                assert_eq!(map.last_key_value(), model.last_key_value());
                for key in 0..=255 {
                    assert_eq!(map.get(&key), model.get(&key));
                }
                for (from, to) in [(0, 9), (7, 7), (20, 250), (100, 101)] {
                    assert!(map.range(from..to).eq(model.range(from..to)));
                    assert!(map.range(from..=to).rev().eq(model.range(from..=to).rev()));
                    let bounds = (Bound::Excluded(from), Bound::Unbounded);
                    assert!(map.range(bounds).eq(model.range(bounds)));
                }
            }).unwrap();
        }
        let report = heap.check().unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }
}

/// Entries that come in order fill their nodes, in one transaction and in many.
#[test]
fn what_comes_in_order_fills_its_nodes() {
    let heap = Heap::in_memory().unwrap();
    let (one, many) = (heap.root::<Map>("one").unwrap(), heap.root::<Map>("many").unwrap());
    one.txn(|tx, map| map.extend(tx, (0..=255).map(|key| (key, 0)))).unwrap();
    (0..=255).for_each(|key| assert!(many.txn(|tx, map| map.insert(tx, &key, &0)).unwrap()));
    let full = (256.0_f64 / LEAF as f64).log(INNER as f64).ceil() as usize + 1;
    assert_eq!([is_sound(&one), is_sound(&many)], [full; 2]);
}

/// A transaction copies a node only once: the second insertion of a key changes the copy of the top in place.
#[test]
fn nodes_of_a_transaction_are_changed_where_they_are() {
    let heap = Heap::in_memory().unwrap();
    let root: Root<Map> = heap.root("map").unwrap();
    root.txn(|tx, map| map.extend(tx, (0..100).map(|key| (key, 0)))).unwrap();
    root.txn(|tx, map| {
        map.insert(tx, &50, &3)?;
        let top = tx[map].top;
        map.insert(tx, &50, &4)?;
        assert!(matches!((top, tx[map].top), (Child::Inner(a), Child::Inner(b)) if a == b));
        Ok(())
    })
    .unwrap();
}

/// Nodes and texts that belong to no version are collected, and those of a snapshot are not.
#[test]
fn old_versions_are_garbage_unless_they_are_kept() {
    let heap = Heap::in_memory().unwrap();
    let root: Root<Texts> = heap.root("map").unwrap();
    let text = |i: u64| format!("a text of some length, number {i}");
    let fill = |what: u64| {
        root.txn(|tx, map| map.extend(tx, (0..200).map(|i| (text(i), text(i + what))))).unwrap();
    };
    let objects = || {
        heap.collect().unwrap();
        heap.check().unwrap().objects
    };
    fill(0);
    let one = objects();
    fill(1000);
    assert_eq!(objects(), one);
    let snapshot = root.read(|view, map| map.snapshot(view)).unwrap().unwrap();
    for what in 2000..2010 {
        fill(what);
        heap.collect().unwrap();
        let other = snapshot.clone();
        other.read(|map| assert!((0..200).all(|i| map.get(&text(i)) == Some(&*text(i + 1000))))).unwrap();
    }
    let kept = heap.stats().live_bytes;
    drop(snapshot);
    heap.collect().unwrap();
    assert!(heap.stats().live_bytes < kept);
}
