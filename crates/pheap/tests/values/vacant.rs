//! Types that have no value of which all bytes are zero, in collections with room to spare.

use std::num::NonZeroU32;

use pheap::{
    Heap, Options, P, PBTreeMap, PHashMap, PHashSet, PSnapMap, PVec, PVecDeque, Persist, Result, Root,
    SharedStr, field,
};

#[derive(Persist, Default)]
#[repr(C)]
struct All<'r> {
    list: PVec<'r, NonZeroU32>,
    deque: PVecDeque<'r, NonZeroU32>,
    few: PHashMap<'r, NonZeroU32, NonZeroU32>,
    many: PHashMap<'r, NonZeroU32, NonZeroU32>,
    set: PHashSet<'r, NonZeroU32>,
    ordered: PBTreeMap<'r, NonZeroU32, NonZeroU32>,
    texts: PBTreeMap<'r, SharedStr<'r>, SharedStr<'r>>,
    names: PHashMap<'r, SharedStr<'r>, SharedStr<'r>>,
    words: PVec<'r, SharedStr<'r>>,
    slice: Option<P<'r, [NonZeroU32]>>,
}

fn whole(heap: &Heap, root: &Root<All>, numbers: &[u32]) -> Result<()> {
    root.read(|view, all| {
        let all = &view[all];
        let are = |found: &mut dyn Iterator<Item = u32>| {
            let mut found: Vec<u32> = found.collect();
            found.sort_unstable();
            assert_eq!(found, numbers);
        };
        are(&mut all.list.iter(view).map(|n| n.get()));
        are(&mut all.deque.iter(view).map(|n| n.get()));
        are(&mut all.many.iter(view).map(|(k, v)| k.min(v).get()));
        are(&mut all.set.iter(view).map(|n| n.get()));
        are(&mut all.ordered.iter(view).map(|(k, v)| k.min(v).get()));
        are(&mut all.texts.keys(view).map(|k| k.parse().unwrap()));
        are(&mut all.names.iter(view).map(|(_, v)| v.as_str(view).parse().unwrap()));
    })?;
    assert_eq!(heap.check()?.problems, Vec::<String>::new());
    Ok(())
}

#[test]
fn what_is_vacant_is_no_value() -> Result<()> {
    let dir = pheap_testkit::tempdir();
    let path = dir.path().join("heap");
    let heap = Heap::open(&path)?;
    let root: Root<All> = heap.root("all")?;
    let number = |n| NonZeroU32::new(n).unwrap();
    root.txn(|tx, all| {
        tx[all].slice = Some(tx.alloc_slice_copy(&[number(1), number(2)])?);
        field!(all.few).insert(tx, number(3), number(3))?;
        for n in (1..=500).map(number) {
            field!(all.list).push(tx, n)?;
            field!(all.deque).push_back(tx, n)?;
            field!(all.many).insert(tx, n, n)?;
            field!(all.set).insert(tx, n)?;
            field!(all.ordered).insert(tx, n, n)?;
            let text = SharedStr::new(tx, &n.to_string())?;
            field!(all.texts).insert(tx, text, text)?;
            field!(all.names).insert(tx, text, text)?;
            field!(all.words).push(tx, text)?;
        }
        Ok(())
    })?;
    whole(&heap, &root, &(1..=500).collect::<Vec<_>>())?;
    root.txn(|tx, all| {
        for n in (1..=500).filter(|n| n % 7 != 0).map(number) {
            field!(all.many).remove(tx, n);
            field!(all.set).remove(tx, n);
            field!(all.ordered).remove(tx, n);
            field!(all.texts).remove(tx, &n.to_string());
            field!(all.names).remove(tx, &n.to_string());
        }
        field!(all.few).clear(tx);
        field!(all.list).retain(tx, |n| n.get() % 7 == 0);
        for _ in 0..500 {
            let first = field!(all.deque).pop_front(tx).unwrap();
            if first.get().is_multiple_of(7) {
                field!(all.deque).push_back(tx, first)?;
            }
        }
        field!(all.words).truncate(tx, 3);
        field!(all.words).pop(tx);
        Ok(())
    })?;
    heap.collect()?;
    let left: Vec<u32> = (1..=500).filter(|n| n % 7 == 0).collect();
    whole(&heap, &root, &left)?;
    heap.close()?;
    let heap = Options::new().verify(true).open(&path)?;
    whole(&heap, &heap.root("all")?, &left)
}

#[test]
fn snapshots_have_them_too() -> Result<()> {
    let heap = Heap::in_memory()?;
    let map: Root<PSnapMap<NonZeroU32, NonZeroU32>> = heap.root("map")?;
    let number = |n| NonZeroU32::new(n).unwrap();
    map.txn(|tx, map| (1..200).try_for_each(|n| map.insert(tx, &number(n), &number(n)).map(drop)))?;
    map.txn(|tx, map| {
        (1..200).filter(|n| n % 5 != 0).try_for_each(|n| map.remove(tx, &number(n)).map(drop))
    })?;
    heap.collect()?;
    assert_eq!(heap.check()?.problems, Vec::<String>::new());
    map.read(|view, map| assert_eq!(view[map].len(), 39))
}
