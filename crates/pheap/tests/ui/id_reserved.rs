//! Ids that begin with `pheap::` are those of pheap's own types, whose private fields memory safety rests on.

use pheap::Persist;

#[derive(Persist)]
#[repr(C)]
#[persist(id = "pheap::PVec")]
struct Vector {
    len: u64,
    buffer: u64,
}

#[derive(Persist)]
#[repr(C)]
#[persist(own, id = "pheap::PString")]
struct Text {
    bytes: u64,
}

fn main() {}
