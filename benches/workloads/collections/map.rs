//! `hash_map_get_u64` and similar: compares `PHashMap`, `PBTreeMap` and `PSnapMap` with the maps of std.

use super::{Op, each, in_pieces, key, shuffled, variant, variants};
use crate::measure::Checksum;
use crate::scratch::Scratch;
use crate::{Case, Result, Sample, Setup};
use pheap::{P, PBTreeMap, PHashMap, PSnapMap, Root};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Keys for both kinds of maps.
trait Keys {
    /// The key of a map of std.
    type Std: Ord + std::hash::Hash + 'static;
    /// The borrowed form of a key, for lookups.
    type Query: ?Sized;
    const NAME: &'static str;
    fn std(i: u64) -> Self::Std;
    fn query(key: &Self::Std) -> &Self::Query;
}

struct Numbers;

impl Keys for Numbers {
    type Std = u64;
    type Query = u64;
    const NAME: &'static str = "u64";

    fn std(i: u64) -> u64 {
        key(i)
    }

    #[inline(always)]
    fn query(key: &u64) -> &u64 {
        key
    }
}

/// Strings of 16 bytes.
struct Strings;

impl Keys for Strings {
    type Std = String;
    type Query = str;
    const NAME: &'static str = "str";

    fn std(i: u64) -> String {
        format!("{:016x}", key(i))
    }

    #[inline(always)]
    fn query(key: &String) -> &str {
        key
    }
}

/// Returns the name of the row.
fn name(map: &str, op: Op, keys: &str) -> &'static str {
    let op = match op {
        Op::Insert => "insert",
        Op::Grow => "grow",
        Op::Get => "get",
        Op::Remove => "remove",
        Op::Iterate => "iterate",
    };
    format!("{map}_{op}_{keys}").leak()
}

