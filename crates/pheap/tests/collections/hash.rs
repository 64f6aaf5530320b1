//! `PHashMap` compared with `HashMap`.

use std::borrow::Borrow;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use pheap::collections::hash::Entry;
use pheap::collections::{HashKey, KeyHasher, MapKey};
use pheap::{InlineBytes, P, PHashMap, PHashSet, Persist, Result, Txn, View};
use proptest::prelude::*;

use crate::twins::{self, Twins, twins};

#[derive(Debug, Clone)]
enum Op {
    Insert(u64, u64),
    InsertMany(u64, u64),
    Remove(u64),
    RemoveMany(u64, u64),
    Set(u64, u64),
    OrInsert(u64, u64),
    Modify(u64, u64),
    Occupied(u64, u64),
    Extend(u64, u64),
    Retain(u64),
    Extract(u64),
    RemoveEntry(u64),
    ChangeAll(u64),
    Drain,
    /// Another map, of so many keys from one on, is appended, or this one to it.
    Append(u64, u64, bool),
    Clear,
    Shrink,
}

fn op() -> BoxedStrategy<Op> {
    let key = || prop_oneof![1 => 0..12u64, 1 => 0..2000u64];
    let value = || 0..50u64;
    prop_oneof![
        8 => (key(), value()).prop_map(|(k, v)| Op::Insert(k, v)),
        3 => (key(), 0..200u64).prop_map(|(k, n)| Op::InsertMany(k, n)),
        6 => key().prop_map(Op::Remove),
        2 => (key(), 0..100u64).prop_map(|(k, n)| Op::RemoveMany(k, n)),
        4 => (key(), value()).prop_map(|(k, v)| Op::Set(k, v)),
        4 => (key(), value()).prop_map(|(k, v)| Op::OrInsert(k, v)),
        2 => (key(), value()).prop_map(|(k, v)| Op::Modify(k, v)),
        4 => (key(), value()).prop_map(|(k, v)| Op::Occupied(k, v)),
        2 => (key(), 0..300u64).prop_map(|(k, n)| Op::Extend(k, n)),
        1 => (1..5u64).prop_map(Op::Retain),
        1 => (1..5u64).prop_map(Op::Extract),
        2 => key().prop_map(Op::RemoveEntry),
        1 => value().prop_map(Op::ChangeAll),
        1 => Just(Op::Drain),
        2 => (key(), prop_oneof![1 => 0..10u64, 1 => 0..300u64], any::<bool>()).prop_map(|(k, n, to)| Op::Append(k, n, to)),
        1 => Just(Op::Clear),
        1 => Just(Op::Shrink),
    ]
    .boxed()
}

/// What a key is made of: a number, so that the twin is a map of numbers.
trait Key<'r>: HashKey<'r> {
    type Own: Borrow<Self::Query>;

    fn own(number: u64) -> Self::Own;
    fn with<T>(number: u64, run: impl FnOnce(&Self::Query) -> T) -> T;
    fn number(query: &Self::Query) -> u64;
}

impl<'r> Key<'r> for u64 {
    type Own = u64;

    fn own(number: u64) -> u64 {
        number
    }

    fn with<T>(number: u64, run: impl FnOnce(&u64) -> T) -> T {
        run(&number)
    }

    fn number(query: &u64) -> u64 {
        *query
    }
}

impl<'r> Key<'r> for P<'r, str> {
    type Own = String;

    fn own(number: u64) -> String {
        format!("key {number}")
    }

    fn with<T>(number: u64, run: impl FnOnce(&str) -> T) -> T {
        run(&format!("key {number}"))
    }

    fn number(query: &str) -> u64 {
        query[4..].parse().expect("a key of these tests")
    }
}

impl<'r> Key<'r> for InlineBytes<'r> {
    type Own = Vec<u8>;

    /// Of lengths around those that lie in the key.
    fn own(number: u64) -> Vec<u8> {
        [&number.to_le_bytes()[..], &[7; 32][..15 + number as usize % 18]].concat()
    }

    fn with<T>(number: u64, run: impl FnOnce(&[u8]) -> T) -> T {
        run(&Self::own(number))
    }

    fn number(query: &[u8]) -> u64 {
        u64::from_le_bytes(*query.first_chunk().expect("a key of these tests"))
    }
}

