//! Hash maps of many sizes, with bad hashes, and with code of the user's that panics.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pheap::collections::{HashKey, KeyHasher, MapKey};
use pheap::{Durability, Heap, Options, P, PHashMap, Persist, Result, Root, Txn, View};

use crate::hash::Clumsy;

fn check(heap: &Heap) {
    let report = heap.check().unwrap();
    assert!(report.is_clean(), "{report}");
}

fn insert<'r>(tx: &mut Txn<'r>, map: P<'r, PHashMap<'r, u64, P<'r, u64>>>, k: u64) -> Result<()> {
    let value = tx.alloc(!k)?;
    map.insert(tx, &k, value).map(|old| assert!(old.is_none()))
}

/// Enough for several levels of directories, in short transactions and in long ones.
#[test]
fn large() {
    const N: u64 = 150_000;
    for pin_undo in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("heap");
        let options = || Options::new().reserve(1 << 30).durability(Durability::Process).pin_undo(pin_undo);
        let heap = options().open(&path).unwrap();
        let root: Root<PHashMap<u64, P<u64>>> = heap.root("map").unwrap();
        for from in (0..N).step_by(1000) {
            if from % 10_000 == 0 {
                (from..from + 1000).for_each(|k| root.txn(|tx, map| insert(tx, map, k)).unwrap());
            } else {
                root.txn(|tx, map| (from..from + 1000).try_for_each(|k| insert(tx, map, k))).unwrap();
            }
        }
        let is_whole = |root: &Root<PHashMap<u64, P<u64>>>, step: usize| {
            root.read(|view, map| {
                let there = |k: u64| k.is_multiple_of(step as u64);
                assert_eq!(map.len(view), N as usize / step);
                assert!((0..N).all(|k| map.get(view, &k).map(|p| view[*p]) == there(k).then_some(!k)));
                let mut keys: Vec<u64> = map.keys(view).copied().collect();
                keys.sort_unstable();
                assert!(keys.into_iter().eq((0..N).step_by(step)));
                assert!(map.iter(view).all(|(k, p)| view[*p] == !*k));
            })
            .unwrap();
        };
        is_whole(&root, 1);
        check(&heap);
        drop(root);
        heap.close().unwrap();
        let heap = options().verify(true).open(&path).unwrap();
        let root: Root<PHashMap<u64, P<u64>>> = heap.root("map").unwrap();
        for from in (0..N).step_by(1000) {
            let keys = (from..from + 1000).filter(|k| k % 10 != 0);
            root.txn(|tx, map| {
                keys.for_each(|k| assert!(map.remove(tx, &k).is_some()));
                Ok(())
            })
            .unwrap();
        }
        is_whole(&root, 10);
        check(&heap);
        // Objects that are not known to be live are not counted.
        heap.wait_ready().unwrap();
        let before = heap.stats().live_bytes;
        root.txn(|tx, map| map.shrink_to_fit(tx)).unwrap();
        is_whole(&root, 10);
        check(&heap);
        heap.collect().unwrap();
        assert!(heap.stats().live_bytes < before / 2);
    }
}

/// Chains of buckets, and directories down to where hashes differ: two of 3000 agree on twenty bits or so.
#[test]
fn many_keys_of_each_hash() {
    const N: u64 = 120_000;
    let heap = Options::new().reserve(1 << 30).in_memory().unwrap();
    let root: Root<PHashMap<Clumsy<3000>, u64>> = heap.root("map").unwrap();
    for from in (0..N).step_by(1000) {
        root.txn(|tx, map| {
            // First so many of one hash that they make a chain, then those of others come in between.
            let key = |i: u64| Clumsy(if i < 6000 { i / 40 + i % 40 * 3000 } else { i });
            (from..from + 1000).try_for_each(|i| map.insert(tx, &key(i), key(i).0).map(drop))
        })
        .unwrap();
    }
    root.txn(|tx, map| (0..N).try_for_each(|k| map.insert(tx, &Clumsy(k), k).map(drop))).unwrap();
    check(&heap);
    root.txn(|tx, map| {
        assert_eq!(map.len(tx), N as usize);
        assert!((0..N).all(|k| map.get(tx, &Clumsy(k)) == Some(&k)));
        assert!((0..N).all(|k| !map.contains_key(tx, &Clumsy(N + k))));
        assert_eq!(map.values(tx).sum::<u64>(), N * (N - 1) / 2);
        (0..N).filter(|k| k % 7 != 0).for_each(|k| assert_eq!(map.remove(tx, &Clumsy(k)), Some(k)));
        assert!((0..N).all(|k| map.contains_key(tx, &Clumsy(k)) == (k % 7 == 0)));
        Ok(())
    })
    .unwrap();
    check(&heap);
    let before = root.read(|_, _| heap.stats().live_objects).unwrap();
    root.txn(|tx, map| {
        map.clear(tx);
        Ok(())
    })
    .unwrap();
    heap.collect().unwrap();
    assert!(before > 1000 && heap.stats().live_objects < 10, "{:?}", heap.stats());
}

