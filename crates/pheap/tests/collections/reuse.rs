//! Buffers that collections give up are used again at once, without a collection; but not while their region
//! is being marked.

use pheap::{
    Durability, Options, P, PBTreeMap, PBytes, PHashMap, PHashSet, PString, PVec, PVecDeque, Persist, Root,
    Txn, field,
};

#[derive(Persist, Default)]
#[repr(C)]
struct All<'r> {
    numbers: PVec<'r, u64>,
    pointers: PVec<'r, P<'r, u64>>,
    queue: PVecDeque<'r, P<'r, u64>>,
    text: PString<'r>,
    map: PHashMap<'r, P<'r, str>, P<'r, u64>>,
    ordered: PBTreeMap<'r, P<'r, str>, P<'r, u64>>,
    /// Becomes so large that its last buffers have spans of their own.
    large: PVec<'r, u64>,
}

fn small() -> Options {
    Options::new().arena_size(1 << 20).reserve(1 << 30).durability(Durability::Process)
}

/// Fills the collections, which grow, and empties them.
fn fill_and_empty<'r>(tx: &mut Txn<'r>, all: P<'r, All<'r>>, round: u64) -> pheap::Result<()> {
    let one = tx.alloc(round)?;
    field!(all.numbers).extend(tx, 0..200 + round % 100)?;
    (0..200).try_for_each(|_| field!(all.pointers).push(tx, one))?;
    (0..200).try_for_each(|_| field!(all.queue).push_front(tx, one))?;
    field!(all.text).push_str(tx, &"persistent ".repeat(30))?;
    field!(all.large).extend(tx, 0..10_000)?;
    let map = field!(all.map);
    (0..400 + round % 3 * 3000).try_for_each(|i| map.insert(tx, &i.to_string(), one).map(drop))?;
    assert!(map.values(tx).all(|&p| tx[p] == round));
    (0..300).for_each(|i| assert!(map.remove(tx, &i.to_string()).is_some()));
    map.shrink_to_fit(tx)?;
    map.clear(tx);
    assert!(tx[all].pointers.iter(tx).chain(tx[all].queue.iter(tx)).all(|&p| tx[p] == round));
    assert_eq!(tx[all].large.iter(tx).sum::<u64>(), 10_000 * 9_999 / 2);
    field!(all.pointers).clear(tx);
    field!(all.queue).clear(tx);
    for numbers in [field!(all.numbers), field!(all.large)] {
        numbers.clear(tx);
        numbers.shrink_to_fit(tx)?;
    }
    field!(all.text).clear(tx);
    field!(all.text).shrink_to_fit(tx)
}

#[test]
fn without_a_collection() {
    let heap = small().collect_least(1 << 40).in_memory().unwrap();
    let root: Root<All> = heap.root("all").unwrap();
    let mut used = 0;
    for round in 0..300 {
        root.txn(|tx, all| fill_and_empty(tx, all, round)).unwrap();
        if round == 100 {
            used = heap.info().file_bytes;
        }
    }
    assert_eq!(heap.stats().collections, 0);
    assert_eq!(heap.info().file_bytes, used, "buffers pile up");
    // What the last ones have freed waits until the log is emptied.
    assert!(heap.stats().live_objects < 20_000, "{:?}", heap.stats());
    assert!(heap.check().unwrap().is_clean());
}

#[test]
fn of_values_that_were_moved_out_and_freed() {
    let heap = small().collect_least(1 << 40).in_memory().unwrap();
    let root: Root<PBTreeMap<u64, PBytes>> = heap.root("map").unwrap();
    let replace = |round: u64, fails: bool| {
        root.txn(|tx, map| {
            let new = PBytes::from_slice(tx, &round.to_le_bytes().repeat(100))?;
            let old = map.insert(tx, round % 10, new)?;
            if let Some(old) = old {
                assert_eq!(old.as_slice(tx), (round - 10).to_le_bytes().repeat(100));
                old.free(tx);
            }
            if fails { Err(pheap::Error::abort("it is all undone")) } else { Ok(()) }
        })
    };
    let mut used = 0;
    for round in 0..20_000 {
        if round % 3 == 0 {
            replace(round, true).unwrap_err();
        }
        replace(round, false).unwrap();
        if round == 2000 {
            used = heap.info().file_bytes;
        }
    }
    assert_eq!(heap.stats().collections, 0);
    assert_eq!(heap.info().file_bytes, used, "values pile up");
    assert!(heap.check().unwrap().is_clean());
}