/// A key whose hash says little of it, or nothing.
#[derive(Persist, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(crate) struct Clumsy<const HASHES: u64>(pub(crate) u64);

// SAFETY: the query is the key.
unsafe impl<'r, const HASHES: u64> MapKey<'r> for Clumsy<HASHES> {
    type Query = Self;

    fn query<'v>(&'v self, _: &'v View<'r>) -> &'v Self {
        self
    }

    fn from_query(_: &Txn<'r>, query: &Self) -> Result<Self> {
        Ok(*query)
    }
}

impl<'r, const HASHES: u64> HashKey<'r> for Clumsy<HASHES> {
    fn hash(query: &Self, hasher: &mut KeyHasher) {
        hasher.write(&(query.0 % HASHES).to_le_bytes());
    }
}

impl<'r, const HASHES: u64> Key<'r> for Clumsy<HASHES> {
    type Own = Self;

    fn own(number: u64) -> Self {
        Clumsy(number)
    }

    fn with<T>(number: u64, run: impl FnOnce(&Self) -> T) -> T {
        run(&Clumsy(number))
    }

    fn number(query: &Self) -> u64 {
        query.0
    }
}

/// What a value is made of.
trait Value<'r>: Persist<At<'r> = Self> + Copy {
    fn make(tx: &Txn<'r>, value: u64) -> Result<Self>;
    fn value(&self, view: &View<'r>) -> u64;
}

impl<'r> Value<'r> for u64 {
    fn make(_: &Txn<'r>, value: u64) -> Result<u64> {
        Ok(value)
    }

    fn value(&self, _: &View<'r>) -> u64 {
        *self
    }
}

impl<'r> Value<'r> for P<'r, u64> {
    fn make(tx: &Txn<'r>, value: u64) -> Result<Self> {
        tx.alloc(value)
    }

    fn value(&self, view: &View<'r>) -> u64 {
        view[*self]
    }
}

type Twin = HashMap<u64, u64>;

fn apply<'r, K: Key<'r>, V: Value<'r>>(
    op: &Op,
    tx: &mut Txn<'r>,
    map: P<'r, PHashMap<'r, K, V>>,
    twin: &mut Twin,
) -> Result<()> {
    match *op {
        Op::Insert(k, v) => {
            let value = V::make(tx, v)?;
            let old = K::with(k, |key| map.insert(tx, key, value))?;
            assert_eq!(old.map(|v| v.value(tx)), twin.insert(k, v));
        }
        Op::InsertMany(k, n) => {
            for k in k..k + n {
                apply(&Op::Insert(k, k), tx, map, twin)?;
            }
        }
        Op::Remove(k) => {
            let old = K::with(k, |key| map.remove(tx, key));
            assert_eq!(old.map(|v| v.value(tx)), twin.remove(&k));
        }
        Op::RemoveMany(k, n) => {
            for k in k..k + n {
                apply(&Op::Remove(k), tx, map, twin)?;
            }
        }
        Op::Set(k, v) => {
            let value = V::make(tx, v)?;
            let old = K::with(k, |key| map.get_mut(tx, key).map(|old| std::mem::replace(old, value)));
            assert_eq!(old.map(|v| v.value(tx)), twin.get_mut(&k).map(|old| std::mem::replace(old, v)));
        }
        Op::OrInsert(k, v) => K::with(k, |key| {
            let value = *map.entry(tx, key).or_insert_with_key(|tx, key| V::make(tx, v + K::number(key)))?;
            assert_eq!(value.value(tx), *twin.entry(k).or_insert_with_key(|k| v + k));
            Ok::<_, pheap::Error>(())
        })?,
        Op::Modify(k, v) => {
            let (one, other) = (V::make(tx, v)?, V::make(tx, v + 1)?);
            K::with(k, |key| map.entry(tx, key).and_modify(|value| *value = one).or_insert(other).map(drop))?;
            twin.entry(k).and_modify(|value| *value = v).or_insert(v + 1);
        }
        Op::Occupied(k, v) => K::with(k, |key| {
            let value = V::make(tx, v)?;
            match (map.entry(tx, key), twin.entry(k)) {
                (Entry::Occupied(mut entry), std::collections::hash_map::Entry::Occupied(mut twin)) => {
                    assert!(*entry.key() == *key);
                    if v % 2 == 0 {
                        let old = entry.insert(value);
                        assert_eq!(old.value(tx), twin.insert(v));
                    } else if v % 3 == 0 {
                        let (key, value) = entry.remove_entry();
                        assert_eq!((K::number(key.query(tx)), value.value(tx)), twin.remove_entry());
                    } else {
                        let value = entry.remove();
                        assert_eq!(value.value(tx), twin.remove());
                    }
                }
                (Entry::Vacant(entry), std::collections::hash_map::Entry::Vacant(twin)) => {
                    assert!(*entry.key() == *key);
                    if v % 3 != 0 {
                        entry.insert(value)?;
                        twin.insert(v);
                    }
                }
                _ => panic!("an entry in one of the maps only"),
            }
            Ok::<_, pheap::Error>(())
        })?,
        Op::Extend(k, n) => {
            let entries =
                (k..k + n).map(|k| Ok((K::own(k), V::make(tx, 2 * k)?))).collect::<Result<Vec<_>>>()?;
            map.extend(tx, entries)?;
            twin.extend((k..k + n).map(|k| (k, 2 * k)));
        }
        Op::Retain(n) => {
            map.retain(tx, |key, _| K::number(key) % n == 0);
            twin.retain(|k, _| k % n == 0);
        }
        Op::Extract(n) => {
            let taken: Vec<_> = map.extract_if(tx, |key, _| K::number(key) % n == 0).collect();
            let taken = taken.iter().map(|(key, value)| (K::number(key.query(tx)), value.value(tx)));
            let gone: Twin = twin.iter().filter(|(k, _)| *k % n == 0).map(|(k, v)| (*k, *v)).collect();
            assert_eq!(taken.collect::<Twin>(), gone);
            twin.retain(|k, _| k % n != 0);
        }
        Op::RemoveEntry(k) => {
            let old = K::with(k, |key| map.remove_entry(tx, key));
            assert_eq!(
                old.map(|(key, value)| (K::number(key.query(tx)), value.value(tx))),
                twin.remove_entry(&k)
            );
        }
        Op::ChangeAll(v) => {
            let value = V::make(tx, v)?;
            map.for_each_mut(tx, |key, old| {
                if K::number(key) % 3 == v % 3 {
                    *old = value;
                }
            });
            twin.iter_mut().filter(|(k, _)| *k % 3 == v % 3).for_each(|(_, old)| *old = v);
        }
        Op::Drain => {
            let drained: Vec<_> = map.drain(tx).collect();
            let drained = drained.iter().map(|(k, v)| (K::number(k.query(tx)), v.value(tx)));
            assert_eq!(&drained.collect::<Twin>(), twin);
            twin.clear();
        }
        Op::Append(k, n, to_other) => {
            let (other, mut other_twin) = (tx.alloc(PHashMap::new())?, Default::default());
            apply(&Op::InsertMany(k, n), tx, other, &mut other_twin)?;
            if to_other {
                tx.swap(map, other);
                std::mem::swap(twin, &mut other_twin);
            }
            map.append(tx, other)?;
            twin.extend(other_twin);
            assert!(other.is_empty(tx));
        }
        Op::Clear => {
            map.clear(tx);
            twin.clear();
        }
        Op::Shrink => map.shrink_to_fit(tx)?,
    }
    Ok(())
}

