//! The length and the elements of a slice are in the heap, so each takes a view.

use pheap::{Heap, P, Result, Root};

fn main() -> Result<()> {
    let heap = Heap::in_memory()?;
    let numbers: Root<P<[u64]>> = heap.root_or("numbers", |tx| tx.alloc_slice(3, |i| i as u64))?;
    numbers.read(|view, numbers| view[numbers].len())?;
    numbers.read(|view, numbers| view[numbers].at(2) == view[numbers].at(view, 2))?;
    Ok(())
}
