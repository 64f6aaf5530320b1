//! Keys that consist of others, keys that are passed by value, and keys that lie in the heap.

use std::borrow::Borrow;
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::num::{NonZeroI16, Wrapping};
use std::time::Duration;

use pheap::collections::{HashKey, OrdKey};
use pheap::{
    Heap, InlineBytes, P, PBTreeMap, PBTreeSet, PBytes, PDuration, PHashMap, PHashSet, POption, PString,
    PTuple2, PTuple3, Persist, Result, Root, SharedStr, field,
};

#[derive(Persist)]
#[repr(C)]
struct Both<'r, K> {
    hashed: PHashMap<'r, K, u64>,
    ordered: PBTreeMap<'r, K, u64>,
}

impl<K> Default for Both<'_, K> {
    fn default() -> Self {
        Both { hashed: PHashMap::new(), ordered: PBTreeMap::new() }
    }
}

/// Asserts that both maps have these keys, the ordered one in their order.
fn round_trip<K>(keys: Vec<K>) -> Result<()>
where
    K: for<'r> HashKey<'r, Query = K> + for<'r> OrdKey<'r, Query = K> + Copy + std::fmt::Debug + 'static,
{
    let heap = Heap::in_memory()?;
    let model: BTreeMap<K, u64> = keys.iter().copied().zip(0..).collect();
    let root: Root<Both<K>> = heap.root("maps")?;
    root.txn(|tx, maps| {
        for (key, value) in keys.iter().zip(0..) {
            field!(maps.hashed).insert(tx, key, value)?;
            field!(maps.ordered).insert(tx, key, value)?;
        }
        Ok(())
    })?;
    root.read(|view, maps| {
        let maps = &view[maps];
        assert!(maps.ordered.iter(view).eq(&model), "{:?}", maps.ordered.keys(view));
        assert_eq!(maps.hashed.len(), model.len());
        assert!(model.iter().all(|(key, value)| maps.hashed.get(view, key) == Some(value)));
    })
}

#[test]
fn what_consists_of_keys_is_a_key() -> Result<()> {
    let numbers = || [5i32, -3, 0, i32::MIN, i32::MAX, 7, -4, 100, 101, 102];
    round_trip(numbers().map(Reverse).to_vec())?;
    round_trip(numbers().map(Wrapping).to_vec())?;
    round_trip(numbers().map(|n| POption::from((n != 0).then_some(n))).to_vec())?;
    round_trip(numbers().map(|n| PTuple2(n / 50, n)).to_vec())?;
    round_trip(numbers().map(|n| PTuple3(n > 0, Reverse(n), 'x')).to_vec())?;
    round_trip(numbers().into_iter().filter_map(|n| NonZeroI16::new(n as i16)).collect())?;
    round_trip(numbers().map(|n| PDuration::from(Duration::from_nanos(n.unsigned_abs().into()))).to_vec())
}

#[derive(Persist, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
#[persist(key)]
struct Place {
    row: u32,
    column: u32,
}

#[derive(Persist, Default)]
#[repr(C)]
struct Maps<'r> {
    numbers: PHashMap<'r, u64, u32>,
    letters: PBTreeMap<'r, char, u32>,
    places: PHashMap<'r, Place, u32>,
    small: PBTreeSet<'r, i8>,
    arrays: PHashSet<'r, [u8; 2]>,
}

#[test]
fn keys_are_passed_by_value_or_by_reference() -> Result<()> {
    let heap = Heap::in_memory()?;
    let maps: Root<Maps> = heap.root("maps")?;
    maps.txn(|tx, maps| {
        let numbers = field!(maps.numbers);
        assert_eq!(numbers.insert(tx, 5, 1)?, None);
        assert_eq!(numbers.insert(tx, &5, 2)?, Some(1));
        assert_eq!((numbers.get(tx, 5), tx[maps].numbers.get(tx, &6)), (Some(&2), None));
        *numbers.get_mut(tx, 5).unwrap() += 1;
        assert!(numbers.contains_key(tx, 5));
        assert_eq!(numbers.remove(tx, 5), Some(3));
        let letters = field!(maps.letters);
        letters.insert(tx, 'x', 1)?;
        assert_eq!(letters.get(tx, 'x'), Some(&1));
        assert_eq!(letters.remove_entry(tx, 'x'), Some(('x', 1)));
        let place = Place { row: 1, column: 2 };
        field!(maps.places).insert(tx, place, 4)?;
        assert_eq!(field!(maps.places).get(tx, &place), Some(&4));
        assert!(field!(maps.small).insert(tx, -3)?);
        assert!(!field!(maps.small).insert(tx, &-3)?);
        assert!(field!(maps.small).contains(tx, -3) && field!(maps.small).remove(tx, -3));
        assert!(field!(maps.arrays).insert(tx, [1, 2])?);
        assert!(field!(maps.arrays).contains(tx, &[1, 2]));
        Ok(())
    })
}

#[derive(Persist, Default)]
#[repr(C)]
struct Queue<'r> {
    texts: PHashMap<'r, P<'r, str>, u64>,
    ordered: PBTreeMap<'r, PString<'r>, u64>,
    bytes: PHashSet<'r, P<'r, [u8]>>,
    grown: PHashSet<'r, PBytes<'r>>,
    inline: PHashSet<'r, InlineBytes<'r>>,
    key: Option<P<'r, str>>,
    raw: Option<P<'r, [u8]>>,
}

