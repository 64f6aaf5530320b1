use pheap::{PSnapMap, Persist, Txn};

#[derive(Persist)]
#[repr(C)]
struct Ticket {
    number: u64,
}

fn make<'r>(tx: &mut Txn<'r>) -> pheap::Result<()> {
    tx.alloc(PSnapMap::<'r, u64, Ticket>::new())?;
    Ok(())
}

fn main() {}
