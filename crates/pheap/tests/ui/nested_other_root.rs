// Pointers of another root are not carried into a nested part of a transaction.
fn main() -> pheap::Result<()> {
    let heap = pheap::Heap::in_memory()?;
    let (a, b) = (heap.root::<u64>("a")?, heap.root::<u64>("b")?);
    pheap::txn((&a, &b), |((tx, _), (_, b))| {
        tx.nested(b, |tx, b| {
            tx[b] = 7;
            Ok(())
        })
    })
}
