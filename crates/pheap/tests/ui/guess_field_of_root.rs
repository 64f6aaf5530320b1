// ... nor has the name of the root that `#[txn]` opens.
use pheap::{PHashMap, Persist, Root, txn};

#[derive(Persist, Default)]
#[repr(C)]
struct Shop<'r> {
    prices: PHashMap<'r, u64, f64>,
    count: u64,
}

#[txn]
fn count(shop: &Root<Shop>) -> pheap::Result<()> {
    //= tx[shop].count += 1;
    shop.count += 1;
    Ok(())
}

fn main() {}
