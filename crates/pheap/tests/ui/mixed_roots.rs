// A pointer of one root cannot be stored in another, even in a transaction of both.
use pheap::{P, Persist};

#[derive(Persist, Default)]
#[repr(C)]
struct Node<'r> {
    val: u64,
    next: Option<P<'r, Node<'r>>>,
}

fn main() -> pheap::Result<()> {
    let heap = pheap::Heap::in_memory()?;
    let one = heap.root::<Node>("one")?;
    let two = heap.root::<Node>("two")?;
    pheap::txn((&one, &two), |((ta, a), (_, b))| {
        ta[a].next = Some(b);
        Ok(())
    })
}
