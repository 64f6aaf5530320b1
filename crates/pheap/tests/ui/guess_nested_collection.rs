// A collection in a collection cannot be changed in place.
use pheap::{P, PHashMap, PVec, Txn};

//= fn push<'r>(tx: &mut Txn<'r>, map: P<'r, PHashMap<'r, u64, P<'r, PVec<'r, u64>>>>, key: u64, value: u64) -> pheap::Result<()> {
fn push<'r>(tx: &mut Txn<'r>, map: P<'r, PHashMap<'r, u64, PVec<'r, u64>>>, key: u64, value: u64) -> pheap::Result<()> {
    //= let list = *map.get(tx, key).unwrap(); list.push(tx, value)
    map.get_mut(tx, key).unwrap().push(tx, value)
}

fn main() {}