#[test]
fn few_entries_take_little() {
    let heap = Heap::in_memory().unwrap();
    let root: Root<PHashMap<u64, u64>> = heap.root("map").unwrap();
    let live = || {
        heap.collect().unwrap();
        heap.stats().live_bytes
    };
    let empty = live();
    for (i, bytes) in [24, 40, 72, 72, 144, 144, 144, 144].into_iter().enumerate() {
        root.txn(|tx, map| map.insert(tx, &(i as u64), 1).map(drop)).unwrap();
        assert_eq!(live() - empty, bytes, "{} entries", i + 1);
        check(&heap);
    }
    root.txn(|tx, map| {
        map.insert(tx, &100, 1)?;
        (0..8).for_each(|i| assert_eq!(map.remove(tx, &i), Some(1)));
        map.shrink_to_fit(tx)
    })
    .unwrap();
    assert_eq!(live() - empty, 24);
    assert_eq!(root.read(|view, map| map.get(view, &100).copied()).unwrap(), Some(1));
}

/// A transaction of many insertions has fewer fences than insertions.
#[test]
fn a_thousand_insertions_have_few_fences() {
    let dir = tempfile::tempdir().unwrap();
    let heap = Options::new().durability(Durability::Pmem).open(dir.path().join("heap")).unwrap();
    let root: Root<PHashMap<P<str>, P<u64>>> = heap.root("map").unwrap();
    let mut short = 0;
    for from in (0..40_000u64).step_by(1000) {
        let before = heap.stats().fences;
        root.txn(|tx, map| {
            for k in from..from + 1000 {
                let value = tx.alloc(k)?;
                map.insert(tx, &k.to_string(), value)?;
                *map.get_mut(tx, &(k / 2).to_string()).unwrap() = value;
                map.remove(tx, &(k / 3).to_string());
                map.insert(tx, &(k / 3).to_string(), value)?;
            }
            short += usize::from(format!("{tx:?}").contains("Short"));
            Ok(())
        })
        .unwrap();
        let fences = heap.stats().fences - before;
        // The seed of the hash decides: 400 to 600 at most, in 100 runs.
        assert!(fences < 1000, "{fences} at {from}");
    }
    // Most transactions change and read blocks so often that logging the blocks is cheaper. Where the keys
    // are spread over a large map, a transaction stays on the short path: 3 to 10 of the 40 do.
    assert!(short > 0);
    check(&heap);
}

/// Keys and values with padding, and values without a variant of tag 0: no function may take a vacant slot
/// for an entry.
#[derive(Persist, Clone, Copy, PartialEq, Debug)]
#[repr(u8)]
enum Padded<'r> {
    Number(u32) = 3,
    Pointer(P<'r, u64>) = 5,
}