#[test]
fn but_not_while_the_region_is_marked() {
    // The smallest value makes the heap collect all the time, so most transactions should run in the middle
    // of a cycle.
    for least in [1, 32 << 10] {
        let heap = small().collect_least(least).collect_growth(1).in_memory().unwrap();
        let root: Root<All> = heap.root("all").unwrap();
        for round in 0..2000 {
            root.txn(|tx, all| fill(tx, all, round)).unwrap();
            root.txn(|tx, all| empty(tx, all, round)).unwrap();
            if round % 100 == 0 {
                let report = heap.check().unwrap();
                assert!(report.is_clean(), "{report}");
            }
        }
        assert!(heap.stats().collections > 0, "{:?}", heap.stats());
        root.collect().unwrap();
        let report = heap.check().unwrap();
        assert!(report.is_clean(), "{report}");
        assert_eq!(heap.stats().live_objects, report.objects, "what was freed is free");
    }
}

fn fill<'r>(tx: &mut Txn<'r>, all: P<'r, All<'r>>, round: u64) -> pheap::Result<()> {
    let one = tx.alloc(round)?;
    (0..round % 37).try_for_each(|_| field!(all.pointers).push(tx, one))?;
    (0..round % 23).try_for_each(|_| field!(all.queue).push_back(tx, one))?;
    for i in 0..round % 20 {
        field!(all.map).insert(tx, &i.to_string(), one)?;
    }
    field!(all.text).push_str(tx, "more ")
}

fn empty<'r>(tx: &mut Txn<'r>, all: P<'r, All<'r>>, round: u64) -> pheap::Result<()> {
    assert!(tx[all].pointers.iter(tx).chain(tx[all].queue.iter(tx)).all(|&p| tx[p] <= round));
    assert!(tx[all].map.values(tx).all(|&p| tx[p] <= round));
    match round % 30 {
        0 => field!(all.map).clear(tx),
        10 => field!(all.map).shrink_to_fit(tx)?,
        20 => field!(all.map).retain(tx, |key, _| key.len().is_multiple_of(2)),
        _ => {
            field!(all.map).remove(tx, &(round % 20).to_string());
        }
    }
    if round.is_multiple_of(5) {
        field!(all.pointers).clear(tx);
        field!(all.text).set(tx, "less")?;
        field!(all.text).shrink_to_fit(tx)?;
    } else if round.is_multiple_of(7) {
        field!(all.queue).clear(tx);
    }
    Ok(())
}

/// Values with padding and without a variant of tag 0: when a slot is vacant, nothing may take it for one.
#[derive(Persist, Clone, Copy, PartialEq, Debug)]
#[repr(u8)]
enum Padded<'r> {
    Number(u32) = 3,
    Pointer(P<'r, u64>) = 5,
}

#[test]
fn vacant_slots_are_no_values() {
    let heap = small().in_memory().unwrap();
    let root: Root<PVec<Padded>> = heap.root("padded").unwrap();
    root.txn(|tx, vec| {
        let one = tx.alloc(1)?;
        vec.extend(tx, [Padded::Number(1), Padded::Pointer(one), Padded::Number(3)])
    })
    .unwrap();
    root.txn(|tx, vec| {
        let one = tx.alloc(2)?;
        *vec.get_mut(tx, 2).unwrap() = Padded::Pointer(one);
        vec.as_mut_slice(tx, ..).reverse();
        assert_eq!(vec.pop(tx), Some(Padded::Number(1)));
        assert!(matches!(vec.pop(tx), Some(Padded::Pointer(_))));
        vec.push(tx, Padded::Number(9))?;
        *vec.get_mut(tx, 1).unwrap() = Padded::Number(10);
        Ok(())
    })
    .unwrap();
    assert!(heap.check().unwrap().is_clean());
    assert!(root.read(|view, vec| vec.get(view, 1) == Some(&Padded::Number(10))).unwrap());
}

