// Errors about types are shown where they are, not at the attribute.
use pheap::{Root, Txn, txn};
use pheap::{P, Persist};

#[derive(Persist, Default)]
#[repr(C)]
struct Node<'r> {
    val: u64,
    next: Option<P<'r, Node<'r>>>,
}

#[txn]
fn wrong_value<'r>(tx: &mut Txn<'r>, p: P<'r, Node<'r>>) {
    tx[p].val = "one";
}

#[txn]
fn wrong_field<'r>(tx: &mut Txn<'r>, p: P<'r, Node<'r>>) {
    tx[p].value = 1;
}

#[txn]
fn wrong_key<'r>(tx: &mut Txn<'r>, p: P<'r, Node<'r>>) {
    tx[p.key()].val = 1;
}

#[txn]
fn wrong_index<'r>(tx: &mut Txn<'r>, p: P<'r, [u64]>, i: u64) {
    tx[p][i] = 1;
}

#[txn]
fn wrong_result(root: &Root<Node>) -> pheap::Result<u64> {
    tx[root].val = 1;
    Ok(())
}

fn main() {}
