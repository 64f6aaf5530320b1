// What the message about `guess_nested_collection.rs` says to write.
use pheap::{P, PHashMap, PVec, Txn};

fn push<'r>(tx: &mut Txn<'r>, map: P<'r, PHashMap<'r, u64, P<'r, PVec<'r, u64>>>>, key: u64, value: u64) -> pheap::Result<()> {
    let list = *map.get(tx, key).unwrap(); list.push(tx, value)
}

fn main() {}