fn compare<'r, K: Key<'r>, V: Value<'r>>(view: &View<'r>, map: P<'r, PHashMap<'r, K, V>>, twin: &Twin) {
    let map = &view[map];
    assert_eq!((map.len(), map.is_empty()), (twin.len(), twin.is_empty()));
    for (&k, &v) in twin {
        let found =
            K::with(k, |key| map.get_key_value(view, key).map(|(k, v)| (K::number(k), v.value(view))));
        assert_eq!(found, Some((k, v)));
    }
    for k in (0..20).chain(1000..1010) {
        assert_eq!(K::with(k, |key| map.contains_key(view, key)), twin.contains_key(&k));
        assert_eq!(K::with(k, |key| map.get(view, key)).map(|v| v.value(view)), twin.get(&k).copied());
    }
    let mut entries = map.iter(view);
    let mut seen = Twin::new();
    for i in (0..twin.len()).rev() {
        let (key, value) = entries.next().expect("as many as there are");
        assert_eq!(entries.len(), i);
        seen.insert(K::number(key), value.value(view));
    }
    assert!(entries.next().is_none() && entries.next().is_none());
    assert_eq!(&seen, twin);
    assert!(map.keys(view).map(K::number).eq(map.iter(view).map(|(k, _)| K::number(k))));
    assert!(map.values(view).map(|v| v.value(view)).eq(map.iter(view).map(|(_, v)| v.value(view))));
}

