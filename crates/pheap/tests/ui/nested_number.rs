// What is handed to a nested part of a transaction are pointers.
fn main() -> pheap::Result<()> {
    let heap = pheap::Heap::in_memory()?;
    let root = heap.root::<u64>("number")?;
    root.txn(|tx, _| tx.nested(7u64, |_, _| Ok(())))
}
