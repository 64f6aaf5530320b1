//! Steps on maps and sets.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use pheap::collections::{HashKey, MapKey, OrdKey};
use pheap::{
    P, PBTreeMap, PBTreeSet, PHashMap, PHashSet, PSnapMap, PString, PVec, Persist, Result, Txn, View,
};

use crate::content::name;
use crate::ops::{MapStep, SetStep};

/// The type by which a key is looked up.
type Query<'r, K> = <K as MapKey<'r>>::Query;

/// A type of keys of a map, and of its model.
pub trait Key<'r>: MapKey<'r> {
    type Model: Ord + Clone + Borrow<Query<'r, Self>>;

    fn model(n: u16) -> Self::Model;
}

/// A type of values of a map, and of its model.
pub trait Value<'r>: Persist<At<'r> = Self> + Default {
    type Model: Clone + Default;

    fn make(tx: &Txn<'r>, n: u16) -> Result<Self>;
    fn model(n: u16) -> Self::Model;
    fn is(&self, view: &View<'r>, model: &Self::Model) -> bool;

    /// Changes a value and its model, without allocating.
    fn change(&mut self, model: &mut Self::Model, by: u16);
}

impl<'r> Key<'r> for u64 {
    type Model = u64;

    fn model(n: u16) -> u64 {
        u64::from(n) * 1000 % 65_537
    }
}

impl<'r> Key<'r> for P<'r, str> {
    type Model = String;

    fn model(n: u16) -> String {
        name(n)
    }
}

impl<'r> Key<'r> for PString<'r> {
    type Model = String;

    fn model(n: u16) -> String {
        name(n)
    }
}

impl<'r> Value<'r> for u64 {
    type Model = u64;

    fn make(_: &Txn<'r>, n: u16) -> Result<u64> {
        Ok(n.into())
    }

    fn model(n: u16) -> u64 {
        n.into()
    }

    fn is(&self, _: &View<'r>, model: &u64) -> bool {
        self == model
    }

    fn change(&mut self, model: &mut u64, by: u16) {
        *self = self.wrapping_add(by.into());
        *model = model.wrapping_add(by.into());
    }
}

impl<'r> Value<'r> for PVec<'r, u16> {
    type Model = Vec<u16>;

    fn make(tx: &Txn<'r>, n: u16) -> Result<Self> {
        PVec::from_slice(tx, &<Self as Value>::model(n))
    }

    fn model(n: u16) -> Vec<u16> {
        vec![n; usize::from(n % 50)]
    }

    fn is(&self, view: &View<'r>, model: &Vec<u16>) -> bool {
        self.iter(view).eq(model)
    }

    fn change(&mut self, model: &mut Vec<u16>, _: u16) {
        *self = PVec::default();
        model.clear();
    }
}

impl<'r> Value<'r> for PString<'r> {
    type Model = String;

    fn make(tx: &Txn<'r>, n: u16) -> Result<Self> {
        PString::from_str(tx, &name(n))
    }

    fn model(n: u16) -> String {
        name(n)
    }

    fn is(&self, view: &View<'r>, model: &String) -> bool {
        self.as_str(view) == model
    }

    fn change(&mut self, model: &mut String, _: u16) {
        *self = PString::default();
        model.clear();
    }
}

/// Returns whether a map and its model have returned the same.
fn same<'r, V: Value<'r>>(view: &View<'r>, found: Option<&V>, model: Option<&V::Model>) -> bool {
    match (found, model) {
        (Some(found), Some(model)) => found.is(view, model),
        (found, model) => found.is_none() && model.is_none(),
    }
}

/// Returns the numbers of `len` keys, from `first` on, modulo 1024. Numbers may repeat.
fn keys(first: u16, len: u8, step: u8) -> impl Iterator<Item = u16> {
    (0..u16::from(len)).map(move |i| first.wrapping_add(i * (u16::from(step % 8) + 1)) % 1024)
}

/// Returns a hash of a key. `Retain` selects keys by it.
fn number(key: &impl std::hash::Hash) -> u64 {
    struct Sum(u64);
    impl std::hash::Hasher for Sum {
        fn finish(&self) -> u64 {
            self.0
        }
        fn write(&mut self, bytes: &[u8]) {
            bytes.iter().for_each(|&byte| self.0 = self.0.wrapping_mul(31) + u64::from(byte));
        }
    }
    let mut sum = Sum(0);
    key.hash(&mut sum);
    sum.0 >> 8
}

