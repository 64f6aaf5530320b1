// A reference to an object cannot be held across a write.
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
    root.txn(|tx, node| {
        let old = &tx[node];
        tx[node].val = 1;
        println!("{}", old.val);
        Ok(())
    })
}
