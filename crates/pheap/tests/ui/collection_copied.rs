//! Collections own their buffers, so they move.

use pheap::{PVec, Root};

fn copy(lists: &Root<PVec<PVec<u64>>>) -> pheap::Result<()> {
    lists.txn(|tx, lists| {
        let first = *lists.get(tx, 0).unwrap();
        lists.push(tx, first)
    })
}

fn main() {}
