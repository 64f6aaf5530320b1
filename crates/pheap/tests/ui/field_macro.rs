//! `field!` says how it is written.

use pheap::{P, Persist, Txn, field};

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Node<'r> {
    next: P<'r, Node<'r>>,
    cells: [u64; 2],
}

fn use_all<'r>(tx: &mut Txn<'r>, p: P<'r, Node<'r>>) {
    let _ = field!(tx[p].next.cells);
    let _ = field!(p.cells[1]);
    let _ = field!(p);
    let _ = field!((tx[p].next).cells);
}

fn main() {}
