//! The store compared with maps of std: after any operations, both have the same content.

use pheap_kv::{Batch, Durability, Error, KeySpace, Options, Reader, Snapshot, Store};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::time::Duration;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Key spaces: the default one, and two with names.
const SPACES: usize = 3;
type Maps = [Map; SPACES];

#[derive(Clone, Debug)]
enum Op {
    Put(usize, Vec<u8>, Vec<u8>),
    /// That expires at once, or later than this test runs.
    PutFor(usize, Vec<u8>, Vec<u8>, bool),
    Delete(usize, Vec<u8>),
    Append(usize, Vec<u8>, u8),
    Swap(usize, Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>),
    Batch(Vec<(usize, Vec<u8>, Option<Vec<u8>>)>),
    /// Many entries, so that shards may be split.
    Fill(usize, u8),
    RemoveSpace(usize),
    Range(usize, Bound<Vec<u8>>, Bound<Vec<u8>>, Vec<bool>),
    Prefix(usize, Vec<u8>),
    Snapshot,
    DropSnapshot(usize),
    Purge,
    Reopen,
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    // Few, so that they meet; with bytes at both ends of what there is.
    let short = prop::collection::vec(prop::sample::select(vec![0, 1, 7, 0xF0, 0xFF]), 0..4);
    // Lengths around the limits from which a key lies outside the node: the key has the prefix of its space
    // before it, and perhaps the time at which it expires. The keys have a common beginning, so that
    // comparisons read all of it.
    let long = (prop::sample::select(vec![19, 20, 21, 22, 28, 29, 30, 31, 300]), any::<u8>())
        .prop_map(|(len, byte)| [&vec![7; len - 1][..], &[byte % 3 * 127]].concat());
    prop_oneof![2 => short, 1 => long]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![4 => prop::collection::vec(any::<u8>(), 0..20), 1 => (0..2000usize).prop_map(|len| vec![7; len])]
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![key().prop_map(Bound::Included), key().prop_map(Bound::Excluded), Just(Bound::Unbounded)]
}

fn op() -> impl Strategy<Value = Op> {
    let space = || 0..SPACES;
    let write = (space(), key(), prop::option::of(value()));
    prop_oneof![
        8 => (space(), key(), value()).prop_map(|(space, key, value)| Op::Put(space, key, value)),
        2 => (space(), key(), value(), any::<bool>())
            .prop_map(|(space, key, value, expired)| Op::PutFor(space, key, value, expired)),
        4 => (space(), key()).prop_map(|(space, key)| Op::Delete(space, key)),
        2 => (space(), key(), any::<u8>()).prop_map(|(space, key, byte)| Op::Append(space, key, byte)),
        2 => (space(), key(), prop::option::of(value()), prop::option::of(value()))
            .prop_map(|(space, key, old, new)| Op::Swap(space, key, old, new)),
        3 => prop::collection::vec(write, 0..8).prop_map(Op::Batch),
        1 => (space(), any::<u8>()).prop_map(|(space, seed)| Op::Fill(space, seed)),
        1 => (1..SPACES).prop_map(Op::RemoveSpace),
        4 => (space(), bound(), bound(), prop::collection::vec(any::<bool>(), 0..30))
            .prop_map(|(space, from, to, ends)| Op::Range(space, from, to, ends)),
        2 => (space(), key()).prop_map(|(space, prefix)| Op::Prefix(space, prefix)),
        3 => Just(Op::Snapshot),
        3 => (0..4usize).prop_map(Op::DropSnapshot),
        1 => Just(Op::Purge),
        1 => Just(Op::Reopen),
    ]
}

struct Both {
    store: Store,
    maps: Maps,
    /// With handles of the key spaces, and what these had.
    snapshots: Vec<(Snapshot, [KeySpace; SPACES], Maps)>,
    /// Handles of key spaces that were removed.
    removed: Vec<KeySpace>,
}

fn open(path: &Path) -> Store {
    let options =
        Options::new().heap(|heap| heap.arena_size(1 << 20)).reserve(1 << 30).durability(Durability::Process);
    options.open(path).expect("a store")
}

fn name(space: usize) -> String {
    format!("space {space}")
}