/// The steps that hash maps and ordered maps have in common.
macro_rules! common {
    ($tx:ident, $map:ident, $model:ident, $step:ident, $K:ty, $V:ty; $($more:tt)*) => {{
        let key = |n: u8| <$K as Key>::model(n.into());
        match *$step {
            MapStep::Insert(k, v) => {
                let value = <$V>::make($tx, v)?;
                let old = $map.insert($tx, key(k).borrow(), value)?;
                let old_model = $model.insert(key(k), <$V as Value>::model(v));
                assert!(same($tx, old.as_ref(), old_model.as_ref()));
            }
            MapStep::Remove(k) => {
                let old = $map.remove($tx, key(k).borrow());
                assert!(same($tx, old.as_ref(), $model.remove(key(k).borrow()).as_ref()));
            }
            MapStep::Get(k) => {
                assert!(same($tx, $map.get($tx, key(k).borrow()), $model.get(key(k).borrow())));
                assert_eq!($map.contains_key($tx, key(k).borrow()), $model.contains_key(key(k).borrow()));
            }
            MapStep::Change(k, by) => {
                match ($map.get_mut($tx, key(k).borrow()), $model.get_mut(key(k).borrow())) {
                    (Some(value), Some(model)) => value.change(model, by),
                    (value, model) => assert!(value.is_none() && model.is_none()),
                }
            }
            MapStep::OrInsert(k, v) => {
                let query = key(k);
                let value = $map.entry($tx, query.borrow()).or_insert_with(|tx| <$V>::make(tx, v))?;
                let model = $model.entry(key(k)).or_insert_with(|| <$V as Value>::model(v));
                value.change(model, 1);
            }
            MapStep::Extend { first, len, step } => {
                for n in keys(first, len, step) {
                    let value = <$V>::make($tx, n)?;
                    $map.insert($tx, <$K as Key>::model(n).borrow(), value)?;
                    $model.insert(<$K as Key>::model(n), <$V as Value>::model(n));
                }
            }
            MapStep::RemoveMany { first, len } => {
                for n in keys(first, len, 0) {
                    let old = $map.remove($tx, <$K as Key>::model(n).borrow());
                    let model = $model.remove(<$K as Key>::model(n).borrow());
                    assert!(same($tx, old.as_ref(), model.as_ref()));
                }
            }
            MapStep::Retain(of) => {
                let of = u64::from(of) + 1;
                $map.retain($tx, |key, _| number(&key) % of != 0);
                $model.retain(|key, _| number(&Borrow::<Query<'r, $K>>::borrow(key)) % of != 0);
            }
            MapStep::ForEach(by) => {
                $map.for_each_mut($tx, |key, value| {
                    value.change($model.get_mut(key).expect("the model has the key, too"), by);
                });
            }
            MapStep::Clear => {
                $map.clear($tx);
                $model.clear();
            }
            $($more)*
        }
        assert_eq!($map.len($tx), $model.len());
        Ok(())
    }};
}

pub fn hash_map<'r, K: Key<'r> + HashKey<'r>, V: Value<'r>>(
    tx: &mut Txn<'r>,
    map: P<'r, PHashMap<'r, K, V>>,
    model: &mut BTreeMap<K::Model, V::Model>,
    step: &MapStep,
) -> Result<()>
where
    Query<'r, K>: Ord + std::hash::Hash,
{
    common!(tx, map, model, step, K, V;
        MapStep::RemoveEntry(k) => {
            use pheap::collections::hash::Entry;
            let query = K::model(k.into());
            match map.entry(tx, query.borrow()) {
                Entry::Occupied(entry) => {
                    entry.remove();
                    model.remove(query.borrow()).expect("the model has the key, too");
                }
                Entry::Vacant(_) => assert!(!model.contains_key(query.borrow())),
            }
        }
        MapStep::Drain => {
            let drained = map.drain(tx);
            assert_eq!(drained.len(), model.len());
            for (key, value) in drained {
                let found = model.remove(key.query(tx)).expect("the model has the key, too");
                assert!(value.is(tx, &found));
            }
        }
        MapStep::Shrink => map.shrink_to_fit(tx)?,
        MapStep::PopFirst | MapStep::PopLast | MapStep::Range(..) => {} // steps of ordered maps
    )
}

pub fn tree<'r, K: Key<'r> + OrdKey<'r>, V: Value<'r>>(
    tx: &mut Txn<'r>,
    map: P<'r, PBTreeMap<'r, K, V>>,
    model: &mut BTreeMap<K::Model, V::Model>,
    step: &MapStep,
) -> Result<()>
where
    Query<'r, K>: Ord + std::hash::Hash,
{
    common!(tx, map, model, step, K, V;
        MapStep::RemoveEntry(k) => {
            let query = K::model(k.into());
            let removed = map.remove_entry(tx, query.borrow());
            let expected = model.remove_entry(query.borrow());
            assert!(matches(tx, removed, expected));
        }
        MapStep::PopFirst => {
            let removed = map.pop_first(tx);
            assert!(matches(tx, removed, model.pop_first()));
        }
        MapStep::PopLast => {
            let removed = map.pop_last(tx);
            assert!(matches(tx, removed, model.pop_last()));
        }
        MapStep::Range(from, to) => {
            let (a, b) = (K::model(from.into()), K::model(to.into()));
            let (a, b) = if a <= b { (a, b) } else { (b, a) };
            let bounds = (std::ops::Bound::Excluded(a.borrow()), std::ops::Bound::Included(b.borrow()));
            if a != b {
                let found = map.range(tx, bounds).rev();
                let expected = model.range::<Query<'r, K>, _>(bounds).rev();
                let all = found
                    .zip(expected.clone())
                    .all(|((key, value), (k, v))| key == k.borrow() && value.is(tx, v));
                assert!(all && map.range(tx, bounds).count() == expected.count());
            }
        }
        MapStep::Drain | MapStep::Shrink => {} // steps of hash maps
    )
}

/// Does a step on a map with versions, unless such a map does not have it. Steps on entries are plain ones.
pub fn versions<'r>(
    tx: &mut Txn<'r>,
    map: P<'r, PSnapMap<'r, P<'r, str>, u64>>,
    model: &mut BTreeMap<String, u64>,
    step: &MapStep,
) -> Result<()> {
    match *step {
        MapStep::Insert(k, v) | MapStep::OrInsert(k, v) => {
            let is_new = map.insert(tx, &name(k.into()), &v.into())?;
            assert_eq!(is_new, model.insert(name(k.into()), v.into()).is_none());
        }
        MapStep::Remove(k) | MapStep::RemoveEntry(k) => {
            assert_eq!(map.remove(tx, &name(k.into()))?, model.remove(&name(k.into())).is_some());
        }
        MapStep::Get(k) => assert_eq!(map.get(tx, &name(k.into())), model.get(&name(k.into()))),
        MapStep::Extend { first, len, step } => {
            for n in keys(first, len, step) {
                map.insert(tx, &name(n), &n.into())?;
                model.insert(name(n), n.into());
            }
        }
        MapStep::RemoveMany { first, len } => {
            for n in keys(first, len, 0) {
                assert_eq!(map.remove(tx, &name(n))?, model.remove(&name(n)).is_some());
            }
        }
        MapStep::Range(from, to) => {
            let (a, b) = (name(from.into()), name(to.into()));
            let (a, b) = if a <= b { (a, b) } else { (b, a) };
            let found = map.range(tx, a.as_str()..b.as_str());
            assert!(found.eq(model.range::<String, _>(&a..&b).map(|(k, v)| (k.as_str(), v))));
        }
        MapStep::Clear => {
            map.clear(tx);
            model.clear();
        }
        _ => {}
    }
    assert_eq!(map.len(tx), model.len());
    Ok(())
}

/// Returns whether the removed entry equals that of the model.
fn matches<'r, K: Key<'r>, V: Value<'r>>(
    view: &View<'r>,
    removed: Option<(K, V)>,
    expected: Option<(K::Model, V::Model)>,
) -> bool
where
    Query<'r, K>: Ord,
{
    match (removed, expected) {
        (Some((key, value)), Some((k, v))) => key.query(view) == k.borrow() && value.is(view, &v),
        (removed, expected) => removed.is_none() && expected.is_none(),
    }
}

