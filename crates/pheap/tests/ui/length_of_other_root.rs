//! The length of a slice takes a view of its own root.

use pheap::{Heap, P, Result, Root};

fn main() -> Result<()> {
    let heap = Heap::in_memory()?;
    let numbers: Root<P<[u64]>> = heap.root_or("numbers", |tx| tx.alloc_slice(3, |i| i as u64))?;
    let others: Root<P<[u64]>> = heap.root_or("others", |tx| tx.alloc_slice(9, |i| i as u64))?;
    numbers.read(|view, numbers| others.read(|other, _| view[numbers].len(other)))??;
    Ok(())
}
