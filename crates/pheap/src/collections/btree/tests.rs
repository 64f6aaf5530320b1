//! Unit tests of trees, with small nodes.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pheap_testkit::rounds;

use super::PBTreeMap;
use super::head::{FREE, LEAST};
use super::node::{Child, INNER, LEAF, MAX_HEIGHT};
use crate::api::tx::Txn;
use crate::api::view::View;
use crate::collections::key::{MapKey, OrdKey, key_by_itself};
use crate::error::Result;
use crate::layout::Persist;
use crate::ptr::P;
use crate::{Heap, Root};

/// Numbers that a check of a tree has counted.
#[derive(Default)]
struct Seen {
    entries: usize,
    leaves: usize,
    inner: usize,
    height: usize,
    /// Nodes that are less than a third full, except the last node of each level and the top.
    thin: usize,
}

/// Checks all nodes of a map. `in_order`: whether the order of keys is reliable.
fn look_at<'r, K: OrdKey<'r>, V: Persist>(
    view: &View<'r>,
    map: P<'r, PBTreeMap<'r, K, V>>,
    in_order: bool,
) -> Seen {
    let mut seen = Seen::default();
    let map = &view[map];
    if !matches!(map.top.child(), Child::None(_)) {
        seen.height = below(view, map.top.child(), in_order, true, MAX_HEIGHT, &mut seen).0;
    }
    assert_eq!(seen.entries, map.len());
    assert_eq!(map.iter(view).count(), map.len());
    assert_eq!(map.range(view, ..).count(), map.len());
    assert_eq!(map.range(view, ..).rev().count(), map.len());
    if in_order {
        let keys: Vec<_> = map.keys(view).collect();
        assert!(keys.windows(2).all(|w| w[0] < w[1]));
    }
    seen
}

/// The first and the last key of a subtree, if it has entries.
type Ends<'v, Q> = Option<(&'v Q, &'v Q)>;

/// Checks the nodes of a subtree, and counts them in `seen`. Returns the height, and the first and the last
/// key.
fn below<'v, 'r, K: OrdKey<'r> + 'v, V: Persist + 'v>(
    view: &'v View<'r>,
    child: Child<'r, K, V>,
    in_order: bool,
    last: bool,
    most: usize,
    seen: &mut Seen,
) -> (usize, Ends<'v, K::Query>) {
    assert!(most > 0, "too high");
    match child {
        Child::Leaf(leaf) => {
            let (leaf, head) = (leaf.node_view(view), leaf.node_view(view).head());
            look_at_head(&(0..LEAF).map(|i| head.slot_of_item(i)).collect::<Vec<_>>(), head.len());
            for place in 0..LEAF {
                let code = match place < head.len() {
                    true => head.code(K::prefix(leaf.query(place))),
                    false => FREE,
                };
                assert!(!in_order || head.code_at(place) == code);
            }
            seen.entries += head.len();
            seen.leaves += 1;
            seen.thin += usize::from(!last && head.len() < LEAF / 3);
            let key = |place| leaf.query(place);
            (1, (head.len() > 0).then(|| (key(0), key(head.len() - 1))))
        }
        Child::Inner(inner) => {
            let (inner, head) = (inner.node_view(view), inner.node_view(view).head());
            look_at_head(&(0..INNER).map(|i| head.slot_of_item(i)).collect::<Vec<_>>(), head.len());
            seen.inner += 1;
            seen.thin += usize::from(!last && head.len() < INNER / 3);
            let (mut height, mut ends) = (None, None::<(&K::Query, &K::Query)>);
            for place in 0..INNER {
                if place >= head.len() {
                    assert_eq!(head.code_at(place), FREE);
                    assert!(inner.near(place).is_none());
                    continue;
                }
                let code = if place > 0 { head.code(inner.item(place).prefix) } else { LEAST };
                assert!(!in_order || head.code_at(place) == code);
                let is_last = last && place + 1 == head.len();
                let child = inner.child(place);
                let (child_height, keys) = below(view, child, in_order, is_last, most - 1, seen);
                assert_eq!(*height.get_or_insert(child_height), child_height);
                if let (true, Some((first, last))) = (in_order, keys) {
                    if place > 0 {
                        let (prefix, separator) = inner.separator(place);
                        let separator = separator();
                        assert!(ends.is_none_or(|(_, before)| before < separator) && separator <= first);
                        assert_eq!(prefix, K::prefix(separator));
                    }
                    ends = Some((ends.map_or(first, |(first, _)| first), last));
                }
            }
            (height.expect("an inner node has children") + 1, ends)
        }
        Child::None(_) => panic!("a child is missing"),
    }
}

