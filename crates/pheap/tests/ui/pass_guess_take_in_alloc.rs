// What the message about `guess_take_in_alloc.rs` says to write.
use pheap::{P, Persist, Txn, txn};

#[derive(Persist, Default)]
#[repr(C)]
struct Point {
    x: u64,
    y: u64,
}

#[txn]
fn move_out<'r>(tx: &mut Txn<'r>, p: P<'r, Point>) -> pheap::Result<P<'r, Point>> {
    let value = std::mem::take(&mut tx[p]); tx.alloc(value)
}

fn main() {}
