//! `PHashMap` beside `HashMap`.

use std::collections::HashMap;

use pheap::collections::HashKey;
use pheap::{P, PHashMap, Persist, Result, Txn, View};
use proptest::prelude::*;

use crate::twins::{self, Twins};

#[derive(Debug, Clone)]
enum Op {
    Insert(u64, u64),
    InsertMany(u64, u64),
    Remove(u64),
    RemoveMany(u64, u64),
    Set(u64, u64),
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
    ]
    .boxed()
}

/// What a key is made of: a number, so that the twin is a map of numbers.
trait Key<'r>: HashKey<'r> {
    fn with<T>(number: u64, run: impl FnOnce(&Self::Query) -> T) -> T;
    fn number(query: &Self::Query) -> u64;
}

impl<'r> Key<'r> for u64 {
    fn with<T>(number: u64, run: impl FnOnce(&u64) -> T) -> T {
        run(&number)
    }

    fn number(query: &u64) -> u64 {
        *query
    }
}

impl<'r> Key<'r> for P<'r, str> {
    fn with<T>(number: u64, run: impl FnOnce(&str) -> T) -> T {
        run(&format!("key {number}"))
    }

    fn number(query: &str) -> u64 {
        query[4..].parse().expect("a key of these tests")
    }
}

/// What a value is made of.
trait Value<'r>: Persist<At<'r> = Self> {
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

macro_rules! twins {
    ($($test:ident: $name:ident, $key:ty, $value:ty, $key_at:ty, $value_at:ty;)*) => {$(
        struct $name;

        impl Twins for $name {
            type Root = PHashMap<'static, $key, $value>;
            type Std = Twin;
            type Op = Op;

            fn ops() -> BoxedStrategy<Op> {
                op()
            }

            fn apply<'r>(
                op: &Op,
                tx: &mut Txn<'r>,
                map: P<'r, PHashMap<'r, $key_at, $value_at>>,
                twin: &mut Twin,
            ) -> Result<()> {
                apply(op, tx, map, twin)
            }

            fn compare<'r>(view: &View<'r>, map: P<'r, PHashMap<'r, $key_at, $value_at>>, twin: &Twin) {
                compare(view, map, twin);
            }
        }

        #[test]
        fn $test() {
            twins::run::<$name>();
        }
    )*};
}

twins! {
    numbers_to_numbers: Numbers, u64, u64, u64, u64;
    numbers_to_pointers: Pointers, u64, P<'static, u64>, u64, P<'r, u64>;
    strings_to_numbers: Strings, P<'static, str>, u64, P<'r, str>, u64;
    strings_to_pointers: StringsToPointers, P<'static, str>, P<'static, u64>, P<'r, str>, P<'r, u64>;
}
