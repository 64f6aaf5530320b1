// What the message about `guess_field_of_root.rs` says to write.
use pheap::{PHashMap, Persist, Root, txn};

#[derive(Persist, Default)]
#[repr(C)]
struct Shop<'r> {
    prices: PHashMap<'r, u64, f64>,
    count: u64,
}

#[txn]
fn count(shop: &Root<Shop>) -> pheap::Result<()> {
    tx[shop].count += 1;
    Ok(())
}

fn main() {}