fn look_at_head(slots: &[usize], len: usize) {
    assert!(len <= slots.len());
    assert!(slots.iter().copied().collect::<BTreeSet<_>>().into_iter().eq(0..slots.len()));
}

fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

fn both(mut test: impl FnMut(Heap)) {
    for pin_undo in [false, true] {
        test(crate::Options::new().pin_undo(pin_undo).in_memory().unwrap());
    }
}

#[test]
fn trees_grow_and_shrink() {
    both(|heap| {
        let root: Root<PBTreeMap<u64, u64>> = heap.root("map").unwrap();
        let mut seed = 1;
        let mut keys: Vec<u64> = (0..3000).map(|_| random(&mut seed)).collect();
        for (i, part) in keys.chunks(50).enumerate() {
            root.txn(|tx, map| part.iter().try_for_each(|key| map.insert(tx, key, *key).map(drop))).unwrap();
            let seen = root.read(|view, map| look_at(view, map, true)).unwrap();
            assert_eq!((seen.entries, seen.thin), (50 * (i + 1), 0));
        }
        let seen = root.read(|view, map| look_at(view, map, true)).unwrap();
        assert!(seen.height >= 4 && seen.inner > 50, "{} {}", seen.height, seen.inner);
        keys.sort_by_key(|key| key.rotate_left(20));
        for (i, part) in keys.chunks(50).enumerate() {
            root.txn(|tx, map| {
                part.iter().for_each(|key| assert_eq!(map.remove(tx, key), Some(*key)));
                Ok(())
            })
            .unwrap();
            let seen = root.read(|view, map| look_at(view, map, true)).unwrap();
            assert_eq!((seen.entries, seen.thin), (3000 - 50 * (i + 1), 0));
        }
        let seen = root.read(|view, map| look_at(view, map, true)).unwrap();
        assert_eq!((seen.height, seen.leaves, seen.inner), (0, 0, 0));
    });
}

#[test]
fn what_is_appended_fills_its_nodes() {
    both(|heap| {
        let root: Root<PBTreeMap<u64, ()>> = heap.root("map").unwrap();
        root.txn(|tx, map| (0..4000u64).try_for_each(|key| map.insert(tx, &(key * key), ()).map(drop)))
            .unwrap();
        let seen = root.read(|view, map| look_at(view, map, true)).unwrap();
        assert_eq!(seen.leaves, 4000 / LEAF);
        assert!(seen.inner <= 4000 / LEAF / (INNER - 1) * 2, "{}", seen.inner);
        // Remove entries from the front.
        root.txn(|tx, map| {
            (1..2000u64).for_each(|i| assert_eq!(map.pop_first(tx), Some(((i - 1) * (i - 1), ()))));
            Ok(())
        })
        .unwrap();
        root.read(|view, map| look_at(view, map, true)).unwrap();
    });
}

#[test]
fn descending_keys_are_told_apart() {
    let heap = Heap::in_memory().unwrap();
    let root: Root<PBTreeMap<u64, u64>> = heap.root("map").unwrap();
    root.txn(|tx, map| (0..2000u64).rev().try_for_each(|key| map.insert(tx, &(key << 30), key).map(drop)))
        .unwrap();
    root.read(|view, map| {
        look_at(view, map, true);
        let mut ties = 0;
        let mut path = vec![view[map].top.child()];
        while let Some(child) = path.pop() {
            match child {
                Child::Leaf(leaf) => {
                    let head = leaf.node_view(view).head();
                    ties += (1..head.len()).filter(|&i| head.code_at(i) == head.code_at(i - 1)).count();
                }
                Child::Inner(inner) => {
                    let seen = inner.node_view(view);
                    path.extend((0..seen.len()).map(|place| seen.child(place)));
                }
                Child::None(_) => {}
            }
        }
        assert!(ties < 50, "{ties}");
    })
    .unwrap();
}

#[test]
fn what_is_retained_is_in_order() {
    both(|heap| {
        let root: Root<PBTreeMap<P<str>, u64>> = heap.root("map").unwrap();
        for (keep, of) in [(1, 2), (1, 10), (9, 10), (1, 100), (1, 1000)] {
            root.txn(|tx, map| {
                map.clear(tx);
                (0..1500u64).try_for_each(|key| map.insert(tx, &format!("a key, {key}"), key).map(drop))?;
                map.retain(tx, |_, key| key * 7919 % of < keep);
                let seen = look_at(tx, map, true);
                assert_eq!(seen.entries, (0..1500).filter(|key| key * 7919 % of < keep).count());
                assert_eq!(seen.thin, 0);
                Ok(())
            })
            .unwrap();
            assert!(heap.check().unwrap().is_clean());
        }
    });
}

