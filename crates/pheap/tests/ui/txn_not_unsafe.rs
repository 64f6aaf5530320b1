// What the user writes is not inside of an `unsafe` block.
use pheap::{Txn, txn};
use pheap::{P, Persist};

#[derive(Persist, Default)]
#[repr(C)]
struct Node<'r> {
    val: u64,
    next: Option<P<'r, Node<'r>>>,
}

unsafe fn pick<'r>(p: P<'r, Node<'r>>) -> P<'r, Node<'r>> {
    p
}

#[txn]
fn set<'r>(tx: &mut Txn<'r>, p: P<'r, Node<'r>>) {
    tx[pick(p)].val = 1;
}

fn main() {}