#[test]
fn vacant_slots_are_no_entries() {
    let heap = Heap::in_memory().unwrap();
    let root: Root<PHashMap<u8, Padded>> = heap.root("map").unwrap();
    for many in [6, 200] {
        for _ in 0..3 {
            root.txn(|tx, map| {
                let one = tx.alloc(1)?;
                for k in 0..many {
                    map.insert(tx, &k, Padded::Number(u32::from(k)))?;
                    *map.get_mut(tx, &k).unwrap() = Padded::Pointer(one);
                    if k % 2 == 0 {
                        assert_eq!(map.remove(tx, &k), Some(Padded::Pointer(one)));
                    } else if k % 3 == 0 {
                        *map.get_mut(tx, &k).unwrap() = Padded::Number(7);
                    }
                }
                Ok(())
            })
            .unwrap();
            check(&heap);
            root.txn(|tx, map| {
                map.for_each_mut(tx, |k, value| *value = Padded::Number(u32::from(*k)));
                map.retain(tx, |k, _| k % 5 != 0);
                Ok(())
            })
            .unwrap();
            check(&heap);
        }
        root.read(|view, map| {
            let there = |k: &u8| k % 2 == 1 && !k.is_multiple_of(5);
            assert_eq!(map.len(view), (0..many).filter(there).count());
            assert!(map.iter(view).all(|(k, v)| there(k) && *v == Padded::Number(u32::from(*k))));
        })
        .unwrap();
    }
}

thread_local! {
    /// So many calls from now on, code of the user's panics.
    static FUSE: Cell<u32> = const { Cell::new(u32::MAX) };
}

fn burn() {
    let left = FUSE.get();
    FUSE.set(left.wrapping_sub(1));
    if left == 0 {
        std::panic::resume_unwind(Box::new("burnt"));
    }
}

/// A key whose code panics.
#[derive(Persist, Clone, Copy, Debug)]
#[repr(C)]
struct Nervous(u64);

impl PartialEq for Nervous {
    fn eq(&self, other: &Self) -> bool {
        burn();
        self.0 == other.0
    }
}

impl Eq for Nervous {}

// SAFETY: the query is the key.
unsafe impl<'r> MapKey<'r> for Nervous {
    type Query = Self;

    fn query<'v>(&'v self, _: &'v View<'r>) -> &'v Self {
        burn();
        self
    }

    fn from_query(_: &Txn<'r>, query: &Self) -> Result<Self> {
        burn();
        Ok(*query)
    }
}

impl<'r> HashKey<'r> for Nervous {
    fn hash(query: &Self, hasher: &mut KeyHasher) {
        burn();
        hasher.write(&query.0.to_le_bytes());
    }
}

