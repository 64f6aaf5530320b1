// What the elements of an array are, and how many, only pheap says: a store behind the end of an object would be safe code otherwise.
#![forbid(unsafe_code)]

use pheap::__private::Elements;
use pheap::{P, Persist, Txn, txn};

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Mine(u64);

impl Elements<Mine> for [u64; 4] {
    fn all(this: *mut Self) -> *mut [Mine] {
        std::ptr::slice_from_raw_parts_mut(this.cast(), 1 << 20)
    }
}

#[derive(Persist)]
#[repr(C)]
struct Cells {
    cells: [u64; 4],
}

#[txn]
fn set<'r>(tx: &mut Txn<'r>, p: P<'r, Cells>, i: usize) {
    tx[p].cells[i] = Mine(1);
}

fn main() {}
