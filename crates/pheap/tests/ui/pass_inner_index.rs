// With `#[txn]` it is evaluated first.
use pheap::{Txn, txn};
use pheap::{P, Persist};

#[derive(Persist, Default)]
#[repr(C)]
struct Node<'r> {
    val: u64,
    next: Option<P<'r, Node<'r>>>,
}

#[txn]
fn second<'r>(tx: &mut Txn<'r>, a: P<'r, Node<'r>>) {
    tx[tx[a].next.unwrap()].val = 5;
}

fn main() -> pheap::Result<()> {
    let heap = pheap::Heap::in_memory()?;
    let root = heap.root::<Node>("node")?;
    root.txn(|tx, a| {
        let b = tx.alloc(Node { val: 1, next: None })?;
        tx[a].next = Some(b);
        second(tx, a);
        assert_eq!(tx[b].val, 5);
        Ok(())
    })
}
