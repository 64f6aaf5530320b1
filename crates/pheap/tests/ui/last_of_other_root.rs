//! What was found in one transaction says nothing of another one.

use pheap::__private::Last;
use pheap::{Result, Root};

fn both(one: &Root<u64>, other: &Root<u64>) -> Result<()> {
    pheap::txn((one, other), |((tx, p), (other, q))| {
        let last = &Last::nothing();
        assert_eq!(tx.__read_again(last, p), other.__read_again(last, q));
        Ok(())
    })
}

fn main() {}