/// The steps that hash sets and ordered sets have in common.
macro_rules! common_of_sets {
    ($tx:ident, $set:ident, $model:ident, $step:ident; $($more:tt)*) => {{
        match *$step {
            SetStep::Insert(n) => assert_eq!($set.insert($tx, u32::from(n))?, $model.insert(n.into())),
            SetStep::Remove(n) => assert_eq!($set.remove($tx, u32::from(n)), $model.remove(&n.into())),
            SetStep::Contains(n) => assert_eq!($set.contains($tx, u32::from(n)), $model.contains(&n.into())),
            SetStep::Extend { first, len, step } => {
                let new: Vec<u32> = keys(first, len, step).map(u32::from).collect();
                $set.extend($tx, &new)?;
                $model.extend(new);
            }
            SetStep::Retain(of) => {
                let of = u32::from(of) + 1;
                $set.retain($tx, |n| n % of != 0);
                $model.retain(|n| n % of != 0);
            }
            SetStep::Clear => {
                $set.clear($tx);
                $model.clear();
            }
            $($more)*
        }
        assert_eq!($set.len($tx), $model.len());
        Ok(())
    }};
}

pub fn hash_set<'r>(
    tx: &mut Txn<'r>,
    set: P<'r, PHashSet<'r, u32>>,
    model: &mut BTreeSet<u32>,
    step: &SetStep,
) -> Result<()> {
    common_of_sets!(tx, set, model, step;
        SetStep::Drain => {
            let drained: BTreeSet<u32> = set.drain(tx).collect();
            assert!(drained == std::mem::take(model));
        }
        SetStep::Shrink => set.shrink_to_fit(tx)?,
        SetStep::PopFirst | SetStep::PopLast => {} // steps of ordered sets
    )
}

pub fn tree_set<'r>(
    tx: &mut Txn<'r>,
    set: P<'r, PBTreeSet<'r, u32>>,
    model: &mut BTreeSet<u32>,
    step: &SetStep,
) -> Result<()> {
    common_of_sets!(tx, set, model, step;
        SetStep::PopFirst => assert_eq!(set.pop_first(tx), model.pop_first()),
        SetStep::PopLast => assert_eq!(set.pop_last(tx), model.pop_last()),
        SetStep::Drain | SetStep::Shrink => {} // steps of hash sets
    )
}
