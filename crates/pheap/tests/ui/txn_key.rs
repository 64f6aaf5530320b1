//! A key that is no pointer is one error, where it stands.

use pheap::{P, Persist, Txn, txn};

#[derive(Persist)]
#[repr(C)]
struct Node<'r> {
    value: u64,
    grid: [u64; 2],
    next: Option<P<'r, Node<'r>>>,
}

#[txn]
fn set_next<'r>(tx: &mut Txn<'r>, p: P<'r, Node<'r>>) {
    let next = tx[p].next;
    tx[next].value = 1;
}

#[txn]
fn set_element<'r>(tx: &mut Txn<'r>, p: P<'r, Node<'r>>) {
    tx[&p].grid[0] = 1;
}

trait Setter {
    #[txn]
    fn set(tx: &mut Txn<'_>);
}

fn main() {}
