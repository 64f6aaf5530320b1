//! Threads that read snapshots during transactions, collections and removals of the root.

use std::thread::yield_now;

use pheap::{Durability, PSnapMap, Root};
use pheap_testkit::tempdir;

use super::{run, small};

type Map = PSnapMap<'static, u64, u64>;

/// Number of entries that the map gets.
const KEYS: u64 = 4;

fn look(map: &Root<Map>) -> pheap::Result<()> {
    let len = map.durable_snapshot()?.read(|map| {
        yield_now();
        map.len()
    })?;
    assert!(len <= KEYS as usize);
    Ok(())
}

/// Creates and removes a root with versions, in a heap whose log other threads write to.
pub(super) fn snapshots() -> Result<(), String> {
    let folder = tempdir();
    let options = small().durability(Durability::Wal);
    let heap = options.open(folder.path().join("heap")).unwrap();
    let other = heap.root::<u64>("other").unwrap();
    let come_and_go = |_| {
        let map = heap.root::<Map>("map").unwrap();
        for key in 0..KEYS {
            map.txn(|tx, map| map.insert(tx, &key, &key)).unwrap();
        }
        heap.remove_root("map").unwrap();
    };
    let add = |_| other.txn(|tx, n| Ok(tx[n] += 1)).unwrap();
    // Uses a handle many times, as long as it works, because finding the root takes other locks.
    let again = |what: &dyn Fn(&Root<Map>) -> pheap::Result<()>| {
        if let Ok(map) = heap.existing_root::<Map>("map") {
            let _ = (0..1000).take_while(|_| what(&map).is_ok()).count();
        }
    };
    let look = |_| again(&look);
    let collect = |_| again(&|map| map.collect());
    run(10, &[&come_and_go, &add], &[&look, &look, &look, &add, &collect])
}
