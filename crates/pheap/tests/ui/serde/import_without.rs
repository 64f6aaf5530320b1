// What is imported must be a type that can be.
use pheap::{Heap, Persist, Root};

#[derive(Persist)]
#[repr(C)]
struct Plain {
    x: u64,
}

fn main() -> pheap::Result<()> {
    let heap = Heap::in_memory()?;
    let text = &mut serde_json::Deserializer::from_str("{}");
    let root: Root<Plain> = heap.root_or("plain", |tx| tx.import(text))?;
    root.read(|view, plain| {
        view.export(plain);
    })
}
