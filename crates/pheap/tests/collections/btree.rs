//! `PBTreeMap` compared with `BTreeMap`.

use std::collections::BTreeMap;
use std::ops::Bound;

use pheap::collections::OrdKey;
use pheap::collections::btree::Entry;
use pheap::{InlineBytes, P, PBTreeMap, PBTreeSet, Persist, Result, Root, Txn, View};
use proptest::prelude::*;

use crate::twins::{self, Twins, twins};

#[derive(Debug, Clone)]
enum Op {
    Insert(u64, u64),
    /// From a key on, so many, at this distance.
    InsertMany(u64, u64, u64),
    Remove(u64),
    RemoveMany(u64, u64, u64),
    Change(u64, u64),
    /// Through its entry.
    Add(u64, u64),
    RemoveEntry(u64),
    PopFirst,
    PopLast,
    Clear,
    /// Those whose value has this remainder stay.
    Retain(u64, u64),
    /// Those go.
    Extract(u64, u64),
    Drain(u64, u64),
    /// The entries at both ends, by their entries.
    Ends(u64),
    ChangeMany(u64, u64),
    /// Split off at a key; one part stays, or both are put together again.
    Split(u64, Joined),
    /// Another map, of many keys, is appended, or this one to it.
    Append(u64, u64, u64, bool),
}

/// What becomes of two parts.
#[derive(Debug, Clone, Copy)]
enum Joined {
    Left,
    Right,
    RightToLeft,
    LeftToRight,
}

fn op() -> BoxedStrategy<Op> {
    let key = || 0..3000u64;
    let step = || prop_oneof![Just(1u64), Just(7), Just(1001), Just(u64::MAX)];
    prop_oneof![
        6 => (key(), any::<u64>()).prop_map(|(k, v)| Op::Insert(k, v)),
        2 => (key(), 0..700u64, step()).prop_map(|(k, n, s)| Op::InsertMany(k, n, s)),
        4 => key().prop_map(Op::Remove),
        2 => (key(), 0..900u64, step()).prop_map(|(k, n, s)| Op::RemoveMany(k, n, s)),
        2 => (key(), any::<u64>()).prop_map(|(k, v)| Op::Change(k, v)),
        2 => (key(), 0..1000u64).prop_map(|(k, v)| Op::Add(k, v)),
        1 => key().prop_map(Op::RemoveEntry),
        1 => Just(Op::PopFirst),
        1 => Just(Op::PopLast),
        1 => Just(Op::Clear),
        1 => (1..5u64, 0..5u64).prop_map(|(n, r)| Op::Retain(n, r)),
        1 => (1..5u64, 0..5u64).prop_map(|(n, r)| Op::Extract(n, r)),
        1 => (key(), key()).prop_map(|(a, b)| Op::Drain(a, b)),
        1 => any::<u64>().prop_map(Op::Ends),
        1 => (key(), key()).prop_map(|(a, b)| Op::ChangeMany(a.min(b), a.max(b) + 1)),
        2 => (key(), prop_oneof![Just(Joined::Left), Just(Joined::Right), Just(Joined::RightToLeft), Just(Joined::LeftToRight)])
            .prop_map(|(k, joined)| Op::Split(k, joined)),
        1 => (key(), 0..400u64, step(), any::<bool>()).prop_map(|(k, n, s, to)| Op::Append(k, n, s, to)),
    ]
    .boxed()
}

/// Keys from `first` on, `n` of them, at this distance, of the 3000 there are.
fn keys(first: u64, n: u64, step: u64) -> impl Iterator<Item = u64> {
    (0..n).map(move |i| (first.wrapping_add(i.wrapping_mul(step)) as i64).rem_euclid(3000) as u64)
}

/// A key that is made of a number, so that the operations serve for maps of several types.
trait Key<'r>: OrdKey<'r> {
    type Std: Ord + Clone + std::borrow::Borrow<Self::Query>;
    fn make(number: u64) -> Self::Std;
}

impl Key<'_> for u64 {
    type Std = u64;

    fn make(number: u64) -> u64 {
        number
    }
}