#[test]
fn what_is_split_off_is_a_tree() {
    both(|heap| {
        let root: Root<PBTreeMap<P<str>, u64>> = heap.root("map").unwrap();
        for len in [0, 1, LEAF as u64, 100, 700] {
            for at in (0..=len + 1).step_by(1 + len as usize / 40) {
                root.txn(|tx, map| {
                    map.clear(tx);
                    (0..len).try_for_each(|key| map.insert(tx, &format!("{key:05}"), key).map(drop))?;
                    let other = map.split_off(tx, &format!("{at:05}"))?;
                    let other = tx.alloc(other)?;
                    for (map, keys) in [(map, 0..at.min(len)), (other, at.min(len)..len)] {
                        let seen = look_at(tx, map, true);
                        assert_eq!(seen.entries as u64, keys.end - keys.start);
                        assert_eq!(seen.leaves == 0, keys.is_empty());
                        assert!(seen.thin <= seen.height, "{} at {at} of {len}", seen.thin);
                        assert!(tx[map].values(tx).copied().eq(keys));
                    }
                    let (to, from) = if at % 2 == 0 { (map, other) } else { (other, map) };
                    to.append(tx, from)?;
                    assert!(tx[to].values(tx).copied().eq(0..len) && from.is_empty(tx));
                    look_at(tx, to, true);
                    assert_eq!(look_at(tx, from, true).leaves, 0);
                    tx[map] = std::mem::take(&mut tx[to]);
                    Ok(())
                })
                .unwrap();
            }
        }
        assert!(heap.check().unwrap().is_clean());
    });
}

#[test]
fn what_is_drained_leaves_a_tree() {
    both(|heap| {
        let root: Root<PBTreeMap<P<str>, u64>> = heap.root("map").unwrap();
        let name = |key: u64| format!("{key:05}");
        for len in [0, 1, LEAF as u64, 100, 700] {
            let fill = root.txn(|tx, map| {
                map.clear(tx);
                (0..len).try_for_each(|key| map.insert(tx, &name(key), key).map(drop))
            });
            fill.unwrap();
            for from in (0..=len).step_by(1 + len as usize / 20) {
                for to in (from..=len).step_by(1 + len as usize / 15).chain([len]) {
                    let drain = root.txn(|tx, map| {
                        let gone = map.drain(tx, name(from).as_str()..name(to).as_str());
                        assert!(gone.map(|(_, value)| value).eq(from..to), "{from}..{to} of {len}");
                        let seen = look_at(tx, map, true);
                        assert!(tx[map].values(tx).copied().eq((0..from).chain(to..len)));
                        assert_eq!(seen.leaves == 0, seen.entries == 0);
                        assert!(seen.thin <= 2 * seen.height, "{} in {from}..{to} of {len}", seen.thin);
                        // Half of the transactions are rolled back.
                        if from % 2 == 0 {
                            return Err(crate::Error::abort("again"));
                        }
                        (from..to).try_for_each(|key| map.insert(tx, &name(key), key).map(drop))
                    });
                    assert_eq!(drain.is_ok(), from % 2 == 1);
                }
            }
            assert!(heap.check().unwrap().is_clean());
        }
    });
}

/// The behaviour of the keys' code at the moment.
#[derive(Clone, Copy)]
enum Mood {
    Good,
    /// Comparisons and prefixes are random.
    Wild,
    /// The code of the keys panics after this many calls.
    Panics(u32),
}

thread_local! {
    static MOOD: Cell<Mood> = const { Cell::new(Mood::Good) };
    static SEED: Cell<u64> = const { Cell::new(7) };
}

fn next() -> u64 {
    let mut seed = SEED.get();
    let number = random(&mut seed);
    SEED.set(seed);
    number
}

/// Whether this call of code of a key returns a random result.
fn is_wild() -> bool {
    match MOOD.get() {
        Mood::Good => false,
        Mood::Wild => true,
        Mood::Panics(0) => resume_unwind(Box::new("in the user's code")),
        Mood::Panics(n) => {
            MOOD.set(Mood::Panics(n - 1));
            false
        }
    }
}

/// A key whose order is unreliable.
#[derive(crate::Persist, Clone, Copy, PartialEq, Eq)]
#[persist(crate = "crate")]
#[repr(C)]
struct Moody(u64);

