// A pointer cannot leave its transaction.
use pheap::{P, Persist};

#[derive(Persist, Default)]
#[repr(C)]
struct Node<'r> {
    val: u64,
    next: Option<P<'r, Node<'r>>>,
}

fn main() -> pheap::Result<()> {
    let heap = pheap::Heap::in_memory()?;
    let root = heap.root::<Node>("node")?;
    let _leaked = root.txn(|tx, node| Ok(tx[node].next))?;
    Ok(())
}
