// `#[txn]` sees how types are written.
use pheap::{Root, txn};

type Numbers = Root<u64>;

#[txn]
//= fn add(numbers: &Root<u64>) -> pheap::Result<()> {
fn add(numbers: &Numbers) -> pheap::Result<()> {
    tx[numbers] += 1;
    Ok(())
}

fn main() {}
