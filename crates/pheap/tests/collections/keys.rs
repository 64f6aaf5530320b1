//! Keys of one's own.

use std::collections::BTreeMap;

use pheap::{Heap, PBTreeMap, PHashMap, Persist, Root, field};

#[derive(Persist, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(C)]
#[persist(key)]
struct Place {
    row: u32,
    column: i64,
    kind: Kind,
}

#[derive(Persist, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
#[persist(key)]
enum Kind {
    Free,
    Taken { by: [u8; 3] },
    Pair(bool, char) = 7,
}

#[derive(Persist, Default)]
#[repr(C)]
struct Maps<'r> {
    hashed: PHashMap<'r, Place, u64>,
    ordered: PBTreeMap<'r, Place, u64>,
}

fn places() -> impl Iterator<Item = Place> {
    (0..2000u32).map(|i| Place {
        row: i % 40,
        column: -i64::from(i / 40),
        kind: match i % 3 {
            0 => Kind::Free,
            1 => Kind::Taken { by: [1, 2, (i % 5) as u8] },
            _ => Kind::Pair(i % 2 == 0, 'x'),
        },
    })
}

#[test]
fn types_of_ones_own_are_keys() {
    let heap = Heap::in_memory().unwrap();
    let root: Root<Maps> = heap.root("maps").unwrap();
    root.txn(|tx, maps| {
        for (i, place) in places().enumerate() {
            assert_eq!(field!(maps.hashed).insert(tx, &place, i as u64)?, None);
            assert_eq!(field!(maps.ordered).insert(tx, &place, i as u64)?, None);
        }
        Ok(())
    })
    .unwrap();
    root.read(|view, maps| {
        let maps = &view[maps];
        assert!(places().enumerate().all(|(i, place)| {
            maps.hashed.get(view, &place) == Some(&(i as u64))
                && maps.ordered.get(view, &place) == Some(&(i as u64))
        }));
        let twin: BTreeMap<Place, u64> = places().enumerate().map(|(i, place)| (place, i as u64)).collect();
        assert!(maps.ordered.iter(view).eq(twin.iter()));
        let absent = Place { row: 40, column: 0, kind: Kind::Free };
        assert!(!maps.hashed.contains_key(view, &absent) && !maps.ordered.contains_key(view, &absent));
    })
    .unwrap();
}
