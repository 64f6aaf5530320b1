use pheap::{Heap, P, PSnapMap, Persist, Root, Txn, field};

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Point<'r> {
    name: P<'r, str>,
}

#[derive(Persist, Default)]
#[repr(C)]
struct Shop<'r> {
    numbers: PSnapMap<'r, u64, P<'r, u64>>,
    points: PSnapMap<'r, u64, Point<'r>>,
}

fn main() -> pheap::Result<()> {
    let root: Root<Shop> = Heap::in_memory()?.root("shop")?;
    root.txn(|tx, shop| {
        let number = tx.alloc(1)?;
        field!(shop.numbers).insert(tx, &1, &number)?;
        Ok(())
    })
}

fn make<'r>(tx: &mut Txn<'r>) -> pheap::Result<()> {
    tx.alloc(PSnapMap::<'r, P<'r, u64>, u64>::new())?;
    Ok(())
}
