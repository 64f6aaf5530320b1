// Pointers are brought into a nested part of a transaction by name.
use pheap::{P, Persist};

#[derive(Persist, Default)]
#[repr(C)]
struct Node<'r> {
    value: u64,
    next: Option<P<'r, Node<'r>>>,
}

fn main() -> pheap::Result<()> {
    let heap = pheap::Heap::in_memory()?;
    let root = heap.root::<Node>("node")?;
    root.txn(|tx, node| {
        tx.nested((), |tx, ()| {
            tx[node].value = 7;
            Ok(())
        })
    })
}