/// Runs something that panics after so many calls of the user's code, for each number of calls.
fn panics<'r, K: HashKey<'r, Query = Nervous>>(
    tx: &mut Txn<'r>,
    map: P<'r, PHashMap<'r, K, P<'r, u64>>>,
    mut run: impl FnMut(&mut Txn<'r>, P<'r, PHashMap<'r, K, P<'r, u64>>>),
) {
    for calls in 0.. {
        FUSE.set(calls);
        let result = catch_unwind(AssertUnwindSafe(|| run(tx, map)));
        FUSE.set(u32::MAX);
        let seen: Vec<(u64, u64)> = map.iter(tx).map(|(k, p)| (k.0, tx[*p])).collect();
        assert_eq!(seen.len(), map.len(tx));
        for (key, value) in seen {
            assert_eq!(map.get(tx, &Nervous(key)).map(|p| tx[*p]), Some(value));
        }
        match result {
            Ok(()) => return,
            Err(panic) if panic.downcast_ref::<&str>() == Some(&"burnt") => {}
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

#[test]
fn panics_leave_a_map_whole() {
    // Few entries; just before they are many; a bucket that is full; several.
    for size in [3, 8, 27, 300] {
        let heap = Heap::in_memory().unwrap();
        let root: Root<PHashMap<Nervous, P<u64>>> = heap.root("map").unwrap();
        root.txn(|tx, map| {
            for k in 0..size {
                let value = tx.alloc(k)?;
                map.insert(tx, &Nervous(k), value)?;
            }
            Ok(())
        })
        .unwrap();
        root.txn(|tx, map| {
            let value = tx.alloc(7)?;
            for k in size..size + 40 {
                panics(tx, map, |tx, map| {
                    map.insert(tx, &Nervous(k), value).unwrap();
                });
            }
            panics(tx, map, |tx, map| {
                let made = map.entry(tx, &Nervous(1000)).or_insert_with(|tx| {
                    burn();
                    tx.alloc(9)
                });
                made.unwrap();
            });
            panics(tx, map, |tx, map| {
                map.entry(tx, &Nervous(1000)).and_modify(|value| {
                    let _ = value;
                    burn();
                });
            });
            panics(tx, map, |tx, map| {
                map.remove(tx, &Nervous(1000));
            });
            panics(tx, map, |tx, map| {
                map.for_each_mut(tx, |_, old| {
                    burn();
                    *old = value;
                });
            });
            panics(tx, map, |tx, map| map.extend(tx, (2000..2060).map(|k| (Nervous(k), value))).unwrap());
            panics(tx, map, |tx, map| {
                map.retain(tx, |key, _| {
                    burn();
                    key.0 % 3 == 0
                });
            });
            if size < 100 {
                panics(tx, map, |tx, map| map.shrink_to_fit(tx).unwrap());
            }
            Ok(())
        })
        .unwrap();
        check(&heap);
        root.txn(|tx, map| {
            panics(tx, map, |tx, map| {
                map.drain(tx);
            });
            Ok(())
        })
        .unwrap();
        check(&heap);
    }
}

#[test]
fn a_map_that_finds_no_memory_stays_as_it_is() {
    let heap = Options::new().arena_size(256 << 10).max_size(2 << 20).in_memory().unwrap();
    let root: Root<PHashMap<u64, u64>> = heap.root("map").unwrap();
    root.txn(|tx, map| {
        let mut len = 0;
        let error = loop {
            match map.insert(tx, &len, !len) {
                Ok(old) => assert!(old.is_none()),
                Err(error) => break error,
            }
            len += 1;
        };
        assert!(matches!(error, pheap::Error::OutOfSpace { .. }), "{error}");
        assert!(len > 10_000);
        assert!(map.shrink_to_fit(tx).is_err());
        assert_eq!(map.len(tx) as u64, len);
        assert!((0..len).all(|k| map.get(tx, &k) == Some(&!k)) && !map.contains_key(tx, &len));
        assert_eq!(map.keys(tx).sum::<u64>(), len * (len - 1) / 2);
        // What does not need memory still works.
        assert_eq!(map.remove(tx, &0), Some(!0));
        assert_eq!(map.insert(tx, &1, 1)?, Some(!1));
        Ok(())
    })
    .unwrap();
    check(&heap);
}

/// A key that now and then takes itself for another one.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Fickle(u64);

impl Fickle {
    fn now(&self) -> u64 {
        thread_local!(static MOOD: Cell<u64> = const { Cell::new(1) });
        MOOD.set(MOOD.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
        if MOOD.get() >> 61 == 0 { MOOD.get() >> 40 & 1 } else { self.0 }
    }
}

impl PartialEq for Fickle {
    fn eq(&self, other: &Self) -> bool {
        self.now() == other.now()
    }
}

impl Eq for Fickle {}

// SAFETY: the query is the key.
unsafe impl<'r> MapKey<'r> for Fickle {
    type Query = Self;

    fn query<'v>(&'v self, _: &'v View<'r>) -> &'v Self {
        self
    }

    fn from_query(_: &Txn<'r>, query: &Self) -> Result<Self> {
        Ok(*query)
    }
}

impl<'r> HashKey<'r> for Fickle {
    fn hash(query: &Self, hasher: &mut KeyHasher) {
        hasher.write(&query.now().to_le_bytes());
    }
}

/// No entry is lost or there twice, whatever a hash or a comparison says.
#[test]
fn keys_that_change_their_minds_harm_themselves_only() {
    let heap = Heap::in_memory().unwrap();
    let root: Root<PHashMap<Fickle, P<u64>>> = heap.root("map").unwrap();
    for round in 0..20 {
        root.txn(|tx, map| {
            for k in 0..200 {
                let (value, before) = (tx.alloc(k)?, map.len(tx));
                let is_new = map.insert(tx, &Fickle(k), value)?.is_none();
                let is_gone = map.remove(tx, &Fickle(k / 2)).is_some();
                assert_eq!(map.len(tx) + usize::from(is_gone), before + usize::from(is_new));
            }
            map.retain(tx, |key, _| key.0 % 7 != round);
            map.shrink_to_fit(tx)?;
            assert_eq!(map.iter(tx).count(), map.len(tx));
            Ok(())
        })
        .unwrap();
        check(&heap);
    }
    let drained = root.txn(|tx, map| Ok((map.len(tx), map.drain(tx).len()))).unwrap();
    assert_eq!(drained.0, drained.1);
    check(&heap);
}