/// Defines the cases of one operation on a map, with one kind of keys.
macro_rules! cases {
    ($(#[$doc:meta])* $cases:ident: $name:literal, $std:ident, $map:ident, $keys:ident, $key:ty) => {
        cases! {
            $(#[$doc])* $cases: $name, $std, $map, $keys, $key,
            |tx, map, key, value| map.insert(tx, key, value)?, map.remove(tx, key)
        }
    };
    (
        $(#[$doc:meta])* $cases:ident: $name:literal, $std:ident, $map:ident, $keys:ident, $key:ty,
        |$tx:ident, $in:ident, $query:ident, $value:ident| $insert:expr, $remove:expr
    ) => {
        $(#[$doc])*
        pub fn $cases(setup: &Setup, op: Op, n: u64) -> Result<Vec<Case>> {
            type Map = $map<'static, $key, u64>;

            let bench = name($name, op, $keys::NAME);
            // Insertions use the keys in the order of their allocation; lookups and removals in random order.
            let keys: Rc<Vec<_>> = Rc::new((0..n).map($keys::std).collect());
            let order = Rc::new(shuffled(n));

            fn fill(root: &Root<Map>, keys: &[<$keys as Keys>::Std], together: u64) -> pheap::Result<()> {
                in_pieces(keys.len() as u64, together, |from, to| {
                    root.txn(|$tx, $in| {
                        for $value in from..to {
                            let $query = $keys::query(&keys[$value as usize]);
                            $insert;
                        }
                        Ok(())
                    })
                })
            }

            fn pass(
                op: Op,
                heap: &Scratch,
                keys: &[<$keys as Keys>::Std],
                order: &[u32],
                together: u64,
            ) -> Result<Sample> {
                let n = keys.len() as u64;
                let root: Root<Map> = heap.heap.root("map")?;
                let mut sum = 0;
                let sample = match op {
                    Op::Insert => heap.time(|| fill(&root, keys, together))?.0,
                    Op::Grow => each(n, |i| {
                        root.txn(|$tx, $in| {
                            let ($query, $value) = ($keys::query(&keys[i as usize]), i);
                            $insert;
                            Ok(())
                        })
                    })?,
                    Op::Get => heap
                        .time(|| {
                            in_pieces(n, together, |from, to| {
                                sum += root.read(|view, map| {
                                    let map = &view[map];
                                    let some = order[from as usize..to as usize].iter();
                                    let get = |&i: &u32| map.get(view, $keys::query(&keys[i as usize]));
                                    some.map(|i| get(i).copied().map_or(0, i128::from)).sum::<i128>()
                                })?;
                                Ok(())
                            })
                        })?
                        .0,
                    Op::Remove => {
                        fill(&root, keys, 1000)?;
                        let remove = || {
                            in_pieces(n, together, |from, to| {
                                root.txn(|$tx, $in| {
                                    for &i in &order[from as usize..to as usize] {
                                        let $query = $keys::query(&keys[i as usize]);
                                        let value = $remove;
                                        sum += value.map_or(0, i128::from);
                                    }
                                    Ok(())
                                })
                            })
                        };
                        heap.time(remove)?.0
                    }
                    Op::Iterate => {
                        let iterate =
                            || root.read(|view, map| view[map].iter(view).map(|(_, value)| value).sum::<u64>());
                        let (sample, total) = heap.time(iterate)?;
                        sum = total.into();
                        sample
                    }
                };
                if matches!(op, Op::Insert | Op::Grow) {
                    sum = root.read(|view, map| view[map].len())? as i128;
                }
                Ok(sample.with(Checksum::Int(sum)))
            }

            let mut cases = Vec::new();
            {
                let (keys, order) = (keys.clone(), order.clone());
                let fill = |keys: &[<$keys as Keys>::Std]| {
                    let mut map = $std::new();
                    for (i, key) in keys.iter().enumerate() {
                        map.insert(key.clone(), i as u64);
                    }
                    map
                };
                let full = matches!(op, Op::Get | Op::Iterate).then(|| fill(&keys));
                cases.push(Case::new("volatile", bench, "std", n, move || {
                    let full = full.as_ref();
                    let mut sum = 0;
                    let sample = match (op, full) {
                        (Op::Insert, _) => {
                            let (sample, map) = Sample::time(|| fill(&keys));
                            sum = map.len() as i128;
                            sample
                        }
                        (Op::Grow, _) => {
                            let mut map = $std::new();
                            let sample = each(n, |i| {
                                map.insert(keys[i as usize].clone(), i);
                                Ok(())
                            })?;
                            sum = map.len() as i128;
                            sample
                        }
                        (Op::Get, Some(map)) => {
                            let get = |&i: &u32| map.get($keys::query(&keys[i as usize]));
                            let all = || order.iter().map(|i| get(i).copied().map_or(0, i128::from)).sum();
                            let (sample, total) = Sample::time(all);
                            sum = total;
                            sample
                        }
                        (Op::Iterate, Some(map)) => {
                            let (sample, total) = Sample::time(|| map.values().sum::<u64>());
                            sum = total.into();
                            sample
                        }
                        _ => {
                            let mut map = fill(&keys);
                            let remove = || {
                                for &i in order.iter() {
                                    let value = map.remove($keys::query(&keys[i as usize]));
                                    sum += value.map_or(0, i128::from);
                                }
                            };
                            Sample::time(remove).0
                        }
                    };
                    Ok(sample.with(Checksum::Int(sum)))
                }));
            }
            for (durability, together) in variants(setup, op) {
                let (setup, keys, order) = (setup.clone(), keys.clone(), order.clone());
                let full = match op {
                    Op::Get | Op::Iterate => {
                        let heap = setup.heap(durability)?;
                        fill(&heap.heap.root("map")?, &keys, 1000)?;
                        Some(heap)
                    }
                    _ => None,
                };
                cases.push(Case::new("pheap", bench, variant(durability, together), n, move || match &full {
                    Some(heap) => pass(op, heap, &keys, &order, together),
                    None => pass(op, &setup.heap(durability)?, &keys, &order, together),
                }));
            }
            Ok(cases)
        }
    };
}

cases! {
    /// A hash map with numbers for keys.
    hash_map_u64: "hash_map", HashMap, PHashMap, Numbers, u64
}
cases! {
    /// A hash map with strings for keys.
    hash_map_str: "hash_map", HashMap, PHashMap, Strings, P<'static, str>
}
cases! {
    /// An ordered map with numbers for keys.
    btree_map_u64: "btree_map", BTreeMap, PBTreeMap, Numbers, u64
}
cases! {
    /// An ordered map with strings for keys.
    btree_map_str: "btree_map", BTreeMap, PBTreeMap, Strings, P<'static, str>
}

/// Defines cases for `PSnapMap`, whose `remove` does not return the removed value.
macro_rules! snap_cases {
    ($(#[$doc:meta])* $cases:ident: $keys:ident, $key:ty) => {
        cases! {
            $(#[$doc])* $cases: "snap_map", BTreeMap, PSnapMap, $keys, $key,
            |tx, map, key, value| map.insert(tx, key, &value)?,
            { let value = map.get(tx, key).copied(); map.remove(tx, key)?; value }
        }
    };
}

snap_cases! {
    /// An ordered map with versions, and numbers for keys.
    snap_map_u64: Numbers, u64
}
snap_cases! {
    /// An ordered map with versions, and strings for keys.
    snap_map_str: Strings, P<'static, str>
}
