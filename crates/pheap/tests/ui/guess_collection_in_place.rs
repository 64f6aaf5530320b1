// A collection is changed through its pointer.
//= use pheap::{PHashMap, Persist, Root, field};
use pheap::{PHashMap, Persist, Root};

#[derive(Persist, Default)]
#[repr(C)]
struct Shop<'r> {
    prices: PHashMap<'r, u64, f64>,
    count: u64,
}

fn insert(shop: &Root<Shop>) -> pheap::Result<()> {
    shop.txn(|tx, shop| {
        //= field!(shop.prices).insert(tx, 1, 9.5)?;
        tx[shop].prices.insert(tx, 1, 9.5)?;
        Ok(())
    })
}

fn main() {}
