// A function that `#[txn]` refuses is one error: its body, which has no `tx`, adds none, and its callers compile.
use pheap::{Root, txn};

#[txn]
fn set(root: &Root<u64>, value: u64) {
    tx[root] = value;
}

fn main() -> pheap::Result<()> {
    let heap = pheap::Heap::in_memory()?;
    set(&heap.root("value")?, 1);
    Ok(())
}
