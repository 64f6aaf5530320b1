// `#[txn]` has two forms.
use pheap::{Root, Txn, txn};

#[txn]
fn neither(x: u64) -> pheap::Result<u64> {
    Ok(x)
}

#[txn]
fn not_mutable(tx: &Txn<'_>) -> pheap::Result<()> {
    Ok(())
}

#[txn]
fn by_value(root: Root<u64>) -> pheap::Result<()> {
    Ok(())
}

#[txn]
struct NoFunction;

fn main() {
    let _ = neither(1);
}
