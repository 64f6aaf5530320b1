use pheap::{P, PSnapMap, Txn};

fn change<'r>(tx: &mut Txn<'r>, map: P<'r, PSnapMap<'r, u64, u64>>) -> pheap::Result<()> {
    *map.get_mut(tx, &1).unwrap() = 2;
    Ok(())
}

fn copy<'r>(tx: &mut Txn<'r>, a: P<'r, PSnapMap<'r, u64, u64>>, b: P<'r, PSnapMap<'r, u64, u64>>) {
    let map = tx[a];
    tx[b] = tx[a].clone();
    tx[a] = map;
}

fn main() {}
