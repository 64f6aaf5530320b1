//! Hash maps and sets that are changed between the steps of a scan.

use std::collections::{HashMap, HashSet};

use pheap::{Durability, Heap, Options, P, PHashMap, PHashSet, Persist, Result, Root, Txn};
use proptest::prelude::*;

use crate::hash::Clumsy;

/// What happens between two steps.
#[derive(Debug, Clone)]
enum Change {
    Nothing,
    Insert(u64, u64),
    Remove(u64, u64),
    Retain(u64),
    /// All entries go, and some others, or the same, come.
    Refill(u64, u64),
    Shrink,
}

fn change() -> impl Strategy<Value = Change> {
    let key = || prop_oneof![1 => 0..60u64, 2 => 0..6000u64];
    prop_oneof![
        2 => Just(Change::Nothing),
        8 => (key(), 0..400u64).prop_map(|(k, n)| Change::Insert(k, n)),
        4 => (key(), 0..200u64).prop_map(|(k, n)| Change::Remove(k, n)),
        1 => (2..9u64).prop_map(Change::Retain),
        1 => (key(), 0..200u64).prop_map(|(k, n)| Change::Refill(k, n)),
        1 => Just(Change::Shrink),
    ]
}

type Map<'r, const HASHES: u64> = PHashMap<'r, Clumsy<HASHES>, u64>;

/// The model of the keys.
#[derive(Default)]
struct Model {
    there: HashSet<u64>,
    /// Those that have been there from the beginning.
    stayed: HashSet<u64>,
    seen: HashMap<u64, u32>,
    is_rebuilt: bool,
}

impl Model {
    fn apply<'r, const HASHES: u64>(
        &mut self,
        tx: &mut Txn<'r>,
        map: P<'r, Map<'r, HASHES>>,
        change: &Change,
    ) -> Result<()> {
        match *change {
            Change::Nothing => {}
            Change::Insert(k, n) => {
                map.extend(tx, (k..k + n).map(|k| (Clumsy(k), !k)))?;
                self.there.extend(k..k + n);
            }
            Change::Remove(k, n) => {
                for k in k..k + n {
                    assert_eq!(map.remove(tx, &Clumsy(k)).is_some(), self.there.remove(&k));
                }
            }
            Change::Retain(n) => {
                map.retain(tx, |key, _| key.0 % n == 0);
                self.there.retain(|k| k % n == 0);
            }
            Change::Refill(k, n) => {
                map.clear(tx);
                self.there.clear();
                self.stayed.clear();
                self.is_rebuilt = true;
                self.apply(tx, map, &Change::Insert(k, n))?;
            }
            Change::Shrink => {
                map.shrink_to_fit(tx)?;
                self.is_rebuilt = true;
            }
        }
        self.stayed.retain(|k| self.there.contains(k));
        Ok(())
    }

    fn step<'r, const HASHES: u64>(&mut self, tx: &Txn<'r>, map: P<'r, Map<'r, HASHES>>, from: u64) -> u64 {
        let (entries, next) = map.scan(tx, from);
        assert!(next == 0 || next > from);
        let len = entries.len();
        assert!(HASHES < u64::MAX || len <= 27);
        assert_eq!(entries.clone().fold(0, |n, _| n + 1), len);
        let mut shown = 0;
        for (key, value) in entries {
            assert!(self.there.contains(&key.0) && *value == !key.0);
            *self.seen.entry(key.0).or_default() += 1;
            shown += 1;
        }
        assert_eq!(shown, len);
        next
    }
}

fn scan<const HASHES: u64>(first: u64, changes: &[Change]) {
    let heap = Options::new().reserve(1 << 28).in_memory().unwrap();
    let root: Root<Map<HASHES>> = heap.root("map").unwrap();
    let mut model = Model::default();
    root.txn(|tx, map| model.apply(tx, map, &Change::Insert(0, first))).unwrap();
    model.stayed = model.there.clone();
    let mut changes = changes.iter();
    let mut from = 0;
    loop {
        // A step sees what its own transaction has changed, and what others have.
        from = root.txn(|tx, map| Ok(model.step(tx, map, from))).unwrap();
        if from == 0 {
            break;
        }
        from = root
            .txn(|tx, map| {
                changes.next().map_or(Ok(()), |change| model.apply(tx, map, change))?;
                Ok(model.step(tx, map, from))
            })
            .unwrap();
        if from == 0 {
            break;
        }
    }
    assert!(model.stayed.iter().all(|k| model.seen.contains_key(k)));
    assert!(model.is_rebuilt || model.seen.values().all(|&times| times == 1));
}

#[test]
fn what_stays_is_shown_whatever_changes() {
    let config = ProptestConfig {
        cases: pheap_testkit::rounds(16),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let first = prop_oneof![1 => 0..40u64, 3 => 0..4000u64];
    proptest!(config, |(first in first, changes in prop::collection::vec(change(), 0..100))| {
        scan::<{ u64::MAX }>(first, &changes);
        scan::<40>(first, &changes);
        scan::<1>(first, &changes);
    });
}

/// The map only splits buckets. The scan shows each entry that was in the map before exactly once, wherever
/// the splits are.
#[test]
fn buckets_that_are_split_meanwhile_are_shown_once() {
    for each in [1, 10, 1000] {
        let changes: Vec<_> = (0..60_000 / each).map(|i| Change::Insert(2000 + i * each, each)).collect();
        scan::<{ u64::MAX }>(2000, &changes[..changes.len().min(400)]);
    }
}

#[test]
fn small_maps_are_shown_at_once() {
    let heap = Heap::in_memory().unwrap();
    let root: Root<PHashMap<u64, u64>> = heap.root("map").unwrap();
    for n in 0..=8 {
        root.read(|view, map| {
            let (entries, next) = map.scan(view, 0);
            let mut keys: Vec<u64> = entries.map(|(k, _)| *k).collect();
            keys.sort_unstable();
            assert!(keys.into_iter().eq(0..n) && next == 0);
            // A number that a scan of a larger map may have returned.
            assert_eq!(map.scan(view, 1 << 63).0.len() as u64, n);
        })
        .unwrap();
        root.txn(|tx, map| map.insert(tx, &n, n)).unwrap();
    }
}

/// A scan of a set goes on in the same file at another address.
#[test]
fn a_scan_outlives_the_opening_of_its_heap() {
    const N: u64 = 3000;
    #[derive(Persist, Default)]
    #[repr(C)]
    struct Shelf<'r> {
        set: PHashSet<'r, P<'r, str>>,
    }
    let dir = tempfile::tempdir().unwrap();
    let (mut from, mut seen, mut steps) = (0, Vec::new(), 0);
    loop {
        let base = 0x5800_0000_0000 + (steps % 2) * (1 << 32);
        let options = Options::new().reserve(1 << 28).durability(Durability::Process).base(base);
        let heap = options.open(dir.path().join("heap")).unwrap();
        let root: Root<Shelf> = heap.root("shelf").unwrap();
        if steps == 0 {
            root.txn(|tx, shelf| pheap::field!(shelf.set).extend(tx, (0..N).map(|n| n.to_string()))).unwrap();
        }
        for _ in 0..30 {
            from = root
                .read(|view, shelf| {
                    let (elements, next) = pheap::field!(shelf.set).scan(view, from);
                    seen.extend(elements.map(|element| element.parse::<u64>().unwrap()));
                    next
                })
                .unwrap();
            if from == 0 {
                break;
            }
        }
        drop(root);
        heap.close().unwrap();
        steps += 1;
        if from == 0 {
            break;
        }
    }
    assert!(steps > 2);
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..N));
}
