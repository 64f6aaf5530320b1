// A pointer has no fields: `field!` makes the pointer to one.
use pheap::{PVec, Persist};

#[derive(Persist, Default)]
#[repr(C)]
struct Shop<'r> {
    prices: PVec<'r, f64>,
}

fn main() -> pheap::Result<()> {
    let heap = pheap::Heap::in_memory()?;
    let shop = heap.root::<Shop>("shop")?;
    shop.txn(|tx, shop| shop.prices.push(tx, 9.5))
}