impl PartialOrd for Moody {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moody {
    fn cmp(&self, other: &Self) -> Ordering {
        match is_wild() {
            true => [Ordering::Less, Ordering::Equal, Ordering::Greater][next() as usize % 3],
            false => self.0.cmp(&other.0),
        }
    }
}

key_by_itself!([] Moody, || is_wild());

impl<'r> OrdKey<'r> for Moody {
    fn prefix(query: &Moody) -> u64 {
        if is_wild() { next() } else { query.0 / 10 }
    }
}

type MoodyMap<'r> = PBTreeMap<'r, Moody, u64>;

/// Checks the nodes of a map, and that each value is in it once. Returns the values.
fn values<'r>(view: &View<'r>, map: P<'r, MoodyMap<'r>>) -> BTreeSet<u64> {
    look_at(view, map, false);
    let values: BTreeSet<u64> = map.iter(view).map(|(_, value)| *value).collect();
    assert_eq!(values.len(), map.len(view));
    values
}

/// Runs an operation on a map. Returns the value that was inserted, and the one that was removed; neither for
/// an operation on an entry.
fn something<'r>(
    tx: &mut Txn<'r>,
    map: P<'r, MoodyMap<'r>>,
    id: u64,
    shrink: bool,
) -> Result<(Option<u64>, Option<u64>)> {
    let key = Moody(next() % 5000);
    Ok(match next() % 12 {
        0..5 if shrink => (None, map.remove(tx, &key)),
        5 if shrink => (None, map.pop_last(tx).map(|(_, value)| value)),
        6 if shrink => (None, map.pop_first(tx).map(|(_, value)| value)),
        7 => (None, map.entry(tx, &key).and_modify(|_| ()).or_insert(id).map(|_| ()).err().map(|_| 0)),
        _ => (Some(id), map.insert(tx, &key, id)?),
    })
}

