// What the message about `guess_swap_two_places.rs` says to write.
use pheap::{P, Persist, Txn, field, txn};

#[derive(Persist, Default)]
#[repr(C)]
struct Point {
    x: u64,
    y: u64,
}

#[txn]
fn exchange<'r>(tx: &mut Txn<'r>, a: P<'r, Point>, b: P<'r, Point>) {
    tx.swap(field!(a.x), field!(b.x));
}

fn main() {}