twins! {
    numbers_to_numbers: Numbers, PHashMap<'static, u64, u64>, Twin;
    numbers_to_pointers: Pointers, PHashMap<'static, u64, P<'static, u64>>, Twin;
    strings_to_numbers: Strings, PHashMap<'static, P<'static, str>, u64>, Twin;
    inline_bytes_to_numbers: Inline, PHashMap<'static, InlineBytes<'static>, u64>, Twin;
    all_of_one_hash: OneHash, PHashMap<'static, Clumsy<1>, P<'static, u64>>, Twin;
    all_of_few_hashes: FewHashes, PHashMap<'static, Clumsy<40>, u64>, Twin;
    strings_to_pointers: StringsToPointers, PHashMap<'static, P<'static, str>, P<'static, u64>>, Twin;
}

#[derive(Debug, Clone)]
enum SetOp {
    Insert(u64),
    Remove(u64),
    Extend(u64, u64),
    Retain(u64),
    Drain,
    Clear,
    Shrink,
    /// Compares it with another set.
    Beside(u64, u64),
}

struct Set;

impl Twins for Set {
    type Root = PHashSet<'static, P<'static, str>>;
    type Std = HashSet<u64>;
    type Op = SetOp;

    fn ops() -> BoxedStrategy<SetOp> {
        let key = || 0..300u64;
        prop_oneof![
            8 => key().prop_map(SetOp::Insert),
            4 => key().prop_map(SetOp::Remove),
            3 => (key(), 0..100u64).prop_map(|(k, n)| SetOp::Extend(k, n)),
            1 => (1..5u64).prop_map(SetOp::Retain),
            1 => Just(SetOp::Drain),
            1 => Just(SetOp::Clear),
            1 => Just(SetOp::Shrink),
            3 => (key(), 0..100u64).prop_map(|(k, n)| SetOp::Beside(k, n)),
        ]
        .boxed()
    }