#[test]
fn no_order_of_keys_breaks_a_tree() {
    both(|heap| {
        let root: Root<MoodyMap> = heap.root("map").unwrap();
        for step in 0..u64::from(rounds(100)) {
            root.txn(|tx, map| {
                let mut expected = values(tx, map);
                MOOD.set(if step % 5 == 0 { Mood::Good } else { Mood::Wild });
                for i in 0..30 {
                    let id = step * 1000 + i;
                    let (new, old) = something(tx, map, id, step % 100 > 60)?;
                    // (After an operation on an entry, look whether it has inserted `id`: its result does not
                    // say so.)
                    if new.is_none() && map.iter(tx).any(|(_, value)| *value == id) {
                        expected.insert(id);
                    }
                    expected.extend(new);
                    assert!(old.is_none_or(|old| expected.remove(&old)));
                }
                if step % 50 == 49 {
                    map.retain(tx, |_, value| {
                        let keep = !next().is_multiple_of(3);
                        assert!(keep || expected.remove(value));
                        keep
                    });
                }
                if step % 7 == 0 {
                    let right = map.split_off(tx, &Moody(next() % 5000))?;
                    let right = tx.alloc(right)?;
                    let (left, right_values) = (values(tx, map), values(tx, right));
                    assert!(left.is_disjoint(&right_values) && &left | &right_values == expected);
                    right.append(tx, map)?;
                    assert_eq!(values(tx, map).len(), 0);
                    tx.swap(map, right);
                    // If two keys were different, and compare as equal now, only one of their values is left.
                    let left = values(tx, map);
                    assert!(left.is_subset(&expected));
                    expected = left;
                }
                // Whatever entries an iteration finds, it ends, and shows no entry twice.
                let range = catch_unwind(AssertUnwindSafe(|| {
                    let mut range = map.range(tx, Moody(100)..Moody(4000));
                    let mut found = BTreeSet::new();
                    assert!(range.clone().rev().count() == range.clone().count());
                    while let Some((_, value)) =
                        if next().is_multiple_of(2) { range.next() } else { range.next_back() }
                    {
                        assert!(found.insert(*value), "twice");
                    }
                    assert!(found.is_subset(&expected));
                }));
                if let Err(panic) = range {
                    let text = panic.downcast::<String>().expect("it names the map");
                    assert!(text.starts_with("range start"), "{text}");
                }
                MOOD.set(Mood::Good);
                assert!(values(tx, map) == expected);
                Ok(())
            })
            .unwrap();
        }
        assert!(heap.check().unwrap().is_clean());
        root.txn(|tx, map| {
            while map.pop_first(tx).is_some() {}
            assert!(map.is_empty(tx) && matches!(tx[map].top.child(), Child::None(_)));
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn panics_leave_a_tree_that_can_be_used() {
    both(|heap| {
        let root: Root<MoodyMap> = heap.root("map").unwrap();
        let mut panics = 0;
        for step in 0..u64::from(rounds(100)) {
            root.txn(|tx, map| {
                let mut before = values(tx, map);
                for i in 0..20 {
                    let id = step * 1000 + i;
                    MOOD.set(Mood::Panics((next() % 40) as u32));
                    let run = AssertUnwindSafe(|| match next() % 40 {
                        0 => {
                            let (n, rest) = (next() % 3 + 2, next() % 2);
                            map.retain(tx, |_, value| value % n != rest);
                            Ok((None, None))
                        }
                        _ => something(tx, map, id, step % 100 > 50),
                    });
                    let result = catch_unwind(run);
                    MOOD.set(Mood::Good);
                    let after = values(tx, map);
                    match result {
                        Ok(_) => {}
                        Err(panic) if panic.is::<&str>() => {
                            panics += 1;
                            let new: Vec<_> = after.difference(&before).collect();
                            assert!(new.is_empty() || new == [&id]);
                            assert!(after.len() + 1 >= before.len() || map.len(tx) == after.len());
                        }
                        Err(panic) => resume_unwind(panic),
                    }
                    before = after;
                }
                Ok(())
            })
            .unwrap();
        }
        assert!(panics > 250, "{panics}");
        assert!(heap.check().unwrap().is_clean());
        // Searches still find all keys.
        root.txn(|tx, map| {
            let keys: Vec<Moody> = tx[map].keys(tx).copied().collect();
            assert!(keys.windows(2).all(|w| w[0] < w[1]) && keys.len() > 100);
            keys.iter().for_each(|key| assert!(map.remove(tx, key).is_some()));
            assert!(matches!(tx[map].top.child(), Child::None(_)));
            Ok(())
        })
        .unwrap();
    });
}

#[test]
fn a_drain_that_panics_has_taken_all_or_nothing() {
    both(|heap| {
        let root: Root<MoodyMap> = heap.root("map").unwrap();
        let (mut before, mut behind, mut n, mut from) = (0, 0, 0, 40);
        while from < 48 {
            let is_done = root.txn(|tx, map| {
                map.clear(tx);
                (0..300).try_for_each(|key| map.insert(tx, &Moody(key), key).map(drop))?;
                MOOD.set(Mood::Panics(n));
                let drain = || map.drain(tx, Moody(from)..Moody(260)).count();
                let drained = catch_unwind(AssertUnwindSafe(drain));
                MOOD.set(Mood::Good);
                let left = values(tx, map);
                if left.len() == 300 {
                    before += 1;
                } else {
                    behind += 1;
                    assert!(left.into_iter().eq((0..from).chain(260..300)));
                }
                (0..300).for_each(|key| {
                    let value = map.get(tx, &Moody(key)).copied();
                    assert!(value.is_none_or(|value| value == key));
                });
                Ok(drained.is_ok())
            });
            (n, from) = if is_done.unwrap() { (0, from + 1) } else { (n + 1, from) };
        }
        assert!(before > 10 && behind > 10, "{before}, {behind}");
        assert!(heap.check().unwrap().is_clean());
    });
}

#[test]
fn a_panic_while_it_is_mended_leaves_no_empty_node() {
    both(|heap| {
        let root: Root<MoodyMap> = heap.root("map").unwrap();
        let mut panics = 0;
        // The first 300 calls of the keys' code are made before `retain` removes an entry: it first shows all
        // keys to the closure.
        for n in 300..400 {
            root.txn(|tx, map| {
                map.clear(tx);
                for key in 0..300 {
                    map.insert(tx, &Moody(key), key)?;
                }
                assert!(look_at(tx, map, true).height > 2);
                MOOD.set(Mood::Panics(n));
                // All nodes in the middle become empty, and their neighbours are merged.
                let retain = || map.retain(tx, |_, key| !(40..260).contains(key) && key % 5 == 0);
                panics += u32::from(catch_unwind(AssertUnwindSafe(retain)).is_err());
                MOOD.set(Mood::Good);
                let left: BTreeSet<u64> = (0..40).chain(260..300).filter(|key| key % 5 == 0).collect();
                assert_eq!(values(tx, map), left);
                (0..300).for_each(|key| assert_eq!(map.contains_key(tx, &Moody(key)), left.contains(&key)));
                Ok(())
            })
            .unwrap();
        }
        assert!((10..100).contains(&panics), "{panics}");
    });
}