impl<'r> Key<'r> for P<'r, str> {
    type Std = String;

    /// Of several lengths. Many have a common beginning, which may be long; one is empty, and some are the
    /// beginning of others.
    fn make(number: u64) -> String {
        match number % 6 {
            0 => format!("{}", number / 6),
            1 => format!(
                "https://www.example.com/articles/{:016x}",
                number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
            ),
            2 => "x".repeat(number as usize / 30),
            3 => format!("common{}", number / 6),
            4 => format!("https://www.example.com/{}", number / 6),
            _ => format!("{}{}", "x".repeat(200), number / 6),
        }
    }
}

impl<'r> Key<'r> for InlineBytes<'r> {
    type Std = Vec<u8>;

    /// Of lengths around those that lie in the key; most share their beginning.
    fn make(number: u64) -> Vec<u8> {
        let mut key = match number % 5 {
            0 => vec![],
            _ => vec![b'k'; 20 + number as usize % 13],
        };
        key.extend(number.to_be_bytes().into_iter().skip_while(|&byte| byte == 0));
        key
    }
}

trait Value<'r>: Persist<At<'r> = Self> + Copy + PartialEq {
    const IS_NUMBER: bool;
    fn make(tx: &Txn<'r>, value: u64) -> Result<Self>;
    fn value(&self, view: &View<'r>) -> u64;
}

impl<'r> Value<'r> for u64 {
    const IS_NUMBER: bool = true;

    fn make(_: &Txn<'r>, value: u64) -> Result<u64> {
        Ok(value)
    }

    fn value(&self, _: &View<'r>) -> u64 {
        *self
    }
}

impl<'r> Value<'r> for P<'r, u64> {
    const IS_NUMBER: bool = false;

    fn make(tx: &Txn<'r>, value: u64) -> Result<Self> {
        tx.alloc(value)
    }

    fn value(&self, view: &View<'r>) -> u64 {
        view[*self]
    }
}

fn apply<'r, K: Key<'r>, V: Value<'r>>(
    op: &Op,
    tx: &mut Txn<'r>,
    map: P<'r, PBTreeMap<'r, K, V>>,
    twin: &mut BTreeMap<K::Std, u64>,
) -> Result<()> {
    use std::borrow::Borrow;
    match *op {
        Op::Insert(k, v) => {
            let (key, value) = (K::make(k), V::make(tx, v)?);
            let old = map.insert(tx, key.borrow(), value)?;
            assert_eq!(old.map(|old| old.value(tx)), twin.insert(key, v));
        }
        Op::InsertMany(k, n, step) => {
            for k in keys(k, n, step) {
                let (key, value) = (K::make(k), V::make(tx, k)?);
                let old = map.insert(tx, key.borrow(), value)?;
                assert_eq!(old.map(|old| old.value(tx)), twin.insert(key, k));
            }
        }
        Op::Remove(k) => {
            let key = K::make(k);
            assert_eq!(map.remove(tx, key.borrow()).map(|old| old.value(tx)), twin.remove(key.borrow()));
        }
        Op::RemoveMany(k, n, step) => {
            for k in keys(k, n, step) {
                let key = K::make(k);
                assert_eq!(map.remove(tx, key.borrow()).map(|old| old.value(tx)), twin.remove(key.borrow()));
            }
        }
        Op::Change(k, v) => {
            let (key, value) = (K::make(k), V::make(tx, v)?);
            let place = map.get_mut(tx, key.borrow());
            assert_eq!(place.is_some(), twin.contains_key(key.borrow()));
            if let Some(place) = place {
                *place = value;
                twin.insert(key, v);
            }
        }
        Op::Add(k, v) => {
            let key = K::make(k);
            let old = map.get(tx, key.borrow()).map_or(0, |old| old.value(tx));
            let new = V::make(tx, old + v)?;
            let entry = map.entry(tx, key.borrow());
            assert!(entry.key() == key.borrow());
            assert_eq!(matches!(entry, Entry::Occupied(_)), twin.contains_key(key.borrow()));
            let place = entry.and_modify(|place| *place = new).or_insert_with(|tx| V::make(tx, old + v))?;
            assert_eq!(*place == new, twin.contains_key(key.borrow()) || V::IS_NUMBER);
            *twin.entry(key).or_insert(0) += v;
        }
        Op::RemoveEntry(k) => {
            let key = K::make(k);
            match map.entry(tx, key.borrow()) {
                Entry::Occupied(entry) => {
                    assert!(entry.key() == key.borrow());
                    let (removed, value) = entry.remove_entry();
                    assert!(removed.query(tx) == key.borrow());
                    assert_eq!(Some(value.value(tx)), twin.remove(key.borrow()));
                }
                Entry::Vacant(_) => assert!(!twin.contains_key(key.borrow())),
            }
        }
        Op::PopFirst => {
            let (popped, other) = (map.pop_first(tx), twin.pop_first());
            assert!(popped.as_ref().map(|(k, _)| k.query(tx)) == other.as_ref().map(|(k, _)| k.borrow()));
            assert_eq!(popped.map(|(_, v)| v.value(tx)), other.map(|(_, v)| v));
        }
        Op::PopLast => {
            let (popped, other) = (map.pop_last(tx), twin.pop_last());
            assert!(popped.as_ref().map(|(k, _)| k.query(tx)) == other.as_ref().map(|(k, _)| k.borrow()));
            assert_eq!(popped.map(|(_, v)| v.value(tx)), other.map(|(_, v)| v));
        }
        Op::Clear => {
            map.clear(tx);
            twin.clear();
        }
        Op::Retain(n, rest) => {
            let values: Vec<u64> = twin.values().copied().collect();
            let mut next = values.iter();
            map.retain(tx, |_, _| next.next().is_some_and(|v| v % n == rest));
            twin.retain(|_, v| *v % n == rest);
        }
        Op::Extract(n, rest) => {
            let values: Vec<u64> = twin.values().copied().collect();
            let mut next = values.iter();
            let taken: Vec<_> =
                map.extract_if(tx, |_, _| next.next().is_some_and(|v| v % n == rest)).collect();
            let gone: Vec<_> = twin.iter().filter(|(_, v)| *v % n == rest).collect();
            assert_eq!(taken.len(), gone.len());
            for ((key, value), (other_key, other)) in taken.iter().zip(gone) {
                assert!(key.query(tx) == other_key.borrow() && value.value(tx) == *other);
            }
            twin.retain(|_, v| *v % n != rest);
        }
        Op::Drain(a, b) => {
            let (a, b) = (K::make(a), K::make(b));
            let (a, b) = (a.clone().min(b.clone()), a.max(b));
            let range = || (Bound::Included(a.borrow()), Bound::Included(b.borrow()));
            let taken: Vec<_> = map.drain(tx, range()).collect();
            let gone: Vec<_> = twin.range::<K::Query, _>(range()).map(|(k, v)| (k.clone(), *v)).collect();
            assert_eq!(taken.len(), gone.len());
            for ((key, value), (other_key, other)) in taken.iter().zip(&gone) {
                assert!(key.query(tx) == other_key.borrow() && value.value(tx) == *other);
            }
            for (key, _) in &gone {
                twin.remove(key.borrow());
            }
        }
        Op::Ends(v) => {
            let new = V::make(tx, v)?;
            assert_eq!(map.first_entry(tx).map(|mut entry| entry.insert(new)).is_some(), !twin.is_empty());
            if let Some(mut entry) = twin.first_entry() {
                entry.insert(v);
            }
            let last = map.last_entry(tx).map(|entry| entry.remove());
            assert_eq!(last.map(|last| last.value(tx)), twin.pop_last().map(|(_, v)| v));
        }
        Op::ChangeMany(a, b) => {
            let (a, b) = (K::make(a), K::make(b));
            let (a, b) = (a.clone().min(b.clone()), a.max(b));
            let range = || (Bound::Included(a.borrow()), Bound::Included(b.borrow()));
            let new = V::make(tx, 7)?;
            let mut other = twin.range_mut::<K::Query, _>(range());
            map.for_each_mut_in(tx, range(), |key, value| {
                let (other_key, other_value) = other.next().expect("as many");
                assert!(key == other_key.borrow());
                (*value, *other_value) = (new, 7);
            });
            assert!(other.next().is_none());
        }
        Op::Split(k, joined) => {
            let key = K::make(k);
            let (right, mut right_twin) = (map.split_off(tx, key.borrow())?, twin.split_off(key.borrow()));
            let right = tx.alloc(right)?;
            compare(tx, map, twin);
            compare(tx, right, &right_twin);
            match joined {
                Joined::Left => right.clear(tx),
                Joined::Right => {
                    map.clear(tx);
                    tx.swap(map, right);
                    *twin = right_twin;
                }
                Joined::RightToLeft => {
                    map.append(tx, right)?;
                    twin.append(&mut right_twin);
                    assert!(right.is_empty(tx));
                }
                Joined::LeftToRight => {
                    right.append(tx, map)?;
                    assert!(map.is_empty(tx));
                    tx.swap(map, right);
                    twin.append(&mut right_twin);
                }
            }
        }
        Op::Append(k, n, step, to_other) => {
            let (other, mut other_twin) = (tx.alloc(PBTreeMap::new())?, BTreeMap::new());
            apply(&Op::InsertMany(k, n, step), tx, other, &mut other_twin)?;
            if to_other {
                tx.swap(map, other);
                std::mem::swap(twin, &mut other_twin);
            }
            map.append(tx, other)?;
            twin.append(&mut other_twin);
            assert!(other.is_empty(tx));
        }
    }
    Ok(())
}

