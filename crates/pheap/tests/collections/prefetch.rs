//! `PBTreeMap::prefetch`.

use std::collections::BTreeMap;

use pheap::{PBTreeMap, Root};

#[test]
fn what_is_loaded_ahead_changes_nothing() {
    let key = |n: usize| format!("the same beginning {:05}", n * 7919 % 4001);
    let heap = pheap::Options::new().arena_size(256 << 10).max_size(4 << 20).in_memory().unwrap();
    let root: Root<PBTreeMap<pheap::InlineBytes, u64>> = heap.root("map").unwrap();
    let mut model = BTreeMap::new();
    // Short transactions, which keep copies; long ones, which leave them; and one that finds no space. Each
    // begins at other keys.
    for (turn, size) in [1, 3, 40, 400, 2000, 100_000].into_iter().enumerate() {
        let mut new = model.clone();
        let done = root.txn(|tx, map| {
            for first in (0..size).step_by(20) {
                let some: Vec<String> = (first..first + 20).map(|n| key(n + turn * 100)).collect();
                map.prefetch(tx, some.iter().map(|key| key.as_bytes()));
                for (i, key) in some.iter().enumerate() {
                    if i % 3 == 2 {
                        assert_eq!(map.remove(tx, key.as_bytes()), new.remove(key));
                    } else {
                        let value = (turn * i) as u64;
                        assert_eq!(map.insert(tx, key.as_bytes(), value)?, new.insert(key.clone(), value));
                    }
                }
                if size > 2000 {
                    tx.alloc_slice(1000, |i| i as u64)?;
                }
            }
            Ok(())
        });
        match done {
            Ok(()) => model = new,
            Err(error) => assert!(size > 2000 && matches!(error, pheap::Error::OutOfSpace { .. }), "{error}"),
        }
        root.read(|view, map| {
            map.prefetch(view, model.keys().map(|key| key.as_bytes()));
            let found = view[map].iter(view).map(|(key, value)| (key.to_vec(), *value));
            assert!(found.eq(model.iter().map(|(key, value)| (key.clone().into_bytes(), *value))));
        })
        .unwrap();
    }
}
