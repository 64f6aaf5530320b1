// The new root cannot point into another one.
use pheap::{P, Persist};

#[derive(Persist, Default)]
#[repr(C)]
struct Node<'r> {
    next: Option<P<'r, Node<'r>>>,
}

#[derive(Persist, Default)]
#[repr(C)]
struct New<'r> {
    node: Option<P<'r, Node<'r>>>,
}

fn main() -> pheap::Result<()> {
    let (heap, other) = (pheap::Heap::in_memory()?, pheap::Heap::in_memory()?);
    other.root::<Node>("node")?.read(|_, node| {
        heap.migrate::<Node, New>("root", |_, _| Ok(New { node: Some(node) })).map(drop)
    })?
}
