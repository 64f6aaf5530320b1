// ... nor under `#[txn]`, which rewrites the write.
use pheap::{Txn, txn};
use pheap::{P, Persist};

#[derive(Persist, Default)]
#[repr(C)]
struct Node<'r> {
    val: u64,
    next: Option<P<'r, Node<'r>>>,
}

#[txn]
fn bump<'r>(tx: &mut Txn<'r>, node: P<'r, Node<'r>>) -> u64 {
    let old = &tx[node];
    tx[node].val = 1;
    old.val
}

fn main() {}
