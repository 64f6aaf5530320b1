//! What a collection holds is of its own root.

use pheap::{P, PVec, Root};

fn mix(a: &Root<PVec<P<u64>>>, b: &Root<u64>) -> pheap::Result<()> {
    pheap::txn((a, b), |((ta, a), (_, b))| a.push(ta, b))
}

fn main() {}