fn compare<'r, K: Key<'r>, V: Value<'r>>(
    view: &View<'r>,
    map: P<'r, PBTreeMap<'r, K, V>>,
    twin: &BTreeMap<K::Std, u64>,
) {
    use std::borrow::Borrow;
    let map = &view[map];
    assert_eq!((map.len(), map.is_empty()), (twin.len(), twin.is_empty()));
    let mut entries = map.iter(view);
    assert_eq!(entries.len(), twin.len());
    for (key, value) in twin {
        let (k, v) = entries.next().expect("as many");
        assert!(k == key.borrow() && v.value(view) == *value);
        assert_eq!(map.get(view, key.borrow()).map(|v| v.value(view)), Some(*value));
    }
    assert!(entries.next().is_none() && entries.next_back().is_none());
    assert!(map.values(view).rev().map(|v| v.value(view)).eq(twin.values().rev().copied()));
    // From both ends.
    let (mut ends, mut other) = (map.keys(view), twin.keys());
    for i in 0..twin.len() {
        let (a, b) =
            if i % 3 == 0 { (ends.next_back(), other.next_back()) } else { (ends.next(), other.next()) };
        assert!(a == b.map(Borrow::borrow));
    }
    assert!(ends.next().is_none());
    for (n, (key, value)) in twin.iter().enumerate().step_by(1 + twin.len() / 50) {
        let (k, v) = map.nth(view, n).expect("as many");
        assert!(k == key.borrow() && v.value(view) == *value);
    }
    assert!(map.nth(view, twin.len()).is_none() && map.nth(view, usize::MAX).is_none());
    assert!(map.first_key_value(view).map(|(k, _)| k) == twin.keys().next().map(Borrow::borrow));
    assert!(map.last_key_value(view).map(|(k, _)| k) == twin.keys().next_back().map(Borrow::borrow));
    for i in 0..20 {
        let (a, b) = (K::make(i * 149), K::make(i * 271 % 3000));
        assert_eq!(map.contains_key(view, a.borrow()), twin.contains_key(a.borrow()));
        assert_eq!(
            map.rank(view, a.borrow()),
            twin.range::<K::Query, _>((Bound::Unbounded, Bound::Excluded(a.borrow()))).count()
        );
        assert!(
            map.get_key_value(view, a.borrow()).map(|(k, _)| k)
                == twin.get_key_value(a.borrow()).map(|(k, _)| k.borrow())
        );
        let (a, b) = (a.clone().min(b.clone()), a.max(b));
        if a == b {
            continue;
        }
        let (from, to) = match i % 3 {
            0 => (Bound::Included(a.borrow()), Bound::Excluded(b.borrow())),
            1 => (Bound::Excluded(a.borrow()), Bound::Included(b.borrow())),
            _ => (Bound::Excluded(a.borrow()), Bound::Unbounded),
        };
        let range = map.range(view, (from, to));
        let other = || twin.range::<K::Query, _>((from, to));
        assert!(range.clone().map(|(_, v)| v.value(view)).eq(other().map(|(_, v)| *v)));
        assert!(range.rev().map(|(_, v)| v.value(view)).eq(other().rev().map(|(_, v)| *v)));
    }
}

