// Without `#[txn]` the inner index cannot be evaluated, since the outer one has borrowed `tx`.
use pheap::Txn;
use pheap::{P, Persist};

#[derive(Persist, Default)]
#[repr(C)]
struct Node<'r> {
    val: u64,
    next: Option<P<'r, Node<'r>>>,
}

fn second<'r>(tx: &mut Txn<'r>, a: P<'r, Node<'r>>) {
    tx[tx[a].next.unwrap()].val = 5;
}

fn main() {}
