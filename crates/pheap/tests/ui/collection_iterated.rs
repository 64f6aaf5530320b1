//! Iterators borrow the view: a collection cannot change meanwhile.

use pheap::{PVec, Root};

fn double(numbers: &Root<PVec<u64>>) -> pheap::Result<()> {
    numbers.txn(|tx, numbers| {
        for &number in tx[numbers].iter(tx) {
            numbers.push(tx, number)?;
        }
        Ok(())
    })
}

fn main() {}
