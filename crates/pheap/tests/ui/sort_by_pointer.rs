// An address changes when a heap moves, so it is no sort key ...
use pheap::{P, Persist};

#[derive(Persist, Default)]
#[repr(C)]
struct Node<'r> {
    val: u64,
    next: Option<P<'r, Node<'r>>>,
}

fn sort<'r>(nodes: &mut Vec<P<'r, Node<'r>>>) {
    nodes.sort();
}

fn main() {}