#[test]
fn keys_in_the_heap_look_up_and_remove() -> Result<()> {
    let heap = Heap::in_memory()?;
    let queue: Root<Queue> = heap.root("queue")?;
    queue.txn(|tx, queue| {
        tx[queue].key = Some(tx.alloc_str("job")?);
        tx[queue].raw = Some(tx.alloc_slice_copy(b"raw")?);
        let (key, raw) = (tx[queue].key.unwrap(), tx[queue].raw.unwrap());
        field!(queue.texts).insert(tx, key, 1)?;
        field!(queue.ordered).insert(tx, key, 2)?;
        assert_eq!(tx[queue].texts.get(tx, key), tx[queue].texts.get(tx, "job"));
        assert_eq!(field!(queue.ordered).get(tx, key), Some(&2));
        assert!(field!(queue.bytes).insert(tx, raw)? && field!(queue.grown).insert(tx, raw)?);
        assert!(field!(queue.inline).insert(tx, raw)? && field!(queue.inline).contains(tx, b"raw"));
        assert!(
            field!(queue.bytes).contains(tx, b"raw") && field!(queue.grown).contains(tx, &b"raw".to_vec())
        );
        Ok(())
    })?;
    queue.txn(|tx, queue| {
        // A key that this transaction has changed, so that its text lies in a copy.
        let key = tx[queue].key.unwrap();
        tx[key].make_ascii_uppercase();
        assert_eq!(field!(queue.texts).remove(tx, key), None);
        tx[key].make_ascii_lowercase();
        assert_eq!(field!(queue.texts).remove(tx, key), Some(1));
        assert_eq!(field!(queue.ordered).remove(tx, key), Some(2));
        let raw = tx[queue].raw.unwrap();
        assert!(field!(queue.bytes).remove(tx, raw) && field!(queue.grown).remove(tx, raw));
        assert!(field!(queue.inline).remove(tx, raw));
        assert_eq!(&tx[key], "job"); // the map has freed its own copy
        Ok(())
    })?;
    heap.collect()?;
    assert!(heap.check()?.problems.is_empty());
    queue.read(|view, queue| assert_eq!(&view[view[queue].key.unwrap()], "job"))
}

#[derive(Persist, Default)]
#[repr(C)]
struct Sharing<'r> {
    first: PHashMap<'r, SharedStr<'r>, u64>,
    second: PBTreeMap<'r, SharedStr<'r>, u64>,
    value: PBTreeMap<'r, u64, SharedStr<'r>>,
    other: Option<P<'r, u64>>,
}

#[test]
fn maps_share_texts() -> Result<()> {
    let dir = pheap_testkit::tempdir();
    let path = dir.path().join("heap");
    let heap = Heap::open(&path)?;
    let maps: Root<Sharing> = heap.root("maps")?;
    maps.txn(|tx, maps| {
        tx[maps].other = Some(tx.alloc(1)?);
        for i in 0..200 {
            let name = SharedStr::new(tx, &format!("number {i}"))?;
            field!(maps.first).insert(tx, name, i)?;
            field!(maps.second).insert(tx, name, i)?;
            field!(maps.value).insert(tx, i, name)?;
        }
        field!(maps.first).insert(tx, "not shared", 200)?;
        Ok(())
    })?;
    maps.txn(|tx, maps| {
        for i in 0..100 {
            let name = *field!(maps.value).get(tx, i).unwrap();
            assert_eq!(field!(maps.first).remove(tx, name), Some(i));
            let text = name.as_str(tx).to_owned();
            assert_eq!(field!(maps.second).remove(tx, &text), Some(i));
        }
        Ok(())
    })?;
    heap.collect()?;
    maps.read(|view, maps| {
        let maps = &view[maps];
        assert_eq!((maps.first.len(), maps.second.len()), (101, 100));
        assert!(maps.value.iter(view).all(|(i, name)| name.as_str(view) == format!("number {i}")));
        let key = *maps.value.get(view, 150).unwrap();
        assert_eq!(
            (maps.first.get(view, key), maps.second.get(view, "number 150")),
            (Some(&150), Some(&150))
        );
    })?;
    heap.close()?;
    let heap = pheap::Options::new().verify(true).open(&path)?;
    assert!(heap.check()?.problems.is_empty());
    Ok(())
}

/// Is borrowed as another number each time.
struct Fickle {
    numbers: [u64; 64],
    next: Cell<usize>,
}

impl Fickle {
    fn from(first: u64) -> Fickle {
        Fickle { numbers: std::array::from_fn(|i| first + i as u64 * 1000), next: Cell::new(0) }
    }
}

impl Borrow<u64> for Fickle {
    fn borrow(&self) -> &u64 {
        let next = self.next.get();
        self.next.set((next + 1) % 64);
        &self.numbers[next]
    }
}

/// The map inserts the number that it has searched for, so that a search finds each key, though `borrow`
/// returns another number each time.
#[test]
fn what_is_borrowed_as_something_else_each_time_does_not_spoil_a_map() -> Result<()> {
    let heap = Heap::in_memory()?;
    let maps: Root<Both<u64>> = heap.root("maps")?;
    maps.txn(|tx, maps| {
        for first in 0..500 {
            field!(maps.hashed).insert(tx, &Fickle::from(first), first)?;
            field!(maps.ordered).insert(tx, &Fickle::from(first), first)?;
            *field!(maps.ordered).entry(tx, &first).or_insert(0)? += 0;
        }
        Ok(())
    })?;
    maps.read(|view, maps| {
        let maps = &view[maps];
        assert!(maps.ordered.keys(view).is_sorted());
        assert!(maps.hashed.keys(view).all(|key| maps.hashed.contains_key(view, key)));
        assert!(maps.ordered.iter(view).all(|(key, value)| maps.ordered.get(view, key) == Some(value)));
    })?;
    assert_eq!(heap.check()?.problems, Vec::<String>::new());
    Ok(())
}
