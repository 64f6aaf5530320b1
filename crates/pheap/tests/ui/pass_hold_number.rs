// What is held says what the literal is.
use pheap::{Held, Result, Root};

fn keep(root: &Root<u64>) -> Result<Held<u64>> {
    root.txn(|tx, _| Ok(tx.hold(tx.alloc(6)?)))
}

fn main() {}