/// A field is written by itself, and then the struct is read that it is in: that takes no long transaction.
#[test]
fn a_struct_can_be_read_after_a_collection_in_it_was_changed() {
    let heap = small().in_memory().unwrap();
    let root: Root<All> = heap.root("all").unwrap();
    let short = |tx: &Txn<'_>| format!("{tx:?}").contains("Short");
    root.txn(|tx, all| {
        for i in 0..30 {
            field!(all.numbers).push(tx, i)?;
            field!(all.text).push_str(tx, "text")?;
            assert_eq!(tx[all].numbers.len() as u64, i + 1);
            assert_eq!(tx[all].text.len() as u64, 4 * i + 4);
            let one = tx.alloc(i)?;
            tx[all].pointers = PVec::from_slice(tx, &[one])?;
            field!(all.queue).push_front(tx, one)?;
        }
        assert!(short(tx), "{tx:?}");
        Ok(())
    })
    .unwrap();
    root.read(|view, all| {
        assert!(view[all].numbers.iter(view).copied().eq(0..30));
        assert_eq!(view[all].text.as_str(view), "text".repeat(30));
        assert_eq!(view[all].pointers.iter(view).map(|&p| view[p]).collect::<Vec<_>>(), [29]);
        assert!(view[all].queue.iter(view).map(|&p| view[p]).eq((0..30).rev()));
    })
    .unwrap();
    assert!(heap.check().unwrap().is_clean());
}

/// What an ordered map gives up: nodes, and the strings that are its keys.
#[test]
fn nodes_and_keys_are_used_again_but_not_while_they_are_marked() {
    for least in [1, 32 << 10, 1 << 40] {
        let heap = small().collect_least(least).collect_growth(1).in_memory().unwrap();
        let root: Root<All> = heap.root("all").unwrap();
        for round in 0..400 {
            root.txn(|tx, all| {
                let (ordered, one) = (field!(all.ordered), tx.alloc(round)?);
                (0..100)
                    .try_for_each(|i| ordered.insert(tx, &format!("key {}", i * 7 % 100), one).map(|_| ()))
            })
            .unwrap();
            root.txn(|tx, all| {
                let ordered = field!(all.ordered);
                assert!(ordered.iter(tx).all(|(_, &p)| tx[p] == round));
                (0..90).for_each(|i| assert!(ordered.remove(tx, &format!("key {i}")).is_some()));
                if round % 3 == 0 {
                    ordered.clear(tx);
                }
                Ok(())
            })
            .unwrap();
        }
        if least == 1 << 40 {
            assert_eq!((heap.stats().collections, heap.info().file_bytes), (0, 1 << 20), "nodes pile up");
        }
        root.collect().unwrap();
        let report = heap.check().unwrap();
        assert!(report.is_clean(), "{report}");
    }
}

#[derive(Persist, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(C)]
#[persist(key)]
struct Nothing {}

#[test]
fn entries_of_no_size_are_entries() {
    let heap = small().in_memory().unwrap();
    let root: Root<PHashSet<Nothing>> = heap.root("set").unwrap();
    root.txn(|tx, set| {
        assert!(set.insert(tx, &Nothing {})? && !set.insert(tx, &Nothing {})?);
        set.retain(tx, |_| true);
        assert!(tx[set].contains(tx, &Nothing {}));
        set.retain(tx, |_| false);
        assert!(tx[set].is_empty() && set.insert(tx, &Nothing {})?);
        Ok(())
    })
    .unwrap();
    assert!(heap.check().unwrap().is_clean());
}
