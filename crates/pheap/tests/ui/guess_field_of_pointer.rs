// A pointer has no fields.
//= use pheap::{P, PHashMap, Persist, Txn, field, txn};
use pheap::{P, PHashMap, Persist, Txn, txn};

#[derive(Persist, Default)]
#[repr(C)]
struct Shop<'r> {
    prices: PHashMap<'r, u64, f64>,
    count: u64,
}

#[txn]
fn insert<'r>(tx: &mut Txn<'r>, shop: P<'r, Shop<'r>>) -> pheap::Result<()> {
    //= field!(shop.prices).insert(tx, 1, 9.5)?;
    shop.prices.insert(tx, 1, 9.5)?;
    Ok(())
}

fn main() {}
