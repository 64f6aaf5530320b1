// A transaction lends one place at a time.
//= use pheap::{P, Persist, Txn, field, txn};
use pheap::{P, Persist, Txn, txn};

#[derive(Persist, Default)]
#[repr(C)]
struct Point {
    x: u64,
    y: u64,
}

#[txn]
fn exchange<'r>(tx: &mut Txn<'r>, a: P<'r, Point>, b: P<'r, Point>) {
    //= tx.swap(field!(a.x), field!(b.x));
    std::mem::swap(&mut tx[a].x, &mut tx[b].x);
}

fn main() {}
