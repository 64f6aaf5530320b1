// What changes something comes before the call.
use pheap::{P, Persist, Txn, txn};

#[derive(Persist, Default)]
#[repr(C)]
struct Point {
    x: u64,
    y: u64,
}

#[txn]
fn move_out<'r>(tx: &mut Txn<'r>, p: P<'r, Point>) -> pheap::Result<P<'r, Point>> {
    //= let value = std::mem::take(&mut tx[p]); tx.alloc(value)
    tx.alloc(std::mem::take(&mut tx[p]))
}

fn main() {}