    fn apply<'r>(
        op: &SetOp,
        tx: &mut Txn<'r>,
        set: P<'r, PHashSet<'r, P<'r, str>>>,
        twin: &mut HashSet<u64>,
    ) -> Result<()> {
        let own = <P<'r, str> as Key>::own;
        let number = <P<'r, str> as Key>::number;
        match *op {
            SetOp::Insert(k) => assert_eq!(set.insert(tx, &own(k))?, twin.insert(k)),
            SetOp::Remove(k) => assert_eq!(set.remove(tx, &own(k)), twin.remove(&k)),
            SetOp::Extend(k, n) => {
                set.extend(tx, (k..k + n).map(own))?;
                twin.extend(k..k + n);
            }
            SetOp::Retain(n) => {
                set.retain(tx, |key| number(key) % n == 0);
                twin.retain(|k| k % n == 0);
            }
            SetOp::Drain => {
                let drained: Vec<_> = set.drain(tx).collect();
                assert_eq!(drained.iter().map(|key| number(&tx[*key])).collect::<HashSet<_>>(), *twin);
                twin.clear();
            }
            SetOp::Clear => {
                set.clear(tx);
                twin.clear();
            }
            SetOp::Shrink => set.shrink_to_fit(tx)?,
            SetOp::Beside(k, n) => {
                let other = tx.alloc(PHashSet::new())?;
                other.extend(tx, (k..k + n).map(own))?;
                let (set, other) = (&tx[set], &tx[other]);
                let other_twin: HashSet<u64> = (k..k + n).collect();
                let numbers = |keys: &mut dyn Iterator<Item = &str>| {
                    let keys: Vec<u64> = keys.map(number).collect();
                    let unique: HashSet<u64> = keys.iter().copied().collect();
                    assert_eq!(unique.len(), keys.len());
                    unique
                };
                let (a, b) = (&*twin, &other_twin);
                assert_eq!(numbers(&mut set.union(tx, other)), a | b);
                assert_eq!(numbers(&mut set.intersection(tx, other)), a & b);
                assert_eq!(numbers(&mut set.difference(tx, other)), a - b);
                assert_eq!(numbers(&mut set.symmetric_difference(tx, other)), a ^ b);
                assert_eq!(set.is_subset(tx, other), a.is_subset(b));
                assert_eq!(set.is_superset(tx, other), a.is_superset(b));
                assert_eq!(set.is_disjoint(tx, other), a.is_disjoint(b));
            }
        }
        Ok(())
    }

    fn compare<'r>(view: &View<'r>, set: P<'r, PHashSet<'r, P<'r, str>>>, twin: &HashSet<u64>) {
        let keys = view[set].iter(view);
        assert_eq!(
            (set.len(view), set.is_empty(view), keys.len()),
            (twin.len(), twin.is_empty(), twin.len())
        );
        assert_eq!(keys.map(<P<'r, str> as Key>::number).collect::<HashSet<_>>(), *twin);
        assert!((0..400).all(|k| set.contains(view, &<P<'r, str> as Key>::own(k)) == twin.contains(&k)));
    }
}

#[test]
fn a_set_is_like_that_of_std() {
    twins::run::<Set>();
}

/// A map that cannot grow loses nothing.
#[test]
fn what_cannot_be_appended_stays() {
    let heap = pheap::Options::new().max_size(4 << 20).in_memory().unwrap();
    let a: pheap::Root<PHashMap<u64, u64>> = heap.root("a").unwrap();
    a.txn(|tx, a| {
        let b = tx.alloc(PHashMap::new())?;
        for key in 0..20_000u64 {
            a.insert(tx, 2 * key, key)?;
            b.insert(tx, 2 * key + 1, key)?;
        }
        while tx.alloc_slice_copy(&[0u8; 500]).is_ok() {}
        assert!(a.append(tx, b).is_err());
        assert_eq!(a.len(tx) + b.len(tx), 40_000);
        assert!(!b.is_empty(tx));
        for key in 0..40_000u64 {
            assert_eq!(a.get(tx, key).or(b.get(tx, key)), Some(&(key / 2)));
        }
        Ok(())
    })
    .unwrap();
    assert!(heap.check().unwrap().is_clean());
}

/// A key that is borrowed as one number, then as the other.
struct Fickle {
    numbers: [u64; 2],
    times: Cell<usize>,
}

impl Borrow<u64> for Fickle {
    fn borrow(&self) -> &u64 {
        &self.numbers[self.times.replace(self.times.get() + 1) % 2]
    }
}

#[test]
fn a_key_is_where_its_hash_says_whatever_it_was_borrowed_as() {
    let heap = pheap::Heap::in_memory().unwrap();
    let map: pheap::Root<PHashMap<u64, u64>> = heap.root("map").unwrap();
    map.txn(|tx, map| {
        for round in 0..3 {
            let fickle = |i| Fickle { numbers: [i * 7 + round, i % 50 * 1_000_003], times: Cell::new(0) };
            map.extend(tx, (0..2000).map(|i| (fickle(i), i)))?;
        }
        let keys: HashSet<u64> = map.keys(tx).copied().collect();
        assert_eq!(keys.len(), map.len(tx), "each key once");
        assert!(keys.iter().all(|&key| map.contains_key(tx, key)));
        Ok(())
    })
    .unwrap();
}