twins! {
    a_map_of_numbers_is_like_that_of_std: Numbers, PBTreeMap<'static, u64, u64>, BTreeMap<u64, u64>;
    a_map_of_strings_is_like_that_of_std: Strings, PBTreeMap<'static, P<'static, str>, P<'static, u64>>, BTreeMap<String, u64>;
    a_map_of_inline_bytes_is_like_that_of_std: Inline, PBTreeMap<'static, InlineBytes<'static>, u64>, BTreeMap<Vec<u8>, u64>;
}

struct Set;

impl Twins for Set {
    type Root = PBTreeSet<'static, P<'static, str>>;
    type Std = std::collections::BTreeSet<String>;
    type Op = (bool, u64);

    fn ops() -> BoxedStrategy<(bool, u64)> {
        (any::<bool>(), 0..200u64).boxed()
    }

    fn apply<'r>(
        &(insert, number): &(bool, u64),
        tx: &mut Txn<'r>,
        set: P<'r, PBTreeSet<'r, P<'r, str>>>,
        twin: &mut Self::Std,
    ) -> Result<()> {
        let key = <P<'_, str> as Key<'_>>::make(number);
        match (insert, number) {
            (true, _) => assert_eq!(set.insert(tx, &key)?, twin.insert(key)),
            (false, 0) => {
                set.clear(tx);
                twin.clear();
            }
            (false, 1..10) => {
                set.retain(tx, |key| key.len() as u64 % 5 < number);
                twin.retain(|key| key.len() as u64 % 5 < number);
            }
            (false, 10..20) => {
                assert_eq!(set.pop_first(tx).map(|key| tx[key].to_owned()), twin.pop_first());
                assert_eq!(set.pop_last(tx).map(|key| tx[key].to_owned()), twin.pop_last());
            }
            (false, 20..30) => {
                assert_eq!(set.take(tx, &key).map(|key| tx[key].to_owned()), twin.take(&key));
            }
            (false, _) => assert_eq!(set.remove(tx, &key), twin.remove(&key)),
        }
        Ok(())
    }

    fn compare<'r>(view: &View<'r>, set: P<'r, PBTreeSet<'r, P<'r, str>>>, twin: &Self::Std) {
        let set = &view[set];
        assert_eq!((set.len(), set.is_empty()), (twin.len(), twin.is_empty()));
        assert!(set.iter(view).eq(twin) && set.iter(view).rev().eq(twin.iter().rev()));
        assert!(
            set.range(view, "a".."d").eq(twin.range::<str, _>((Bound::Included("a"), Bound::Excluded("d"))))
        );
        assert!(
            set.first(view) == twin.first().map(|key| &**key)
                && set.last(view) == twin.last().map(|key| &**key)
        );
        assert!(twin.iter().all(|key| set.contains(view, key) && set.get(view, key) == Some(key)));
    }
}

