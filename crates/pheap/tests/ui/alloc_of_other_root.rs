// ... nor hidden in a new object that is typed with the wrong brand.
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
    pheap::txn((&one, &two), |((ta, _), (_, b))| {
        ta.alloc(b)?;
        Ok(())
    })
}
