// Nor are pointers of another root carried into it, or things that are no pointers.
fn main() -> pheap::Result<()> {
    let heap = pheap::Heap::in_memory()?;
    let (a, b) = (heap.root::<u64>("a")?, heap.root::<u64>("b")?);
    pheap::txn((&a, &b), |((tx, _), (_, b))| {
        tx.nested(b, |tx, b| {
            tx[b] = 7;
            Ok(())
        })
    })?;
    a.txn(|tx, _| tx.nested(7u64, |_, _| Ok(())))
}
