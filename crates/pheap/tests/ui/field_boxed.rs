// An object lives behind a pointer: `P<T>`.
use pheap::Persist;

#[derive(Persist)]
#[repr(C)]
struct Record {
    id: u64,
    bad: Box<u64>,
}

fn main() {}