fn space(store: &Store, space: usize) -> KeySpace {
    if space == 0 { KeySpace::clone(store) } else { store.space(&name(space)).expect("a space") }
}

/// Reads from both ends, as `ends` say, and the rest from the front.
fn read<T>(mut entries: impl DoubleEndedIterator<Item = T>, ends: &[bool]) -> Vec<T> {
    let mut all = Vec::new();
    for &back in ends {
        all.extend(if back { entries.next_back() } else { entries.next() });
    }
    all.extend(entries);
    all
}

fn check_range(
    reader: &Reader,
    map: &Map,
    bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    ends: &[bool],
) -> TestCaseResult {
    let found = read(reader.range::<Vec<u8>>(bounds.clone()).map(|entry| entry.expect("an entry")), ends);
    let within = |key: &Vec<u8>| std::ops::RangeBounds::contains(&bounds, key);
    let entries: Vec<_> =
        map.iter().filter(|(key, _)| within(key)).map(|(key, value)| (key.clone(), value.clone())).collect();
    prop_assert_eq!(found, read(entries.into_iter(), ends));
    Ok(())
}

fn check_all(reader: &Reader, map: &Map) -> TestCaseResult {
    let forwards: Vec<_> = reader.iter().map(|entry| entry.expect("an entry")).collect();
    let expected: Vec<_> = map.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    prop_assert_eq!(&forwards, &expected);
    let mut backwards: Vec<_> = reader.iter().rev().map(|entry| entry.expect("an entry")).collect();
    backwards.reverse();
    prop_assert_eq!(&backwards, &expected);
    let mut shown = Vec::new();
    reader
        .for_each::<[u8]>(.., |key, value| {
            shown.push((key.to_vec(), value.to_vec()));
            std::ops::ControlFlow::Continue(())
        })
        .expect("entries");
    prop_assert_eq!(&shown, &expected);
    for (key, value) in map.iter().step_by(1 + map.len() / 50) {
        let found = reader.get(key).expect("a value");
        prop_assert_eq!(found.as_ref(), Some(value));
    }
    Ok(())
}

