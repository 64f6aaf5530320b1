// A pointer has no default.
use pheap::{Heap, P, Root};

fn first(heap: &Heap) -> pheap::Result<Root<P<'static, u64>>> {
    //= heap.root_or("first", |tx| tx.alloc(0))
    heap.root::<P<u64>>("first")
}

fn main() {}