#[test]
fn a_set_is_like_that_of_std() {
    twins::run::<Set>();
}

#[test]
fn what_a_map_gives_up_is_used_again() {
    let heap = pheap::Options::new().collect_least(1 << 40).in_memory().expect("a heap");
    let root: Root<PBTreeMap<P<str>, u64>> = heap.root("map").expect("a root");
    let key = |i: u64| format!("a key with number {i}");
    let mut most = 0;
    for round in 0..60u64 {
        root.txn(|tx, map| (0..1000).try_for_each(|i| map.insert(tx, &key(i * 31 % 1000), i).map(drop)))
            .expect("insertions");
        let taken = heap.stats();
        match round % 4 {
            0 => root.txn(|tx, map| {
                map.clear(tx);
                Ok(())
            }),
            1 => root.txn(|tx, map| {
                (0..1000).for_each(|i| assert!(map.remove(tx, &key(i)).is_some()));
                Ok(())
            }),
            2 => root.txn(|tx, map| {
                map.retain(tx, |_, value| *value == 500);
                assert_eq!(map.remove(tx, &key(500 * 31 % 1000)), Some(500));
                Ok(())
            }),
            _ => {
                (0..1000).for_each(|i| {
                    root.txn(|tx, map| {
                        assert!(map.remove(tx, &key(i)).is_some());
                        Ok(())
                    })
                    .expect("a removal");
                });
                Ok(())
            }
        }
        .expect("removals");
        let stats = heap.stats();
        assert_eq!(stats.collections, 0);
        if round < 8 {
            most = most.max(taken.file_bytes - taken.free_bytes);
        } else {
            assert!(taken.file_bytes - taken.free_bytes <= most, "it grows, in round {round}");
        }
    }
    heap.collect().expect("a collection");
    assert_eq!(heap.stats().live_objects, 1, "but the root, nothing is left");
}

