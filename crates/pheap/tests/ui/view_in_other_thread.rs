// A view belongs to its thread; `shared()` gives one that does not.
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
    root.read(|view, node| {
        std::thread::scope(|scope| {
            scope.spawn(|| view[node].val);
        });
    })
}
