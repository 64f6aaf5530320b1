// What the message about `guess_root_without_default.rs` says to write.
use pheap::{Heap, P, Root};

fn first(heap: &Heap) -> pheap::Result<Root<P<'static, u64>>> {
    heap.root_or("first", |tx| tx.alloc(0))
}

fn main() {}