#[test]
fn a_map_that_finds_no_memory_stays_as_it_is() {
    let heap = pheap::Options::new().arena_size(256 << 10).max_size(1 << 20).in_memory().expect("a heap");
    let root: Root<PBTreeMap<P<str>, u64>> = heap.root("map").expect("a root");
    let mut inserted = 0;
    // The transaction is committed all the same.
    root.txn(|tx, map| {
        while map
            .insert(tx, &format!("{:x}", (inserted as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)), 1)
            .is_ok()
        {
            inserted += 1;
        }
        assert!(inserted > 1000 && map.len(tx) == inserted);
        Ok(())
    })
    .expect("what was inserted before");
    root.txn(|tx, map| {
        assert_eq!(map.iter(tx).count(), inserted);
        assert!(tx[map].keys(tx).is_sorted());
        Ok(())
    })
    .expect("a look");
    // A long transaction needs room in the log, and finds none.
    let long = root.txn(|tx, map| {
        while map.pop_last(tx).is_some() {}
        assert!(map.is_empty(tx) && map.iter(tx).next().is_none());
        Ok(())
    });
    assert!(matches!(long, Err(pheap::Error::OutOfSpace { .. })), "{long:?}");
    root.read(|view, map| assert_eq!(map.iter(view).count(), inserted)).expect("a read");
    while root.txn(|tx, map| Ok((0..10).all(|_| map.pop_last(tx).is_some()))).expect("removal") {}
    assert!(heap.check().expect("a check").is_clean());
}

#[test]
fn ranges_that_make_no_sense_panic() {
    let heap = pheap::Heap::in_memory().expect("a heap");
    let root: Root<PBTreeMap<u64, u64>> = heap.root("map").expect("a root");
    root.txn(|tx, map| {
        map.extend(tx, [(&1, 1), (&5, 5), (&9, 9)])?;
        assert_eq!(map.range(tx, 1..9).count(), 2);
        assert_eq!(map.range(tx, &1..=&9).count(), 3);
        assert_eq!(map.range(tx, 5..5).count(), 0);
        assert_eq!(map.range(tx, ..5).count(), 1);
        assert_eq!(map.range(tx, (Bound::Excluded(5), Bound::Unbounded)).count(), 1);
        assert!(format!("{:?} {:?}", tx[map].iter(tx), map.range(tx, 6..)) == "{1: 1, 5: 5, 9: 9} {9: 9}");
        let caught = |range: (Bound<u64>, Bound<u64>)| {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| map.range(tx, range).count())).is_err()
        };
        assert!(caught((Bound::Included(6), Bound::Included(5))));
        assert!(caught((Bound::Excluded(5), Bound::Excluded(5))));
        assert!(!caught((Bound::Included(5), Bound::Excluded(5))));
        Ok(())
    })
    .expect("a transaction");
}

/// A map that cannot grow loses nothing.
#[test]
fn what_cannot_be_appended_stays() {
    let heap = pheap::Options::new().max_size(4 << 20).in_memory().unwrap();
    let a: Root<PBTreeMap<u64, u64>> = heap.root("a").unwrap();
    a.txn(|tx, a| {
        let b = tx.alloc(PBTreeMap::new())?;
        for key in 0..20_000u64 {
            a.insert(tx, 2 * key, key)?;
            b.insert(tx, 2 * key + 1, key)?;
        }
        while tx.alloc_slice_copy(&[0u8; 2000]).is_ok() {}
        assert!(a.append(tx, b).is_err());
        assert_eq!(a.len(tx) + b.len(tx), 40_000);
        assert!(b.len(tx) > 10_000 && a.len(tx) > 20_000);
        for key in 0..40_000u64 {
            assert_eq!(a.get(tx, key).or(b.get(tx, key)), Some(&(key / 2)));
        }
        let before = (a.len(tx), b.len(tx));
        if a.split_off(tx, 20_000).is_err() {
            assert_eq!((a.len(tx), b.len(tx)), before);
            assert!(a.iter(tx).map(|(key, _)| *key).is_sorted());
        }
        Ok(())
    })
    .unwrap();
    assert!(heap.check().unwrap().is_clean());
}
