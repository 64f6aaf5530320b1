// What the message about `guess_alias_of_root.rs` says to write.
use pheap::{Root, txn};

#[txn]
fn add(numbers: &Root<u64>) -> pheap::Result<()> {
    tx[numbers] += 1;
    Ok(())
}

fn main() {}