impl Both {
    fn apply(&mut self, op: Op, path: &Path) -> TestCaseResult {
        let Both { store, maps, snapshots, removed } = self;
        match op {
            Op::Put(at, key, value) => {
                space(store, at).put(&key, &value).expect("a put");
                maps[at].insert(key, value);
            }
            Op::PutFor(at, key, value, expired) => {
                let ttl = Duration::from_secs(if expired { 0 } else { 3600 });
                space(store, at).put_for(&key, &value, ttl).expect("a put");
                match expired {
                    true => drop(maps[at].remove(&key)),
                    false => drop(maps[at].insert(key, value)),
                }
            }
            Op::Delete(at, key) => {
                let was_there = space(store, at).delete(&key).expect("a delete");
                prop_assert_eq!(was_there, maps[at].remove(&key).is_some());
            }
            Op::Append(at, key, byte) => {
                let append = |old: Option<&[u8]>| {
                    let old = old.unwrap_or_default();
                    (old.len() < 5).then(|| [old, &[byte]].concat())
                };
                let new = append(maps[at].get(&key).map(Vec::as_slice));
                prop_assert_eq!(space(store, at).update(&key, append).expect("an update"), new.is_some());
                match new {
                    Some(new) => drop(maps[at].insert(key, new)),
                    None => drop(maps[at].remove(&key)),
                }
            }
            Op::Swap(at, key, old, new) => {
                let is = maps[at].get(&key) == old.as_ref();
                let swapped = space(store, at).compare_and_swap(&key, old.as_deref(), new.as_deref());
                prop_assert_eq!(swapped.expect("a swap"), is);
                match (is, new) {
                    (true, Some(new)) => drop(maps[at].insert(key, new)),
                    (true, None) => drop(maps[at].remove(&key)),
                    (false, _) => {}
                }
            }
            Op::Batch(writes) => {
                let mut batch = Batch::new();
                for (at, key, value) in writes {
                    match value {
                        Some(value) => {
                            batch.put(&space(store, at), &key, &value).expect("room");
                            maps[at].insert(key, value);
                        }
                        None => {
                            batch.delete(&space(store, at), &key).expect("room");
                            maps[at].remove(&key);
                        }
                    }
                }
                store.write(&batch).expect("a batch");
            }
            Op::Fill(at, seed) => {
                let entries: Map = (0..3000u32)
                    .map(|i| ([&[seed][..], &i.to_be_bytes()].concat(), vec![seed; i as usize % 7]))
                    .collect();
                prop_assert_eq!(space(store, at).load(&entries).expect("a load"), 3000);
                maps[at].extend(entries);
            }
            Op::RemoveSpace(at) => {
                let was_there = store.spaces().expect("names").contains(&name(at));
                removed.extend(was_there.then(|| space(store, at)));
                prop_assert_eq!(store.remove_space(&name(at)).expect("a removal"), was_there);
                maps[at].clear();
                for space in &*removed {
                    prop_assert!(matches!(space.put("late", ""), Err(Error::SpaceRemoved)));
                    prop_assert_eq!(space.iter().count(), 0);
                }
            }
            Op::Range(at, from, to, ends) => {
                check_range(&space(store, at), &maps[at], (from.clone(), to.clone()), &ends)?;
                for (snapshot, spaces, maps) in snapshots {
                    let reader = snapshot.space(&spaces[at]).expect("a space");
                    check_range(&reader, &maps[at], (from.clone(), to.clone()), &ends)?;
                }
            }
            Op::Prefix(at, prefix) => {
                let found = space(store, at).prefix(&prefix).map(|entry| entry.expect("an entry").0);
                let keys = maps[at].keys().filter(|key| key.starts_with(&prefix)).cloned();
                prop_assert_eq!(found.collect::<Vec<_>>(), keys.collect::<Vec<_>>());
            }
            Op::Snapshot => {
                let spaces = std::array::from_fn(|at| space(store, at));
                snapshots.push((store.snapshot().expect("a snapshot"), spaces, maps.clone()));
            }
            Op::DropSnapshot(at) if at < snapshots.len() => drop(snapshots.swap_remove(at)),
            Op::DropSnapshot(_) => {}
            Op::Purge => store.purge().expect("a purge"),
            Op::Reopen => {
                snapshots.clear();
                removed.clear();
                store.clone().close().expect("an end");
                *store = Store::in_memory().expect("something else");
                *store = open(path);
            }
        }
        Ok(())
    }

    fn check(&self) -> TestCaseResult {
        for at in 0..SPACES {
            check_all(&space(&self.store, at), &self.maps[at])?;
            for (snapshot, spaces, maps) in &self.snapshots {
                check_all(&snapshot.space(&spaces[at]).expect("a space"), &maps[at])?;
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_has_what_maps_have(ops in prop::collection::vec(op(), 1..80)) {
        let dir = pheap_testkit::tempdir();
        let path = dir.path().join("model.kv");
        let (snapshots, removed) = (Vec::new(), Vec::new());
        let mut both = Both { store: open(&path), maps: Maps::default(), snapshots, removed };
        for op in ops {
            both.apply(op, &path)?;
        }
        both.check()?;
        // A key space that is made now is in no snapshot.
        for at in 1..SPACES {
            both.apply(Op::RemoveSpace(at), &path)?;
            let new = space(&both.store, at);
            new.put("new", "").expect("a put");
            both.maps[at].insert(b"new".to_vec(), Vec::new());
            for (snapshot, _, _) in &both.snapshots {
                prop_assert_eq!(snapshot.space(&new).expect("a space").iter().count(), 0);
            }
        }
        both.check()?;
        both.snapshots.clear();
        both.store.purge().expect("a purge");
        both.apply(Op::Reopen, &path)?;
        both.check()?;
        let entries = both.maps.iter().map(Map::len).sum::<usize>() + both.store.spaces().expect("names").len();
        prop_assert_eq!(both.store.stats().expect("counters").entries, entries as u64);
        both.store.close().expect("an end");
        let checked = pheap::Options::new().verify(true).open(&path).expect("a heap");
        prop_assert!(checked.check().expect("a check").is_clean());
    }
}
