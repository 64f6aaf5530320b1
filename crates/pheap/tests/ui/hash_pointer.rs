// ... and no hash key.
use pheap::{P, Persist};

#[derive(Persist, Default)]
#[repr(C)]
struct Node<'r> {
    val: u64,
    next: Option<P<'r, Node<'r>>>,
}

fn visited<'r>(node: P<'r, Node<'r>>) {
    std::collections::HashSet::new().insert(node);
}

fn main() {}
