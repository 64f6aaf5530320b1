// A pointer cannot leave a nested part of a transaction, which may be taken back.
use pheap::{P, Persist};

#[derive(Persist, Default)]
#[repr(C)]
struct Node<'r> {
    next: Option<P<'r, Node<'r>>>,
}

fn main() -> pheap::Result<()> {
    let heap = pheap::Heap::in_memory()?;
    let root = heap.root::<Node>("node")?;
    root.txn(|tx, node| {
        let _leaked = tx.nested(node, |tx, _| tx.alloc(Node { next: None }))?;
        Ok(())
    })
}
