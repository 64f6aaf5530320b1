//! In a transaction over several roots, one root outgrows its write set while there is a `&mut` to a copy of
//! another root.

use pheap::{Durability, Heap, Options, P, PHashMap, PVec, Root};

type Numbers = PVec<'static, u64>;

fn heap() -> Heap {
    Options::new().arena_size(1 << 20).reserve(1 << 30).durability(Durability::Process).in_memory().unwrap()
}

/// A root that a test can let grow out of the write set.
fn big(heap: &Heap) -> Root<Numbers> {
    let big: Root<Numbers> = heap.root("big").unwrap();
    big.txn(|tx, big| big.extend(tx, 0..2000)).unwrap();
    big
}

#[test]
fn what_is_written_afterwards_counts() {
    let heap = heap();
    let (one, big): (Root<u64>, _) = (heap.root("one").unwrap(), big(&heap));
    pheap::txn((&one, &big), |((ta, a), (tb, b))| {
        let x = &mut ta[a];
        b.as_mut_slice(tb, ..).fill(7);
        *x = 5;
        Ok(())
    })
    .unwrap();
    assert_eq!(one.read(|view, a| view[a]).unwrap(), 5);
    // Read in the transaction, and given up.
    let result = pheap::txn((&one, &big), |((ta, a), (tb, b))| -> pheap::Result<()> {
        let x = &mut ta[a];
        *x = 6;
        b.as_mut_slice(tb, ..).fill(8);
        *x += 1;
        assert_eq!(ta[a], 7);
        ta[a] = 8;
        assert_eq!((ta[a], b.get(tb, 1999).copied()), (8, Some(8)));
        Err(pheap::Error::NoSuchRoot("given up".to_owned()))
    });
    assert!(result.is_err());
    assert_eq!(one.read(|view, a| view[a]).unwrap(), 5);
    assert!(big.read(|view, b| b.iter(view).all(|&n| n == 7)).unwrap());
    assert!(heap.check().unwrap().is_clean());
}

#[test]
fn elements_that_come_from_another_root_arrive() {
    let heap = heap();
    let (pointers, big): (Root<PVec<P<u64>>>, _) = (heap.root("pointers").unwrap(), big(&heap));
    pointers.txn(|tx, v| v.reserve(tx, 50)).unwrap();
    pheap::txn((&pointers, &big), |((ta, v), (tb, b))| {
        let one = ta.alloc(1)?;
        let mut count = 0;
        let elements = std::iter::from_fn(|| {
            count += 1;
            if count == 3 {
                b.as_mut_slice(tb, ..).fill(count);
            }
            (count <= 20).then_some(one)
        });
        v.extend(ta, elements)?;
        assert!(v.iter(ta).all(|&p| ta[p] == 1) && v.len(ta) == 20);
        Ok(())
    })
    .unwrap();
    assert!(pointers.read(|view, v| v.len(view) == 20 && v.iter(view).all(|&p| view[p] == 1)).unwrap());
    assert!(heap.check().unwrap().is_clean());
}

#[test]
fn values_that_are_sorted_and_changed_meanwhile() {
    let heap = heap();
    let (lists, big): (Root<PVec<PVec<u64>>>, _) = (heap.root("lists").unwrap(), big(&heap));
    let map: Root<PHashMap<u64, u64>> = heap.root("map").unwrap();
    lists
        .txn(|tx, lists| {
            (0..20).try_for_each(|i| {
                let list = PVec::from_slice(tx, &[20 - i, i])?;
                lists.push(tx, list)
            })
        })
        .unwrap();
    map.txn(|tx, map| map.insert(tx, &1, 1).map(|_| ())).unwrap();
    pheap::txn((&lists, &map, &big), |((ta, lists), (tm, map), (tb, b))| {
        let mut compared = 0;
        lists.sort_by(ta, |x, y| {
            compared += 1;
            if compared == 5 {
                b.as_mut_slice(tb, ..).fill(3);
            }
            x.len().cmp(&y.len()).reverse().then(std::cmp::Ordering::Greater)
        });
        map.entry(tm, &1).and_modify(|v| *v += 1).or_insert(0)?;
        map.for_each_mut(tm, |_, v| *v += 10);
        Ok(())
    })
    .unwrap();
    // Each list is there once.
    let mut firsts = lists
        .read(|view, lists| lists.iter(view).map(|list| *list.get(view, 0).unwrap()).collect::<Vec<_>>())
        .unwrap();
    firsts.sort_unstable();
    assert!(firsts.into_iter().eq(1..=20));
    assert_eq!(map.read(|view, map| map.get(view, &1).copied()).unwrap(), Some(12));
    let report = heap.check().unwrap();
    assert!(report.is_clean(), "{report}");
}
