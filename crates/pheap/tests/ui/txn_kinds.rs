// A transaction is opened by plain functions that can fail, on one root, and is called `tx`.
use pheap::{Root, Txn, txn};

#[txn]
async fn asynchronous(tx: &mut Txn<'_>) {}

#[txn]
const fn constant(tx: &mut Txn<'_>) {}

#[txn]
extern "C" fn foreign(tx: &mut Txn<'_>) {}

#[txn]
fn returns_nothing(root: &Root<u64>) {}

#[txn]
fn two_roots(from: &Root<u64>, to: &Root<u64>) -> pheap::Result<()> {
    Ok(())
}

#[txn]
fn hidden(root: &Root<u64>, tx: u64) -> pheap::Result<()> {
    Ok(())
}

#[txn]
fn no_name(_: &Root<u64>) -> pheap::Result<()> {
    Ok(())
}

#[txn(root = "a")]
fn unknown_argument(root: &Root<u64>) -> pheap::Result<()> {
    Ok(())
}

fn main() {}
